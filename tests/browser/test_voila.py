"""The panel in Voila: a notebook without its code, served by JupyterLab's server."""

from __future__ import annotations

import importlib.util

import pytest
from playwright.sync_api import Browser, expect

from browser.panels import CONNECT, PANEL
from support.browser import take_picture
from support.lab import TIMEOUT_MS, Lab, write_notebook

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        importlib.util.find_spec("voila") is None, reason="Voila is not installed: pip install 'voila>=0.5'"
    ),
]


def test_a_person_reads_and_sends_in_voila(lab: Lab, browser: Browser) -> None:
    write_notebook(lab.root / "voila.ipynb", [CONNECT, PANEL.format(name="echo", agent="echo", height=240)])
    context = browser.new_context(viewport={"width": 1200, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    # Voila itself asks for a font from outside.
    page.route(lambda url: not url.startswith((lab.url, "blob:", "data:")), lambda route: route.abort())
    page.goto(f"{lab.url}/voila/render/voila.ipynb?token={lab.server['token']}")
    panel = page.locator(".ab-module")
    panel.scroll_into_view_if_needed()
    box = panel.get_by_role("textbox", name="Message")
    box.fill("Hello from here, with $x^2$\n\n```\ncode\n```")
    box.press("Enter")
    expect(panel.locator(".ab-agent-body")).to_have_count(1)
    expect(panel.locator(".ab-agent-body")).to_contain_text("Hello from here")
    expect(panel.locator(".ab-code").get_by_role("button")).to_have_text(["Copy"])  # there are no cells
    expect(panel.get_by_role("status")).to_have_text("Answered.")
    expect(box).to_be_focused()
    expect(page.locator(".ab-static")).to_be_hidden()
    panel.get_by_role("button", name="More", exact=True).click()
    with page.expect_download() as saved:
        panel.get_by_role("button", name="Export as Markdown", exact=True).click()
    assert "Hello from here" in saved.value.path().read_text("utf-8")
    take_picture(page, "panel-voila")
    context.close()
