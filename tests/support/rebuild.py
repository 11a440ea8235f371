"""Turns, steps and percentiles from the service's database, without the toolkit's code.

Written from the specification ("Events"; "Errors", runtime limit failures) and the
design's interpretation of it, in SQL and plain Python, to check
`agentbook.frames.analysis`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, create_engine

from agentbook.frames.parse.frame import FrameBuilder
from agentbook.service import demo
from agentbook.service.store import tables

NOW = datetime(2026, 11, 20, 15, 30, tzinfo=UTC)
PATIENCE_S = 15 * 60
EVENTS_PER_TURN = 3.45

# What each event does to a turn. The kinds of failure are those of "Errors".
EVENTS = """
SELECT session_id, id, json_extract(wire, '$.task_id') AS task_id,
       round((julianday(json_extract(wire, '$.created_at')) - 2440587.5) * 86400, 3) AS at,
       round((julianday(json_extract(wire, '$.step.started_at')) - 2440587.5) * 86400, 3) AS started,
       CASE
         WHEN type IN ('runtime_done', 'runtime_error') THEN 0
         ELSE coalesce(json_extract(wire, '$.author.type'), 'agent') NOT LIKE '%agent%'
       END AS asks,
       type = 'runtime_done' AND json_extract(wire, '$.content.text') IS NOT NULL AS replies,
       type = 'runtime_done' AND json_extract(wire, '$.content.text') IS NULL AS is_step,
       CASE WHEN type = 'runtime_error' THEN
         CASE
           WHEN json_extract(wire, '$.content.message') LIKE '%413 Request Entity Too Large%' THEN 'state_size'
           WHEN json_extract(wire, '$.content.message') LIKE '%exceeded LLM request size limit%' THEN 'llm_request_size'
           WHEN json_extract(wire, '$.content.message') LIKE '%exceeded LLM call limit%' THEN 'llm_calls'
           WHEN json_extract(wire, '$.content.message') LIKE '%exceeded LLM token limit%' THEN 'llm_tokens'
           WHEN json_extract(wire, '$.content.message') LIKE '%exceeded agent task limit%' THEN 'agent_tasks'
           WHEN json_extract(wire, '$.content.message') LIKE '%exceeded tool fan-out limit%' THEN 'tool_fan_out'
           WHEN json_extract(wire, '$.content.message') LIKE '%budget exceeded for%' THEN 'budget'
           WHEN json_extract(wire, '$.content.message') LIKE '%too many synchronous steps%' THEN 'synchronous_steps'
           WHEN json_extract(wire, '$.content.message') LIKE 'TURN_TIMEOUT:%' THEN 'turn_timeout'
           ELSE 'error'
         END
       END AS failure
FROM events ORDER BY session_id, id
"""

# Percentiles of answered turns by agent, linearly interpolated.
PERCENTILES = """
WITH ranked AS (
  SELECT s.agent_id, t.latency_s,
         row_number() OVER (PARTITION BY s.agent_id ORDER BY t.latency_s) - 1 AS place,
         count(*) OVER (PARTITION BY s.agent_id) AS n
  FROM rebuilt_turns t JOIN sessions s ON s.id = t.session_id
  WHERE t.status = 'answered' AND t.latency_s IS NOT NULL
)
SELECT agent_id, n, :q AS q,
       sum(latency_s * max(0, 1 - abs(place - :q * (n - 1)))) AS seconds
FROM ranked GROUP BY agent_id, n ORDER BY agent_id
"""


@dataclass(slots=True)
class RebuiltTurn:
    """A turn as the specification describes it."""

    session_id: str
    task_id: str | None
    asked_at: float | None
    status: str = "open"
    replied_at: float | None = None
    failure: str | None = None
    events: int = 0
    steps: list[tuple[str | None, float, float | None]] = field(default_factory=list)
    reply_task_id: str | None = None

    @property
    def is_open(self) -> bool:
        return self.status == "open"


def generated(turns: int, *, with_demo: bool = True) -> Connection:
    """A store with a demo, and a generated history of about that many turns.

    In some sessions, replies are missing or have no task, so that the order of the
    questions decides.
    """
    connection = create_engine("sqlite://").connect()
    tables.metadata.create_all(connection)
    if with_demo:
        demo.write(connection, now=NOW)
    events = round(turns * EVENTS_PER_TURN)
    demo.fixtures(connection, sessions=max(turns // 10, 1), events=events, seed=4, now=NOW)
    database = raw(connection)
    some = "session_id IN (SELECT id FROM sessions WHERE instr('{}', substr(id, -1)))"
    database.execute(
        f"DELETE FROM events WHERE type = 'runtime_done' AND json_extract(wire, '$.content.text') IS NOT NULL "
        f"AND instr('012', substr(id, -1)) AND {some.format('0123')}"
    )
    without_task = "UPDATE events SET wire = json_remove(wire, '$.task_id') WHERE"
    database.execute(
        f"{without_task} json_extract(wire, '$.content.text') IS NOT NULL AND type != 'message' AND {some.format('345')}"
    )
    database.execute(f"{without_task} {some.format('16')}")
    return connection


def raw(connection: Connection) -> sqlite3.Connection:
    """SQLite's own connection."""
    database: Any = connection.connection.driver_connection
    assert isinstance(database, sqlite3.Connection)
    return database


def read_frame(database: sqlite3.Connection) -> Any:
    """The events as the toolkit loads them."""
    builder = FrameBuilder("events")
    rows = database.execute(
        "SELECT e.session_id, s.agent_id, e.wire FROM events e JOIN sessions s ON s.id = e.session_id "
        "ORDER BY e.session_id, e.id"
    )
    for (session_id, agent_id), items in groupby(rows, key=lambda row: row[:2]):
        page = '{"items":[' + ",".join(item[2] for item in items) + "]}"
        builder.add(page.encode(), {"session_id": session_id, "agent_id": agent_id})
    return builder.finish()


def rebuild_turns(database: sqlite3.Connection, as_of: float) -> list[RebuiltTurn]:
    """The turns of all sessions, by session and question."""
    database.row_factory = sqlite3.Row
    rows = database.execute(EVENTS)
    turns = [turn for _, events in groupby(rows, key=lambda row: row["session_id"]) for turn in _of_session(events)]
    for turn in turns:
        if turn.is_open and turn.asked_at is not None and as_of - turn.asked_at > PATIENCE_S:
            turn.status = "unanswered"
    return turns


def _of_session(events: Iterator[sqlite3.Row]) -> list[RebuiltTurn]:
    turns: list[RebuiltTurn] = []
    latest = float("-inf")
    for event in events:
        if event["asks"]:
            turns.append(RebuiltTurn(event["session_id"], event["task_id"], event["at"], events=1))
            latest = max(latest, event["at"])
            continue
        closes = event["replies"] or event["failure"] is not None
        turn = _turn_of(event, turns, latest)
        if turn is None and turns and not event["replies"]:
            turn = turns[-1]
        elif turn is None:  # the agent speaks without a question
            turn = RebuiltTurn(event["session_id"], None, None)
            turns.append(turn)
        turn.events += 1
        if event["is_step"]:
            turn.steps.append((event["task_id"], event["at"], event["started"]))
        if closes:
            turn.status = "answered" if event["replies"] else "failed"
            turn.failure, turn.replied_at, turn.reply_task_id = event["failure"], event["at"], event["task_id"]
    return turns


def _turn_of(event: sqlite3.Row, turns: list[RebuiltTurn], latest: float) -> RebuiltTurn | None:
    """The open question with the same task, or else the oldest not abandoned."""
    questions = [turn for turn in turns if turn.is_open]
    waiting = [turn for turn in questions if turn.asked_at is None or latest - turn.asked_at <= PATIENCE_S]
    task_id = event["task_id"]
    if task_id is not None and any(turn.task_id == task_id for turn in turns):
        same = [turn for turn in (*waiting, *questions) if turn.task_id == task_id]
        # A task that already has its reply does not close another task's question.
        return next(iter(same), None) or next((turn for turn in waiting if turn.task_id is None), None)
    return next(iter(waiting), None)


def rebuild_percentiles(
    database: sqlite3.Connection, turns: list[RebuiltTurn], quantiles: tuple[float, ...]
) -> dict[tuple[str, float], tuple[int, float]]:
    """Number and percentile of latency by agent and quantile."""
    database.execute("CREATE TEMP TABLE rebuilt_turns (session_id, status, latency_s)")
    database.executemany(
        "INSERT INTO rebuilt_turns VALUES (?, ?, ?)", [(t.session_id, t.status, latency_of(t)) for t in turns]
    )
    rows = [row for q in quantiles for row in database.execute(PERCENTILES, {"q": q})]
    return {(row["agent_id"], row["q"]): (row["n"], row["seconds"]) for row in rows}


def latency_of(turn: RebuiltTurn) -> float | None:
    """Seconds from the question to the reply or failure."""
    if turn.asked_at is None or turn.replied_at is None:
        return None
    return round(turn.replied_at - turn.asked_at, 3)


def steps_of(turn: RebuiltTurn) -> list[tuple[str | None, float, float | None]]:
    """The task, end and duration of each finished task of a turn, by start.

    A task begins when its event says, or else at the time in its id, if that is a
    UUIDv7 from the time of the turn. Events with the turn's own task, or without one,
    are steps without a start.
    """
    steps = []
    for task_id, ended, started in turn.steps:
        own = task_id is None or task_id in (turn.task_id, turn.reply_task_id if turn.status != "open" else None)
        begin = turn.asked_at if turn.asked_at is not None else ended
        if started is None and not own:
            in_id = int(str(task_id).replace("-", "")[:12], 16) / 1000
            started = max(in_id, begin) if int(begin * 1000) / 1000 <= in_id <= ended else None
        steps.append((task_id, ended, None if started is None else ended - started))
    return sorted(steps, key=lambda step: step[1] - (step[2] or 0))


def moment(seconds: float | None) -> datetime | None:
    """Seconds since the epoch as an instant."""
    return None if seconds is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=round(seconds * 1000))
