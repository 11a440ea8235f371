"""The panel in Notebook 7 and in Voila, where they are installed.

Neither is among the test dependencies: with what they bring they would be the largest
of them. Both serve their pages from JupyterLab's server.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from playwright.sync_api import Page as BrowserPage

from browser.panels import CONNECT, PANEL
from support.lab import ARTEFACTS, TIMEOUT_MS, Lab, write_notebook

pytestmark = pytest.mark.browser


def needs(package: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"{package} is not installed: pip install {package}")


@pytest.fixture
def bare_page(browser: Browser) -> Iterator[BrowserPage]:
    context = browser.new_context(viewport={"width": 1200, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(TIMEOUT_MS)
    yield context.new_page()
    context.close()


def talk(page: BrowserPage, name: str) -> None:
    """Send a message in the page's only panel, and read the reply."""
    panel = page.locator(".ab-module")
    panel.scroll_into_view_if_needed()
    box = panel.get_by_role("textbox", name="Message")
    box.fill("Hello from here, with $x^2$")
    box.press("Enter")
    expect(panel.locator(".ab-agent-body")).to_have_count(1)
    expect(panel.locator(".ab-agent-body")).to_contain_text("Hello from here")
    expect(panel.get_by_role("status")).to_have_text("Answered.")
    expect(box).to_be_focused()
    expect(page.locator(".ab-static")).to_be_hidden()
    panel.get_by_role("button", name="Export", exact=True).click()
    with page.expect_download() as saved:
        panel.get_by_role("button", name="Markdown", exact=True).click()
    assert "Hello from here" in saved.value.path().read_text("utf-8")
    page.keyboard.press("Escape")
    for part in (panel.get_by_role("log"), panel.get_by_role("button", name="Send")):
        part.focus()
        for key in ("a", "b", "b"):  # each adds a cell where the notebook hears it
            page.keyboard.press(key)
        expect(part).to_be_focused()
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTEFACTS / f"{name}.png")


@needs("notebook")
def test_the_panel_in_notebook_7(lab: Lab, bare_page: BrowserPage) -> None:
    page = bare_page
    errors: list[str] = []
    # Of modules, which have blob: addresses; the page itself has errors of its own.
    page.on("pageerror", lambda error: errors.append(str(error)) if "blob:" in (error.stack or "") else None)
    write_notebook(lab.root / "seven.ipynb", [CONNECT, PANEL.format(name="echo", agent="echo", height=240)])
    page.goto(f"{lab.url}/notebooks/seven.ipynb?token={lab.server['token']}")
    cells = page.locator(".jp-Notebook .jp-CodeCell")
    expect(cells).to_have_count(2)
    expect(page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")).to_be_attached()
    for n in range(2):
        cells.nth(n).locator(".cm-content").click()
        page.keyboard.press("Control+Enter")
        expect(cells.nth(n).locator(".jp-InputPrompt")).to_have_text(re.compile(rf"\[{n + 1}\]"))
    talk(page, "panel-notebook-7")
    expect(cells).to_have_count(2)
    expect(page.locator(".ab-module mjx-container")).to_have_count(1)
    assert errors == []


@needs("voila")
def test_the_panel_in_voila(lab: Lab, bare_page: BrowserPage) -> None:
    page = bare_page
    # Voila itself asks for a font from outside.
    page.route(lambda url: not url.startswith((lab.url, "blob:", "data:")), lambda route: route.abort())
    write_notebook(lab.root / "voila.ipynb", [CONNECT, PANEL.format(name="echo", agent="echo", height=240)])
    page.goto(f"{lab.url}/voila/render/voila.ipynb?token={lab.server['token']}")
    talk(page, "panel-voila")
