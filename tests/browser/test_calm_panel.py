"""What a panel keeps out of the way: it shows what a person needs now."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from browser.panels import CONNECT, PANEL, Panel
from support.lab import Lab, Page, axe_violations, write_notebook

pytestmark = pytest.mark.browser


def box_of(part: Locator) -> dict[str, float]:
    box = part.bounding_box()
    assert box is not None
    return dict(box)


def test_a_panel_is_silent_until_something_happens(lab: Lab, page: Page) -> None:
    write_notebook(lab.root / "silence.ipynb", [CONNECT, PANEL.format(name="slow", agent="slow", height=300)])
    page.open("silence.ipynb")
    page.run_all()
    panel = Panel(page, 1)
    line = panel.root.locator(".ab-statusline")
    start = panel.root.locator(".ab-empty")
    expect(start).to_contain_text("@")
    expect(panel.status).to_have_text("Ready.")
    expect(line).to_be_hidden()
    log, shown, before = box_of(panel.log), box_of(start), box_of(panel.root)
    middle = shown["y"] + shown["height"] / 2
    assert abs(middle - (log["y"] + log["height"] / 2)) < 12, "what an empty log says stands in its middle"
    page.screenshot("panel-silent-empty")
    panel.send("2")
    expect(line).to_be_visible()
    assert box_of(panel.root)["height"] == before["height"], "the line takes its room from the log"
    panel.wait_for_reply(1, "That took")
    expect(line).to_be_hidden()
    assert box_of(panel.root)["height"] == before["height"]
    assert axe_violations(panel.root) == []
