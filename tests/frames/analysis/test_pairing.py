"""Pairing on whole columns: the question of each event is the one `TurnLog` finds."""

from __future__ import annotations

import hashlib
import json
import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentbook as ab
from agentbook.events.turns import TurnLog
from agentbook.frames.analysis.turns import assign_turns, read_events
from agentbook.frames.parse.frame import FrameBuilder
from support.fake_platform.core import event_id

START = datetime(2026, 11, 21, 10, tzinfo=UTC)
MESSAGE, REPLY, FAILURE, SUBTASK, OTHER = "message", "reply", "runtime_error", "subtask", "tool_called"
CONTENT: dict[str, Any] = {
    MESSAGE: {"text": "?"},
    REPLY: {"text": "!"},
    FAILURE: {"status": 500, "message": "broken"},
    SUBTASK: {},
    OTHER: {"step": 1},
}


def event(n: int, kind: str, task: str | None, minutes: float | None, *, draft: bool = False) -> dict[str, Any]:
    moment = None if minutes is None else (START + timedelta(minutes=minutes)).isoformat()
    return {
        "id": f"draft-{n}" if draft else event_id(n, n),
        "type": "runtime_done" if kind in (REPLY, SUBTASK) else kind,
        "content": CONTENT[kind],
        "task_id": task,
        "author": {"type": "api_key" if kind == MESSAGE else "agent"},
        "created_at": moment,
    }


def frame_of(*sessions: list[dict[str, Any]]) -> pd.DataFrame:
    builder = FrameBuilder("events")
    for number, events in enumerate(sessions):
        builder.add(json.dumps({"items": events}).encode(), {"session_id": f"s{number}"})
    return builder.finish()


def scripted(*steps: tuple[str, str | None, float]) -> list[dict[str, Any]]:
    return [event(n, kind, task, minutes) for n, (kind, task, minutes) in enumerate(steps)]


# Kind, task, minutes since the event before (None: no time), and whether it is a draft.
STEPS = st.lists(
    st.tuples(
        st.sampled_from([MESSAGE, MESSAGE, MESSAGE, REPLY, REPLY, FAILURE, SUBTASK, OTHER]),
        st.sampled_from([None, None, "a", "b", "c"]),
        st.sampled_from([0, 0, 1, 6, 15, 15.001, 40, -8, -30, None]),
        st.sampled_from([False] * 9 + [True]),
    ),
    max_size=20,
)


def built(steps: list[Any]) -> list[dict[str, Any]]:
    events, now = [], 0.0
    for n, (kind, task, minutes, draft) in enumerate(steps):
        now += minutes or 0
        events.append(event(n, kind, task, None if minutes is None else now, draft=draft))
    return events


@given(scripts=st.lists(STEPS, max_size=3), patience=st.sampled_from([0, 10, 15, 10_000_000]))
def test_the_turn_of_each_event_is_that_of_the_turn_log(scripts: list[Any], patience: int) -> None:
    after = timedelta(minutes=patience)
    expected = []
    sessions = [built(steps) for steps in scripts]
    for events in sessions:
        log = TurnLog("s", after)
        for item in events:
            if not item["id"].startswith("draft"):
                log.feed(item)
        expected += [([item["id"] for item in turn.events], turn.matched_by) for turn in log.turns]
    frame = frame_of(*sessions)
    columns = read_events(frame, caller="test")
    turn = assign_turns(columns, after).turn
    ids = columns.events["id"].to_numpy()
    table = ab.turns(frame, unanswered_after=pd.Timedelta(after))
    rules = [None if pd.isna(rule) else rule for rule in table["matched_by"]]
    assert [([*ids[turn == number]], rule) for number, rule in enumerate(rules)] == expected


HASHED = {number: hashlib.sha256(str(number).encode()).hexdigest()[:16] for number in range(200)}
IDS: dict[str, Callable[[int], Any]] = {
    "version 7": lambda number: event_id(number, number),
    "hashed": HASHED.__getitem__,
    "numbers": lambda number: number,
    "version 4": lambda number: str(uuid.UUID(int=int(HASHED[number] * 2, 16), version=4)),
    "some of another system": lambda number: HASHED[number] if number % 2 else event_id(number, number),
}


@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("seed", range(8))
def test_what_is_left_of_a_session_is_read_as_it_was(seed: int, ids: str) -> None:
    """Sessions that are cut and shuffled, whose events carry tasks."""
    draw, rows, truth = random.Random(seed), [], {}
    for number in range(30):
        task, second = f"t{number}", 60 * number
        end = draw.choice([REPLY, REPLY, REPLY, FAILURE, None])
        kinds = [MESSAGE, SUBTASK, *([end] if end else []), *([FAILURE] if end and draw.random() < 0.5 else [])]
        # A reply whose question was cut away would belong to the oldest open one.
        left = [kind for kind in kinds if draw.random() < 0.8]
        left = left if MESSAGE in left else [kind for kind in left if kind != REPLY]
        for kind in left:
            rows.append((second, kind, task))
            second += draw.choice([1, 3, 900])  # some come long after the next question
        if MESSAGE in left:
            ends = [kind for kind in left if kind in (REPLY, FAILURE)]
            truth[task] = {REPLY: "answered", FAILURE: "failed"}[ends[0]] if ends else "open"
    events = [event(n, kind, task, second / 60) for n, (second, kind, task) in enumerate(sorted(rows))]
    frame = frame_of(draw.sample(events, len(events)))
    positions = {item["id"]: n for n, item in enumerate(events)}
    frame = frame.assign(id=[IDS[ids](positions[each]) for each in frame["id"]])
    table = ab.turns(frame, unanswered_after="1000D")
    asked = table[table["message_id"].notna()].set_index("message_id")
    tasks = {str(IDS[ids](n)): item["task_id"] for n, item in enumerate(events)}
    assert {tasks[message]: status for message, status in asked["status"].items()} == truth
    ends = {tasks[message]: tasks[reply] for message, reply in asked["reply_id"].dropna().items()}
    assert all(task == own for task, own in ends.items())
    assert table["events"].sum() == len(frame)
    assert ab.session_summary(frame)["events"].item() == ab.activity(frame, "1D")["events"].sum() == len(frame)


@pytest.mark.parametrize("name", ["turns", "session_summary", "activity", "hour_of_week", "steps", "latency"])
def test_rows_that_cannot_be_read_are_not_left_out_without_a_word(name: str) -> None:
    events = scripted((MESSAGE, "a", 0), (REPLY, "a", 1))
    frame = pd.concat([frame_of(events), frame_of(events).assign(session_id=None), frame_of(events).assign(id=None)])
    with pytest.warns(UserWarning, match="4 of 6 rows"):
        getattr(ab, name)(frame)
    drafts = frame_of(events).assign(type="runtime_draft")
    with pytest.warns(ab.errors.EmptyWarning, match="2 rows are drafts"):
        getattr(ab, name)(drafts)


def test_a_lost_reply_does_not_shift_those_after_it() -> None:
    table = ab.turns(frame_of(scripted((MESSAGE, None, 0), (MESSAGE, None, 60), (REPLY, None, 60.5))))
    assert table["status"].tolist() == ["unanswered", "answered"]
    assert table["latency_s"].dropna().tolist() == [30.0]
    assert table["matched_by"].astype(object).where(table["matched_by"].notna(), None).tolist() == [None, "order"]
