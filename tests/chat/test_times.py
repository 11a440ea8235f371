"""The time to a reply: by our clock if we listened, else by the platform's events."""

from __future__ import annotations

import json
from typing import Any

import pytest

import agentbook as ab
from agentbook.frames.parse import to_frame
from chat.fakes import OTHER, SESSION, FakePlatform, finished, make_conversation, until

pytestmark = pytest.mark.anyio

PLATFORM_S = 9.375  # what the platform took by its own times; here, it takes milliseconds


class Timed(FakePlatform):
    """Every event is this much later than the one before."""

    def now(self) -> str:
        return f"2026-03-01T10:00:{PLATFORM_S * self._count:09.6f}Z"


async def leave(platform: FakePlatform, conversation: ab.Conversation) -> None:
    await conversation.new_session()
    platform.reply("Late")
    await conversation.attach(SESSION)


async def stop(platform: FakePlatform, conversation: ab.Conversation) -> None:
    conversation.stop()
    platform.reply("Late")


async def stop_and_listen_again(platform: FakePlatform, conversation: ab.Conversation) -> None:
    conversation.stop()
    await conversation.resume()
    platform.reply("Late")


async def reconnect(platform: FakePlatform, conversation: ab.Conversation) -> None:
    platform.publish("reconnecting")
    platform.reply("Late")
    platform.publish("live")


async def lose(platform: FakePlatform, conversation: ab.Conversation) -> None:
    platform.publish(ab.errors.StreamClosed("sessions.stream: gone", operation="sessions.stream"))
    await until(lambda: conversation.error, conversation)
    platform.reply("Late")
    await conversation.resume()


@pytest.mark.parametrize("gap", [leave, stop, stop_and_listen_again, reconnect, lose])
async def test_a_reply_that_nobody_listened_to_has_the_platforms_time(gap: Any) -> None:
    platform = Timed()
    conversation = make_conversation(platform)
    exchange = await conversation.start("Think")
    await until(lambda: exchange.confirmed, conversation)
    await gap(platform, conversation)
    await until(lambda: exchange.status == "answered", conversation)
    events = to_frame("events", [json.dumps({"items": platform.events}).encode()], context={"session_id": SESSION})
    assert ab.turns(events)["latency_s"].to_list() == [PLATFORM_S]
    for shown in (conversation, ab.Conversation.from_json(conversation.to_json())):
        table = shown.to_pandas()
        assert table["time_to_reply_s"].dropna().to_list() == [PLATFORM_S]
        assert table["time_to_first_event_s"].isna().all(), "nobody knows it"
        for text in (shown.to_markdown(), shown.to_html(), shown.to_notebook()):
            assert "eply after 9.4 s" in text
    await conversation.aclose()


async def test_a_reply_that_was_awaited_has_the_time_since_it_was_sent() -> None:
    platform = Timed()
    conversation = make_conversation(platform)
    exchange = await conversation.start("Think")
    await until(lambda: conversation.connection == "live", conversation)
    platform.reply("Soon")
    await finished(exchange)
    assert 0 <= exchange.time_to_first_event_s <= exchange.time_to_reply_s < PLATFORM_S
    await conversation.aclose()


async def test_a_message_that_was_held_counts_from_when_it_was_sent() -> None:
    platform = Timed()
    conversation = make_conversation(platform)
    first = await conversation.start("Think")
    await until(lambda: first.confirmed, conversation)
    conversation.stop()
    held = conversation.submit("And now?")
    await until(lambda: held.held, conversation)
    platform.reply("Late")
    await until(lambda: held.confirmed, conversation)
    await conversation.new_session()
    platform.next_session = OTHER
    platform.reply("Later")
    await conversation.attach(SESSION)
    await until(lambda: held.status == "answered", conversation)
    assert conversation.to_pandas()["time_to_reply_s"].dropna().to_list() == [PLATFORM_S, PLATFORM_S]
    await conversation.aclose()


async def test_without_the_platforms_times_a_late_reply_has_none() -> None:
    platform = FakePlatform()
    platform.now = lambda: ""  # type: ignore[method-assign]
    conversation = make_conversation(platform)
    exchange = await conversation.start("Think")
    await until(lambda: exchange.confirmed, conversation)
    await leave(platform, conversation)
    await until(lambda: exchange.status == "answered", conversation)
    assert conversation.to_pandas()["time_to_reply_s"].isna().all()
    await conversation.aclose()
