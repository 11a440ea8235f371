"""The report of a history fits pages of any width."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

import agentbook as ab
from frames.accounts import busy_account

pytestmark = pytest.mark.browser

TOO_WIDE = """() => [document.documentElement, ...document.querySelectorAll(".table")]
    .filter(each => each.scrollWidth > each.clientWidth).map(each => each.getAttribute("aria-label"))"""


def test_a_report_with_long_texts_fits_its_page(browser: Browser, tmp_path: Path) -> None:
    history = ab.load_history(busy_account().client(), "acme")
    words = "How many of them came back, and why? https://example.com/" + "x" * 120
    sessions = history.sessions.assign(name=words)
    long = ab.History(history.events.assign(text=words), sessions, workspaces=history.workspaces, agents=history.agents)
    path = long.report(tmp_path / "x.html")
    page = browser.new_page()
    page.goto(path.as_uri())
    for width in (1280, 800, 400):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(TOO_WIDE) == [], width
        # A table has its head, and a card the name of each value.
        assert page.locator("thead").first.is_visible() == (width == 1280)
        assert "asked at" in page.get_by_role("region", name="Slowest turns").inner_text() or width < 1000
    page.close()
