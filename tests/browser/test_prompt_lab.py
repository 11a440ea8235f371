"""The prompt lab in JupyterLab: by mouse and keyboard, with a busy kernel, reopened."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from browser.panels import look_in_all_ways
from support.lab import Lab, Page, axe_violations, write_notebook

pytestmark = pytest.mark.browser

LAB = (
    "import agentbook as ab\n"
    "client = ab.connect()\n"
    'lab = ab.PromptLab(client, agent="acme~scribe", workspace="acme~playground")\n'
    "lab"
)
BUSY = """
import time
from pathlib import Path
flag = Path({flag!r})
while not flag.exists():
    time.sleep(0.02)
print(lab.results[["variant", "input", "status", "passed"]].to_dict("records"))
"""
NEW_AGENT = """
agent = client.agents.create("newcomer", template="LLM")
workspace = client.workspaces.create(name="trial")
ab.PromptLab(client, agent=agent, workspace=workspace)
"""
BRIEF = "Answer in one sentence. Name your sources."
POINTS = "You are the scribe of Acme Instruments.\nUse a bulleted list of at most three points. Name your sources."
INPUTS = "What is a session?\nHow do I stream events?\n<img src=x onerror=window.pwned=1> What scopes does a key need to chat?"
PASTE = """([area, text]) => {
  area.focus();
  const data = new DataTransfer();
  data.setData('text/plain', text);
  area.dispatchEvent(new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true}));
  document.execCommand('insertText', false, text);
}"""


def test_try_out_prompts_by_mouse_and_keyboard_and_reopen(lab: Lab, page: Page, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    write_notebook(lab.root / "prompts.ipynb", [LAB, BUSY.format(flag=str(flag)), NEW_AGENT])
    page.open("prompts.ipynb")
    page.hide_file_browser()
    # The second cell keeps the kernel busy.
    page.start_run_all()
    root = page.page.locator(".jp-OutputArea .ab-chat.ab-lab").first
    root.get_by_text("1.2.0 (current)").wait_for()
    apply_by_mouse(root)
    add_and_run_by_mouse(page, root)
    add_and_run_by_keyboard(page, root)
    check_themes(page, root)
    page.show_cell(1).get_by_text("[*]:", exact=True).wait_for()
    flag.touch()
    page.cell(1).get_by_text("[2]:", exact=True).wait_for()
    output = page.output_text(1)
    assert output.count("'status': 'answered'") == 9
    experiment = json.loads((lab.root / "tried.json").read_text())
    assert list(experiment["variants"]) == ["brief", "points", "loud"]
    assert len(experiment["replies"]["answers"]) == 9
    assert lab.secret() not in (lab.root / "tried.json").read_text()
    try_a_new_agent(page)
    assert page.errors == []
    reopen_without_kernel(lab, page)


def apply_by_mouse(root: Locator) -> None:
    prompt = root.get_by_label("System prompt")
    expect(prompt).to_have_value(re.compile(r"^You are the scribe of Acme Instruments\."))
    prompt.fill(BRIEF)
    root.get_by_role("button", name="More settings").click()
    root.get_by_label("Version number").fill("2.0.0")
    root.get_by_role("button", name="Apply to the agent").click()
    root.get_by_text("instead of version 1.2.0, for everyone who uses it").wait_for()
    root.get_by_role("button", name="Apply it").click()
    root.get_by_text("Applied: the agent now runs on version 2.0.0.").wait_for()
    root.get_by_text("2.0.0 (current)").wait_for()
    root.get_by_label("Compare", exact=True).select_option("version 1.1.0")
    root.get_by_label("with", exact=True).select_option("version 2.0.0")
    difference = root.get_by_role("region", name="Difference")
    difference.get_by_text("From version 1.1.0 to version 2.0.0").wait_for()
    expect(difference.locator(".ab-diff .ab-del", has_text="at").first).to_be_visible()
    expect(difference.locator(".ab-diff .ab-ins", has_text="one").first).to_be_visible()


def add_and_run_by_mouse(page: Page, root: Locator) -> None:
    for name, prompt in (("brief", BRIEF), ("points", POINTS)):
        root.get_by_label("Name of the variant").fill(name)
        root.get_by_label("System prompt").fill(prompt)
        root.get_by_role("button", name="Add as variant").click()
        root.get_by_text(f"Added the variant “{name}”").wait_for()
    inputs = root.get_by_label("Test inputs, one per line")
    page.page.evaluate(PASTE, [inputs.element_handle(), INPUTS])
    expect(inputs).to_have_value(re.compile(r"^[^\n]*\n[^\n]*\n[^\n]*$"))
    root.get_by_label("Checks of the reply, one per line").fill("Source\na list: /^- /")
    root.get_by_role("button", name="Run", exact=True).click()
    root.locator(".ab-lab-bar:visible").wait_for()
    root.get_by_text("6 of 6 answered.").wait_for()
    table = root.get_by_role("grid", name="Replies by input and variant")
    expect(table.get_by_role("row")).to_have_count(4)
    row = table.get_by_role("row").nth(2)
    expect(row).to_contain_text("How do I stream events?")
    cells = row.get_by_role("gridcell")
    expect(cells).to_have_count(2)
    expect(cells.nth(1).locator("li")).to_have_count(3)
    expect(cells.nth(0).locator(".ab-check").nth(1)).to_contain_text("not passed")
    assert cells.nth(0).locator("li").count() == 0
    summary = root.get_by_role("region", name="Summary")
    expect(summary.get_by_role("row").nth(2)).to_contain_text(re.compile(r"points\s*2\.0\.1"))
    chart = root.locator(".ab-lab-chart img")
    expect(chart).to_have_attribute("alt", re.compile("points: 3 of 3 answered"))
    assert chart.evaluate("image => image.decode().then(() => image.naturalWidth)") > 200
    assert page.page.evaluate("() => window.pwned") is None


def add_and_run_by_keyboard(page: Page, root: Locator) -> None:
    keyboard = page.page.keyboard

    def focused() -> str:
        return str(page.page.evaluate("() => document.activeElement.textContent || document.activeElement.value"))

    def tab_to(label: str) -> None:
        for _ in range(60):
            keyboard.press("Tab")
            if focused().strip() == label:
                return
        raise AssertionError(f"{label!r} cannot be reached by Tab")

    root.get_by_label("Name of the variant").focus()
    keyboard.type("loud")
    keyboard.press("Tab")
    keyboard.press("ControlOrMeta+a")
    keyboard.type("Answer in capital letters.")
    tab_to("Add as variant")
    keyboard.press("Enter")
    root.get_by_text("Added the variant “loud”").wait_for()
    tab_to("Run")
    keyboard.press("Space")
    root.get_by_text("9 of 9 answered.").wait_for()
    # A button loses the focus while it is disabled, and must get it back.
    page.page.wait_for_function("() => document.activeElement.textContent.trim() === 'Run'")
    expect(root.get_by_role("grid")).to_contain_text("A SESSION IS")
    rate_by_keyboard(page, root)
    opener = root.get_by_role("button", name="Save or load")
    opener.focus()
    before = root.bounding_box()
    keyboard.press("Enter")
    expect(root.get_by_label("File")).to_be_focused()
    root.get_by_label("File").fill("tried.json")
    keyboard.press("Tab")
    assert focused() == "Save"
    keyboard.press("Enter")
    root.get_by_text("Saved to tried.json").wait_for()
    assert root.bounding_box() == before, "nothing moves for what floats"
    expect(root.get_by_role("button", name="Save", exact=True)).to_be_focused()  # disabled while it worked
    keyboard.press("Escape")
    expect(root.get_by_label("File")).to_be_hidden()
    expect(opener).to_be_focused()


def rate_by_keyboard(page: Page, root: Locator) -> None:
    cells, keyboard = len(page.cells()), page.page.keyboard
    reply = root.get_by_role("gridcell", name="Reply of loud").first
    reply.focus()
    for key in ("a", "+", "n"):  # "a" would add a cell if it reached the notebook
        keyboard.press(key)
    keyboard.type("too loud")
    keyboard.press("Escape")
    expect(reply.get_by_role("button", name="Good reply")).to_have_attribute("aria-pressed", "true")
    assert len(page.cells()) == cells


def try_a_new_agent(page: Page) -> None:
    """The first prompt of an agent without a version, in an empty workspace."""
    page.show_cell(2).get_by_text("[3]:", exact=True).wait_for()
    root = page.page.locator(".jp-OutputArea .ab-chat.ab-lab").nth(1)
    root.scroll_into_view_if_needed()
    root.get_by_text("newcomer has no version yet: type a prompt").wait_for()
    expect(root.locator(".ab-lab-guide li")).to_have_count(3)
    root.get_by_label("Name of the variant").fill("first")
    root.get_by_label("System prompt").fill(BRIEF)
    root.get_by_role("button", name="Add as variant").click()
    root.get_by_text("Added the variant “first”").wait_for()
    root.get_by_label("Test inputs, one per line").fill("What is {{topic}}?")
    (page.lab.root / "rows.csv").write_text("topic\na session\n")
    with page.page.expect_file_chooser() as chooser:
        root.get_by_role("button", name="Rows from CSV").click()
    chooser.value.set_files(page.lab.root / "rows.csv")
    root.get_by_text("The first message: “What is a session?”").wait_for()
    root.get_by_role("button", name="Run", exact=True).click()
    root.get_by_text("1 of 1 answered.").wait_for()
    look_narrow(page, root)
    # It ran on a draft.
    root.get_by_text("newcomer has no version yet").wait_for()
    edit_and_apply_the_winner(page, root)
    assert root.locator(".ab-lab-status .ab-failed").count() == 0
    # In the reopened notebook, only the first lab is checked.
    page.page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 2; }")
    page.command("notebook:clear-cell-output")


def edit_and_apply_the_winner(page: Page, root: Locator) -> None:
    """An edited variant is run again; it is applied from the results, and undone."""
    root.get_by_role("button", name="Edit").click()
    expect(root.get_by_label("Name of the variant")).to_have_value("first")
    expect(root.get_by_label("System prompt")).to_have_value(BRIEF)
    expect(root.get_by_label("System prompt")).to_be_focused()
    root.get_by_label("System prompt").fill(POINTS)
    root.get_by_label("System prompt").press("ControlOrMeta+Enter")  # save, and run
    root.get_by_text("1 earlier reply is kept as a revision.").wait_for()
    root.get_by_text("1 of 1 answered.").wait_for()
    expect(root.get_by_label("System prompt")).to_be_focused()
    root.get_by_role("button", name="Results: 1 of 1").click()
    expect(root.locator(".ab-lab-results")).to_be_focused()
    root.get_by_role("button", name="Show the complete reply").click()
    expect(root.locator(".ab-r-earlier")).to_contain_text("Earlier, with “Answer in one sentence.")
    # It ran on a draft, so this is the first version.
    root.get_by_label("Winner").select_option("first")
    root.get_by_role("button", name="Apply the winner").click()
    root.get_by_text("There is no earlier version to go back to.").wait_for()
    root.get_by_role("button", name="Apply it").click()
    root.get_by_text("Applied “first”: the agent now runs on version").wait_for()
    root.get_by_role("button", name="Duplicate").click()
    # The form shows the copy a moment later.
    expect(root.get_by_label("Name of the variant")).to_have_value("first copy")
    expect(root.get_by_label("System prompt")).to_have_value(POINTS)
    root.get_by_label("Name of the variant").fill("second")
    root.get_by_label("System prompt").fill("Answer in capital letters.")
    root.get_by_role("button", name="Save and run").click()
    root.get_by_text("2 of 2 answered.").wait_for()
    root.get_by_label("Winner").select_option("second")
    root.get_by_role("button", name="Apply the winner").click()
    root.get_by_text("newcomer will run on “second” instead of version").wait_for()
    page.screenshot("prompt-lab-winner")
    expect(root.get_by_role("button", name="Apply it")).to_be_focused()
    page.page.keyboard.press("Escape")
    expect(root.get_by_role("button", name="Apply the winner")).to_be_focused()
    page.page.keyboard.press("Enter")
    root.get_by_role("button", name="Apply it").click()
    root.get_by_text("Applied “second”: the agent now runs on version").wait_for()
    root.get_by_role("button", name="Undo").click()
    root.get_by_text("Undone: the agent runs on its earlier configuration").wait_for()


def look_narrow(page: Page, root: Locator) -> None:
    size = page.page.viewport_size
    assert size is not None
    page.page.set_viewport_size({"width": 400, "height": 1000})
    root.locator(".ab-lab-results").scroll_into_view_if_needed()
    page.screenshot("prompt-lab-400")
    assert axe_violations(root) == []
    page.page.set_viewport_size(size)


def check_themes(page: Page, root: Locator) -> None:
    look_in_all_ways(page, root, "prompt-lab")


def reopen_without_kernel(lab: Lab, page: Page) -> None:
    page.wait_for_notebook_text("ab-static")
    page.save()
    assert lab.secret() not in (lab.root / "prompts.ipynb").read_text()
    page.end_kernel()
    page.reload()
    text = page.static_transcript("Prompt lab of acme~scribe", "How do I stream events?", "3 of 3", "A SESSION IS")
    assert "<img src=x" in text
    assert page.page.evaluate("() => window.pwned") is None
    page.screenshot("prompt-lab-reopened")


SEARCH = """
import agentbook as ab
import time
questions = [f"What is a {each}?" for each in (
    "session", "turn", "draft", "scope", "label", "skill", "store", "topic", "version", "credential", "workspace", "key")]
search = ab.PromptLab(ab.connect(), agent="acme~scribe", workspace="acme~playground", inputs=questions)
search.add_variant("now", system_prompt="Answer questions about the platform.")
def sourced(reply):
    time.sleep(0.1)
    return "Source" in reply
search.check({"sourced": sourced})
search
"""


def test_find_a_better_prompt_with_stop_and_continue(lab: Lab, page: Page) -> None:
    write_notebook(lab.root / "search.ipynb", [SEARCH])
    page.open("search.ipynb")
    page.hide_file_browser()
    page.start_run_all()
    root = page.page.locator(".jp-OutputArea .ab-chat.ab-lab").first
    root.get_by_role("button", name="Better prompts").click()
    root.get_by_label("Proposer").fill("acme~scribe")
    find = root.get_by_role("button", name="Find a better prompt")
    find.click()
    root.locator(".ab-stop:visible").last.click()
    root.get_by_text("Stopped, so there is no verdict").wait_for()
    find.click()
    root.get_by_text("is better than now at").wait_for()
    expect(root.locator(".ab-lab-suggestion")).to_contain_text("Name your sources.")
    root.locator(".ab-lab-suggestion").scroll_into_view_if_needed()
    page.screenshot("prompt-lab-better")
    assert axe_violations(root) == []
    page.page.set_viewport_size({"width": 400, "height": 1000})
    root.locator(".ab-lab-suggestion").scroll_into_view_if_needed()
    page.screenshot("prompt-lab-better-400")
    page.page.set_viewport_size({"width": 1200, "height": 1000})
    root.get_by_role("button", name="Add as variant").last.click()
    expect(root.get_by_role("checkbox", name=re.compile(r"now \d"))).to_be_visible()
    root.get_by_role("button", name="Suggest").click()
    root.get_by_text("there is nothing to mend").wait_for()
    assert page.errors == []
