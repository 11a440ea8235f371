"""What several panels draw at the same time is one message, for pages that hear it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from agentbook.chat.widgets import shared_messages
from agentbook.chat.widgets.shared_messages import ANSWER_S, Membership, one_message, send_patch
from agentbook.chat.widgets.throttle import Throttle


class Shown:
    """A widget that pages show, and what its own comm sent."""

    def __init__(self, *pages: str) -> None:
        self.now = 0.0
        self.membership = Membership(lambda: self.now)
        self.sent: list[Any] = []
        for page in pages:
            self.membership.hello(page)

    def send(self, content: Any) -> None:
        self.sent.append(content)

    def join(self, *pages: str, channel: str = "c1") -> None:
        for page in pages:
            assert not self.membership.answer(page, channel, joined=True)


class FakeChannel:
    def __init__(self) -> None:
        self.name = "c1"
        self.opened = 0
        self.sent: list[Any] = []

    def open(self) -> str:
        self.opened += 1
        return self.name

    def send(self, content: Any) -> None:
        self.sent.append(content)


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> FakeChannel:
    fake = FakeChannel()
    monkeypatch.setattr(shared_messages, "_channel", fake)
    return fake


def draw(patch: str, *views: Shown) -> None:
    with one_message():
        for view in views:
            send_patch(view, view.membership, {"ops": [patch]})


def invitation(view: Shown, channel: str = "c1") -> dict[str, Any]:
    return {"kind": "join", "channel": channel, "key": view.membership.key}


def test_what_is_drawn_together_is_one_message_once_the_pages_have_joined(channel: FakeChannel) -> None:
    first, second = Shown("p"), Shown("q")
    draw("a", first, second)
    draw("b", first, second)
    for view in (first, second):
        assert view.sent == [{"ops": ["a"]}, invitation(view), {"ops": ["b"]}]
        view.sent.clear()
    first.join("p")
    second.join("q")
    draw("c", first, second)
    assert (first.sent, second.sent) == ([], [])
    keys = first.membership.key, second.membership.key
    assert channel.sent == [{"patches": {key: {"ops": ["c"]} for key in keys}}]


def test_what_is_due_at_the_same_time_is_one_message(channel: FakeChannel) -> None:
    first, second = Shown("p"), Shown("q")
    first.join("p")
    second.join("q")

    async def change_both() -> None:
        throttles = [Throttle(partial(send_patch, view, view.membership, {"ops": []})) for view in (first, second)]
        for throttle in throttles:
            throttle.note()
        throttles[0].flush()

    asyncio.run(change_both())
    assert (first.sent, second.sent) == ([], [])
    assert channel.sent == [{"patches": {view.membership.key: {"ops": []} for view in (first, second)}}]


def test_a_panel_that_is_drawn_alone_uses_its_own_comm(channel: FakeChannel) -> None:
    view, hidden = Shown("p"), Shown()
    view.join("p")
    draw("a", view)
    draw("b", view, hidden)  # no page shows the other one: nobody shares anything
    send_patch(view, view.membership, {"ops": ["c"]})
    assert view.sent == [{"ops": ["a"]}, {"ops": ["b"]}, {"ops": ["c"]}]
    assert hidden.sent == [{"ops": ["b"]}]
    assert (channel.opened, channel.sent) == (0, [])


def test_a_page_that_cannot_join_still_gets_everything(channel: FakeChannel) -> None:
    first, second = Shown("p", "elsewhere"), Shown("q")
    first.join("p")
    second.join("q")
    draw("a", first, second)
    assert first.sent == [{"ops": ["a"]}, invitation(first)]
    assert channel.sent == [{"patches": {second.membership.key: {"ops": ["a"]}}}]
    first.join("elsewhere")
    draw("b", first, second)
    assert len(first.sent) == 2
    first.membership.hello("reloaded")
    draw("c", first, second)
    assert first.sent[2:] == [{"ops": ["c"]}, invitation(first)]


def test_a_page_that_was_reloaded_before_it_joined_counts_no_longer(channel: FakeChannel) -> None:
    first, second = Shown("p"), Shown("q")
    first.join("p")
    second.join("q")
    first.membership.hello("closed soon")
    draw("a", first, second)
    first.now = ANSWER_S * 0.99
    draw("b", first, second)
    assert first.sent == [{"ops": ["a"]}, invitation(first), {"ops": ["b"]}]
    first.now = ANSWER_S
    draw("c", first, second)
    assert len(first.sent) == 3
    assert channel.sent[-1] == {"patches": {view.membership.key: {"ops": ["c"]} for view in (first, second)}}


def test_a_page_that_was_invited_and_cannot_join_counts_for_ever(channel: FakeChannel) -> None:
    first, second = Shown("p", "elsewhere"), Shown("q")
    first.join("p")
    second.join("q")
    draw("a", first, second)
    assert not first.membership.answer("elsewhere", "c1", joined=False)
    first.now = 1e6
    draw("b", first, second)
    assert first.sent == [{"ops": ["a"]}, invitation(first), {"ops": ["b"]}]


def test_a_page_that_answers_late_counts_again_and_has_missed_something(channel: FakeChannel) -> None:
    first, second = Shown("p", "late"), Shown("q")
    first.join("p")
    second.join("q")
    draw("a", first, second)
    first.now = ANSWER_S
    draw("b", first, second)
    assert len(first.sent) == 2
    assert first.membership.answer("late", "c1", joined=False)
    draw("c", first, second)
    assert first.sent[2:] == [{"ops": ["c"]}]
    first.join("late")
    assert not first.membership.answer("late", "c1", joined=False), "it remains joined"
    draw("d", first, second)
    assert len(first.sent) == 3


def test_a_silent_page_that_says_hello_is_invited_again(channel: FakeChannel) -> None:
    first, second = Shown("p"), Shown("q")
    second.join("q")
    draw("a", first, second)
    first.now = ANSWER_S * 0.9
    first.membership.hello("p")
    draw("b", first, second)
    first.now = ANSWER_S * 1.8
    draw("c", first, second)
    assert first.sent == [{"ops": ["a"]}, invitation(first), {"ops": ["b"]}, invitation(first), {"ops": ["c"]}]
    first.join("p", channel="an earlier one")
    assert not first.membership.hears("c1"), "it answered another invitation"
    first.join("p")
    first.membership.hello("p")  # after a gap
    assert first.membership.hears("c1")


def test_a_channel_that_was_closed_is_replaced(channel: FakeChannel) -> None:
    first, second = Shown("p"), Shown("q")
    first.join("p")
    second.join("q")
    channel.name = "c2"
    draw("a", first, second)
    assert channel.sent == []
    for view in (first, second):
        assert view.sent == [{"ops": ["a"]}, invitation(view, "c2")]


def test_the_channel_is_one_widget_until_it_is_closed() -> None:
    real = shared_messages._Channel()
    name = real.open()
    assert real.open() == name
    real._widget.close()
    assert real.open() != name
    real._widget.close()


def fail_in_a_drawing(view: Shown) -> None:
    with one_message():
        draw("a", view)
        raise ZeroDivisionError


def test_what_an_error_interrupts_is_sent(channel: FakeChannel) -> None:
    view = Shown("p")
    with pytest.raises(ZeroDivisionError):
        fail_in_a_drawing(view)
    assert view.sent == [{"ops": ["a"]}]
    assert channel.sent == []
