from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.service.ids import Clock
from agentbook.service.store import Published
from agentbook.service.turns import live
from agentbook.service.turns.live import Cursor, Hub


def event(number: int, type_: str = "message") -> Published:
    return Published("s", f"{number:06d}", type_, f"{number}")


class Listener:
    """A socket that records what it would be sent."""

    def __init__(self, channel: Any, store: list[Published], from_id: str | None, types: frozenset[str] | None) -> None:
        self.store = store
        newest = store[-1].id if store else ""
        self.cursor = Cursor(channel, newest if from_id is None else from_id, types, from_id is not None, channel.end)
        self.received: list[str] = []

    def step(self, page: int) -> bool:
        """Deliver once; whether there was anything to deliver."""
        texts = self.cursor.next_texts()
        if not texts and self.cursor.needs_store:
            events = [event for event in self.store if event.id > self.cursor.last_id][:page]
            self.received += self.cursor.replay(events, is_last=len(events) < page)
            return True
        self.received += texts
        return bool(texts)


@given(
    before=st.integers(0, 12),
    from_number=st.one_of(st.none(), st.integers(-1, 12)),
    actions=st.lists(st.one_of(st.integers(1, 9), st.just(0)), max_size=40),
    page=st.integers(1, 5),
    lag=st.integers(0, 3),
)
def test_even_a_slow_socket_receives_every_event_once_and_in_order(
    before: int, from_number: int | None, actions: list[int], page: int, lag: int
) -> None:
    """Events are committed, published a little later, and delivered at any time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "_RING_EVENTS", 4)
        patch.setattr(live, "_BATCH", 3)
        hub, store, unpublished = Hub(Clock()), [event(n) for n in range(before)], []
        from_id = None if from_number is None else f"{from_number:06d}"
        with hub.listening("s") as channel:
            listener = Listener(channel, store, from_id, None)
            for action in actions:
                for _ in range(action):
                    store.append(event(len(store)))
                    unpublished.append(store[-1])
                while len(unpublished) > lag:
                    hub.publish([unpublished.pop(0)])
                if action == 0:
                    listener.step(page)
            hub.publish(unpublished)
            while listener.step(page):
                pass
        after = before - 1 if from_number is None else from_number
        assert listener.received == [str(n) for n in range(len(store)) if n > after]


def test_filtered_events_advance_the_cursor() -> None:
    hub = Hub(Clock())
    with hub.listening("s") as channel:
        listener = Listener(channel, [], None, frozenset({"runtime_done"}))
        hub.publish([event(1), event(2, "runtime_done"), event(3)])
        listener.step(10)
        assert listener.received == ["2"]
        assert listener.cursor.last_id == "000003"


def drafts(listener: Listener) -> list[dict[str, Any]]:
    listener.step(10)
    events = [json.loads(text) for text in listener.received if text.startswith("{")]
    listener.received.clear()
    assert all(event["type"] == "runtime_draft" and event["id"].startswith("draft-") for event in events)
    return [event["content"] for event in events]


def test_a_socket_receives_the_part_of_the_drafts_that_it_lacks() -> None:
    hub = Hub(Clock())
    with hub.listening("s") as channel, hub.turn("s", "task") as draft:
        quick, slow = Listener(channel, [], None, None), Listener(channel, [], None, None)
        for piece in ("Hel", "lo ", "wörld"):
            draft.write(piece)
            drafts(quick) if piece == "Hel" else None
        assert drafts(quick) == [{"delta": "lo wörld", "offset": 3}]
        assert drafts(quick) == []
        assert drafts(slow) == [{"delta": "Hello wörld", "offset": 0}]
        late = Listener(channel, [], None, None)
        assert drafts(late) == [{"delta": "Hello wörld", "offset": 0}]


def test_drafts_of_what_happened_before_a_socket_opened_are_marked() -> None:
    hub = Hub(Clock())
    with hub.listening("s") as channel, hub.turn("s", "task") as draft:
        first = Listener(channel, [], None, None)
        draft.tool("t1", "search", "running")
        draft.write("Hel")
        late = Listener(channel, [], None, None)
        draft.write("lo")
        draft.tool("t2", "read", "running")

        def sent(listener: Listener) -> list[tuple[Any, bool]]:
            listener.step(10)
            events = [json.loads(text) for text in listener.received]
            listener.received.clear()
            return [
                (event["content"].get("delta", event["content"].get("tool")), "replayed" in event) for event in events
            ]

        assert sent(first) == [("search", False), ("read", False), ("Hello", False)]
        assert sent(late) == [("search", True), ("read", False), ("Hel", True), ("lo", False)]
        draft.write("!")
        assert sent(late) == [("!", False)]
        draft.end()
    with hub.listening("s") as channel:
        listener = Listener(channel, [], None, None)
        with hub.turn("s", "next task") as draft:
            draft.write("Hi")
            assert sent(listener) == [("Hi", False)], "the next turn began after the socket opened"


def test_drafts_end_with_their_turn_and_only_go_to_subscribers() -> None:
    hub = Hub(Clock())
    with hub.listening("s") as channel:
        without = Listener(channel, [], None, frozenset({"message"}))
        with hub.turn("s", "task") as draft:
            draft.write("Hello")
            assert drafts(without) == []
            draft.end()
            assert drafts(Listener(channel, [], None, None)) == []
        with hub.turn("s", "task 2") as draft:
            draft.write("Bye")
            late = Listener(channel, [], None, None)
            assert drafts(late) == [{"delta": "Bye", "offset": 0}]


def test_memory_is_limited_and_released() -> None:
    hub = Hub(Clock())
    with hub.listening("s") as channel:
        for number in range(5000):
            hub.publish([Published("s", f"{number:06d}", "message", "x" * 1000)])
        assert len(channel.ring) <= 1049
        assert channel.characters <= 1 << 20
        hub.publish([Published("s", "999999", "message", "x" * (3 << 20))])
        assert len(channel.ring) == 1
    assert hub.empty.is_set()
    hub.publish([event(1)])
    with hub.listening("s") as channel:
        assert (len(channel.ring), channel.start) == (0, 0), "the channel was dropped with its last listener"
