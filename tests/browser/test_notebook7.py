"""Every widget in Notebook 7, whose pages are not JupyterLab's.

What a person does in a panel is tested in JupyterLab; what depends on the page, in
both: a restart, and the notebook as the context of a chat (`EACH_APPLICATION`).
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from browser.panels import CONNECT, PANEL, Panel, box_of
from support.lab import Lab, Page, write_notebook
from support.notebook7 import NEEDS_NOTEBOOK_7, NotebookPage

pytestmark = pytest.mark.browser

EARLIER = 'client.sessions.start("acme~playground", agent_id="acme~echo", prompt="An earlier question")'

CELLS = [
    f'{CONNECT}\nhistory = ab.load_history(client, "acme")\n{EARLIER};',
    "ab.plot.latency(history.turns)",
    "ab.Explorer(history)",
    'compare = ab.Compare(client, workspace="acme~playground", agents=["echo", "verbose"], height="300px")\ncompare',
    'ab.PromptLab(client, agent="acme~scribe", workspace="acme~playground")',
    PANEL.format(name="echo", agent="echo", height=160),
]


@pytest.mark.parametrize("application", [pytest.param(NotebookPage, id="notebook7", marks=NEEDS_NOTEBOOK_7)])
def test_what_the_page_itself_may_break(lab: Lab, page: Page) -> None:
    write_notebook(lab.root / "widgets.ipynb", CELLS)
    page.open("widgets.ipynb")
    page.run_all()
    outputs = page.outputs()
    assert [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"] == []
    chart = show(page, 1, ".jp-OutputArea svg.marks:visible")
    assert box_of(chart)["width"] > 400
    page.screenshot("chart")
    explorer = show(page, 2, ".ab-explorer")
    expect(explorer.locator(".ab-x-plot")).to_be_visible()
    explorer.get_by_role("button").first.focus()
    press_keys_of_the_notebook(page)
    page.screenshot("explorer")
    compare_and_prefer(page, show(page, 3, ".ab-chat"))
    form = show(page, 4, ".ab-chat.ab-lab")
    form.get_by_role("textbox", name="Name of the variant").fill("brief")
    form.get_by_role("button", name="Add as variant").focus()
    press_keys_of_the_notebook(page)
    page.screenshot("prompt-lab")
    continue_the_last_session(page, 5)
    assert page.execution_counts() == [1, 2, 3, 4, 5, 6]
    reopen_without_a_kernel(page, 5)
    assert page.errors == []


def show(page: Page, cell: int, selector: str) -> Locator:
    widget = page.show_cell(cell).locator(selector).first
    widget.scroll_into_view_if_needed()
    return widget


def press_keys_of_the_notebook(page: Page) -> None:
    for key in ("a", "b", "z"):  # each would add a cell, or undo that, if it reached the notebook
        page.page.keyboard.press(key)


def continue_the_last_session(page: Page, cell: int) -> None:
    page.show_cell(cell)
    panel = Panel(page, cell)
    panel.root.get_by_role("button", name=re.compile("^Continue: .*An earlier question")).click()
    expect(panel.replies).to_have_count(1)
    expect(panel.replies).to_contain_text("An earlier question")
    expect(panel.box).to_be_focused()
    panel.send("And a later one")
    panel.wait_for_reply(2, "And a later one")
    for part in (panel.log, panel.button("Send")):
        part.focus()
        press_keys_of_the_notebook(page)
    with page.page.expect_download() as saved:
        panel.menu("Export as Markdown").click()
    assert "And a later one" in saved.value.path().read_text("utf-8")


def reopen_without_a_kernel(page: Page, cell: int) -> None:
    page.save()
    page.end_kernel()
    page.reload()
    page.end_kernel()
    transcript = page.show_cell(cell).locator(".ab-static")
    expect(transcript).to_contain_text("And a later one")
    expect(page.show_cell(1).locator(".jp-OutputArea svg, .jp-OutputArea img").first).to_be_visible()
    page.screenshot("reopened")


def compare_and_prefer(page: Page, compare: Locator) -> None:
    compare.get_by_role("textbox", name="Message").fill("1")
    compare.get_by_role("textbox", name="Message").press("Enter")
    prefer = compare.get_by_role("button", name="Prefer verbose")
    expect(prefer).to_be_enabled()
    prefer.focus()
    press_keys_of_the_notebook(page)
    prefer.press("Enter")
    expect(compare.get_by_role("button", name="✓ verbose preferred")).to_be_focused()
    expect(compare.get_by_role("status")).to_contain_text("ll answered")
    page.screenshot("compare")
