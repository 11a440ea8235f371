"""A panel leaves the headings and the copies of a notebook alone, and keeps a draft."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import Any

import pytest
from playwright.sync_api import expect

from browser.panels import CONNECT, PANEL, Panel
from support.lab import Lab, Page, write_notebook

pytestmark = pytest.mark.browser

COMPARE = 'ab.Compare(client, "acme~playground", ["echo", "verbose"])'
REPLY = "# A report\n\n## A part\n\n**注意：**请先备份。\n\n```python\nx = 'a line that is " + "long " * 60 + "'\n```"
TITLES = "() => [...document.querySelectorAll('.jp-tocItem-content')].map(each => each.textContent.trim())"


def test_a_panel_keeps_to_its_cell(lab: Lab, page: Page) -> None:
    cells = [CONNECT, PANEL.format(name="echo", agent="echo", height=300), f"_ = echo.ask({REPLY!r}, timeout_s=60)"]
    write_notebook(lab.root / "beside.ipynb", [*cells, "%%markdown\n# My results"])
    page.open("beside.ipynb")
    page.run_all()
    panel = Panel(page, 1)
    panel.wait_for_reply(1, "A report")
    expect(panel.replies.locator("strong")).to_have_text("注意：")
    expect(panel.replies.locator("h1, h2, h3, h4")).to_have_count(0)
    the_table_of_contents_has_no_reply(page)
    a_draft_survives_another_run(page, panel)
    a_copy_shows_its_transcript(lab, page)
    assert page.errors == []


def the_table_of_contents_has_no_reply(page: Page) -> None:
    page.save()
    page.command("toc:show-panel")
    expect(page.page.locator(".jp-tocItem-content").last).to_have_text("My results")
    assert not {"A report", "A part"} & set(page.page.evaluate(TITLES))
    page.screenshot("table-of-contents")
    page.hide_file_browser()


def a_draft_survives_another_run(page: Page, panel: Panel) -> None:
    page.show_cell(1)
    panel.box.press_sequentially("a draft with @abo")
    expect(panel.root.get_by_role("option")).to_have_count(1)
    panel.box.press("Enter")
    expect(panel.root.locator(".ab-attached")).to_have_count(1)
    page.page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1; }")
    page.command("notebook:run-cell")
    expect(panel.replies).to_have_count(0)
    expect(panel.box).to_have_value("a draft with the cell above ")
    expect(panel.root.locator(".ab-attached pre")).to_contain_text("ab.connect()")
    page.screenshot("draft-again")
    panel.send(f"the message of this panel\n\n```\n{'a long line ' * 30}\n```")
    panel.wait_for_reply(1, "the message of this panel")


def a_copy_shows_its_transcript(lab: Lab, page: Page) -> None:
    page.wait_for_notebook_text("eply after")
    page.save()
    expect(page.cell(1).locator(".ab-static")).to_be_hidden()
    shutil.copy(lab.root / "beside.ipynb", lab.root / "copy.ipynb")
    page.command("docmanager:open", path="copy.ipynb")
    copy = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .ab-static")
    expect(copy).to_contain_text("the message of this panel")
    expect(copy).to_be_visible()
    page.screenshot("copy")
    wide = "root => [...root.querySelectorAll('pre')].filter(each => each.scrollWidth > each.clientWidth + 1).length"
    assert copy.evaluate(wide) > 0
    page.page.emulate_media(media="print")
    assert copy.evaluate(wide) == 0, "lines of code are cut on paper"
    page.page.emulate_media(media="screen")


def test_a_notebook_executed_without_a_browser_shows_its_conversations(lab: Lab, page: Page) -> None:
    chats = PANEL.format(name="one", agent="echo", height=160), f"two = {COMPARE}\ntwo"
    asks = "one.ask('To 1')\none.ask_again(0)", "two.ask('To 2')"
    notebook = write_notebook(lab.root / "executed.ipynb", [CONNECT, *chats, *asks])
    command = [sys.executable, "-m", "jupyter", "execute", "--inplace", str(notebook)]
    environment = {**os.environ, "AGENTBOOK_DATA": str(lab.data)}
    subprocess.run(command, check=True, capture_output=True, timeout=240, env=environment)
    page.open("executed.ipynb")
    for cell in (1, 2):  # each with two replies
        replies = page.show_cell(cell).locator(".ab-static .ab-agent")
        expect(replies.last).to_be_visible()
        expect(replies).to_have_text([re.compile(f"To {cell}"), re.compile("eply after")])


BLOCKS = "```python\nx = 1\n```\n\n```python\ny = 2\n```"
TABLE = "|a|b|\n|-|-|\n|=SUM(A1)|1|\n|short|\n|long|1|2|\n" + "|x|7|\n" * 10_000
# Returns what the buttons say, which they do for a moment only.
PRESS = """n => [...document.querySelectorAll('.jp-CodeCell .ab-inner')].map(panel => {
  const button = panel.querySelectorAll('.ab-code .ab-insert')[n];
  button.click();
  return button.textContent; })"""
NOTEBOOK = "window.jupyterapp.shell.currentWidget.content"


def test_panels_that_insert_at_once_keep_to_their_cells(lab: Lab, page: Page) -> None:
    panels = [PANEL.format(name=name, agent="echo", height=160) for name in ("one", "two")]
    ask = f"for each in (one, two): each.ask({BLOCKS!r}, timeout_s=60)"
    write_notebook(lab.root / "at-once.ipynb", [CONNECT, *panels, ask, f"_ = one.ask({TABLE!r}, timeout_s=60)"])
    page.open("at-once.ipynb")
    page.run_all()
    page.show_cell(1)

    def sources() -> list[str]:
        return [cell["source"] for cell in page.cells()][1:-2]

    def press(number: int) -> list[str]:
        expect(page.page.locator(".jp-CodeCell .ab-inner")).to_have_count(2)  # JupyterLab may draw them again
        said: list[str] = page.page.evaluate(PRESS, number)
        return said

    press(0)
    assert sources() == [panels[0], "x = 1", panels[1], "x = 1"]
    page.page.evaluate(f"() => {{ {NOTEBOOK}.activeCellIndex = 2; }}")
    page.command("notebook:delete-cell")
    press(1)
    made = [panels[0], "y = 2", panels[1], "x = 1", "y = 2"]
    assert sources() == made, "what was deleted is not below any more"
    page.page.evaluate(f"() => {{ {NOTEBOOK}.model.readOnly = true; }}")
    assert press(0) == ["Not inserted"] * 2
    expect(page.page.locator(".jp-CodeCell .ab-chat [role=alert]:visible")).to_have_count(2)  # and why
    assert sources() == made
    page.page.evaluate(f"() => {{ {NOTEBOOK}.model.readOnly = false; }}")
    page.show_cell(1).get_by_role("button", name="As DataFrame").click()
    frame: dict[str, Any] = {}
    exec(sources()[2], frame)
    assert (frame["table"].shape, frame["table"]["a"][0]) == ((10_003, 2), "=SUM(A1)")
    assert frame["table"]["b"].isna().sum() == 1, "a short row"
    assert page.errors == []
