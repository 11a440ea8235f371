"""From a chart to the questions behind it, to a better version, and back to a chart."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from support.lab import Lab, Page, write_notebook

from .explorer_plot import slowest_dot

pytestmark = pytest.mark.browser

EXPLORE = """
import os
import agentbook as ab
import pandas as pd
client, where = ab.connect(), ["acme~data", "acme~playground"]
history = ab.load_history(client, "acme", workspaces=where, progress=False, errors="keep")
lab = ab.PromptLab(client, agent="acme~data-desk", workspace="acme~playground")
explorer = ab.Explorer(history, lab=lab)
explorer.select(groups=["data-desk"], outcomes=["answered"])
explorer
"""
TRY = "lab"
# Publishing is a separate step. People then ask the same questions again.
PUBLISH = """
version = lab.publish("brief")
people = ab.PromptLab(client, agent="acme~data-desk", workspace="acme~playground")
people.add_variant("now")
os.environ["AGENTBOOK_RUNS"] = "elsewhere"  # on computers of their own
people.run(lab.inputs, repeats=3, concurrency=12, progress=False)
del os.environ["AGENTBOOK_RUNS"]
turns = ab.load_history(client, "acme", workspaces=where, progress=False, errors="keep").turns
turns = turns[turns["agent"] == "data-desk"].assign(asked=lab.in_test_set)
spans = {
    "a": (turns["asked_at"].min(), version.created_at),
    "b": (version.created_at, turns["asked_at"].max() + pd.Timedelta("1s")),
}
changes = ab.compare_periods(turns, by="asked", metric="latency", **spans)
print(changes[["asked", "significant"]].to_dict("records"), bool(changes["change"].min() < 0))
ab.plot.comparison(turns[turns["asked"]], metric=["latency", "failed_share"], **spans)
"""
TURNS = 5  # of the table: the slowest ones


def test_from_a_chart_to_a_better_version_and_back(lab: Lab, page: Page) -> None:
    write_notebook(lab.root / "walk.ipynb", [EXPLORE, TRY, PUBLISH])
    page.open("walk.ipynb")
    page.hide_file_browser()
    run_cell(page, 0)
    explorer = page.page.locator(".jp-OutputArea .ab-explorer")
    count = add_to_the_test_set(explorer)
    page.screenshot("walk-test-set")
    run_cell(page, 1)
    try_out(page, page.page.locator(".jp-OutputArea .ab-chat.ab-lab"), count)
    run_cell(page, 2)
    assert page.output_text(2).startswith(
        "[{'asked': True, 'significant': True}, {'asked': False, 'significant': False}] True"
    )
    expect(page.page.locator(".jp-OutputArea svg.marks")).to_be_visible()
    page.screenshot("walk-chart")
    assert page.errors == []


def run_cell(page: Page, number: int) -> None:
    """Run a cell, and wait for its end."""
    page.page.evaluate("number => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = number; }", number)
    page.command("notebook:run-cell")
    assert [output["evalue"] for output in page.outputs() if output["output_type"] == "error"] == []
    page.show_cell(number)


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
    pane.locator(".ab-collect").get_by_role("button", name="Close").click()
    return count


def try_out(page: Page, root: Locator, count: int) -> None:
    """Ask two variants the questions, and apply one of them to the agent."""
    inputs = root.get_by_label("Test inputs, one per line")
    expect(inputs).not_to_have_value("")
    assert len(inputs.input_value().splitlines()) == count
    for name, prompt in (("brief", "Answer in one sentence."), ("points", "Use a bulleted list of two points.")):
        root.get_by_label("Name of the variant").fill(name)
        root.get_by_label("System prompt").fill(prompt)
        root.get_by_role("button", name="Add as variant").click()
        root.get_by_text(f"Added the variant “{name}”").wait_for()
    root.get_by_label("Checks of the reply, one per line").fill("words: /\\w/")
    root.get_by_role("button", name="Run", exact=True).click()
    root.get_by_text(f"{2 * count} of {2 * count} answered.").wait_for()
    # The origin of each question is shown next to it.
    expect(root.get_by_role("grid").get_by_text("from session …").first).to_be_visible()
    root.get_by_label("Winner").select_option("brief")
    root.get_by_role("button", name="Apply the winner").click()
    root.get_by_text("will run on “brief” instead of version").wait_for()
    root.get_by_role("button", name="Apply it").click()
    root.get_by_role("button", name="Apply all the same").click()
    root.get_by_text("Applied “brief”: the agent now runs on version").wait_for()
    page.screenshot("walk-winner")
