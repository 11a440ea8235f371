"""Pages that do not run the panel's module get plain widgets, and others do not."""

from __future__ import annotations

from typing import Any

import pytest

from agentbook.chat.panel import ChatPanel
from agentbook.chat.widgets import page_check
from agentbook.chat.widgets.page_check import PageCheck
from agentbook.chat.widgets.page_view import MAX_REPLACED
from agentbook.chat.widgets.panel import PanelView
from chat.fakes import FakePlatform, echo
from chat.panels import PagePerson, click, draw_now, eventually, on_loop, widgets_in


class Timers:
    """Collects what a check plans, instead of waiting."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.planned: list[Any] = []
        monkeypatch.setattr(page_check.loop, "get_loop", lambda: self)

    def call_soon_threadsafe(self, work: Any, *arguments: Any) -> None:
        work(*arguments)

    def call_later(self, _delay_s: float, work: Any) -> Any:
        self.planned.append(work)
        return self

    def cancel(self) -> None:
        self.planned.clear()

    def pass_time(self) -> None:
        planned, self.planned = self.planned, []
        for work in planned:
            work()


class Checked:
    """A check, and what it did."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.probe: Any = None
        self.check = PageCheck(
            self.show_probe,
            lambda: self.did.append("replaced"),
            lambda: self.did.append("fell back"),
            lambda: self.did.append("recovered"),
        )

    def show_probe(self, probe: Any) -> None:
        self.probe = probe


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    return Timers(monkeypatch)


def test_a_page_that_says_hello_is_asked_nothing(timers: Timers) -> None:
    checked = Checked()
    checked.check.begin()
    checked.check.hello("a", 1)
    timers.pass_time()
    assert (checked.did, checked.probe) == ([], None)


def test_without_any_page_nothing_happens(timers: Timers) -> None:
    checked = Checked()
    checked.check.begin()
    for _ in range(5):
        timers.pass_time()
    assert checked.did == []
    assert checked.probe.playing is True  # a page would count


def test_a_page_that_counts_but_says_nothing_gets_plain_widgets(
    timers: Timers, caplog: pytest.LogCaptureFixture
) -> None:
    checked = Checked()
    checked.check.begin()
    timers.pass_time()
    assert checked.probe.playing is False  # the page first has to show it
    timers.pass_time()
    checked.probe.value = 1
    assert checked.did == ["fell back"]
    assert "agentbook doctor" in caplog.text
    checked.check.hello("slow", 1)
    assert checked.did == ["fell back", "recovered"]


def test_a_page_that_does_not_hear_gets_another_widget(timers: Timers, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = Checked()
    now = [0.0]
    monkeypatch.setattr(page_check.time, "monotonic", lambda: now[0])
    for n in range(MAX_REPLACED + 1):
        for count in (1, 2, 3):
            checked.check.hello(f"page {n}", count)
            now[0] += 4.0
    assert checked.did == ["replaced"] * MAX_REPLACED + ["fell back"]


def test_repeated_hellos_that_a_busy_kernel_reads_at_once_are_no_deafness(timers: Timers) -> None:
    checked = Checked()
    for count in range(1, 9):
        checked.check.hello("busy", count)
    assert checked.did == []


def test_the_plain_view_reads_and_sends(platform: FakePlatform, panel: ChatPanel) -> None:
    panel.ask("First")
    on_loop(panel._views.switch.show_plain)
    assert not any(isinstance(widget, PanelView) for widget in widgets_in(panel))

    def values() -> str:
        draw_now(panel)
        return " ".join(value for widget in widgets_in(panel) if isinstance(value := getattr(widget, "value", ""), str))

    assert "You said: First" in values()
    assert "onload" not in values()
    named = {getattr(widget, "description", ""): widget for widget in widgets_in(panel)}
    named["Message"].value = "Second"
    click(named["Send"])
    eventually(panel, lambda: [turn.status for turn in panel.conversation.turns] == ["answered"] * 2)
    assert "You said: Second" in values()
    assert named["Message"].value == ""
    platform.answer = lambda platform, text: platform.fail("no")
    named["Message"].value = "Third"
    click(named["Send"])
    eventually(panel, lambda: [turn.status for turn in panel.conversation.turns][-1] == "failed")
    assert "no" in values()
    platform.answer = echo
    retry = [widget for widget in widgets_in(panel) if getattr(widget, "description", "") == "Try again"][-1]
    click(retry)
    eventually(panel, lambda: panel.conversation.turns[-1].status == "answered")
    assert "You said: Third" in values()
    panel.attach("a note")
    draw_now(panel)
    assert "a note" in named["Message"].value

    on_loop(panel._views.switch.show_page)
    assert [isinstance(child, PanelView) for child in panel.children] == [True]


def test_a_new_widget_for_a_page_that_does_not_hear_shows_everything(panel: ChatPanel) -> None:
    panel.ask("First")
    before = panel.children[0]
    on_loop(panel._views.switch.replace_page)
    [widget] = panel.children
    assert widget is not before
    assert before.comm is None
    state = widget.get_state()["_snapshot"]
    assert "You said: First" in state["turns"][0][1]["body"]
    sent = PagePerson(panel).record()
    widget._handle_custom_msg({"do": "hello", "page": "p", "count": 1, "version": -1}, [])
    widget._handle_custom_msg({"do": "hello", "page": "p", "count": 1, "version": state["version"]}, [])
    assert [each["kind"] for each in sent] == ["snapshot", "welcome"]


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"do": None},
        {"do": "hello"},
        {"do": "hello", "page": 1, "count": "1", "version": None},
        {"do": "send"},
        {"do": "send", "text": 7, "number": "1"},
        {"do": "send", "text": "x", "number": None},
        {"do": "retry", "turn": "t99"},
        {"do": "retry", "turn": ["t1"]},
        {"do": "session", "session": None},
        {"do": "find", "search": 1, "number": "1"},
        {"do": "export", "suffix": ".md", "number": 1},
        {"do": "collect", "turn": "t1", "confirm": "yes", "number": "1"},
        {"do": "eval", "text": "1"},
        ["do"],
        "stop",
        None,
    ],
)
def test_garbage_from_a_page_is_ignored(panel: ChatPanel, message: Any) -> None:
    panel._views.page.chat.widget._handle_custom_msg(message, [])
    draw_now(panel)
    assert panel.conversation.exchanges == []
