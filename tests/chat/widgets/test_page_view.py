"""Widgets with a module: snapshots on demand, and another widget for a stale page."""

from __future__ import annotations

from typing import Any

import anywidget
import pytest

from agentbook.chat.panel import ChatPanel
from agentbook.chat.widgets import page_view
from agentbook.chat.widgets.page_view import MAX_REPLACED, OnHello, PageView, PageViewBox
from chat.panels import PagePerson, draw_now, on_loop


class Shown(PageView):
    _esm = "export default {}"


class Numbered:
    """A state with a version, shown in a box."""

    def __init__(self) -> None:
        self.version = 3
        self.messages: list[dict[str, Any]] = []
        self.box = PageViewBox(self.make)

    def make(self, on_hello: OnHello) -> Shown:
        return Shown(lambda: {"kind": "snapshot", "version": self.version}, self.messages.append, on_hello, "A number")

    def hello(self, count: int, version: int = 3) -> None:
        self.box._view._handle_custom_msg({"do": "hello", "page": "p", "count": count, "version": version}, [])


def test_a_page_that_does_not_hear_gets_another_widget(monkeypatch: pytest.MonkeyPatch) -> None:
    numbered = Numbered()
    now = [0.0]
    monkeypatch.setattr(page_view.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(page_view.loop, "get_loop", lambda: Soon())
    shown = [numbered.box._view]
    for _ in range(MAX_REPLACED + 2):
        for count in (1, 2, 3):
            numbered.hello(count)
            now[0] += 4.0
        if numbered.box._view is not shown[-1]:
            shown.append(numbered.box._view)
    assert len(shown) == 1 + MAX_REPLACED
    assert [view.comm is None for view in shown] == [True] * MAX_REPLACED + [False]
    numbered.box.close()
    assert shown[-1].comm is None


def test_marimo_is_given_an_anywidget() -> None:
    """marimo shows no boxes of ipywidgets, but what `_display_` returns."""
    box = Numbered().box
    assert isinstance(box._display_(), anywidget.AnyWidget)
    assert box._display_() is box._view
    box.close()


class Soon:
    """The toolkit's loop, which works at once here."""

    def call_soon_threadsafe(self, work: Any, *arguments: Any) -> None:
        work(*arguments)


def test_a_new_widget_for_a_stale_page_shows_everything(panel: ChatPanel, monkeypatch: pytest.MonkeyPatch) -> None:
    panel.ask("First")
    before = panel.children[0]
    monkeypatch.setattr(page_view, "STALE_S", -1.0)
    for count in (1, 2, 3):
        before._handle_custom_msg({"do": "hello", "page": "deaf", "count": count, "version": -1}, [])
    on_loop(lambda: None)
    [widget] = panel.children
    assert widget is not before
    assert before.comm is None
    state = widget.get_state()["_snapshot"]
    assert "You said: First" in state["turns"][0][1]["body"]
    sent = PagePerson(panel).record()
    widget._handle_custom_msg({"do": "hello", "page": "p", "count": 1, "version": -1}, [])
    widget._handle_custom_msg({"do": "hello", "page": "p", "count": 1, "version": state["version"]}, [])
    widget._handle_custom_msg({"do": "ping"}, [])
    assert [each["kind"] for each in sent] == ["snapshot", "welcome", "welcome"]


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"do": "hello", "page": 1, "count": "1", "version": None},
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
    panel._view._handle_custom_msg(message, [])
    draw_now(panel)
    assert panel.conversation.exchanges == []
