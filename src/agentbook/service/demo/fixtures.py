"""Bulk synthetic history: any number of sessions and events, for load tests.

Batches are written as they are made, so a million events are never all in memory. Texts
are drawn from a few hundred that were encoded once, because what matters here is volume
and the shape of the columns.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table, func, select

from ..engines.run_limits import RUN_FAILURES, failure
from ..store import tables
from . import event_json
from .history import EventRow
from .schedule import office_moments
from .seeded_rows import DAY_MS, DemoSummary, SeededIds, insert, insert_tuples, to_milliseconds
from .texts import fill, thread_values, threads

_BATCH = 20_000
_TEXTS = 240
# A turn is one message, a number of subtasks drawn by these weights, and one reply.
_SUBTASKS, _SUBTASK_WEIGHTS = (0, 1, 2, 3, 5), (4, 5, 4, 2, 1)
_FAILURE_RATE = 0.03
_AGENTS = {"fixtures-echo": "echo", "fixtures-verbose": "verbose"}
_WORKSPACES = tuple(f"fixtures-{number}" for number in range(1, 5))


@dataclass(frozen=True, slots=True)
class _Texts:
    """Names of sessions, and contents of events as JSON text."""

    questions: list[str]
    answers: list[str]
    failures: list[str]
    names: list[str]


def fixtures(
    connection: Connection, *, sessions: int, events: int, seed: int, now: datetime, account: str = "acme"
) -> DemoSummary:
    """Append a realistic history of exactly the given size.

    Parameters
    ----------
    connection
        Everything is written in the caller's transaction.
    sessions, events
        How many to add in total. If `events` is less than `sessions`, some sessions
        stay empty.
    seed
        The seed of everything random: equal seeds, times and stores give equal rows.
        Appending twice gives different ids.
    now
        Time-zone-aware; the history covers the five weeks before this time.
    account
        Name of the account whose workspaces ``fixtures-1`` to ``fixtures-4`` hold the
        history; created if absent.

    Returns
    -------
    DemoSummary
        `workspaces` and `agents` are those of the fixtures.

    Raises
    ------
    ValueError
        A negative count, or events without a session.
    """
    if sessions < 0 or events < 0:
        raise ValueError("Sessions and events are counts: neither can be negative.")
    if events and not sessions:
        raise ValueError("Events need sessions: ask for at least one session.")
    existing = connection.execute(select(func.count()).select_from(tables.sessions)).scalar_one()
    seeded, now_ms = SeededIds(f"fixtures:{seed}:{existing}"), to_milliseconds(now)
    rng = seeded.rng
    account_id = _account(connection, seeded, now_ms, account)
    agents = _agents(connection, seeded, now_ms, account_id)
    workspaces = _workspaces(connection, seeded, now_ms, account_id, agents)
    texts = _texts(rng)
    event_counts = _event_counts(rng, sessions, events)
    starts = office_moments(rng, sessions, now_ms)
    person = event_json.author("user", account_id, account)
    authors = {name: event_json.author("agent", id_, name) for name, id_ in agents.items()}
    session_rows: list[dict[str, Any]] = []
    event_rows: list[tuple[Any, ...]] = []
    for start, count in zip(starts, event_counts, strict=True):
        agent = rng.choice(list(agents))
        id_ = seeded.id(start)
        event_rows += _events(seeded, id_, start, count, texts, person, authors[agent], now_ms)
        last_at = event_rows[-1][5] if count else seeded.instant(start)
        session_rows.append(
            {
                "id": id_,
                "workspace_id": rng.choice(list(workspaces.values())),
                "agent_id": agents[agent],
                "type": "chat",
                "initiator_id": account_id,
                "initiator_type": "user",
                "name": rng.choice(texts.names),
                "created_at": seeded.instant(start),
                "updated_at": last_at,
            }
        )
        if len(event_rows) >= _BATCH:
            insert_tuples(connection, tables.events, EventRow._fields, event_rows)
            event_rows.clear()
        if len(session_rows) >= _BATCH:
            insert(connection, tables.sessions, session_rows)
            session_rows.clear()
    insert_tuples(connection, tables.events, EventRow._fields, event_rows)
    insert(connection, tables.sessions, session_rows)
    return DemoSummary(
        account_id=account_id,
        account_name=account,
        users={},
        workspaces=workspaces,
        agents=agents,
        counts={"sessions": sessions, "events": events},
        first_at=seeded.instant(starts[0]) if starts else None,
        last_at=seeded.instant(starts[-1]) if starts else None,
    )


def _account(connection: Connection, seeded: SeededIds, now_ms: int, name: str) -> str:
    """The id of the account with that name, which is created if absent."""
    id_ = connection.execute(select(tables.accounts.c.id).where(tables.accounts.c.name == name)).scalar()
    if id_ is not None:
        return str(id_)
    created = now_ms - 60 * DAY_MS
    row = {"id": seeded.id(created), "type": "organization", "name": name, "full_name": name}
    insert(connection, tables.accounts, [{**row, **seeded.timestamps(created)}])
    return row["id"]


def _ids_by_name(connection: Connection, table: Table, owner_id: str) -> dict[str, str]:
    rows = connection.execute(select(table.c.name, table.c.id).where(table.c.owner_id == owner_id))
    return {str(name): str(id_) for name, id_ in rows}


def _agents(connection: Connection, seeded: SeededIds, now_ms: int, account_id: str) -> dict[str, str]:
    """Create two agents of the account that run offline."""
    ids, created = _ids_by_name(connection, tables.agents, account_id), now_ms - 59 * DAY_MS
    times = seeded.timestamps(created)
    owner = {"owner_id": account_id, "creator_id": account_id}
    rows = [
        {"id": seeded.id(created), **owner, "name": name, "engine": engine, "template": "PLATFORM_NATIVE", **times}
        for name, engine in _AGENTS.items()
        if name not in ids
    ]
    insert(connection, tables.agents, rows)
    version = {"creator_id": account_id, "type": "COMMITTED", "version_number": "1.0.0"}
    published = {"published_at": times["created_at"], **times}
    versions = [{"id": seeded.id(created), "agent_id": row["id"], **version, **published} for row in rows]
    insert(connection, tables.agent_versions, versions)
    ids |= {row["name"]: row["id"] for row in rows}
    return {name: ids[name] for name in _AGENTS}


def _workspaces(
    connection: Connection, seeded: SeededIds, now_ms: int, account_id: str, agents: Mapping[str, str]
) -> dict[str, str]:
    """Create four workspaces of the account, with both agents installed."""
    ids, created = _ids_by_name(connection, tables.workspaces, account_id), now_ms - 58 * DAY_MS
    times = seeded.timestamps(created)
    rows = [
        {"id": seeded.id(created), "owner_id": account_id, "creator_id": account_id, "name": name, **times}
        for name in _WORKSPACES
        if name not in ids
    ]
    insert(connection, tables.workspaces, rows)
    installed = [
        {"id": seeded.id(created), "workspace_id": row["id"], "agent_id": agent, "creator_id": account_id, **times}
        for row in rows
        for agent in agents.values()
    ]
    insert(connection, tables.workspace_agents, installed)
    ids |= {row["name"]: row["id"] for row in rows}
    return {name: ids[name] for name in _WORKSPACES}


def _texts(rng: random.Random) -> _Texts:
    pool = [thread for workspace in ("support", "data", "release", "sales") for thread in threads(workspace)]
    texts = _Texts([], [], [], [])
    for _ in range(_TEXTS):
        thread = rng.choice(pool)
        values = thread_values(thread, rng)
        exchange = rng.choice(thread.exchanges)
        texts.questions.append(event_json.text_content(fill(exchange.ask, values, rng)))
        texts.answers.append(event_json.text_content(fill(exchange.reply, values, rng)))
        texts.names.append(fill(thread.name, values, rng))
    for kind in RUN_FAILURES:
        run_failure = failure(kind, _WORKSPACES[0])
        texts.failures.append(event_json.failure_content(run_failure.status, run_failure.error, run_failure.message))
    return texts


def _event_counts(rng: random.Random, sessions: int, events: int) -> list[int]:
    """The number of events of each session: a few long, most short, `events` in all."""
    if not sessions:
        return []
    weights = [rng.lognormvariate(0, 0.8) for _ in range(sessions)]
    scale, remainder, counts = events / sum(weights), 0.0, []
    for weight in weights:
        remainder += weight * scale
        count = int(remainder)
        counts.append(count)
        remainder -= count
    counts[-1] += events - sum(counts)
    return counts


def _events(
    seeded: SeededIds, session_id: str, at: int, count: int, texts: _Texts, person: str, agent: str, now_ms: int
) -> Iterator[tuple[Any, ...]]:
    """Exactly `count` events of one session, as plain tuples like `EventRow`.

    If the last turn does not fit, it is left unanswered.
    """
    # The inner loop for millions of events: `random() * n` costs a fifth of `randint`.
    rng, new_id, instant, event, chance = seeded.rng, seeded.id, seeded.instant, event_json.event, seeded.rng.random
    # A long session has shorter pauses, so that it ends before now.
    max_pause_ms = max(2, (now_ms - at) // (count + 1))
    pause_ms, step_ms = min(90_000, max_pause_ms), min(4_000, max_pause_ms)
    event_count = 0
    while event_count < count:
        at += 1 + int(chance() * pause_ms)
        task, id_, created = new_id(at - 1), new_id(at), instant(at)
        json_text = event(id_, "message", _pick(texts.questions, chance()), task, person, created, created)
        yield session_id, id_, "message", task, "user", created, len(json_text.encode()), json_text
        subtasks = rng.choices(_SUBTASKS, _SUBTASK_WEIGHTS)[0]
        for _ in range(min(subtasks, count - event_count - 1)):
            begin = at  # a task's id says when it began
            at += 1 + int(chance() * step_ms)
            subtask, id_, created = new_id(begin), new_id(at), instant(at)
            json_text = event(id_, "runtime_done", "{}", subtask, agent, created, created)
            yield session_id, id_, "runtime_done", subtask, "agent", created, len(json_text.encode()), json_text
        event_count += 2 + subtasks
        if event_count > count:
            return
        at += 1 + int(chance() * step_ms)
        id_, created = new_id(at), instant(at)
        if chance() < _FAILURE_RATE:
            kind, content = "runtime_error", _pick(texts.failures, chance())
        else:
            kind, content = "runtime_done", _pick(texts.answers, chance())
        json_text = event(id_, kind, content, task, agent, created, created)
        yield session_id, id_, kind, task, "agent", created, len(json_text.encode()), json_text


def _pick(texts: list[str], chance: float) -> str:
    return texts[int(chance * len(texts))]
