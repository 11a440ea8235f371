"""Pairing on whole columns: the question of each event is the one `TurnLog` finds."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
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


def test_a_lost_reply_does_not_shift_those_after_it() -> None:
    table = ab.turns(frame_of(scripted((MESSAGE, None, 0), (MESSAGE, None, 60), (REPLY, None, 60.5))))
    assert table["status"].tolist() == ["unanswered", "answered"]
    assert table["latency_s"].dropna().tolist() == [30.0]
    assert table["matched_by"].astype(object).where(table["matched_by"].notna(), None).tolist() == [None, "order"]


def test_the_task_decides_where_both_carry_it() -> None:
    table = ab.turns(
        frame_of(
            scripted(
                (MESSAGE, "a", 0), (MESSAGE, "b", 1), (MESSAGE, "c", 2), (REPLY, "c", 3), (FAILURE, "b", 4),
            )
        ),
        unanswered_after="1h",
    )  # fmt: skip
    assert table["status"].tolist() == ["open", "failed", "answered"]
    assert table["matched_by"].tolist()[1:] == ["task", "task"]
    assert table["matched_by"].cat.categories.tolist() == ["task", "order"]
