"""The panel in states that a first look does not show, and in unusual pages."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest
from playwright.sync_api import Locator, expect

from browser.panels import CONNECT, PANEL, Panel, box_of
from support.lab import Lab, Page, axe_violations, write_notebook

pytestmark = pytest.mark.browser

STEPS = """data = ab.ChatPanel(client, workspace="acme~playground", agent="guide", height="420px")
data.ask("How do I stream a session?")
data"""
CUT = "turn_timeout"  # the run limit that begins a reply, and fails
# Instead of 20 seconds.
SHORT_PATIENCE = "from agentbook.chat.html import message_html\nmessage_html.SILENCE_S = 1.0\n%load_ext agentbook"
MAGIC = "%%chat echo -w acme~playground --with orders\nWhat is this?"
ATTACH = 'import pandas as pd\norders = pd.DataFrame({"id": [7, 8]})\nprint(echo.attach(orders, "orders"))'
# Two turns, with an event every three seconds. The agent asks a sub-agent, which uses a
# tool.
REPLAY = """
def event(n, type, content, task="t0", **more):
    author = {"type": "api_key"} if type == "message" else {"type": "agent", "name": "guide"}
    return {"id": f"0199a0b2-0000-7000-8000-{n:012x}", "type": type, "content": content, "author": author,
            "task_id": task, "created_at": f"2026-10-03T08:15:{3 * n:02}Z", **more}

def step(name, **more):
    return {"name": name, "started_at": "2026-10-03T08:15:04Z", "ended_at": "2026-10-03T08:15:05Z", **more}

sql = step("sql", kind="tool", arguments={"query": "SELECT 1"}, error="no such table", parent_id="t1")
helper = step("helper", kind="task", arguments={"message": "How many?"}, result="7")
reply = "One.[^1]\\n\\n```mermaid\\ngraph TD; A-->B\\n```\\n\\n[^1]: As counted."
events = [event(1, "message", {"text": "First?"}), event(2, "runtime_done", {}, "t2", step=sql),
          event(3, "runtime_done", {}, "t1", step=helper), event(4, "runtime_done", {"text": reply}),
          event(5, "message", {"text": "Second?"}), event(6, "runtime_done", {"text": "Two."})]
recording = ab.replay(events, height="300px")
recording.pause()
recording
"""
# Elements that are wider than their box, except those that scroll.
OVERFLOWING = """root => [root, ...root.querySelectorAll('*')]
  .filter(each => each.checkVisibility() && each.scrollWidth > each.clientWidth + 1
    && getComputedStyle(each).overflowX === 'auto' && !each.matches('pre, .ab-table, .ab-math, .ab-math *'))
  .map(each => each.className)"""
# A policy of the page's server would do the same, from the beginning.
FORBID = """() => {
  const policy = document.createElement('meta');
  policy.httpEquiv = 'Content-Security-Policy';
  policy.content = "script-src 'self' 'unsafe-eval' 'unsafe-inline'";
  document.head.append(policy);
}"""


def animation(dot: Locator) -> str:
    name: str = dot.evaluate("dot => getComputedStyle(dot).animationName")
    return name


def test_states_of_the_panel(lab: Lab, page: Page) -> None:
    slow = PANEL.format(name="slow", agent="slow", height=260)
    cells = [CONNECT, STEPS, slow, PANEL.format(name="echo", agent="echo", height=160), ATTACH, REPLAY]
    cells += [
        f"import os\nprint(os.getpid())\n{SHORT_PATIENCE}",
        PANEL.format(name="cut", agent="limits", height=260),
        MAGIC,
    ]
    write_notebook(lab.root / "states.ipynb", cells)
    page.open("states.ipynb")
    page.hide_file_browser()
    page.run_all()
    kernel = int(page.output_text(6))
    open_the_steps(page, Panel(page, 1))
    read_what_is_attached(page, Panel(page, 3))
    control_a_replay(page, Panel(page, 5))
    read_what_a_turn_left(page, Panel(page, 5))
    read_a_turn_that_was_cut(page, Panel(page, 7))
    expect(Panel(page, 8).questions).to_contain_text("orders")
    withdraw_a_message_after_stop(page, Panel(page, 2))
    assert page.errors == []
    lose_the_kernel_amid_a_turn(lab, page, Panel(page, 2), kernel)


def test_a_panel_without_its_agent_says_so_before_the_first_message(lab: Lab, page: Page) -> None:
    compare = 'ab.Compare(client, "acme~plyground", agents=["guide", "scrbe"], height="240px")'
    cells = [CONNECT, PANEL.format(name="missing", agent="giude", height=240), compare]
    write_notebook(lab.root / "missing.ipynb", cells)
    page.open("missing.ipynb")
    page.run_all()
    panel, comparison = Panel(page, 1), Panel(page, 2)
    expect(panel.log).to_contain_text("Did you mean 'guide'?")
    expect(panel.status).to_have_text("Not ready.")
    expect(panel.root.locator(".ab-statusline")).to_be_hidden()
    expect(comparison.log).to_contain_text("Did you mean 'scribe'?")
    expect(comparison.log).to_contain_text("Did you mean 'acme~playground'?")
    assert axe_violations(panel.root) == []
    assert axe_violations(comparison.root) == []
    panel.send("Hi")  # the platform has the last word
    expect(panel.root).to_contain_text("Failed.")


def open_the_steps(page: Page, panel: Panel) -> None:
    panel.root.scroll_into_view_if_needed()
    panel.root.locator(".ab-steps > summary").focus()
    panel.page.keyboard.press("Enter")
    step = panel.root.locator("details.ab-step").first
    expect(step.locator("summary")).to_be_visible()
    step.locator("summary").focus()
    panel.page.keyboard.press("Enter")
    text = step.locator("pre").first
    text.evaluate("text => { text.style.maxHeight = '20px'; text.focus(); }")
    panel.page.keyboard.press("ArrowDown")
    expect(text).to_be_focused()  # the arrows scroll it
    expect(step).to_contain_text("query")
    expect(step).to_contain_text("Result")
    assert panel.root.evaluate(OVERFLOWING) == []
    panel.log.evaluate("log => { log.scrollTop = -log.scrollHeight; }")
    page.screenshot("panel-steps")
    assert axe_violations(panel.root) == []


def read_what_is_attached(page: Page, panel: Panel) -> None:
    panel.root.scroll_into_view_if_needed()
    attached = panel.root.locator(".ab-attached")
    expect(attached.locator("summary")).to_have_text("orders 2 rows × 1 column, 6 characters")
    attached.locator("summary").click()
    expect(attached.locator("th, td")).to_have_text(["id", "7", "8"])
    expect(attached.locator("td").last).to_have_css("text-align", "right")
    page.screenshot("panel-attached")
    assert axe_violations(panel.root) == []
    panel.box.press_sequentially("What is this?")
    panel.box.press("Enter")
    panel.wait_for_reply(1, "orders")
    expect(attached).to_have_count(0)
    expect(panel.questions.first).to_contain_text("What is this?")
    expect(panel.questions.first.locator("details")).not_to_have_attribute("open", re.compile(""))
    page.screenshot("panel-attached-sent")


def control_a_replay(page: Page, panel: Panel) -> None:
    panel.root.scroll_into_view_if_needed()
    controls = page.cell(5).locator(".ab-playback")
    expect(panel.box).to_be_hidden()
    expect(panel.button("Sessions")).to_be_hidden()
    toggle = controls.get_by_role("button")
    expect(toggle).to_contain_text("Play")
    controls.get_by_role("combobox").select_option("10×")
    toggle.click()
    expect(panel.replies).to_have_count(2)
    expect(panel.replies.last).to_have_text("Two.")
    expect(toggle).to_contain_text("again")
    # Go to the beginning with the keyboard.
    handle = controls.get_by_role("slider")
    handle.focus()
    for key in ("a", "Home"):  # one adds a cell where the notebook hears it
        page.page.keyboard.press(key)
    expect(panel.questions).to_have_count(1)
    expect(controls).to_contain_text("0.0 of 15.0 s")
    page.screenshot("panel-replay")
    toggle.click()
    expect(panel.replies).to_have_count(2)
    page.page.set_viewport_size({"width": 400, "height": 800})
    handle.scroll_into_view_if_needed()
    page.screenshot("panel-replay-narrow")
    assert axe_violations(panel.root) == []
    assert box_of(handle)["width"] > 60
    page.page.set_viewport_size({"width": 1200, "height": 1000})


def read_what_a_turn_left(page: Page, panel: Panel) -> None:
    first = panel.replies.first
    expect(first).to_contain_text("As counted.")
    code = first.locator(".ab-code")
    expect(code).to_contain_text("graph TD; A-->B")
    expect(code.get_by_role("button", name="Copy")).to_be_attached()
    assert first.locator("svg").count() == 0, "a diagram is not drawn: its code could do anything"
    expect(panel.root.locator(".ab-steps > summary").first).to_have_text("2 steps, 1 failed")
    panel.root.locator(".ab-steps > summary").first.click()
    nested = panel.root.locator(".ab-step-list ul details.ab-step")
    nested.locator("summary").click()
    expect(nested).to_contain_text("SELECT 1")
    expect(panel.root.locator(".ab-step-list > li")).to_have_count(1)
    page.screenshot("panel-nested-steps")
    assert axe_violations(panel.root) == []


def read_a_turn_that_was_cut(page: Page, panel: Panel) -> None:
    panel.root.scroll_into_view_if_needed()
    panel.send(CUT)
    expect(panel.root.locator(".ab-failed")).to_contain_text("TURN_TIMEOUT")
    expect(panel.root.locator(".ab-failed")).to_have_css("font-size", "14px")  # as the reply
    expect(panel.replies).to_have_text(["Let me look into that"])
    expect(panel.root.locator(".ab-agent")).to_contain_text("Incomplete: the reply was cut off here.")
    expect(panel.root.locator(".ab-failed")).to_have_count(1)
    expect(panel.status).to_have_text("Failed.")
    expect(panel.root.locator(".ab-statusline")).to_be_hidden()
    page.screenshot("panel-cut")
    assert axe_violations(panel.root) == []
    panel.button("Try again").click()
    expect(panel.questions).to_have_count(2)
    expect(panel.replies).to_have_text(["Let me look into that"] * 2)


def withdraw_a_message_after_stop(page: Page, panel: Panel) -> None:
    panel.root.scroll_into_view_if_needed()
    panel.send("60")
    expect(panel.root.locator(".ab-chip.ab-running")).to_be_visible()
    assert animation(panel.root.locator(".ab-statusline .ab-dot")) == "none"
    page.page.emulate_media(reduced_motion="no-preference")
    assert animation(panel.root.locator(".ab-statusline .ab-dot")) == "ab-pulse"
    page.page.emulate_media(reduced_motion="reduce")
    expect(panel.root.locator(".ab-statusline")).to_contain_text("No response for ")
    expect(panel.status).not_to_have_text(re.compile(r"\d"))  # the seconds are not read aloud
    page.screenshot("panel-silent")
    expect(panel.button("Send")).to_be_hidden()  # Stop is in its place
    expect(panel.button("Stop")).to_be_visible()
    panel.box.press("Escape")
    expect(panel.root.locator(".ab-agent .ab-foot")).to_contain_text("The agent may still finish")
    panel.send("Never mind.")
    expect(panel.root.locator(".ab-statusline")).to_contain_text("Waiting for the previous turn to end (")
    expect(panel.questions).to_have_count(2)
    page.screenshot("panel-waiting")
    assert axe_violations(panel.root) == []
    panel.button("Withdraw").click()
    expect(panel.box).to_have_value("Never mind.")
    expect(panel.questions).to_have_count(1)
    panel.box.fill("")


def lose_the_kernel_amid_a_turn(lab: Lab, page: Page, panel: Panel, kernel: int) -> None:
    panel.root.scroll_into_view_if_needed()
    panel.button("New session").click()
    panel.send("Wait for 60 seconds, please.")
    expect(panel.root.locator(".ab-chip.ab-running")).to_be_visible()
    page.wait_for_notebook_text("Wait for 60 seconds, please.")
    os.kill(kernel, signal.SIGKILL)
    expect(panel.root.get_by_role("alert")).to_contain_text("again to continue.")
    expect(panel.questions).to_have_text(["Wait for 60 seconds, please."])
    expect(panel.root.locator(".ab-me .ab-copy")).to_be_attached()
    expect(panel.root.locator(".ab-edit")).to_be_hidden()  # nothing can be sent
    page.page.locator(".jp-Dialog").get_by_role("button", name="Ok").click()  # JupyterLab says so, too
    page.screenshot("panel-kernel-lost")
    assert axe_violations(panel.root) == []
    page.save()
    saved = json.dumps(json.loads((lab.root / "states.ipynb").read_text())["cells"][2]["outputs"])
    assert "Wait for 60 seconds, please." in saved
    assert "There is no reply yet." in saved


def test_where_modules_are_forbidden_the_copy_says_what_to_do_and_code_asks(lab: Lab, page: Page) -> None:
    panel_cell = PANEL.format(name="echo", agent="echo", height=240)
    boxed = 'import ipywidgets\nipywidgets.VBox([ab.ChatPanel(client, workspace="acme~playground", agent="echo")])'
    write_notebook(lab.root / "forbidden.ipynb", [CONNECT, panel_cell, 'echo.ask("Hello").status', boxed])
    page.open("forbidden.ipynb")
    try:
        page.page.evaluate(FORBID)
        page.run_all()
        page.cell(2).get_by_text("'answered'").wait_for()
        copy = page.cell(1).locator(".ab-static")
        expect(copy.locator(".ab-agent")).to_contain_text("Hello")
        assert page.cell(1).locator(".ab-module").count() == 0
        assert any("blob:" in line and "Content Security Policy" in line for line in page.console)
        for cell in (1, 3):
            said = page.cell(cell).locator(".ab-static").evaluate("each => getComputedStyle(each, '::before').content")
            assert "agentbook doctor" in said
        page.screenshot("panel-forbidden")
    finally:
        page.close_notebooks()
        page.page.goto("about:blank")  # the policy ends with the page


BOXED = """
import ipywidgets as widgets
panels = [ab.ChatPanel(client, workspace="acme~playground", agent=name, height="200px") for name in ("echo", "gude")]
first = globals().get("first", panels[0])
{box}
"""


def test_a_panel_in_a_box_is_as_good_as_one_by_itself(lab: Lab, page: Page) -> None:
    boxes = ("widgets.VBox(panels)", "widgets.Tab(panels, titles=['one', 'two'])")
    asked = '[panel.ask("Hello").status for panel in (first, panels[0])]'
    write_notebook(lab.root / "boxed.ipynb", [CONNECT, *(BOXED.format(box=box) for box in boxes), asked])
    page.open("boxed.ipynb")
    page.run_all()
    assert page.output_text(3) == "['answered', 'answered']"
    for number in (1, 2):
        cell = page.show_cell(number)
        expect(cell.locator(".ab-chat").first.locator(".ab-agent")).to_contain_text("Hello")
        if number == 2:
            cell.get_by_role("tab", name="two").click()
        expect(cell.locator(".ab-chat").nth(1)).to_contain_text("Did you mean 'guide'?")
        for static in cell.locator(".ab-static").all():
            expect(static).to_be_hidden()
        page.screenshot(f"boxed-{number}")
    page.save()
    for cell in json.loads((lab.root / "boxed.ipynb").read_text())["cells"][1:3]:
        saved = [output["data"]["text/html"] for output in cell["outputs"] if "text/html" in output["data"]]
        assert len(saved) == 2
        assert "Hello" in "".join(saved[0])
