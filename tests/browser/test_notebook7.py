"""The first tutorial in Notebook 7, whose pages are not those of JupyterLab."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from support.browser import browser_or_skip
from support.lab import Lab, Page

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "01-first-look.ipynb"
QUESTIONS = NOTEBOOK.read_text().count("panel.ask(")  # asked by its cells
# Notebook 7.6 raises it while it loads, also with an empty notebook and no widgets.
OWN_ERROR = "Cannot read properties of undefined (reading 'schema')"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        importlib.util.find_spec("notebook") is None,
        reason="Notebook 7 is not installed: pip install 'notebook>=7'",
    ),
]


@pytest.fixture
def page(tmp_path: Path, browser: Browser) -> Iterator[Page]:
    """A page of Notebook 7. The test fails if it requests anything from outside."""
    browser_or_skip()
    notebook = Lab(tmp_path, "notebook")
    shutil.copy(NOTEBOOK, notebook.root / "first.ipynb")
    page = Page(notebook, browser)
    page.page.goto(f"{notebook.url}/notebooks/first.ipynb?token={notebook.server['token']}")
    page.wait_for_kernel()
    yield page
    page.close()
    notebook.stop()
    assert page.outside_requests == []


def test_the_tutorial_runs_with_its_live_charts_and_its_chat(page: Page) -> None:
    page.run_all()
    outputs = page.outputs()
    assert [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"] == []
    chart = page.page.locator(".ab-live-chart:visible svg.marks").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    assert box["width"] > 400
    assert page.wait_for_answer(QUESTIONS)
    page.send("What is a credential?")
    assert "credential" in page.wait_for_answer(QUESTIONS + 1).lower()
    expect(page.panel.locator(".ab-statusline")).to_contain_text("Answered")
    page.screenshot("notebook7")
    assert [error for error in page.errors if error != OWN_ERROR] == []
