"""The how-to on slower agents in JupyterLab: from the chart to the conversation."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Position, expect

from browser.panels import look_in_all_ways
from support.lab import Lab, Page, axe_violations, write_notebook

pytestmark = pytest.mark.browser

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "how-to" / "agents-that-got-slower.ipynb"
LABEL = """
import tempfile
import agentbook as ab
client = ab.connect()
history = ab.load_history(client, "acme", workspaces=["acme~data"], progress=False)
todo = history.turns.head(10)
said = todo.head(6).assign(question="note", kind="text", rater="ada")
said["value"] = ["no source", "late reply", "wrong price"] * 2
questions = {"solved": bool, "mode": ab.failure_modes(said, k=3)}
labeller = ab.label(todo, questions, events=history.turn_events, folder=tempfile.mkdtemp(), rater="me")
labeller
"""

# The horizontal span of the last days in the plot.
LAST_DAYS = """plot => {
  const grid = plot.querySelector('.ab-x-grid path').getBBox();
  const edge = plot.getBoundingClientRect();
  return {begin: edge.left + grid.x + grid.width * 0.75, end: edge.left + grid.x + grid.width + 5, top: edge.top};
}"""

# Where the slowest selected answered turn is drawn. Turns outside the brush are drawn
# too, and may be slower. Dots are drawn from the quickest to the slowest, each as a
# stroke of length zero. Read once the plot and its position are stable for some frames.
_SLOWEST_DOT = """async plot => {
  const read = () => {
    const brush = plot.querySelector('.ab-x-brush');
    const width = brush ? Number(brush.getAttribute('width')) : 0;
    const [begin, end] = width ? [0, width].map(by => Number(brush.getAttribute('x')) + by) : [-Infinity, Infinity];
    const dots = plot.querySelector('.ab-x-dots:not(.ab-x-bad)').getAttribute('d').match(/M[^M]+/g)
      .map(dot => dot.slice(1).split('h')[0].split(' ').map(Number));
    const [x, y] = dots.filter(([x]) => x > begin + 0.5 && x < end - 0.5).pop();
    const { left, top } = plot.getBoundingClientRect();
    return { x, y, left, top };
  };
  let before = read();
  for (let same = 0; same < 10; ) {
    await new Promise(requestAnimationFrame);
    const now = read();
    same = JSON.stringify(now) === JSON.stringify(before) ? same + 1 : 0;
    before = now;
  }
  return { x: before.x, y: before.y };
}"""


def slowest_dot(plot: Locator) -> Position:
    """Where the slowest selected answered turn is drawn in the plot."""
    dot: Position = plot.evaluate(_SLOWEST_DOT)
    return dot


@pytest.fixture
def explorer(lab: Lab, page: Page) -> Locator:
    shutil.copy(NOTEBOOK, lab.root / "slower.ipynb")
    page.open("slower.ipynb")
    page.hide_file_browser()
    page.run_all()
    assert [output for output in page.outputs() if output["output_type"] == "error"] == []
    # The charts above move the explorer until they are drawn.
    page.show_cell(1).locator(".jp-OutputArea svg.marks").last.wait_for()
    page.show_cell(3).locator(".ab-x-plot").wait_for()
    return page.page.locator(".jp-OutputArea .ab-explorer")


def test_the_how_to_leads_from_the_chart_to_the_conversation(lab: Lab, page: Page, explorer: Locator) -> None:
    expect(explorer.locator(".ab-x-figures")).to_contain_text(" of 2,")
    expect(explorer.locator(".ab-x-chip")).to_have_text(["agent data-desk ×"])
    assert page.page.locator(".ab-x-saved:visible").count() == 0
    drag_over_the_last_days(page, explorer)
    narrow_by_an_hour_and_back(explorer)
    search_for_words(page, explorer)
    open_the_slowest_turn(page, explorer)
    look_in_all_ways(page, explorer, "explorer")
    page.page.emulate_media(forced_colors="active")
    shades = "cells => new Set(cells.map(cell => getComputedStyle(cell).backgroundColor)).size"
    assert explorer.locator("[data-slot]").evaluate_all(shades) > 3, (
        "the system's colours leave the shades of the hours"
    )
    page.page.emulate_media(forced_colors="none")
    use_the_keyboard(page, explorer)
    assert page.errors == []
    restart(page, explorer)
    reopen_without_kernel(lab, page)


def turns_in(explorer: Locator) -> int:
    """The number of selected turns, as the page shows it."""
    return int(explorer.locator(".ab-x-figure b").first.inner_text().replace(",", ""))


def drag_over_the_last_days(page: Page, explorer: Locator) -> None:
    hours = "cells => cells.map(cell => cell.dataset.level).join('')"
    cells = explorer.locator("[data-slot]")
    before = cells.evaluate_all(hours)
    before_drag = turns_in(explorer)
    span = explorer.locator(".ab-x-plot").evaluate(LAST_DAYS)
    mouse = page.page.mouse
    mouse.move(span["begin"], span["top"] + 195)
    mouse.down()
    mouse.move(span["begin"] + 40, span["top"] + 200)
    mouse.move(span["end"], span["top"] + 200)
    mouse.up()
    chips = explorer.locator(".ab-x-chip")
    expect(chips).to_have_count(3)  # agent, time, and "clear all"
    expect(explorer.locator(".ab-x-chips")).to_contain_text("asked from 2026-")
    assert 50 < turns_in(explorer) < before_drag
    expect(explorer.locator(".ab-x-where")).to_have_text(f"1 to 50 of {turns_in(explorer)}")
    assert cells.evaluate_all(hours) != before
    # The other agents are narrowed too, but the selection is not: it is their own view.
    assert explorer.locator(".ab-x-groups [aria-pressed=true] .ab-x-name").inner_text() == "data-desk"


def narrow_by_an_hour_and_back(explorer: Locator) -> None:
    before = turns_in(explorer)
    busiest = explorer.locator('[data-level="6"]').first
    label = str(busiest.get_attribute("aria-label"))
    busiest.click()
    expect(explorer.locator(".ab-x-chips")).to_contain_text(label.split(",")[0])
    expect(explorer.locator(".ab-x-figure b").first).to_have_text(label.split(", ")[1].split()[0])
    explorer.locator(".ab-x-chip", has_text=label.split(",")[0]).click()
    expect(explorer.locator(".ab-x-figure b").first).to_have_text(str(before))


def search_for_words(page: Page, explorer: Locator) -> None:
    """Words narrow all views; a hit opens at its turn; Escape shows all turns again."""
    before, cells = turns_in(explorer), len(page.cells())
    field = explorer.get_by_role("searchbox", name="Search questions and replies")
    field.click()
    page.page.keyboard.type("DEVICE active")
    expect(explorer.locator(".ab-x-chips")).to_contain_text("with “DEVICE active”")
    assert 0 < turns_in(explorer) < before
    expect(field).to_be_focused()
    explorer.locator(".ab-x-open").first.click()
    here = explorer.locator(".ab-x-pane .ab-x-here")
    expect(here).to_contain_text(re.compile("device", re.IGNORECASE))
    expect(here).to_be_in_viewport()
    page.screenshot("explorer-search")
    field.focus()
    page.page.keyboard.press("Escape")
    expect(explorer.locator(".ab-x-figure b").first).to_have_text(f"{before:,}")
    expect(field).to_have_value("")
    assert len(page.cells()) == cells


def open_the_slowest_turn(page: Page, explorer: Locator) -> None:
    plot = explorer.locator(".ab-x-plot")
    dot = slowest_dot(plot)
    plot.hover(position=dot)
    expect(plot.locator(".ab-x-tip")).to_contain_text("data-desk: ")
    plot.click(position=dot)
    here = explorer.locator(".ab-x-pane .ab-x-here")
    row = explorer.locator(".ab-x-turns tr[aria-current]")
    question = row.locator("td").last.inner_text()
    expect(here.locator(".ab-me .ab-said")).to_contain_text(question.rstrip("…")[:60])
    expect(here).to_contain_text("Reply after ")
    expect(here).to_be_in_viewport()


def use_the_keyboard(page: Page, explorer: Locator) -> None:
    keyboard, cells = page.page.keyboard, len(page.cells())
    explorer.locator(".ab-x-plot").focus()
    before = turns_in(explorer)
    keyboard.press("ArrowUp")
    expect(explorer.locator(".ab-x-chips")).to_contain_text("latency")
    keyboard.press("Escape")
    expect(explorer.locator(".ab-x-chips")).not_to_contain_text("latency")
    assert turns_in(explorer) > before  # the span of time was cleared too
    where = explorer.locator(".ab-x-where")
    expect(where).to_have_text(f"1 to 50 of {turns_in(explorer)}")
    everything = where.inner_text()
    explorer.locator("[data-slot]").first.focus()
    keyboard.press("ArrowRight")
    keyboard.press("Shift+ArrowDown")
    expect(explorer.locator('[data-slot][aria-selected="true"]')).to_have_count(2)
    expect(where).not_to_have_text(everything)  # the table follows the selection
    keyboard.press("Escape")
    expect(explorer.locator('[data-slot][aria-selected="true"]')).to_have_count(0)
    expect(where).to_have_text(everything)
    row = explorer.locator(".ab-x-open").nth(1)
    row.focus()
    keyboard.press("a")  # adds a cell where the notebook hears it
    keyboard.press("Enter")
    expect(explorer.locator(".ab-x-log")).to_be_focused()
    assert len(page.cells()) == cells


def restart(page: Page, explorer: Locator) -> None:
    question = explorer.locator(".ab-x-here .ab-me .ab-said").inner_text()
    page.wait_for_notebook_text(" ".join(question.split()[:5]))  # the picture follows a moment later
    page.save()
    page.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.restartKernel().then(() => true)")
    expect(explorer.locator(".ab-x-notice")).to_contain_text("again to continue.")
    boxes = explorer.locator("xpath=ancestor::*[contains(@class, 'jupyter-widgets-disconnected')]")
    icons = boxes.evaluate_all("boxes => boxes.map(box => getComputedStyle(box, '::before').content)")
    assert set(icons) <= {"none"}  # the notice is enough


def reopen_without_kernel(lab: Lab, page: Page) -> None:
    page.end_kernel()
    page.reload()
    page.end_kernel()
    saved = page.page.locator(".jp-OutputArea .ab-x-saved")
    picture = saved.locator("img")
    picture.scroll_into_view_if_needed()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 800
    expect(saved.locator("table").first).to_contain_text("data-desk")
    expect(saved.locator(".ab-me").first).to_be_visible()
    assert page.page.locator(".ab-explorer").count() == 0
    assert page.page.locator(".jupyter-widgets-error:visible").count() == 0
    page.screenshot("explorer-reopened")
    assert axe_violations(saved) == []
    page.page.set_viewport_size({"width": 400, "height": 800})
    rows = saved.locator("table").first.locator("tr")
    rows.last.scroll_into_view_if_needed()
    page.screenshot("explorer-reopened-narrow")
    width = saved.locator("img").first.evaluate("picture => picture.getBoundingClientRect().width")
    assert width >= 600, "the labels of the picture stay legible"
    heights = rows.evaluate_all("rows => rows.map(row => row.offsetHeight)")
    assert max(heights) < 50, "the table scrolls instead of breaking its lines"
    cells: list[dict[str, Any]] = json.loads((lab.root / "slower.ipynb").read_text())["cells"]
    assert lab.secret() not in json.dumps(cells)


def test_a_person_labels_turns_by_keys_takes_one_back_and_changes_the_modes(lab: Lab, page: Page) -> None:
    write_notebook(lab.root / "labels.ipynb", [LABEL])
    page.open("labels.ipynb")
    page.hide_file_browser()
    page.run_all()
    assert [output for output in page.outputs() if output["output_type"] == "error"] == []
    view = page.show_cell(0).locator(".ab-x-label")
    view.focus()
    for key, done in [("1", 0), ("3", 1), ("2", 1), ("4", 2), ("u", 1)]:
        view.press(key)
        expect(view.get_by_role("status")).to_contain_text(f" {done} of 10 ")
        answered = view.locator('[aria-pressed="true"]')
        expect(answered).to_have_count(0 if key in "34" else 1)
    choices, change = view.get_by_label("mode", exact=True).locator(".ab-x-choice"), view.locator(".ab-x-modes")
    change.locator("summary").click()
    for name in ("1 source", "1 source"):  # once it is renamed, and once it becomes one with another
        change.get_by_role("textbox").fill(name)
        change.get_by_role("textbox").press("Enter")
        expect(change.get_by_role("textbox")).to_have_value("")
        expect(choices.filter(has_text="1 source")).to_have_count(1)
        change.get_by_role("combobox").select_option(index=1)
    expect(choices).to_have_count(2)
    look_in_all_ways(page, view, "labels")
    view.press("1")
    page.page.emulate_media(forced_colors="active")
    expect(view.locator('[aria-pressed="true"]').first).to_have_css("outline-style", "solid")
    page.page.emulate_media(forced_colors="none")
    change.get_by_role("combobox").select_option("1 source")
    change.get_by_role("button", name="Split").click()
    expect(choices).to_have_count(3)
    assert page.errors == []


EXPLORE = """
import agentbook as ab
client = ab.connect()
history = ab.load_history(client, "acme", workspaces=["acme~data"], progress=False)
lab = ab.PromptLab(client, agent="acme~data-desk", workspace="acme~playground")
explorer = ab.Explorer(history, lab=lab)
explorer.select(groups=["data-desk"], outcomes=["answered"])
explorer
"""
TURNS = 2  # of the table: the slowest ones


def test_questions_behind_a_chart_become_inputs_of_the_prompt_lab(lab: Lab, page: Page) -> None:
    write_notebook(lab.root / "collect.ipynb", [EXPLORE, "lab"])
    page.open("collect.ipynb")
    page.hide_file_browser()
    page.page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0; }")
    page.command("notebook:run-cell")
    count = add_to_the_test_set(page.show_cell(0).locator(".ab-explorer"))
    page.screenshot("explorer-test-set")
    page.page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1; }")
    page.command("notebook:run-cell")
    inputs = page.show_cell(1).get_by_label("Test inputs, one per line")
    expect(inputs).not_to_have_value("")
    assert len(inputs.input_value().splitlines()) == count
    assert page.errors == []


def add_to_the_test_set(explorer: Locator) -> int:
    """Read slow turns, from the chart and from the table, and add their questions.

    Returns how many inputs there are afterwards.
    """
    plot, pane = explorer.locator(".ab-x-plot"), explorer.locator(".ab-x-pane")
    plot.click(position=slowest_dot(plot))
    count = add_what_is_read(pane)
    for number in range(1, TURNS + 1):  # the slowest one comes first
        row = explorer.locator(".ab-x-open").nth(number)
        question = row.locator("xpath=ancestor::tr").locator("td").last.inner_text()
        row.click()
        expect(pane.locator(".ab-x-here .ab-me .ab-said")).to_contain_text(question.rstrip("…")[:60])
        count = add_what_is_read(pane)
    return count


def add_what_is_read(pane: Locator) -> int:
    pane.get_by_role("button", name="Add to test set").click()
    added = pane.locator(".ab-collect [role=status]")
    expect(added).to_contain_text("This question becomes a test input")
    pane.get_by_role("button", name="Add", exact=True).click()
    expect(added).to_have_text(re.compile(r"^Added: the test set has (1 input|\d+ inputs)\.$"))
    count = int(re.findall(r"\d+", added.inner_text())[0])
    added.page.keyboard.press("Escape")
    expect(added).to_be_hidden()
    expect(pane.get_by_role("button", name="Add to test set")).to_be_focused()
    return count
