"""What the tests share: the other side of a conversation, a browser, a JupyterLab."""
