"""A turn asked again in a panel: a failure, two columns, and a choice."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from browser.panels import CONNECT, Panel
from support.lab import Lab, Page, axe_violations, write_notebook

pytestmark = pytest.mark.browser

PANEL = 'panel = ab.ChatPanel(client, "acme~playground", "echo", labels="again-labels", height="420px")\npanel'
REFUSE_ONCE = """sessions = client.asynchronous().sessions
start = sessions.start

async def refuse(*arguments, **options):
    if panel.session_id is None:
        return await start(*arguments, **options)
    sessions.start = start
    raise ab.errors.ConnectionFailed("The cable is loose.")

sessions.start = refuse"""
LABELS = 'ab.read_labels("again-labels")[["question", "value"]].values.tolist(), len(panel.sessions)'


def test_a_turn_is_asked_again_and_the_better_reply_chosen(lab: Lab, page: Page) -> None:
    write_notebook(lab.root / "again.ipynb", [CONNECT, PANEL, LABELS, REFUSE_ONCE])
    page.open("again.ipynb")
    page.hide_file_browser()
    page.run_all()
    panel, keyboard = Panel(page, 1), page.page.keyboard
    for number, words in enumerate(("First", "كم جلسة في هذا الأسبوع؟ Show 3 sessions."), 1):
        panel.send(words)
        panel.wait_for_reply(number, words)
    panel.log.get_by_role("button", name="Ask again").last.focus()
    keyboard.press("Enter")
    drawer = panel.root.get_by_role("group", name="Ask again")
    expect(drawer).to_contain_text("the question before this one is sent again, and then this one: 2 turns")
    expect(drawer.get_by_role("button", name="Ask again")).to_be_focused()
    page.screenshot("again-question")
    assert axe_violations(panel.root) == []
    keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    expect(panel.replies).to_have_count(2)

    panel.log.get_by_role("button", name="Ask again").last.click()
    drawer.get_by_role("button", name="Ask again").click()
    expect(drawer).to_be_hidden()
    columns = panel.log.locator(".ab-column")
    expect(columns.nth(1)).to_contain_text("echo, asked again")
    expect(columns.nth(1)).to_contain_text("Question 1 of 2, sent again: First")
    expect(columns.nth(1)).to_contain_text("Failed. The platform could not be reached")
    expect(panel.status).to_contain_text("Asking again failed")
    page.screenshot("again-failed")
    assert axe_violations(panel.root) == []
    columns.nth(1).get_by_role("button", name="Try again").click()
    expect(columns.nth(1)).to_contain_text("eply after")
    expect(panel.status).to_have_text("Answered.")
    expect(columns.nth(1)).to_contain_text("Show 3 sessions.")
    columns.nth(1).get_by_role("button", name="Good").click()
    expect(columns.nth(1)).to_have_class(re.compile("ab-chosen"))
    panel.button("Sessions").click()
    expect(panel.root.locator(".ab-entry").filter(has_text="asked again").first).to_be_visible()
    keyboard.press("Escape")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        page.set_theme(theme)
        page.show_cell(1)
        page.screenshot(f"again-columns-{theme.split()[-1].lower()}")
        assert axe_violations(panel.root) == []
    page.page.set_viewport_size({"width": 400, "height": 900})
    panel.root.get_by_role("tab", name="echo", exact=True).click()
    expect(panel.log.get_by_role("tabpanel")).to_have_count(1)
    page.screenshot("again-narrow")
    assert axe_violations(panel.root) == []
    page.show_cell(2).locator(".jp-InputArea-editor").click()
    page.command("notebook:run-cell")
    assert page.output_text(2) == "([['good', 'yes']], 2)"
    assert page.errors == []
