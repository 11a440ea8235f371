"""Exports of a session that was held before: they load it, or say that they did not."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest

from agentbook.api.errors import ServerError
from agentbook.chat.html.message_html import INCOMPLETE
from agentbook.chat.html.static_transcript import StaticTranscript
from agentbook.chat.model.conversation import Conversation
from agentbook.chat.model.recording import read_events
from agentbook.chat.replay import replay
from agentbook.events import loop
from chat.fakes import KEY, OTHER, SESSION, FakePlatform, make_conversation, recorded, refused
from chat.panels import make, on_loop, static_page

TURNS = 4
NOT_READ = "The session has not been read yet."


@pytest.fixture
def old() -> FakePlatform:
    """A platform whose session has four turns."""
    platform = FakePlatform()
    for number in range(TURNS):
        platform.persist("message", {"text": f"Question {number}?"}, KEY)
        platform.reply(f"Answer {number}.")
    return platform


def unfollowed(platform: FakePlatform) -> Conversation:
    """A conversation that nothing has read, with the platform's list of events."""
    return Conversation(platform, session=SESSION)  # type: ignore[arg-type]


EXPORTS: dict[str, Callable[[Conversation], str]] = {
    "Markdown": Conversation.to_markdown,
    "JSON": lambda conversation: Conversation.from_json(conversation.to_json()).to_markdown(),
    "HTML": Conversation.to_html,
    "table": lambda conversation: conversation.to_pandas().to_string(),
    "transcript": lambda conversation: str([each.text for each in conversation.transcript.exchanges]),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_of_an_old_session_holds_it_whole(name: str, old: FakePlatform) -> None:
    panel = make(old, session=SESSION)
    assert EXPORTS[name](panel.conversation).count("Answer ") == TURNS
    panel.close()
    assert EXPORTS[name](unfollowed(old)).count("Answer ") == TURNS
    assert old.queues[SESSION] == [], "nothing is followed for an export"


def test_an_export_reads_on_where_the_last_one_ended(old: FakePlatform) -> None:
    conversation = unfollowed(old)
    assert repr(conversation) == "Conversation('no agent', 0 turns so far, idle)"
    assert len(conversation.to_pandas()) == 2 * TURNS
    old.persist("message", {"text": "And now?"}, KEY)
    old.reply("Answer 4.")
    assert conversation.to_pandas()["text"].to_list()[-2:] == ["And now?", "Answer 4."]
    assert repr(conversation) == "Conversation('guide', 5 turns, idle)"


def test_the_saved_notebook_holds_an_old_session(old: FakePlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[Any] = []
    monkeypatch.setattr(StaticTranscript, "show", lambda self, *content: saved.append(content))
    panel = make(old, session=SESSION)
    panel._ipython_display_()
    exchanges, *_ = saved[0]
    assert [exchange.text for exchange in exchanges] == [f"Answer {number}." for number in range(TURNS)]
    assert static_page(panel).count("Answer ") == TURNS
    panel.close()


def test_a_read_that_fails_half_way_keeps_what_arrived_and_says_so(old: FakePlatform) -> None:
    error = refused(ServerError, 502, "Bad gateway")
    old.refusals["later events"] = [error] * 5
    conversation = unfollowed(old)
    with pytest.warns(UserWarning, match="may lack turns of the session. The platform failed"):
        frame = conversation.to_pandas()
    assert frame["text"].to_list() == ["Question 0?", "Answer 0."]
    assert frame.attrs["incomplete"] == conversation.incomplete
    with pytest.warns(UserWarning, match="502: Bad gateway"):
        markdown, html = conversation.to_markdown(), conversation.to_html()
    for text in (markdown, html):
        assert INCOMPLETE in text
        assert "502: Bad gateway" in unescape(text)
        assert "Answer 0." in text
    with pytest.warns(UserWarning, match="502"):
        copy = Conversation.from_json(conversation.to_json())
    assert copy.incomplete == conversation.incomplete
    with pytest.warns(UserWarning, match="502"):
        assert copy == Conversation._from_transcript(conversation.transcript)
    assert len(conversation.to_pandas()) == 2 * TURNS, "the next export reads the rest"
    assert "incomplete" not in json.loads(conversation.to_json())


def test_a_panel_whose_session_cannot_be_read_says_so_in_the_saved_notebook(old: FakePlatform) -> None:
    old.refusals["follow"] = [refused(ServerError, 502, "Bad gateway")]
    panel = make(old, session=SESSION)
    with pytest.warns(UserWarning, match="502"):
        assert panel.transcript.empty
    assert "No messages yet" not in static_page(panel)
    assert INCOMPLETE in static_page(panel)
    panel.close()


def test_the_reason_is_there_as_soon_as_reading_has_failed(old: FakePlatform) -> None:
    old.refusals["follow"] = [refused(ServerError, 502, "Bad gateway")]
    conversation, reasons = make_conversation(old, session=SESSION), list[str]()
    conversation.listen(lambda _: reasons.append(conversation.incomplete) if conversation.error else None)
    loop.run(conversation.attach(), 60)
    assert reasons
    assert all("502: Bad gateway" in reason for reason in reasons)


def test_a_closed_conversation_says_what_it_never_read(old: FakePlatform) -> None:
    panel = make(old, session=SESSION)
    panel.transcript  # noqa: B018 - reads the session
    panel.close()
    assert len(panel.transcript) == 2 * TURNS
    old.refusals["follow"] = [refused(ServerError, 502, "Bad gateway")]
    panel = make(old, session=OTHER)
    panel.close()
    with pytest.warns(UserWarning, match="may lack turns"):
        assert panel.transcript.empty


def test_on_the_loop_that_follows_it_an_export_says_that_it_did_not_read(old: FakePlatform) -> None:
    with pytest.warns(UserWarning, match=NOT_READ):
        assert on_loop(unfollowed(old).to_pandas).attrs["incomplete"] == NOT_READ

    async def read_first() -> int:
        conversation = Conversation(old, session=SESSION, follow=old.follow)  # type: ignore[arg-type]
        await conversation.attach()
        frame = conversation.to_pandas()
        await conversation.aclose()
        return len(frame)

    assert asyncio.run(read_first()) == loop.run(read_first()) == 2 * TURNS


def test_a_read_that_takes_too_long_says_so(old: FakePlatform) -> None:
    old.hold = on_loop(asyncio.Event)
    conversation = unfollowed(old)
    conversation.load(0.01)
    assert conversation.incomplete == "Reading the session took longer than 0.01 s."
    old.hold = None
    assert len(conversation.to_pandas()) == 2 * TURNS


def test_a_replay_exports_the_whole_recording_while_it_plays() -> None:
    source = recorded(("2+2?", "4"), ("Thanks", "Gladly"))
    events = [{**event, "session_id": SESSION} for event in source.transcript.events]
    panel = replay(events, speed=1e-3)
    assert not panel.played.done()
    assert panel.conversation.to_markdown().count("## ") == 4
    assert panel.transcript["text"].to_list() == ["2+2?", "4", "Thanks", "Gladly"]
    assert "Gladly" in static_page(panel)
    panel.close()


def test_a_recording_of_an_old_session_is_read_from_the_conversation(old: FakePlatform) -> None:
    assert len(read_events(unfollowed(old), None)) == 2 * TURNS


# Listeners


def fail(*_: object) -> None:
    raise ZeroDivisionError("a listener's own")


def test_a_listener_that_fails_stops_neither_the_others_nor_the_stream(
    old: FakePlatform, caplog: pytest.LogCaptureFixture
) -> None:
    panel = make(old, session=SESSION)
    conversation, statuses = panel.conversation, list[Any]()
    conversation.listen(fail)
    conversation.listen(statuses.append)
    with caplog.at_level(logging.ERROR, "agentbook.chat"):
        assert on_loop(lambda: (old.persist("message", {"text": "More?"}, KEY), old.reply("Yes."))) is not None
        conversation.load()
        on_loop(lambda: None)
    assert (conversation.connection, statuses != []) == ("live", True)
    record = caplog.records[0]
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError
    panel.close()
