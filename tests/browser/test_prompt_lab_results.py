"""The prompt lab's table of results, in a separate page with a simulated kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from agentbook.chat.assets import read_style
from agentbook.chat.html.style import live_css
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.results import ResultsTable
from agentbook.chat.prompt_lab.rows import ResultRows
from agentbook.evaluation.experiment import Answer
from agentbook.evaluation.model import Grade
from chat.prompt_lab.lab_platform import make_lab
from support.browser import take_picture
from support.lab import axe_violations

pytestmark = pytest.mark.browser

VARIANTS = ("now", "brief", "points", "table")
HOSTILE = "<img src=x onerror=window.pwned=1><script>window.pwned=2</script>"
DARK = """:root { --jp-layout-color1: #111; --jp-content-font-color1: #eee; --jp-border-color2: #555; --jp-brand-color1: #64b5f6;
  --jp-error-color1: #e57373; --jp-success-color1: #81c784; }"""
KERNEL = """async ([module, snapshot]) => {
  const url = URL.createObjectURL(new Blob([module], { type: 'text/javascript' }));
  const { initialize, render } = (await import(url)).default();
  const listeners = {};
  window.sent = [];
  window.reply = (message) => (listeners['msg:custom'] ?? []).forEach((listener) => listener(message));
  window.restarted = () => (listeners.comm_live_update ?? []).forEach((listener) => listener());
  const model = {
    get: () => snapshot,
    on: (event, listener) => (listeners[event] ??= []).push(listener),
    off: () => {},
    send: (message) => {
      window.sent.push(message);
      window.kernel(message).then((reply) => { if (reply) window.reply(reply); });
    },
  };
  initialize({ model });
  window.render = () => render({ el: document.getElementById('place') });
  window.render();
}"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1200, "height": 900}, reduced_motion="reduce")
    yield page
    page.close()


def lab_of(inputs: int) -> PromptLab:
    """A lab whose replies are made up: some fail checks, and the variants disagree."""
    lab = make_lab()
    for name in VARIANTS:
        lab.add_variant(name, f"You are {name}.")
    lab.check({"Source": "Source", "session": "session"})
    lab.inputs = [f"Question {n} about sessions?" for n in range(inputs)]
    for number, text in enumerate(lab.inputs):
        for position, name in enumerate(VARIANTS):
            reply = f"**{name}** says that a session is a conversation, no. {number}.\n\n- It has events.\n- It ends."
            passed = (number + position) % 5 != 0
            answer = Answer(name, text, status="answered", reply=reply, latency_s=1.0 + (number * 7 + position) % 13)
            answer.verdicts = {"Source": Grade(passed), "session": Grade(True, 0.25 * ((number + position) % 5))}
            lab._lab.record(answer)
    return lab


class Kernel:
    """Answers the page as the form does, without threads."""

    def __init__(self, page: Page, lab: PromptLab) -> None:
        self.page, self.lab = page, lab
        self.rows = ResultRows(lab._lab, "seed")
        self.rows.changes(None)

    def answer(self, message: dict[str, Any]) -> dict[str, Any] | None:
        if message.get("do") == "hello":
            snapshot = self.rows.snapshot()
            return {"kind": "welcome"} if message["version"] == snapshot["version"] else snapshot
        match message["kind"]:
            case "bodies":
                return self.rows.bodies(message["rows"], message["against"])
            case "details":
                return self.rows.details(message["row"], message["variant"], message["repeat"])
            case "vote":
                key = self.rows.key(message["row"], message["variant"], message["repeat"])
                assert key is not None
                self.lab.rate(key, message["thumb"], message["note"])
                return self.rows.changes({key[1]})
        return None

    def send_changes(self, changed: set[str] | None = None) -> None:
        self.page.evaluate("message => window.reply(message)", self.rows.changes(changed))


Show = Callable[[PromptLab], tuple[Kernel, Locator]]


@pytest.fixture
def show(page: Page) -> Show:
    kernels: list[Kernel] = []

    def show(lab: PromptLab) -> tuple[Kernel, Locator]:
        kernels.append(Kernel(page, lab))
        styles = f"{live_css()} {read_style('lab/form.css')} {ResultsTable._css}"
        page.set_content(f'<style>{styles}</style><div class="ab-chat ab-module ab-lab"><div id="place"></div></div>')
        page.evaluate(KERNEL, [ResultsTable._esm, kernels[-1].rows.snapshot()])
        return kernels[-1], page.locator(".ab-results")

    page.expose_function("kernel", lambda message: kernels[-1].answer(message))
    return show


def first_input(table: Locator) -> Locator:
    """The input of the first row, once it is filled."""
    first = table.locator(".ab-r-body-rows .ab-r-input").first
    expect(first).not_to_be_empty()
    return first


def test_read_filter_sort_compare_and_rate(show: Show, page: Page) -> None:
    lab = lab_of(12)
    lab._lab.record(Answer("now", HOSTILE, status="failed", reason=HOSTILE))
    _, table = show(lab)
    expect(table.get_by_role("status")).to_have_text("13 inputs")
    expect(table.get_by_role("columnheader")).to_have_count(5)
    row = table.get_by_role("row").nth(1)
    expect(row.locator(".ab-md strong")).to_have_text(list(VARIANTS))
    take_picture(page, "prompt-lab-table-light")
    assert axe_violations(table) == []
    # Which rows
    table.get_by_role("button", name="Failures").click()
    expect(table.get_by_role("status")).to_have_text("10 of 13 inputs")
    table.get_by_role("button", name="All 1").click()
    table.get_by_role("searchbox").fill("no. 11")
    expect(table.get_by_role("status")).to_have_text("1 of 13 inputs")
    table.get_by_role("searchbox").fill("")
    table.get_by_label("Sort by").select_option("latency")
    slowest = first_input(table).inner_text()
    table.get_by_role("button", name="Reverse the order").click()
    expect(first_input(table)).not_to_have_text(slowest)
    table.get_by_label("Sort by").select_option("input")
    table.get_by_label("Sort by").select_option("Source")
    expect(first_input(table)).to_contain_text("Question")
    # What of it
    table.get_by_label("Show", exact=True).select_option("differences from now")
    expect(row.locator(".ab-ins").first).to_be_visible()
    take_picture(page, "prompt-lab-table-differences")
    table.get_by_label("Show", exact=True).select_option("replies")
    cell = row.locator("[role=gridcell]").nth(1)
    cell.get_by_role("button", name="Show the complete reply").click()
    expect(cell.locator("dl")).to_contain_text("Latency")
    # What people say
    cell.get_by_role("button", name="Bad reply").click()
    expect(cell.get_by_role("button", name="Bad reply")).to_have_attribute("aria-pressed", "true")
    cell.get_by_role("button", name="Add a note").click()
    page.keyboard.type("misses the point")
    page.keyboard.press("Escape")
    expect(cell).to_be_focused()
    rated = [(answer.variant, answer.thumb, answer.note) for answer in lab._lab.answers if answer.note]
    assert rated == [("brief", False, "misses the point")]
    assert page.evaluate("() => window.pwned") is None
    # A restarted kernel no longer answers; what the page has read is kept.
    page.evaluate("() => window.restarted()")
    expect(table.get_by_role("alert")).to_contain_text("again to continue.")
    expect(row).to_be_visible()


def test_blind_rating_tells_nothing_of_the_variant(show: Show, page: Page) -> None:
    _, table = show(lab_of(12))
    table.get_by_label("Blind").check()
    expect(table.locator(".ab-check")).to_have_count(0)
    expect(table.locator(".ab-r-row .ab-md")).to_have_count(48)
    text = table.inner_text()
    assert "Reply A" in text
    orders = table.locator(".ab-r-row .ab-md").all_inner_texts()
    firsts = {body.split()[0] for body in orders[::4]}
    assert len(firsts) > 1, "in each row another order"
    assert "passed" not in text
    expect(table.get_by_label("Show", exact=True)).to_be_disabled()
    take_picture(page, "prompt-lab-table-blind")


def test_the_keyboard_reaches_everything(show: Show, page: Page) -> None:
    lab = lab_of(30)
    _, table = show(lab)
    keyboard = page.keyboard
    page.evaluate("() => document.addEventListener('keydown', (event) => { window.leaked = event.key; })")
    first = table.locator(".ab-r-body-rows .ab-r-cell").first
    first.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "-", "n"):
        keyboard.press(key)
    keyboard.type("a note")
    keyboard.press("Escape")
    expect(table.locator("[role=gridcell]:focus")).to_have_count(1)
    rated = [(answer.variant, answer.input, answer.thumb, answer.note) for answer in lab._lab.answers if answer.note]
    assert rated == [("brief", lab.inputs[1], False, "a note")]
    keyboard.press("Enter")
    expect(table.locator(".ab-r-details")).to_have_count(1)
    keyboard.press("End")
    expect(table.get_by_text(lab.inputs[29])).to_be_in_viewport()
    focused = page.evaluate("() => document.activeElement.getAttribute('aria-label')")
    assert focused == "Reply of brief"
    assert page.evaluate("() => window.leaked") is None


def test_changes_arrive_while_it_is_read(show: Show, page: Page) -> None:
    lab = lab_of(6)
    kernel, table = show(lab)
    expect(table.locator(".ab-md").first).to_be_visible()
    note = table.locator("[role=gridcell]").first.get_by_role("button", name="Add a note")
    note.click()
    page.keyboard.type("half a no")
    answer = lab._lab.answers[0]
    answer.reply = "Another **reply**."
    kernel.send_changes({answer.input})
    expect(table.locator(".ab-md").first).to_have_text("Another reply.")
    page.keyboard.type("te")
    page.keyboard.press("Escape")
    expect(table.locator("[role=gridcell]:focus")).to_have_count(1)
    assert lab._lab.answers[0].note == "half a note"
    # A page that missed a message asks for everything.
    lab._lab.record(Answer("now", "lost", status="answered", reply="lost"))
    kernel.rows.changes(None)
    lab._lab.record(Answer("now", "new", status="asking"))
    kernel.send_changes()
    expect(table.get_by_role("status")).to_have_text("8 inputs")
    expect(table).to_contain_text("asking…")
    lab.remove_variant("table")
    kernel.send_changes()
    expect(table.get_by_role("columnheader")).to_have_count(4)


def test_a_thousand_cells_are_drawn_where_they_are_looked_at(show: Show, page: Page) -> None:
    _, table = show(lab_of(250))
    expect(table.locator(".ab-md").first).to_be_visible()
    assert table.get_by_role("grid").get_attribute("aria-rowcount") == "251"
    assert table.locator(".ab-r-row").count() < 100
    assert table.locator(".ab-md").count() < 120, "only rows near the view are filled"
    scroller = table.locator(".ab-r-scroll")
    before = table.locator(".ab-r-row").count()
    page.wait_for_function(
        "([box, before]) => { box.scrollTop = box.scrollHeight; return box.querySelectorAll('.ab-r-row').length > before; }",
        arg=[scroller.element_handle(), before],
    )
    table.locator(".ab-r-body-rows .ab-r-cell").first.focus()
    page.keyboard.press("End")
    last = table.locator(".ab-r-row").last
    expect(last.locator(".ab-r-reply")).to_have_count(4)
    expect(last).to_be_in_viewport()
    assert table.locator(".ab-r-row").count() == 251


def test_dark_and_narrow(show: Show, page: Page) -> None:
    _, table = show(lab_of(5))
    page.add_style_tag(content=DARK + " body { background: #111; }")
    expect(table.locator(".ab-md").first).to_be_visible()
    take_picture(page, "prompt-lab-table-dark")
    assert axe_violations(table) == []
    page.set_viewport_size({"width": 400, "height": 900})
    expect(table.locator(".ab-r-who").first).to_be_visible()
    assert table.evaluate("root => root.scrollWidth <= root.clientWidth")
    assert table.locator(".ab-r-scroll").evaluate("box => box.scrollWidth <= box.clientWidth")
    take_picture(page, "prompt-lab-table-400")
