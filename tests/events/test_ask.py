"""`sessions.ask` waits for the reply to its own message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentbook.api.errors import DeadlineExceeded
from agentbook.api.record import Record
from agentbook.events import ask
from agentbook.events.ask import ask_async
from support.fake_platform.core import event_id

pytestmark = pytest.mark.anyio

START = datetime(2026, 11, 21, 10, tzinfo=UTC)
KEY = {"type": "api_key", "id": "k1"}


def event(n: int, minutes: float, type: str, text: str, task: str | None = None) -> Record:
    author = KEY if type == "message" else {"type": "agent"}
    at = (START + timedelta(minutes=minutes)).isoformat()
    content = {"text": text}
    return Record(
        {"id": event_id(n, n), "type": type, "content": content, "task_id": task, "author": author, "created_at": at}
    )


class Platform:
    """A connection to a session, where a message is followed by these events."""

    def __init__(self, events: list[Record], follow_ups: list[Record]) -> None:
        self.events, self.follow_ups = events, follow_ups
        self.sent = asyncio.Event()
        self.accepted = follow_ups[0]  # what the platform answers to the message

    def _on_close(self, _callback: Any) -> Any:
        return lambda: None

    async def _records(self, _call: Any) -> AsyncIterator[Record]:
        for item in reversed(self.events):
            yield item

    async def _run(self, _call: Any) -> Record:
        self.sent.set()
        return self.accepted

    async def subscribe(self, *_: Any, **__: Any) -> AsyncIterator[Record]:
        await self.sent.wait()
        for item in self.follow_ups:
            yield item
        await asyncio.Event().wait()


async def reply_to(monkeypatch: pytest.MonkeyPatch, events: list[Record], follow_ups: list[Record]) -> str | None:
    platform: Any = Platform(events, follow_ups)
    monkeypatch.setattr(ask, "subscribe", platform.subscribe)
    return (await ask_async(platform, "s", "ours", timeout_s=20)).text


async def test_a_question_that_never_got_a_reply_does_not_take_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = event(1, 0, "message", "lost")
    reply = await reply_to(
        monkeypatch, [lost], [event(2, 60, "message", "ours"), event(3, 60.1, "runtime_done", "the reply")]
    )
    assert reply == "the reply"


async def test_an_earlier_question_keeps_its_own_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = event(1, 0, "message", "earlier", "t1")
    ours = event(2, 1, "message", "ours", "t2")
    late, reply = event(3, 2, "runtime_done", "the other reply", "t1"), event(4, 3, "runtime_done", "the reply", "t2")
    assert await reply_to(monkeypatch, [earlier], [ours, late, reply]) == "the reply"
    assert await reply_to(monkeypatch, [earlier], [ours, reply]) == "the reply", "whether it comes or not"


async def test_a_reply_that_becomes_visible_before_its_question_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, reply = event(2, 1, "message", "ours"), event(3, 2, "runtime_done", "the reply")
    platform: Any = Platform([], [reply, ours])
    platform.accepted = ours
    monkeypatch.setattr(ask, "subscribe", platform.subscribe)
    assert (await ask_async(platform, "s", "ours", timeout_s=20)).text == "the reply"


async def test_what_the_agent_says_unasked_is_no_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    unasked = event(1, 0, "runtime_done", "Good morning.", "t0")
    follow_ups = [event(2, 1, "message", "ours"), event(3, 2, "runtime_done", "the reply")]
    platform: Any = Platform([], [unasked, *follow_ups])
    platform.accepted = Record({"status": "queued"})
    monkeypatch.setattr(ask, "subscribe", platform.subscribe)
    assert (await ask_async(platform, "s", "ours", timeout_s=20)).text == "the reply"


async def test_a_timeout_names_the_read_that_shows_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    platform: Any = Platform([], [event(2, 60, "message", "ours")])
    monkeypatch.setattr(ask, "subscribe", platform.subscribe)
    with pytest.raises(DeadlineExceeded, match=r'client\.sessions\.events\("s"\) shows what came'):
        await ask_async(platform, "s", "ours", timeout_s=0.2)
