"""The chat panel in use: by keyboard, by mouse and by screen reader."""

from __future__ import annotations

import re
import secrets

import pytest
from playwright.sync_api import Locator, Route, expect

from browser.panel_pages import (
    read_the_export,
    reload_with_a_running_kernel,
    reopen_with_all_sessions_and_formulas,
    restart,
    restart_the_kernel,
)
from browser.panels import CONNECT, PANEL, Panel, box_of
from support.lab import Lab, Page, axe_violations, write_notebook
from support.notebook7 import EACH_APPLICATION

pytestmark = pytest.mark.browser

CODE = 'def greet(name):\n    return f"Hello, {name}"  # ' + "a long line " * 15
REPLY = rf"""# Energy

The area is $\pi r^2$, and \(e^{{i\pi}}+1=0\). It costs $5 and $10.

$$
\int_0^\infty e^{{-x^2}}\,dx = \frac{{\sqrt{{\pi}}}}{{2}}
$$

Long: $a_1 + a_2 + a_3 + a_4 + a_5 + a_6 + a_7 + a_8 + a_9 + a_{{10}} + a_{{11}} + a_{{12}} + a_{{13}}$.

- [x] `done`
- [ ] open

| name | value |
|:--|--:|
| $x_1$ | 12 |

```python
{CODE}
```

![a cat](http://stray.example/cat.png), $\href{{http://stray.example}}{{x}}$ and [a link](http://stray.example/a).
"""


def test_a_person_uses_the_panel(lab: Lab, page: Page) -> None:
    mark = secrets.token_hex(4)  # the sessions of earlier tests are listed too
    reply = REPLY.replace("Energy", f"Energy {mark}")
    ask = f"first = echo.ask({reply!r}, timeout_s=60)\nfirst.status"
    cells = [CONNECT, PANEL.format(name="echo", agent="echo", height=600), ask]
    cells += [PANEL.format(name="slow", agent="slow", height=260)]
    cells += [PANEL.format(name="lost", agent="nobody-of-that-name", height=160)]
    cells += ['ab.ChatPanel(client, session="0199a0b2-0000-7000-8000-000000000000", height="120px")', "echo"]
    write_notebook(lab.root / "panel.ipynb", cells)
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.open("panel.ipynb")
    page.run_all()
    page.hide_file_browser()
    echo, slow, lost = Panel(page, 1), Panel(page, 3), Panel(page, 4)
    echo.root.scroll_into_view_if_needed()

    check_formulas_and_that_nothing_is_fetched(echo)
    copy_code_and_messages(echo, reply)
    edit_a_message(echo)
    use_the_keyboard(echo)
    check_that_the_log_scrolls_to_the_end_only_from_the_end(echo)
    start_a_session_and_return_to_the_old_one(echo, mark)
    open_a_session_at_a_turn(page, echo)
    export_the_conversation(page, echo)
    allow_pictures(page, echo)

    slow.root.scroll_into_view_if_needed()
    stop_by_escape_and_listen_again(slow)
    lost.root.scroll_into_view_if_needed()
    check_a_refusal(lost)
    gone = Panel(page, 5)
    gone.root.scroll_into_view_if_needed()
    check_that_a_missing_session_is_reported_in_full(gone)

    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        page.set_theme(theme)
        for name, panel in (("echo", echo), ("slow", slow), ("refused", lost), ("gone", gone)):
            panel.root.scroll_into_view_if_needed()
            page.screenshot(f"panel-{name}-{theme.split()[-1].lower()}")
            assert axe_violations(panel.root) == []
    assert page.errors == []
    check_that_no_key_reaches_the_notebook(page, echo)
    reload_with_a_running_kernel(page)
    restart_the_kernel(page)
    reopen_with_all_sessions_and_formulas(page)
    read_the_export(lab, page, lab.root / "panel.ipynb")


@EACH_APPLICATION
def test_each_cell_goes_on_after_a_restart(lab: Lab, page: Page) -> None:
    cells = [CONNECT, *(PANEL.format(name=name, agent="echo", height=260) for name in ("one", "two"))]
    write_notebook(lab.root / "continue.ipynb", cells)
    page.open("continue.ipynb")
    page.run_all()
    panels = {cell: f"{secrets.token_hex(4)} in cell {cell}" for cell in (2, 1)}
    for cell, words in panels.items():
        Panel(page, cell).send(words)
        Panel(page, cell).wait_for_reply(1, words)
    name = f"Bad day <b>{secrets.token_hex(4)}"
    name_the_session(page, Panel(page, 1), panels[1], name)
    restart(page)
    page.run_all()
    for cell, words in panels.items():
        again = Panel(page, cell).root.locator(".ab-start").first
        title = name if cell == 1 else words
        expect(again).to_have_text(re.compile(rf"^Continue: {title} (today|yesterday) \d\d:\d\d$"))
        page.screenshot(f"panel-continue-{cell}")
        again.click()
        expect(Panel(page, cell).questions).to_have_text([words])
        expect(Panel(page, cell).box).to_be_focused()
    forget_the_session(page, Panel(page, 1), panels[1], name)
    assert page.execution_counts() == [1, 2, 3], "no key reached the notebook"
    assert page.errors == []


def name_the_session(page: Page, panel: Panel, words: str, name: str) -> None:
    panel.root.scroll_into_view_if_needed()
    panel.button("Sessions").click()
    panel.button(f"Rename or forget: {words}").focus()
    panel.page.keyboard.press("Enter")
    box = panel.root.get_by_role("textbox", name=f"Name of {words}")
    expect(box).to_be_focused()
    panel.page.keyboard.type(name)
    page.screenshot("panel-name")
    assert axe_violations(panel.root) == []
    panel.page.keyboard.press("Enter")
    expect(panel.root.locator(".ab-entry[aria-current]")).to_be_focused()
    expect(panel.root.locator(".ab-entry[aria-current]")).to_contain_text(name)
    expect(panel.root.locator(".ab-session")).to_contain_text(name)
    panel.page.keyboard.press("Escape")


def forget_the_session(page: Page, panel: Panel, words: str, name: str) -> None:
    expect(panel.root.locator(".ab-session")).to_contain_text(name)
    panel.button("Sessions").click()
    panel.root.get_by_role("searchbox").fill(name)
    expect(panel.root.locator(".ab-entry")).to_have_count(1)
    panel.button(f"Rename or forget: {name}").click()
    panel.page.keyboard.press("Escape")
    expect(panel.button(f"Rename or forget: {name}")).to_be_focused()
    panel.page.keyboard.press("Enter")
    panel.button("Forget").click()
    expect(panel.root.get_by_role("searchbox")).to_be_focused()
    expect(panel.root.locator(".ab-entry")).to_have_count(0)
    panel.root.get_by_role("searchbox").fill(words)
    expect(panel.button(f"Rename: {words}")).to_be_visible()
    expect(panel.root.locator(".ab-session")).to_contain_text(words)
    page.screenshot("panel-forgotten")


def check_that_no_key_reaches_the_notebook(page: Page, panel: Panel) -> None:
    panel.root.scroll_into_view_if_needed()
    before = page.execution_counts()
    for part in (panel.log, panel.button("Send"), panel.button("Sessions")):
        part.focus()
        for key in ("a", "b", "d", "d", "x", "z", "Shift+Enter" if part is panel.log else "y"):
            panel.page.keyboard.press(key)
        expect(part).to_be_focused()
    panel.box.fill("")
    panel.box.press("ArrowUp")
    expect(panel.box).to_have_value("A message of my own leads to the end.")
    panel.box.press("Shift+Enter")
    panel.box.press("Control+s")
    panel.page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    assert page.execution_counts() == before
    panel.box.fill("")


def check_formulas_and_that_nothing_is_fetched(panel: Panel) -> None:
    panel.wait_for_reply(1, "Energy")
    reply = panel.replies.first
    expect(reply.locator("mjx-container")).to_have_count(5)
    expect(reply.locator(".ab-display mjx-container")).to_have_count(1)
    words = reply.inner_text()
    for part in ("It costs $5 and $10.", "☑ done", "☐ open", r"$\href{http://stray.example}{x}$"):
        assert part in words
    assert reply.locator(".hl-k").first.evaluate("word => getComputedStyle(word).color") not in (
        panel.root.evaluate("panel => getComputedStyle(panel).color"),
        "",
    )
    assert reply.locator("img").count() == 0
    for link in reply.locator("a").all():
        assert (link.get_attribute("target"), link.get_attribute("rel")) == ("_blank", "noopener noreferrer")


def clipboard(panel: Panel) -> str:
    return str(panel.page.evaluate("() => navigator.clipboard.readText()"))


def copied(panel: Panel, button: Locator, label: str) -> str:
    button.focus()
    expect(button).to_have_attribute("title", f"Copy this {label}")
    panel.page.keyboard.press("Enter")
    expect(button).to_have_text("Copied")
    return clipboard(panel)


def copy_code_and_messages(panel: Panel, reply: str) -> None:
    assert copied(panel, panel.replies.first.locator(".ab-copy"), "code") == CODE + "\n"
    assert copied(panel, panel.root.locator(".ab-foot .ab-copy"), "message") == reply.strip()
    # navigator.clipboard exists only on pages from localhost or over https.
    panel.page.evaluate("() => Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true})")
    button = panel.root.locator(".ab-me .ab-copy")
    expect(button).to_have_text("Copy")
    button.focus()
    panel.page.keyboard.press("Space")
    expect(button).to_have_text("Copied")
    expect(button).to_be_focused()
    panel.page.evaluate("() => { delete navigator.clipboard; }")
    assert clipboard(panel) == reply


def edit_a_message(panel: Panel) -> None:
    panel.send("What is a sesion?")
    panel.wait_for_reply(2, "What is a sesion?")
    edit = panel.root.locator(".ab-me").last.get_by_role("button", name="Edit")
    edit.focus()
    assert "the platform cannot change a sent message" in (edit.get_attribute("title") or "")
    panel.box.press_sequentially("a draft")
    edit.focus()
    panel.page.keyboard.press("Enter")
    expect(panel.box).to_be_focused()
    expect(panel.box).to_have_value("What is a sesion?")
    panel.page.keyboard.press("Control+z")
    expect(panel.box).to_have_value("a draft")
    panel.page.keyboard.press("Control+Shift+z")
    expect(panel.box).to_have_value("What is a sesion?")
    panel.box.fill("What is a session?")
    panel.button("Send").focus()
    panel.page.keyboard.press("Enter")
    expect(panel.box).to_be_focused()
    panel.wait_for_reply(3, "What is a session?")
    expect(panel.questions).to_have_text([re.compile("Energy"), "What is a sesion?", "What is a session?"])
    expect(panel.box).to_have_value("")


def use_the_keyboard(panel: Panel) -> None:
    panel.box.fill("")
    panel.box.press_sequentially("one")
    panel.box.press("Shift+Enter")
    panel.box.press_sequentially("two")
    expect(panel.box).to_have_value("one\ntwo")
    # In an input method, Enter chooses a word; isComposing is set, or the key code is
    # 229.
    for composing in ("{isComposing: true}", "{keyCode: 229}"):
        event = f"Object.assign({{key: 'Enter', bubbles: true, cancelable: true}}, {composing})"
        panel.box.evaluate(f"box => box.dispatchEvent(new KeyboardEvent('keydown', {event}))")
    assert panel.questions.count() == 3
    panel.box.press("Enter")
    panel.wait_for_reply(4, "one\ntwo")
    expect(panel.box).to_be_focused()
    # Tab reaches every control, and Shift+Tab leaves the input.
    panel.box.press("Shift+Tab")
    assert panel.root.evaluate("root => root.contains(document.activeElement)")
    unreachable = "all => all.filter(each => each.checkVisibility() && !each.disabled && each.tabIndex < 0).length"
    assert panel.root.locator("button, select, textarea, summary, a[href]").evaluate_all(unreachable) == 0


def check_that_the_log_scrolls_to_the_end_only_from_the_end(panel: Panel) -> None:
    def above_the_end() -> float:
        distance: float = panel.log.evaluate("log => Math.abs(log.scrollTop)")
        return distance

    assert above_the_end() < 2
    top = panel.root.locator(".ab-me").first
    panel.log.evaluate("log => { log.scrollTop = -log.scrollHeight; }")
    before = box_of(top)
    panel.page.evaluate(
        """code => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel
            .requestExecute({code, store_history: false}).done.then(() => true)""",
        "echo.ask('Something that comes meanwhile.', timeout_s=60)",
    )
    panel.wait_for_reply(5, "comes meanwhile")
    assert abs(box_of(top)["y"] - before["y"]) < 1
    panel.send("A message of my own leads to the end.")
    panel.wait_for_reply(6, "leads to the end")
    assert above_the_end() < 2


def start_a_session_and_return_to_the_old_one(panel: Panel, mark: str) -> None:
    new = panel.button("New session")
    new.focus()
    panel.page.keyboard.press("Enter")
    # An empty panel says who the agent is, and offers messages to begin with.
    start = panel.root.locator(".ab-start").first
    expect(start).to_be_visible()
    expect(panel.box).to_be_focused()
    words = start.inner_text()
    panel.box.fill("Hello again")  # a draft stays where it is
    start.click()
    panel.wait_for_reply(1, words)
    expect(panel.box).to_have_value("Hello again")
    new.click()
    panel.box.press("Enter")
    panel.wait_for_reply(1, "Hello again")
    choose_session(panel, f"sesion {mark}", "Energy")
    expect(panel.replies).to_have_count(6)
    expect(panel.replies.first.locator("mjx-container")).to_have_count(5)
    choose_session(panel, "", "Hello again")
    expect(panel.questions).to_have_text(["Hello again"])
    choose_session(panel, f"energy {mark}", "Energy")
    expect(panel.replies).to_have_count(6)


def choose_session(panel: Panel, words: str, title: str) -> None:
    """Find a session by words in it, and open it by keyboard."""
    panel.button("Sessions").click()
    search = panel.root.get_by_role("searchbox", name="Find a session")
    expect(search).to_be_focused()
    entries = panel.root.locator(".ab-entry:not(.ab-hit)")
    expect(entries.first).to_be_visible()
    if words:
        search.fill(words)
        expect(entries).to_have_count(1)
    search.press("ArrowDown")
    expect(entries.first).to_be_focused()
    entry = entries.filter(has_text=title).first
    entry.focus()
    panel.page.keyboard.press("Enter")
    expect(search).to_be_hidden()
    expect(panel.box).to_be_focused()


def open_a_session_at_a_turn(page: Page, panel: Panel) -> None:
    choose_session(panel, "", "Hello again")
    panel.button("Sessions").click()
    panel.root.get_by_role("searchbox", name="Find a session").fill("sesion")
    hit = panel.root.locator(".ab-hit")
    expect(hit.locator("mark")).to_have_text("sesion")
    page.screenshot("panel-find")
    assert axe_violations(panel.root) == []
    hit.focus()
    panel.page.keyboard.press("Enter")
    found = panel.root.locator(".ab-turn[aria-current]")
    expect(found).to_be_focused()
    expect(found).to_contain_text("What is a sesion?")
    distance = "turn => turn.getBoundingClientRect().top - turn.closest('.ab-log').getBoundingClientRect().top"
    assert 0 <= found.evaluate(distance) < 20
    page.screenshot("panel-found")
    assert axe_violations(panel.root) == []
    panel.page.keyboard.press("d")
    panel.page.keyboard.press("d")
    expect(found).to_be_focused()


def export_the_conversation(page: Page, panel: Panel) -> None:
    form = panel.menu("Export as Markdown")
    expect(form).to_be_focused()
    page.screenshot("panel-export")
    assert axe_violations(panel.root) == []
    with panel.page.expect_download() as saved:
        panel.page.keyboard.press("Enter")
    assert re.fullmatch(r"echo-\d{4}-\d\d-\d\d\.md", saved.value.suggested_filename)
    text = saved.value.path().read_text("utf-8")
    assert text.startswith("# Conversation with echo")
    assert text.count("## You") == 6
    expect(panel.button("More")).to_be_focused()
    expect(form).to_be_hidden()


def allow_pictures(page: Page, panel: Panel) -> None:
    # The picture is served here, because only the time of its request matters.
    requests: list[str] = []

    def answer(route: Route) -> None:
        requests.append(route.request.url)
        route.fulfill(
            content_type="image/svg+xml", body='<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
        )

    panel.page.route("http://stray.example/**", answer)
    switch = panel.replies.first.get_by_role("button", name="Load pictures")  # at the picture
    switch.focus()
    assert "can reveal the conversation to its server" in (switch.get_attribute("title") or "")
    assert requests == []
    panel.page.keyboard.press("Enter")
    expect(panel.log).to_be_focused()
    picture = panel.replies.first.get_by_role("img", name="a cat")
    picture.scroll_into_view_if_needed()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 9
    assert requests == ["http://stray.example/cat.png"]
    panel.menu("Hide pictures").click()
    expect(panel.replies.first.locator("img")).to_have_count(0)
    panel.page.unroute("http://stray.example/**")
    page.outside_requests.remove("http://stray.example/cat.png")


def stop_by_escape_and_listen_again(panel: Panel) -> None:
    # The agent thinks for 4 seconds, then writes for about as long.
    panel.send("4")
    expect(panel.root.locator(".ab-chip.ab-running")).to_be_visible()
    expect(panel.box).to_be_focused()
    panel.box.press("Escape")
    expect(panel.root.locator(".ab-agent .ab-foot")).to_contain_text("The agent may still finish")
    again = panel.button("Listen again")
    again.focus()
    panel.page.keyboard.press("Enter")
    expect(panel.button("Stop")).to_be_visible()
    # The focus stays in a cell in which the person is working in the meantime.
    elsewhere = panel.page.locator(".jp-CodeCell .cm-content").last
    elsewhere.evaluate("editor => editor.focus({preventScroll: true})")
    panel.wait_for_reply(1, "That took 4.0 seconds")
    expect(elsewhere).to_be_focused()
    expect(again).to_be_hidden()
    panel.root.locator(".ab-steps > summary").focus()
    panel.page.keyboard.press("Enter")
    expect(panel.root.locator(".ab-step-name").first).to_be_visible()


def check_that_a_missing_session_is_reported_in_full(panel: Panel) -> None:
    expect(panel.root.locator(".ab-empty")).to_have_text("The session could not be read.")
    failure = panel.root.locator(".ab-notice .ab-failed")
    expect(failure).to_contain_text("Session not found")
    edge = panel.root.evaluate("root => root.getBoundingClientRect().right")
    for part in (failure, panel.button("Reconnect")):
        box = box_of(part)
        assert box["x"] + box["width"] <= edge, "it extends beyond the panel"


def check_a_refusal(panel: Panel) -> None:
    panel.send("Is anybody there?")
    expect(panel.root.locator(".ab-failed")).to_contain_text("Not found")
    expect(panel.root.locator(".ab-failed")).to_contain_text("Request ")
    expect(panel.button("Try again")).to_be_visible()
    expect(panel.button("Send")).to_be_enabled()
