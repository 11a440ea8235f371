"""A comparison in JupyterLab: by mouse, by keyboard, and reopened without a kernel."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from browser.panel_pages import exported, leave_and_return
from browser.panels import CONNECT, look_in_all_ways
from support.lab import POLLING_MS, Lab, Page, axe_violations, write_notebook

pytestmark = pytest.mark.browser

COMPARE = 'compare = ab.Compare(client, workspace="acme~playground", agents=["guide", "slow", "limits"])\ncompare'
BLIND_OPTIONS = 'agents=["echo", "verbose"], blind=True, seed=4, height="300px"'
BLIND = f'blind = ab.Compare(client, workspace="acme~playground", {BLIND_OPTIONS})\nblind'
TABLE = "compare.preferences[['round', 'message', 'preferred', 'column']].to_dict('records')"
# A panel below adds the style sheet of all panels again; the comparison's own rules
# must still apply.
PANEL_BELOW = 'below = ab.ChatPanel(client, workspace="acme~playground", agent="echo", height="120px")\nbelow'
# Agent "slow" waits for as many seconds as the first number says, and "limits" runs
# into the limit that is named.
QUESTION = "How do I load the events of 3 sessions, or a turn timeout?"
# Whether all columns of the round have ended, and the status line says so.
ENDED = """([log, status, rounds]) => {
  const round = log.querySelectorAll('.ab-round')[rounds - 1];
  const columns = round ? [...round.querySelectorAll('.ab-column')] : [];
  return columns.length > 1 && columns.every(column => column.querySelector('.ab-foot, .ab-failed'))
    && log.closest('.ab-chat').querySelector('.ab-statusline').textContent.includes(status);
}"""


def test_compare_agents_by_mouse_and_keyboard_and_reopen(lab: Lab, page: Page) -> None:
    write_notebook(lab.root / "compare.ipynb", [CONNECT, COMPARE, BLIND, TABLE, PANEL_BELOW])
    page.open("compare.ipynb")
    page.hide_file_browser()
    page.run_all()
    compare, blind = page.panel.nth(0), page.panel.nth(1)
    ask_and_prefer_by_mouse(page, compare)
    ask_and_prefer_by_keyboard(page, compare)
    check_themes_and_narrow_page(page, compare)
    compare_blind(page, blind)

    page.show_cell(3).locator(".jp-InputArea-editor").click()
    page.command("notebook:run-cell")
    output = page.output_text(3)
    assert "'preferred': 'slow'" in output
    assert "'preferred': 'tie'" in output
    assert page.errors == []
    reopen_without_kernel(lab, page)


def ask_and_prefer_by_mouse(page: Page, compare: Locator) -> None:
    compare.scroll_into_view_if_needed()
    compare.locator(".ab-input textarea").fill(QUESTION)
    compare.get_by_role("button", name="Send to all").click()
    wait_for_end(page, compare, "2 of 3 answered; 1 failed")
    columns = compare.locator(".ab-column")
    expect(columns).to_have_count(3)
    compare.scroll_into_view_if_needed()
    expect(columns.last).to_be_visible()
    boxes = [columns.nth(n).bounding_box() for n in range(3)]
    assert len({round(box["y"]) for box in boxes if box}) == 1, "the columns are in one row"
    expect(columns.nth(0)).to_contain_text("These sections are nearest")
    expect(columns.nth(2)).to_contain_text("Failed. TURN_TIMEOUT")
    expect(columns.nth(2).locator("button.ab-retry")).to_be_visible()
    for n in (0, 1):
        expect(columns.nth(n)).to_contain_text("eply after")

    page.show_cell(4).locator(".ab-chat").wait_for()
    prefer = compare.get_by_role("button", name="Prefer guide")
    assert prefer.evaluate("button => getComputedStyle(button).borderTopColor") not in (
        "rgba(0, 0, 0, 0)",
        "transparent",
    )
    assert (prefer.bounding_box() or {})["height"] == 32
    page.show_cell(1)
    check_that_short_answers_stay_in_view(compare)
    prefer.click()
    compare.get_by_role("button", name="✓ guide preferred").wait_for()
    compare.get_by_role("button", name="Prefer slow").click()
    compare.get_by_role("button", name="✓ slow preferred").wait_for()
    expect(compare.get_by_role("button", name="✓")).to_have_count(1)
    expect(compare.get_by_role("button", name="Prefer limits")).to_be_hidden()  # it failed


def check_that_short_answers_stay_in_view(compare: Locator) -> None:
    """Where the log shows the end of a long answer, the short ones stand beside it.

    How many lines an answer takes depends on the fonts here: the log becomes just high
    enough for the shortest.
    """
    heights, names_in_view = compare.locator(".ab-log").evaluate("""log => {
        const before = log.style.height;
        const turns = [...log.querySelectorAll('.ab-column .ab-turn')];
        const heights = turns.map(turn => turn.querySelector('.ab-agent').offsetHeight);
        log.scrollTop = 0;  // the end: the log is a reversed column
        const below = log.getBoundingClientRect().bottom - turns[0].getBoundingClientRect().bottom;
        log.style.height = `${Math.min(...heights) + below + 8}px`;
        log.scrollTop = 0;
        const top = log.getBoundingClientRect().top;
        const inView = turns.map(turn => turn.querySelector('.ab-who').getBoundingClientRect().top >= top - 1);
        log.style.height = before;
        return [heights, inView];
    }""")
    shortest, longest = heights.index(min(heights)), heights.index(max(heights))
    assert names_in_view[shortest], "the name of the shortest answer scrolled away"
    assert not names_in_view[longest], "the end of the longest answer is shown"


def ask_and_prefer_by_keyboard(page: Page, compare: Locator) -> None:
    keyboard = page.page.keyboard
    compare.locator(".ab-input textarea").focus()
    keyboard.type("0")
    keyboard.press("Shift+Enter")
    keyboard.type("and one more line")
    keyboard.press("Enter")
    wait_for_end(page, compare, "2 of 3 answered; 1 failed", 2)
    expect(compare.locator(".ab-round").nth(1).locator(".ab-said").first).to_have_text(
        re.compile(r"0\s+and one more line")
    )
    # From the input back to the last verdict, and to the one before it.
    compare.locator(".ab-input textarea").focus()
    keyboard.press("Shift+Tab")
    expect(compare.get_by_role("button", name="None of them").last).to_be_focused()
    keyboard.press("ArrowLeft")
    assert page.page.evaluate("() => document.activeElement.textContent") == "Tie"
    keyboard.press("Space")
    compare.get_by_role("button", name="✓ Tie").wait_for()
    assert page.page.evaluate("() => document.activeElement.textContent") == "✓ Tie", "the button lost the focus"
    # Escape stops waiting for a slow agent.
    compare.locator(".ab-input textarea").focus()
    keyboard.type("60")
    keyboard.press("Enter")
    compare.locator("button.ab-stop:visible").wait_for()
    compare.locator(".ab-round").nth(2).get_by_text("TURN_TIMEOUT").wait_for()
    keyboard.press("Escape")
    compare.get_by_text("Stopped listening").first.wait_for()
    compare.locator("button.ab-stop").wait_for(state="hidden")


def check_themes_and_narrow_page(page: Page, compare: Locator) -> None:
    page.page.set_viewport_size({"width": 1200, "height": 1500})
    compare.locator(".ab-log").evaluate("log => { log.scrollTop = -log.scrollHeight; }")
    page.show_cell(1)
    look_in_all_ways(page, compare, "compare")
    page.page.set_viewport_size({"width": 520, "height": 1500})
    round_ = compare.locator(".ab-round").first
    round_.get_by_role("tab", name="guide").focus()
    page.page.keyboard.press("ArrowLeft")  # from the first to the last
    expect(round_.get_by_role("tab", name="limits")).to_be_focused()
    expect(round_.get_by_role("tabpanel")).to_have_count(1)
    expect(round_.get_by_role("tabpanel")).to_contain_text("Failed. TURN_TIMEOUT")
    assert axe_violations(compare) == []
    page.screenshot("compare-tabs")
    page.page.keyboard.press("ArrowLeft")
    expect(round_.get_by_role("tab", selected=True)).to_have_text("✓ slow")
    expect(round_.get_by_role("button", name="✓ slow preferred")).to_be_visible()
    assert "TURN_TIMEOUT" in exported(page, compare)
    page.page.set_viewport_size({"width": 1200, "height": 1000})


def compare_blind(page: Page, blind: Locator) -> None:
    page.show_cell(2)  # JupyterLab hides what is far from the view
    blind.locator(".ab-input textarea").fill("2 tasks, please")
    blind.locator(".ab-input textarea").press("Enter")
    wait_for_end(page, blind, "All answered. Which is better?")
    expect(blind.locator(".ab-agent .ab-who")).to_have_text(["A", "B"])
    page.screenshot("compare-blind")
    blind.get_by_role("button", name="Prefer B").click()
    blind.get_by_role("button", name="✓ B · ").wait_for()
    expect(blind.locator(".ab-agent .ab-who")).to_have_text([re.compile("A · "), re.compile("B · ")])
    assert sorted(name.partition(" · ")[2] for name in blind.locator(".ab-agent .ab-who").all_inner_texts()) == [
        "echo",
        "verbose",
    ]
    leave_and_return(page, blind, "2 tasks, please")
    expect(blind.get_by_role("button", name="✓ B · ")).to_be_visible()


def wait_for_end(page: Page, compare: Locator, status: str, rounds: int = 1) -> None:
    ended = [compare.locator(".ab-log").element_handle(), status, rounds]
    page.page.wait_for_function(ENDED, arg=ended, polling=POLLING_MS)


def reopen_without_kernel(lab: Lab, page: Page) -> None:
    page.wait_for_notebook_text("It was a tie.")
    page.wait_for_notebook_text("B · ")
    page.save()
    page.end_kernel()
    page.reload()
    page.end_kernel()
    transcripts = page.page.locator(".jp-OutputArea .ab-static")
    transcripts.first.get_by_text("slow was preferred.").wait_for()
    page.show_cell(1)
    columns = transcripts.first.locator(".ab-round").first.locator(".ab-column")
    boxes = [columns.nth(n).bounding_box() for n in range(3)]
    assert len({round(box["y"]) for box in boxes if box}) == 1, "the columns of the static transcript are in one row"
    assert page.panel.count() == 0
    assert page.page.locator(".jupyter-widgets-error:visible").count() == 0
    page.screenshot("compare-reopened")
    saved = json.loads(Path(lab.root / "compare.ipynb").read_text())
    assert lab.secret() not in json.dumps(saved)
