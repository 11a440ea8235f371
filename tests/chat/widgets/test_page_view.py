"""Widgets with a module: snapshots on demand, and another widget for a deaf page."""

from __future__ import annotations

from typing import Any

import pytest

from agentbook.chat.widgets import page_view
from agentbook.chat.widgets.page_view import MAX_REPLACED, OnHello, PageView, PageViewBox
from agentbook.events import loop
from chat.panels import on_loop


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
        self.box.view._handle_custom_msg({"do": "hello", "page": "p", "count": count, "version": version}, [])


def test_a_page_gets_a_snapshot_only_if_it_missed_something(monkeypatch: pytest.MonkeyPatch) -> None:
    numbered = Numbered()
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(Shown, "send", lambda _, message: sent.append(message))
    assert numbered.box.view.get_state("_snapshot")["_snapshot"]["version"] == 3
    numbered.hello(1, -1)
    numbered.version = 4
    numbered.hello(2, 3)
    numbered.hello(3, 4)
    assert sent == [{"kind": "snapshot", "version": 3}, {"kind": "snapshot", "version": 4}, {"kind": "welcome"}]
    for message in (["hello"], None, "hello", {"do": "hello", "count": 1}):
        numbered.box.view._handle_custom_msg(message, [])
    assert numbered.messages == [{"do": "hello", "count": 1}]
    assert repr(numbered.box) == "A number"
    numbered.box.close()


def test_a_page_that_had_counted_no_longer_gets_a_snapshot_with_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    numbered = Numbered()
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(Shown, "send", lambda _, message: sent.append(message))
    for answer in ("joining", "joined"):
        numbered.box.view._handle_custom_msg({"do": answer, "page": "unknown", "channel": "c1"}, [])
    assert sent == [{"kind": "snapshot", "version": 3}]
    assert numbered.box.view._membership.hears("c1")
    numbered.box.close()


def test_a_page_that_does_not_hear_gets_another_widget(monkeypatch: pytest.MonkeyPatch) -> None:
    numbered = Numbered()
    now = [0.0]
    monkeypatch.setattr(page_view.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(page_view.loop, "get_loop", lambda: Soon())
    shown = [numbered.box.view]
    for _ in range(MAX_REPLACED + 2):
        for count in (1, 2, 3):
            numbered.hello(count)
            now[0] += 4.0
        if numbered.box.view is not shown[-1]:
            shown.append(numbered.box.view)
    assert len(shown) == 1 + MAX_REPLACED
    assert [view.comm is None for view in shown] == [True] * MAX_REPLACED + [False]
    numbered.box.close()
    assert shown[-1].comm is None


class Soon:
    """The toolkit's loop, which works at once here."""

    def call_soon_threadsafe(self, work: Any, *arguments: Any) -> None:
        work(*arguments)


def test_hellos_are_handed_to_the_toolkits_thread() -> None:
    numbered = Numbered()
    threads: list[bool] = []
    numbered.box._deafness.needs_another = lambda *_: threads.append(loop.on_loop_thread()) or False  # type: ignore[method-assign, func-returns-value]
    numbered.hello(1)
    on_loop(lambda: None)
    assert threads == [True]
    numbered.box.close()
