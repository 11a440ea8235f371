"""Turns as a table: the same turns that `TurnLog` finds, whatever the events."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.api.run_limits import RUN_LIMITS
from agentbook.api.span import is_persisted
from agentbook.events.turns import TurnLog
from agentbook.frames.analysis.turns import STATUSES, turns
from agentbook.frames.parse.frame import FrameBuilder

START = datetime(2026, 10, 3, tzinfo=UTC)
EXAMPLES = {
    "state_size": "413 Request Entity Too Large",
    "llm_request_size": "exceeded LLM request size limit for this task",
    "llm_calls": "exceeded LLM call limit for this execution tree",
    "llm_tokens": "exceeded LLM token limit for this execution tree",
    "agent_tasks": "exceeded agent task limit for this execution tree",
    "tool_fan_out": "exceeded tool fan-out limit for this task",
    "budget": "WORKSPACE budget exceeded for 'lab'",
    "synchronous_steps": "Agent ran too many synchronous steps without yielding",
    "turn_timeout": "TURN_TIMEOUT: 600 s",
}


def event_id(n: int) -> str:
    hexa = f"{int(START.timestamp() * 1000) + n // 3:012x}"
    return f"{hexa[:8]}-{hexa[8:]}-7{n % 3:03x}-8000-{n:012x}"


def event(n: int, kind: str, content: Any, author: str | None = None, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": event_id(n), "type": kind, "content": content, "task_id": f"t{n % 4}"}
    if author is not None:
        fields["author"] = {"type": author, "id": f"{author}-1"}
    moment = START + timedelta(seconds=2.5 * n)
    return {**fields, "created_at": moment.isoformat(), "updated_at": moment.isoformat(), **more}


def frame_of(sessions: dict[str, list[dict[str, Any]]]) -> pd.DataFrame:
    builder = FrameBuilder("events")
    for session_id, events in sessions.items():
        builder.add(json.dumps({"items": events}).encode(), {"session_id": session_id})
    return builder.finish()


CONTENTS = st.sampled_from(
    [
        {},
        {"text": "An answer."},
        {"text": ""},
        "plain",
        None,
        {"text": 3},
        {"step": 1},
        {"text": "They say: exceeded LLM call limit for this execution tree, which ends a run."},
        *({"text": text} for text in EXAMPLES.values()),
        *({"status": 429, "message": text} for text in EXAMPLES.values()),
        {"status": "429", "deep": {"list": [1, {"why": EXAMPLES["budget"]}]}},
        {"status": 500, "message": "Something went wrong"},
        {"text": "said", "message": EXAMPLES["llm_calls"]},
    ]
)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["message", "runtime_done", "runtime_done", "runtime_error", "thought"]),
        CONTENTS,
        st.sampled_from([None, None, "agent", "workspace_Agent", "api_key", "user"]),
        st.sampled_from(["", "", "", "", "draft", "repeat"]),
    ),
    max_size=14,
)


def built(script: list[tuple[str, Any, str | None, str]]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for n, (kind, content, author, oddity) in enumerate(script):
        item = event(n, kind, content, author)
        events.append({**item, "id": f"draft-{n}"} if oddity == "draft" else item)
        if oddity == "repeat":
            events.append(item)
    return events


def by_log(session_id: str, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    log = TurnLog(session_id)
    for item in sorted({e["id"]: e for e in events if is_persisted(e["id"])}.values(), key=lambda e: str(e["id"])):
        log.feed(item)
    return [
        {
            "session_id": session_id,
            "turn": number,
            "message_id": turn.message_id,
            "asked_at": turn.asked_at,
            "replied_at": turn.replied_at,
            "latency_s": turn.latency_s,
            "status": turn.status,
            "failure": turn.failure and turn.failure.kind,
            "failure_status": turn.failure and turn.failure.status,
            "failure_message": turn.failure and turn.failure.message,
            "events": len(turn.events),
            "subtasks": turn.subtasks,
            "tasks": len({item["task_id"] for item in turn.events}),
            "prompt_chars": len(turn.prompt),
            "reply_chars": None if turn.text is None else len(turn.text),
            "author_type": turn.author.get("type"),
            "prompt": turn.prompt or None,
            "reply": turn.text,
        }
        for number, turn in enumerate(log.turns, 1)
    ]


def rows_of(table: pd.DataFrame, columns: list[str]) -> list[dict[str, Any]]:
    return [
        {name: None if pd.isna(value) else value for name, value in row.items()}
        for row in table[columns].astype(object).to_dict("records")
    ]


@given(scripts=st.lists(EVENTS, max_size=4), shuffle=st.randoms(use_true_random=False))
def test_turns_are_those_of_the_turn_log(scripts: list[Any], shuffle: random.Random) -> None:
    sessions = {f"s{n}": built(script) for n, script in enumerate(scripts)}
    expected = [row for session_id, events in sessions.items() for row in by_log(session_id, events)]
    frame = frame_of(sessions)
    order = list(range(len(frame)))
    shuffle.shuffle(order)
    table = turns(frame.iloc[order], unanswered_after="9999D", texts=True)
    table = table.sort_values(["session_id", "turn"], ignore_index=True)
    actual = rows_of(table, list(expected[0]) if expected else ["turn"])
    for row in (*actual, *expected):
        row["prompt"] = row.get("prompt") or None  # an empty prompt and none are one in the log
    assert actual == expected


@given(EVENTS)
def test_dtypes_do_not_depend_on_the_events(script: list[Any]) -> None:
    def kinds(table: pd.DataFrame) -> dict[str, str]:
        return table.dtypes.map(str).to_dict()

    assert kinds(turns(frame_of({"s": built(script)}))) == kinds(turns(frame_of({})))


def test_every_run_limit_is_recognised() -> None:
    assert set(EXAMPLES) == set(RUN_LIMITS)
    for content in ({"text": "{}"}, {"message": "{}"}):
        key = next(iter(content))
        kind = "runtime_done" if key == "text" else "runtime_error"
        sessions = {name: [event(1, kind, {key: text})] for name, text in EXAMPLES.items()}
        table = turns(frame_of(sessions))
        assert dict(zip(table["session_id"], table["failure"].astype("str"), strict=True)) == {k: k for k in EXAMPLES}


def test_a_message_with_escaped_letters_is_recognised() -> None:
    body = json.dumps({"items": [event(1, "oops", {"message": "XX"})]})
    body = body.replace("XX", "\\u0065xceeded LLM call limit for this execution tree")
    builder = FrameBuilder("events", {"session_id": "s"})
    builder.add(body.encode())
    assert turns(builder.finish())["failure"].to_list() == ["llm_calls"]


def test_the_last_event_that_closes_a_turn_decides_how_it_ended() -> None:
    """A failure without an open question of its task joins the turn before it."""
    questions = [event(n, "message", {"text": "?"}, "user") for n in (0, 1)]
    answer = event(2, "runtime_done", {"text": "first"})
    failure = event(4, "oops", {"message": EXAMPLES["llm_calls"]})
    events = [*questions, answer, failure, event(5, "runtime_done", {"text": "second"})]
    table = turns(frame_of({"s": events}))
    assert table["status"].to_list() == ["answered", "answered"]
    assert table["failure"].isna().all()
    assert [row["status"] for row in by_log("s", events)] == ["answered", "answered"]


def test_an_old_open_turn_is_unanswered() -> None:
    frame = frame_of({"s": [event(0, "message", {"text": "?"}, "user"), event(400, "message", {"text": "?"}, "user")]})
    assert turns(frame)["status"].to_list() == ["unanswered", "open"]
    assert turns(frame, unanswered_after="1h")["status"].to_list() == ["open", "open"]
    assert turns(frame, as_of=START + timedelta(days=1))["status"].to_list() == ["unanswered", "unanswered"]
    frame.attrs["agentbook"] = {"loaded_at": (START + timedelta(days=1)).isoformat()}
    assert turns(frame)["status"].to_list() == ["unanswered", "unanswered"]
    assert turns(frame)["status"].cat.categories.to_list() == list(STATUSES)


def test_a_reply_before_its_question_took_no_time_that_is_known() -> None:
    late = {"created_at": (START + timedelta(days=1)).isoformat()}
    frame = frame_of(
        {"s": [event(0, "message", {"text": "?"}, "user", **late), event(3, "runtime_done", {"text": "!"})]}
    )
    assert turns(frame)["status"].to_list() == ["answered"]
    assert turns(frame)["latency_s"].isna().all()


def test_the_clock_can_be_the_id() -> None:
    frame = frame_of({"s": [event(0, "message", {"text": "?"}, "user"), event(3, "runtime_done", {"text": "!"})]})
    assert turns(frame)["latency_s"].to_list() == [7.5]
    assert turns(frame, clock="at")["latency_s"].to_list() == [0.001]
    with pytest.raises(ValueError, match="created_at"):
        turns(frame, clock="wall")
