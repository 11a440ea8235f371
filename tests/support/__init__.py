"""Helpers for the tests: fake platforms and endpoints, a browser, a JupyterLab."""
