"""What a panel keeps out of the way: it shows what a person needs now."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from browser.panels import CONNECT, PANEL, Panel, box_of, in_all_ways
from support.lab import Lab, Page, axe_violations, write_notebook

pytestmark = pytest.mark.browser


def test_a_panel_is_silent_until_something_happens(lab: Lab, page: Page) -> None:
    write_notebook(lab.root / "silence.ipynb", [CONNECT, PANEL.format(name="slow", agent="slow", height=300)])
    page.open("silence.ipynb")
    page.run_all()
    panel = Panel(page, 1)
    line, start = (panel.root.locator(f".ab-{part}") for part in ("statusline", "empty"))
    expect(start.locator("p")).to_contain_text(["seconds", "@"])  # what it does, and what can be attached
    expect(start.locator(".ab-initial")).to_have_text("S")
    expect(panel.status).to_have_text("Ready.")
    expect(line).to_be_hidden()
    panel.box.press_sequentially("@below")  # where there is nothing
    expect(panel.root.locator(".ab-mentions")).to_contain_text("Nothing has this name.")
    panel.box.fill("")
    log, shown, before = box_of(panel.log), box_of(start), box_of(panel.root)
    middle = shown["y"] + shown["height"] / 2
    assert abs(middle - (log["y"] + log["height"] / 2)) < 12, "what an empty log says stands in its middle"
    frame = panel.root.locator(".ab-logframe")
    height = frame.evaluate("each => { const was = each.style.height; each.style.height = '70px'; return was; }")
    assert box_of(start)["y"] >= box_of(panel.log)["y"], "where it does not fit, it is read from its beginning"
    frame.evaluate("(each, was) => { each.style.height = was; }", height)
    page.screenshot("panel-silent-empty")
    panel.send("2")
    expect(line).to_be_visible()
    assert box_of(panel.root)["height"] == before["height"], "the line takes its room from the log"
    panel.wait_for_reply(1, "That took")
    expect(line).to_be_hidden()
    assert axe_violations(panel.root) == []


def test_what_can_be_done_with_a_message_is_a_row_of_icons_and_two_stops_of_tab(lab: Lab, page: Page) -> None:
    panel_cell = PANEL.format(name="echo", agent="echo", height=420).replace("agent=", "labels='calm-labels', agent=")
    ask = "for n in range(4): echo.ask(f'Question {n}: [a link](https://stray.example) and `code`', timeout_s=60)"
    write_notebook(lab.root / "icons.ipynb", [CONNECT, panel_cell, ask])
    page.open("icons.ipynb")
    page.run_all()
    panel, keyboard = Panel(page, 1), page.page.keyboard
    panel.wait_for_reply(4, "Question 3")
    page.show_cell(1)
    last = panel.root.locator(".ab-agent").last
    row = [box_of(last.get_by_role("button", name=name)) for name in ("Copy", "Ask again", "Good", "Bad")]
    assert len({box["y"] for box in row}) == 1
    assert all(box["width"] <= 28 for box in row), "icons, and no words"
    composer, said = box_of(panel.root.locator(".ab-composer")), box_of(panel.questions.last)
    assert abs(said["x"] + said["width"] - composer["x"] - composer["width"]) < 2
    expect(last).to_have_css("background-color", "rgba(0, 0, 0, 0)")
    last.get_by_role("button", name="Good").click()
    expect(last.get_by_role("button", name="Good")).to_have_attribute("aria-pressed", "true")
    expect(last.get_by_role("button", name="Good")).to_be_focused()
    time = panel.root.locator(".ab-me time").last
    assert time.evaluate("time => getComputedStyle(time).opacity") == "0"
    panel.root.locator(".ab-me").last.get_by_role("button", name="Edit").focus()
    expect(time).to_have_css("opacity", "1")
    panel.box.focus()
    expect(time).to_have_css("opacity", "0")
    panel.questions.last.hover()
    expect(time).to_have_css("opacity", "1")
    expect(time).to_contain_text("today")
    page.screenshot("panel-icons")

    panel.box.focus()
    presses = 0
    while not panel.button("Sessions").evaluate("each => each === document.activeElement"):
        keyboard.press("Shift+Tab")
        presses += 1
        assert presses <= 4
    panel.log.focus()
    keyboard.press("Tab")
    expect(last.get_by_role("button", name="Bad")).to_be_focused()  # where one was before
    keyboard.press("ArrowLeft")
    expect(last.get_by_role("button", name="Good")).to_be_focused()
    for _ in range(4):
        keyboard.press("ArrowUp")
    expect(panel.root.locator(".ab-me").last.get_by_role("button", name="Edit")).to_be_focused()
    keyboard.press("Tab")
    expect(panel.box).to_be_focused()
    assert axe_violations(panel.root) == []


# How far the log is from its end, and its last question from the top, as painted:
# what observes the log's size has been told.
PAINTED = """log => new Promise(done => new ResizeObserver((_, own) => {
  own.disconnect();
  const top = [...log.querySelectorAll('.ab-me')].at(-1).getBoundingClientRect().top;
  done([Math.abs(log.scrollTop), top - log.getBoundingClientRect().top]);
}).observe(log))"""


def test_a_question_goes_to_the_top_and_its_reply_grows_below(lab: Lab, page: Page) -> None:
    write_notebook(lab.root / "reading.ipynb", [CONNECT, PANEL.format(name="echo", agent="echo", height=300)])
    page.open("reading.ipynb")
    page.run_all()
    panel = Panel(page, 1)
    long = "\n\n".join(f"Paragraph {n} of many." for n in range(25))

    def above_the_question() -> float:
        from_the_end, above = panel.log.evaluate(PAINTED)
        assert from_the_end < 2, "a full view follows the end"
        return float(above)

    panel.send("The first one")
    panel.wait_for_reply(1, "The first one")
    for n, words in enumerate(("Short", "Short again"), 2):
        panel.send(words)
        expect(panel.questions).to_have_count(n)
        assert 0 <= above_the_question() < 20
        panel.wait_for_reply(n, words)
        assert 0 <= above_the_question() < 20, "it stays where it is while the reply comes"
    page.screenshot("panel-question-on-top")
    panel.send(long)
    panel.wait_for_reply(4, "Paragraph 24")
    assert above_the_question() < 0
    panel.log.evaluate("log => { log.scrollTop = -200; }")
    expect(panel.button("Jump to the end")).to_be_visible()
    panel.send("A last one")
    panel.wait_for_reply(5, "A last one")
    expect(panel.button("Jump to the end")).to_be_hidden()
    assert 0 <= above_the_question() < 20


BACKGROUND = "each => getComputedStyle(each).backgroundColor"
ENTER_EVERYWHERE = """() => document.querySelectorAll('.jp-CodeCell textarea').forEach(box =>
  box.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true, cancelable: true})))"""


def test_one_box_holds_the_text_what_can_be_attached_and_send_or_stop(lab: Lab, page: Page) -> None:
    table = "import pandas as pd\norders = pd.DataFrame({'email': ['a@example.com']})\nslow.attach(orders, 'orders')"
    slow = PANEL.format(name="slow", agent="slow", height=300)
    write_notebook(lab.root / "composer.ipynb", [CONNECT, slow, table, "slow"])
    page.open("composer.ipynb")
    page.run_all()
    page.show_cell(1)
    panel = Panel(page, 1)
    expect(panel.box).to_have_attribute("placeholder", re.compile("@"))
    card = panel.root.locator(".ab-attached")
    card.locator("summary").click()
    expect(card.locator("summary")).to_have_text(re.compile(r"orders 1 row × 1 column, .* masked$"))
    expect(card.locator("th, td")).to_have_text(["email", "[…]"])
    expect(card.get_by_text("Masked: an e-mail address")).to_be_visible()
    page.screenshot("panel-attached-table")
    card.get_by_role("button", name="Remove orders").click()
    expect(card).to_have_count(0)
    expect(panel.box).to_be_focused()
    assert box_of(panel.box)["height"] < 40
    empty = panel.button("Send").evaluate(BACKGROUND)
    panel.box.fill("\n" * 4)
    assert box_of(panel.box)["height"] > 80, "it grows"
    expect(panel.box).to_have_css("resize", "none")
    buttons = panel.root.locator(".ab-composer").get_by_role("button")
    expect(buttons).to_have_text(["Attach", "Send"])
    assert all(box_of(button)["width"] <= 32 for button in buttons.all()), "icons"
    panel.box.fill("Look at")
    expect(panel.button("Send")).not_to_have_css("background-color", empty)  # there is something to send
    panel.button("Attach").click()
    expect(panel.box).to_have_value("Look at @")
    for name in ("orders", "composer.ipynb", "the cell above"):
        expect(panel.root.get_by_role("option").filter(has_text=name)).to_be_attached()
    page.screenshot("panel-composer")
    panel.page.keyboard.press("Escape")
    panel.box.fill("2")
    other = Panel(page, 3)
    other.box.fill("mine")
    before, send = box_of(panel.box), box_of(panel.button("Send"))
    page.page.evaluate(ENTER_EVERYWHERE)
    expect(other.box).to_have_value("mine")
    expect(other.root.get_by_text("another message is being answered")).to_be_visible()
    expect(panel.button("Stop")).to_be_visible()
    assert (box_of(panel.button("Stop"))["x"], box_of(panel.box)["width"]) == (send["x"], before["width"])
    panel.wait_for_reply(1, "That took")
    expect(panel.button("Send")).to_be_visible()
    assert axe_violations(panel.root) == []
    panel.send("1")
    panel.button("Stop").click()
    expect(panel.root.get_by_text("The agent finished after Stop")).to_be_visible()  # which cannot end it
    page.screenshot("panel-late")


SESSIONS = """import sys
begun = client.sessions.start("acme~playground", agent_id="acme~echo", prompt="Begun first")
ab.Compare(client, "acme~playground", ["guide", "echo"]).ask("Compared words")
client.sessions.ask(begun, "Said last")
[key] = !{sys.executable} -m agentbook keys create --account acme --name desk --scope all
ab.connect(client.base_url, api_key=key).sessions.start("acme~playground", agent_id="acme~echo", prompt="By another");"""


def test_nothing_moves_for_what_floats_over_the_log_and_the_head_is_one_row(lab: Lab, page: Page) -> None:
    cells = [CONNECT, PANEL.format(name="echo", agent="echo", height=300), SESSIONS]
    write_notebook(lab.root / "overlays.ipynb", cells)
    page.open("overlays.ipynb")
    page.hide_file_browser()
    page.run_all()
    panel, keyboard = Panel(page, 1), page.page.keyboard
    page.show_cell(1)
    place = box_of(panel.button("Sessions"))
    panel.send("Hello, " + "on a page that is narrow " * 4)
    panel.wait_for_reply(1, "Hello")
    assert box_of(panel.button("Sessions")) == place, "it stays as the others appear"
    head = panel.root.locator(".ab-head").get_by_role("button")
    expect(head).to_have_text(["New session", "Sessions", "More"])
    assert all(box_of(button)["width"] <= 32 for button in head.all()), "icons"
    before = [box_of(part) for part in (panel.root, panel.box, panel.log)]
    again = panel.log.get_by_role("button", name="Ask again")
    openers = {"Sessions": panel.button("Sessions"), "More": panel.button("More"), "Ask again": again}
    for name, opener in openers.items():
        opener.click()
        overlay = panel.root.get_by_role("group", name=name)
        expect(overlay).to_be_visible()
        assert [box_of(part) for part in (panel.root, panel.box, panel.log)] == before
        shown, frame = box_of(overlay), before[0]
        assert shown["x"] >= frame["x"]
        assert shown["y"] + shown["height"] <= frame["y"] + frame["height"]
        if name == "Sessions":
            look_at_the_sessions(page, overlay)
        if name == "Ask again":  # at its button
            button = box_of(again)
            assert min(abs(shown["y"] - button["y"] - 30), abs(shown["y"] + shown["height"] - button["y"])) < 12
            assert overlay.evaluate("each => each.scrollHeight <= each.clientHeight"), "all of it is seen"
        page.screenshot(f"panel-over-{name.lower()}")
        assert axe_violations(panel.root) == []
        keyboard.press("Escape")
        expect(overlay).to_be_hidden()
        expect(opener).to_be_focused()
    panel.button("More").click()
    panel.box.click()
    expect(panel.root.get_by_role("group", name="More")).to_be_hidden()  # a press elsewhere closes it, too
    page.page.set_viewport_size({"width": 400, "height": 900})
    page.show_cell(1)
    assert box_of(panel.root.locator(".ab-head"))["height"] < 48
    expect(panel.box).to_have_attribute("placeholder", "Message echo")  # without what takes another line
    assert axe_violations(panel.root) == []


def look_at_the_sessions(page: Page, overlay: Locator) -> None:
    """By day and last message, comparisons as one row, others' on demand and last."""
    today = overlay.get_by_role("list", name="Today", exact=True)
    expect(today.get_by_role("listitem")).to_contain_text(["Hello", "Begun first", "Compared words"])
    compared = today.get_by_role("listitem").filter(has_text="Compared words")
    expect(compared).to_have_text([re.compile("comparison")])
    time, search = box_of(today.locator(".ab-entry-time").first), box_of(overlay.get_by_role("searchbox"))
    assert abs(time["x"] + time["width"] - search["x"] - search["width"]) < 2, "no room is kept for what is hidden"
    expect(overlay.get_by_text("by desk")).to_have_count(0)
    page.screenshot("panel-sessions-mine")
    overlay.get_by_role("checkbox", name="Sessions of others, too").check()
    expect(overlay.get_by_role("list", name="Today · others")).to_contain_text("by desk")
    names = overlay.get_by_role("list").evaluate_all("all => all.map(each => each.getAttribute('aria-label'))")
    assert names[0] == "Today" != names[1]
    assert names == sorted(names, key=lambda name: name.endswith(" · others"))


# As in a page that has no theme of JupyterLab.
WITHOUT_THEME = """root => {
  for (const { cssText } of [...document.styleSheets].flatMap(each => [...each.cssRules]))
    for (const [name] of cssText.matchAll(/--jp-[\\w-]+/g)) root.style.setProperty(name, 'initial');
}"""

DARKEN = {  # VS Code, Colab
    "body": "body => body.classList.toggle('vscode-dark')",
    "html": "html => html.toggleAttribute('theme') && html.setAttribute('theme', 'dark')",
}


def test_a_panel_can_be_read_in_every_look(lab: Lab, page: Page) -> None:
    reply = "# A\n\n| n |\n|--|\n| 1 |\n\n```python\nx = 'y'  # z\n```\n\n[a link](https://stray.example) `code`"
    panel_cell = PANEL.format(name="echo", agent="echo", height=420).replace("agent=", "labels='look-labels', agent=")
    attach = "import pandas as pd\necho.attach(pd.DataFrame({'email': ['a@example.com'] * 60}), 'orders');"
    write_notebook(lab.root / "looks.ipynb", [CONNECT, panel_cell, f"_ = echo.ask({reply!r}, timeout_s=60)", attach])
    page.open("looks.ipynb")
    page.hide_file_browser()
    page.run_all()
    panel = Panel(page, 1)
    page.show_cell(1)
    panel.root.locator(".ab-attached summary").click()

    def look(name: str) -> None:
        panel.button("Sessions").click()
        expect(panel.root.locator(".ab-entry").first).to_be_visible()
        page.screenshot(f"panel-look-{name}-sessions")
        assert axe_violations(panel.root) == [], name
        page.page.keyboard.press("Escape")
        page.screenshot(f"panel-look-{name}")
        assert axe_violations(panel.root) == [], name
        assert panel.root.evaluate("root => root.scrollWidth - root.clientWidth") <= 1, name

    for way in in_all_ways(page, panel.root):
        look(way)
    panel.root.evaluate(WITHOUT_THEME)
    for name, darken in DARKEN.items():
        page.page.locator(name).evaluate(darken)
        assert panel.root.evaluate(BACKGROUND) == "rgb(33, 33, 33)", name
        look(name)
        page.page.locator(name).evaluate(darken)
    assert panel.root.evaluate(BACKGROUND) == "rgb(255, 255, 255)"
