from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pandas as pd
import pytest

from agentbook.api.record import Record
from agentbook.events.ask import turn_of_message
from agentbook.events.turns import Failure, Turn, TurnLog, failure_of, moment_of
from agentbook.frames.analysis.turns import turns as table_of
from agentbook.frames.parse import to_frame
from agentbook.frames.parse.problems import load_problems
from support.fake_platform.core import event_id

KEY = {"type": "api_key", "id": "k1"}
AGENT = {"type": "agent", "id": "a1"}


def event(n: int, type: str, content: Any, **fields: Any) -> dict[str, Any]:
    made = f"2026-11-21T10:00:{n:02d}.000000Z"
    return {
        "id": event_id(n * 1000, n),
        "type": type,
        "content": content,
        "task_id": "t1",
        "created_at": made,
        **fields,
    }


def question(n: int, text: str) -> dict[str, Any]:
    return event(n, "message", {"text": text}, author=KEY)


def read(*events: dict[str, Any]) -> list[Turn]:
    log = TurnLog("s")
    for item in events:
        log.feed(item)
    return log.turns


def facts(turn: Turn) -> tuple[Any, ...]:
    return turn.status, turn.prompt, turn.text, turn.subtasks, turn.latency_s, len(turn.events)


def test_a_turn_opens_with_a_message_and_closes_with_the_reply() -> None:
    turns = read(
        question(1, "How many?"),
        event(2, "runtime_done", {}, author=AGENT),
        event(3, "runtime_done", {}),
        event(4, "runtime_done", {"text": "Seven."}, author=AGENT),
    )
    assert [facts(turn) for turn in turns] == [("answered", "How many?", "Seven.", 2, 3.0, 4)]


def test_a_session_may_begin_with_the_agent() -> None:
    turns = read(event(1, "runtime_done", {}), event(2, "runtime_done", {"text": "Good morning."}))
    assert [facts(turn) for turn in turns] == [("answered", "", "Good morning.", 1, None, 2)]


def test_a_run_limit_fails_the_turn_wherever_its_message_stands() -> None:
    odd = event(2, "task_failed", {"detail": {"reasons": ["WORKSPACE budget exceeded for 'acme~lab'"]}})
    [turn] = read(question(1, "a"), odd)
    assert turn.status == "failed"
    assert turn.failure == Failure("WORKSPACE budget exceeded for 'acme~lab'", "budget")


def test_an_error_event_without_a_known_message_fails_the_turn_too() -> None:
    content = {"status": 500, "error": "ServerError", "message": "Something went wrong"}
    [turn] = read(question(1, "a"), event(2, "runtime_error", content))
    assert (turn.status, turn.failure) == ("failed", Failure("Something went wrong", "error", 500))


def test_an_agent_may_quote_a_limit_without_failing() -> None:
    quoted = "The error `exceeded LLM call limit for this execution tree` means that ..."
    [turn] = read(question(1, "a"), event(2, "runtime_done", {"text": quoted}))
    assert turn.status == "answered"
    assert failure_of(event(2, "runtime_done", {"text": "TURN_TIMEOUT: 600 s"})) == Failure(
        "TURN_TIMEOUT: 600 s", "turn_timeout"
    )


def test_what_a_person_writes_is_never_a_failure() -> None:
    [turn] = read(question(1, "TURN_TIMEOUT: why?"))
    assert turn.status == "open"


@pytest.mark.parametrize("author", ["assistant", "system", "bot", "user", "api_key", None, "AGENT"])
def test_a_run_ends_a_turn_whoever_its_author_is_said_to_be(author: str | None) -> None:
    by = {"author": {"type": author}}
    events = [
        question(1, "a"), event(2, "runtime_done", {}, **by), event(3, "runtime_done", {"text": "A"}, **by),
        question(4, "b"), event(5, "runtime_error", {"message": "broken"}, **by),
    ]  # fmt: skip
    assert [facts(turn) for turn in read(*events)] == [
        ("answered", "a", "A", 1, 2.0, 3),
        ("failed", "b", None, 0, 1.0, 2),
    ]
    table = table_of(to_frame("events", [json.dumps({"items": events}).encode()], context={"session_id": "s"}))
    assert table["status"].tolist() == ["answered", "failed"]


def test_the_turn_of_our_message_is_found_whatever_the_platform_returned_for_it() -> None:
    log = [question(1, "theirs"), question(2, " ours\n"), question(3, "ours")]
    first, second, third = read(*log)
    turns = [first, second, third]
    assert turn_of_message(Record(log[2]), "ours", turns) is third  # the event itself
    for reply in ({}, {"status": "queued"}, {"id": event_id(0, 99), "status": "running"}, {"event": log[2]}):
        assert turn_of_message(Record(reply), "ours", turns) is second
    assert turn_of_message(Record(), "changed on the way", turns) is first
    assert turn_of_message(Record(), "ours", []) is None
    assert turn_of_message(Record({**log[2], "id": event_id(0, 99)}), "ours", turns) is None  # not seen yet


def test_unknown_events_stay_visible() -> None:
    log = TurnLog("s")
    for item in (question(1, "a"), event(2, "tool_called", {"name": "sql"}), event(3, "runtime_done", {"text": "A"})):
        log.feed(item)
    assert [item["type"] for item in log.unknown] == ["tool_called"]
    assert facts(log.turns[0]) == ("answered", "a", "A", 0, 2.0, 3)


def test_drafts_build_the_reply_and_give_way_to_it() -> None:
    log = TurnLog("s")
    log.feed(question(1, "a"))
    for content in (
        {"delta": "Sev", "offset": 0},
        {"delta": "en si", "offset": 3},
        {"delta": "sins.", "offset": 6},  # overlaps what is there
        {"tool": "sql", "state": "running"},
    ):
        log.feed({"id": "draft-1", "type": "runtime_draft", "content": content, "task_id": "t2"})
    [turn] = log.turns
    assert (turn.draft, turn.running, turn.status) == ("Seven sins.", {"t2": "sql"}, "open")
    log.feed({"id": "draft-2", "type": "runtime_draft", "content": {"tool": "sql", "state": "done"}, "task_id": "t2"})
    assert turn.running == {}
    log.feed(event(3, "runtime_done", {"text": "Seven."}))
    assert (turn.draft, turn.text) == ("", "Seven.")


def test_a_whole_draft_text_replaces_the_last() -> None:
    log = TurnLog("s")
    log.feed(question(1, "a"))
    for text in ("Sev", "Seven"):
        log.feed({"id": "draft-1", "type": "anything", "content": {"text": text}})
    assert log.turns[0].draft == "Seven"


PARTS = [{"type": "output_text", "text": "See:"}, {"type": "text", "text": {"value": "B"}}, "C"]


@pytest.mark.parametrize("content", [{"text": PARTS}, PARTS])
@pytest.mark.parametrize(("others", "problems"), [([], 0), ([{"type": "image", "url": "/1.png"}], 1)])
def test_a_text_may_come_in_parts(content: Any, others: list[Any], problems: int) -> None:
    content = {"text": [*PARTS, *others]} if isinstance(content, dict) else [*PARTS, *others]
    events = [question(1, "a"), event(2, "runtime_done", content)]
    frame = to_frame("events", [json.dumps({"items": events}).encode()], context={"session_id": "s"})
    assert [facts(turn)[:3] for turn in read(*events)] == [("answered", "a", "See:\nB\nC")]
    assert table_of(frame, texts=True)["reply"].tolist() == ["See:\nB\nC"]
    assert len(load_problems(frame)) == problems


@pytest.mark.parametrize("text", [3, [], {"html": "<b>"}, [{"type": "image", "url": "/1.png"}]])
def test_a_reply_without_a_text_is_a_problem(text: Any) -> None:
    page = json.dumps({"items": [event(2, "runtime_done", {"text": text})]}).encode()
    assert load_problems(to_frame("events", [page]))["field"].tolist() == ["content.text"]


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-10-03T08:15:00Z", "2026-10-03T08:15:00+00:00"),
        ("2026-10-03T10:15:00+02:00", "2026-10-03T08:15:00+00:00"),
        ("2026-10-03t08:15:00z", "2026-10-03T08:15:00+00:00"),
        ("2026-10-03T08:15:00", "2026-10-03T08:15:00+00:00"),
        ("2026-10-03", "2026-10-03T00:00:00+00:00"),
        ("0001-01-01T00:00:00+14:00", None),
        ("soon", None),
        (1_790_000_000, None),
    ],
)
def test_an_instant_is_utc_and_without_a_zone_it_is_meant_so(text: Any, utc: str | None) -> None:
    moment = moment_of({"created_at": text})
    assert (moment and moment.isoformat()) == utc
    assert to_frame("events", [json.dumps({"items": [{"created_at": text}]}).encode()])["created_at"].to_list() == [
        pd.NaT if utc is None else pd.Timestamp(utc)
    ], "frames read it the same way"


def test_a_turn_without_zones_has_a_latency() -> None:
    events = question(1, "a"), event(4, "runtime_done", {"text": "A"})
    [turn] = read(*({**item, "created_at": item["created_at"].removesuffix("Z")} for item in events))
    assert (turn.latency_s, turn.asked_at and turn.asked_at.utcoffset()) == (3.0, timedelta(0))


def test_a_repr_is_one_stable_line() -> None:
    [turn] = read(question(1, "How\nmany?"), event(2, "runtime_done", {"text": "x" * 100}))
    assert repr(turn) == f"Turn(answered: 'How many?' -> {'x' * 59 + '…'!r})"
