"""A page of Notebook 7, which JupyterLab's server serves."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from support.lab import Page
from support.page_scripts import FORGET_CHANGES, LOADED

NEEDS_NOTEBOOK_7 = pytest.mark.skipif(
    importlib.util.find_spec("notebook") is None,
    reason="Notebook 7 is not installed: pip install 'notebook>=7'",
)
# Notebook 7.6 raises these while it loads, even with an empty notebook and no widgets.
# It raises the second only sometimes, when the server remembers what JupyterLab had
# open.
OWN_ERRORS = (
    "Cannot read properties of undefined (reading 'schema')",
    "Command 'filebrowser:open-path' not registered.",
)


class NotebookPage(Page):
    """A browser page of Notebook 7: a notebook has the page to itself."""

    def open(self, name: str) -> None:
        self.close_notebooks()
        self.page.goto(f"{self.lab.url}/notebooks/{name}?token={self.lab.server['token']}")
        self.wait_for_kernel()
        self.set_theme("JupyterLab Light")

    def close_notebooks(self) -> None:
        if self.page.evaluate(LOADED):
            self.end_kernels()
            self.page.evaluate(FORGET_CHANGES)
        self.page.goto("about:blank")

    def reload(self) -> None:
        self.page.reload()
        self.page.wait_for_selector(".jp-Cell")

    def hide_file_browser(self) -> None:
        pass  # it is a page of its own

    def screenshot(self, name: str) -> Path:
        return super().screenshot(f"notebook7-{name}")

    def _record_error(self, error: Any) -> None:
        if str(error).removeprefix("Error: ") not in OWN_ERRORS:
            super()._record_error(error)


# The tests of the panel run in both; test_voila.py tests Voila.
EACH_APPLICATION = pytest.mark.parametrize(
    "application",
    [pytest.param(Page, id="jupyterlab"), pytest.param(NotebookPage, id="notebook7", marks=NEEDS_NOTEBOOK_7)],
)
