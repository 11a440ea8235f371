"""`Conversation` against an in-process platform."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.api.errors import OutcomeUnknown, ServerError, Unauthorized
from agentbook.chat.html.message_html import LATE, foot
from agentbook.chat.model.conversation import Conversation
from chat.fakes import KEY, OTHER, SESSION, FakePlatform, echo, finished, make_conversation, refused, until


@pytest.mark.anyio
async def test_a_new_session_is_posted_then_followed() -> None:
    platform = FakePlatform(echo)
    conversation = make_conversation(platform)
    assert (conversation.state, conversation.session_id) == ("idle", None)
    exchange = await conversation.start("Hello")
    turn = await finished(exchange)
    assert (turn.status, turn.prompt, turn.text, turn.session_id) == (
        "answered",
        "Hello",
        "You said: Hello",
        SESSION,
    )
    assert platform.requests == ["get", "start", "follow"]
    assert (conversation.state, conversation.agent_name, len(conversation.exchanges)) == ("idle", "guide", 1)
    assert exchange.time_to_reply_s >= exchange.time_to_first_event_s >= 0
    await conversation.aclose()
    assert conversation.state == "closed"
    assert platform.readers == []


@pytest.mark.anyio
async def test_a_follow_up_is_posted_when_the_session_is_read_and_the_socket_open() -> None:
    platform = FakePlatform(echo)
    platform.persist("message", {"text": "Hello"}, KEY)
    platform.reply("Old answer")
    conversation = make_conversation(platform, session=SESSION)
    exchange = await conversation.send("Hello")
    turn = await finished(exchange)
    assert platform.requests == ["follow", "send"]
    assert [(each.prompt, each.text) for each in conversation.turns] == [
        ("Hello", "Old answer"),
        ("Hello", "You said: Hello"),
    ]
    assert conversation.turns[1] is turn is exchange.turn
    await conversation.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("at_once", [True, False])
async def test_the_same_text_from_two_people_is_told_apart(at_once: bool) -> None:
    platform = FakePlatform()
    first_side = make_conversation(platform, session=SESSION)
    second_side = make_conversation(platform, session=SESSION)
    await first_side.attach()
    await second_side.attach()
    if at_once:
        platform.hold = asyncio.Event()
    first, second = first_side.submit("Why?"), second_side.submit("Why?")
    while platform.requests.count("send") < 2:
        await asyncio.sleep(0)
    if platform.hold:
        platform.hold.set()
    await until(lambda: first.confirmed and first.posting is None, first_side)
    await until(lambda: second.confirmed and second.posting is None, second_side)
    platform.reply("first")
    platform.reply("second")
    assert {(await finished(first)).text, (await finished(second)).text} == {"first", "second"}
    for each in (first_side, second_side):
        await until(lambda each=each: [turn.text for turn in each.turns] == ["first", "second"], each)
        await each.aclose()


@pytest.mark.anyio
async def test_a_session_without_an_event_for_its_first_message() -> None:
    platform = FakePlatform(echo)
    platform.shows_first_message = False
    conversation = make_conversation(platform)
    turn = await finished(await conversation.start("Hello"))
    assert (turn.prompt, turn.text, len(conversation.turns)) == ("Hello", "You said: Hello", 1)
    await conversation.aclose()


@pytest.mark.anyio
async def test_drafts_and_steps_show_and_are_replaced_by_what_was_persisted() -> None:
    platform = FakePlatform()
    conversation = make_conversation(platform, session=SESSION)
    exchange = await conversation.send("How many?")
    await until(lambda: exchange.confirmed, conversation)
    assert (exchange.status, conversation.state) == ("waiting", "streaming")
    platform.tool("search", "t1")
    platform.write("For", 0)
    platform.write("ty-two", 3)
    await until(lambda: exchange.text == "Forty-two", conversation)
    assert [(step.name, step.done) for step in exchange.steps] == [("search", False)]
    assert exchange.status == "streaming"
    platform.done("t1")
    platform.done("t2")
    await until(lambda: exchange.turn.subtasks == 2, conversation)
    assert [(step.name, step.done) for step in exchange.steps] == [("search", True), ("", True)]
    platform.reply("42")
    assert (await finished(exchange)).text == exchange.text == "42"
    await conversation.aclose()


@pytest.mark.anyio
async def test_a_refused_start_is_reported_and_can_be_retried() -> None:
    platform = FakePlatform(echo)
    platform.refusals["start"] = [refused(ServerError, 500, "Something went wrong")]
    conversation = make_conversation(platform)
    exchange = await conversation.start("Hello")
    assert exchange.status == "failed"
    assert "500: Something went wrong" in (exchange.reason or "")
    assert exchange.request_id == "req-7"
    with pytest.raises(ServerError):
        await finished(exchange)
    assert conversation.state == "idle"
    again = await conversation.retry(exchange)
    assert (await finished(again)).text == "You said: Hello"
    assert len(conversation.exchanges) == 1
    assert not conversation.read_only
    await conversation.aclose()


@pytest.mark.anyio
async def test_a_late_reply_after_stop_is_recorded() -> None:
    platform = FakePlatform()
    conversation = make_conversation(platform, session=SESSION)
    exchange = await conversation.send("Think")
    platform.write("So far", 0)
    await until(lambda: exchange.text == "So far", conversation)
    conversation.stop()
    turn = await finished(exchange)
    assert (turn.status, exchange.status, conversation.state) == ("open", "stopped", "idle")
    platform.write(" and on", 6)
    await until(lambda: exchange.turn.draft == "So far and on", conversation)
    assert exchange.text == "So far"
    platform.reply("Done thinking")
    await until(lambda: exchange.status == "answered", conversation)
    assert turn.text == exchange.text == "Done thinking"
    assert all(LATE in text for text in (conversation.to_markdown(), foot(exchange)))
    await conversation.aclose()


@pytest.mark.anyio
async def test_stop_while_sending_does_not_send_later() -> None:
    platform = FakePlatform(echo)
    conversation = make_conversation(platform, session=SESSION)
    await conversation.attach()
    platform.hold = asyncio.Event()
    exchange = conversation.submit("Never mind")
    while "send" not in platform.requests:
        await asyncio.sleep(0)
    conversation.stop()
    assert exchange.status == "stopped"
    platform.hold.set()
    await asyncio.gather(*[task for task in [exchange.posting] if task])
    assert platform.events == []
    await conversation.aclose()


@pytest.mark.anyio
async def test_the_old_session_can_be_reopened_after_a_new_one() -> None:
    platform = FakePlatform(echo)
    conversation = make_conversation(platform)
    await finished(await conversation.start("First"))
    old, exchanges = conversation.session_id, conversation.exchanges
    platform.answer = None
    waiting = await conversation.send("Unanswered")
    await conversation.new_session()
    assert waiting.status == "stopped"
    assert (conversation.session_id, conversation.exchanges, conversation.state) == (None, [], "idle")
    assert conversation.sessions == {old: exchanges}
    assert platform.readers == []

    platform.answer, platform.next_session = echo, OTHER
    platform.events.clear()
    await finished(await conversation.send("Second"))
    assert list(conversation.sessions) == [old, OTHER]
    assert [turn.prompt for turn in conversation.turns] == ["Second"]

    platform.events.clear()
    await conversation.attach(old)
    assert conversation.exchanges is exchanges
    platform.reply("A late one")
    await until(lambda: waiting.status == "answered", conversation)
    assert waiting.text == "A late one"
    await conversation.aclose()


@pytest.mark.anyio
async def test_retry_after_a_lost_connection_does_not_send_twice() -> None:
    platform = FakePlatform()
    conversation = make_conversation(platform, session=SESSION)
    exchange = await conversation.send("Hello")
    await until(lambda: exchange.confirmed, conversation)
    platform.publish(refused(Unauthorized, 401, "Invalid API key"))
    await until(lambda: conversation.state == "failed", conversation)
    assert exchange.status == "failed"
    with pytest.raises(Unauthorized):
        await finished(exchange)
    platform.reply("While you were away")
    again = await conversation.retry(exchange)
    assert again is exchange
    assert (await finished(again)).text == "While you were away"
    assert platform.requests.count("send") == 1
    assert (conversation.state, conversation.error) == ("idle", None)
    await conversation.aclose()


@pytest.mark.anyio
async def test_a_message_that_arrived_after_all_is_not_sent_again() -> None:
    platform = FakePlatform()
    conversation = make_conversation(platform, session=SESSION)
    await conversation.attach()
    platform.refusals["send"] = [OutcomeUnknown("sessions.send: timed out", operation="sessions.send")]
    exchange = await conversation.send("Hello")
    assert "may have arrived" in (exchange.reason or "")
    platform.persist("message", {"text": "Hello"}, KEY)
    await until(lambda: exchange.confirmed, conversation)
    assert await conversation.retry(exchange) is exchange
    platform.reply("Hi")
    assert (await finished(exchange)).text == "Hi"
    assert platform.requests.count("send") == 1
    await conversation.aclose()


@given(st.lists(st.sampled_from(["message", "done", "reply", "draft", "odd", "again"]), max_size=30))
def test_events_repeated_or_replayed_change_nothing(kinds: list[str]) -> None:
    platform, live = FakePlatform(), Conversation(None, session=SESSION)
    for kind in kinds:
        match kind:
            case "message":
                live.feed(platform.persist("message", {"text": "Q"}, KEY))
            case "done":
                live.feed(platform.done("t1"))
            case "reply":
                live.feed(platform.reply("A"))
            case "draft":
                live.feed({"id": "draft-1", "type": "runtime_draft", "content": {"delta": "x", "offset": 0}})
            case "odd":
                live.feed(platform.persist("odd", None, None))
            case "again":
                for event in platform.events[-3:]:
                    live.feed(event)
    replayed = Conversation(None, session=SESSION)
    for event in platform.events:
        replayed.feed(event)
    shown = ["role", "text", "event_id", "asked_at", "subtasks"]
    persisted = [
        frame[frame["event_id"].notna()][shown].reset_index(drop=True)
        for frame in (live.to_pandas(), replayed.to_pandas())
    ]
    assert persisted[0].equals(persisted[1])
    assert [turn.status for turn in live.turns] == [turn.status for turn in replayed.turns]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("cut \ud83d", ValueError, r"character 4 is '\\ud83d'.*\"utf-8\", \"replace\""),
        (None, TypeError, "must be a string, not NoneType"),
        (5, TypeError, "must be a string, not int"),
    ],
)
async def test_an_invalid_message_is_refused_before_anything_changes(
    text: Any, error: type[Exception], words: str
) -> None:
    conversation = make_conversation(FakePlatform(echo))
    await finished(await conversation.start("Hello"))
    with pytest.raises(ValueError, match="workspace= and agent="):
        make_conversation(FakePlatform(), agent="guide").submit("Hello")
    for ask in (conversation.send, conversation.start):
        with pytest.raises(error, match=words):
            await ask(text)
    assert (conversation.session_id, list(conversation.to_pandas()["role"])) == (SESSION, ["user", "agent"])


def test_a_conversation_has_few_public_names() -> None:
    assert len([name for name in dir(Conversation(None)) if not name.startswith("_")]) <= 40
