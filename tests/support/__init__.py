"""Helpers of the tests: fake platforms and endpoints, a browser, a JupyterLab."""
