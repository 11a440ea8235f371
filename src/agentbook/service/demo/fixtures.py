"""Bulk synthetic history: any number of sessions and events, for load tests.

Batches are written as they are made, so a million events are never all in memory. Texts
are drawn from a few hundred, because what matters here is volume and the shape of the
columns.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table, func, select

from ..engines.meter import RUN_FAILURES, failure
from ..ids import instant_of_ms
from ..store import tables
from .month import Author, EventRow, event_row, office_moment
from .rows import DAY_MS, SeededIds, insert, midnight, to_milliseconds
from .texts import fill, thread_values, threads

Content = Mapping[str, Any]

_BATCH = 20_000
_TEXTS, _DAYS = 240, 35
# A turn is one message, a number of subtasks drawn by these weights, and one reply.
_SUBTASKS, _SUBTASK_WEIGHTS = (0, 1, 2, 3, 5), (4, 5, 4, 2, 1)
_FAILURE_RATE = 0.03
_AGENTS = {"fixtures-echo": "echo", "fixtures-verbose": "verbose"}
_WORKSPACES = tuple(f"fixtures-{number}" for number in range(1, 5))


def fixtures(
    connection: Connection, *, sessions: int, events: int, seed: int, now: datetime, account: str = "acme"
) -> tuple[str, ...]:
    """Append a realistic history of exactly the given size.

    Parameters
    ----------
    connection
        Everything is written in the caller's transaction.
    sessions, events
        How many to add in total; events need a session. If `events` is less than
        `sessions`, some sessions stay empty.
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
    tuple of str
        The names of the workspaces.
    """
    existing = connection.execute(select(func.count()).select_from(tables.sessions)).scalar_one()
    seeded, now_ms = SeededIds(f"fixtures:{seed}:{existing}"), to_milliseconds(now)
    rng = seeded.rng
    account_id, agents, workspaces = _places(connection, seeded, now_ms - 60 * DAY_MS, account)
    texts = _Texts(rng)
    starts = sorted(office_moment(seeded, midnight(now_ms, rng.randint(1, _DAYS))) for _ in range(sessions))
    person = {"type": "user", "id": account_id, "name": account}
    authors = {id_: {"type": "agent", "id": id_, "name": name} for name, id_ in agents.items()}
    session_rows: list[dict[str, Any]] = []
    event_rows: list[EventRow] = []
    # A few sessions are long, most are short.
    lengths = [rng.lognormvariate(0, 0.8) for _ in range(sessions)]
    counts = Counter(rng.choices(range(sessions), lengths, k=events) if events else ())
    for number, start in enumerate(starts):
        agent_id, count = rng.choice(list(authors)), counts[number]
        id_ = seeded.id(start)
        event_rows += _events(seeded, id_, start, count, texts, person, authors[agent_id], now_ms)
        session_rows.append(
            {
                "id": id_,
                "workspace_id": rng.choice(workspaces),
                "agent_id": agent_id,
                "type": "chat",
                "initiator_id": account_id,
                "initiator_type": "user",
                "name": rng.choice(texts.names),
                "created_at": instant_of_ms(start),
                "updated_at": event_rows[-1].created_at if count else instant_of_ms(start),
            }
        )
        if len(event_rows) >= _BATCH or len(session_rows) >= _BATCH:
            _flush(connection, session_rows, event_rows)
    _flush(connection, session_rows, event_rows)
    return _WORKSPACES


def _flush(connection: Connection, session_rows: list[dict[str, Any]], event_rows: list[EventRow]) -> None:
    insert(connection, tables.events, [row._asdict() for row in event_rows])
    insert(connection, tables.sessions, session_rows)
    event_rows.clear()
    session_rows.clear()


def _places(
    connection: Connection, seeded: SeededIds, created: int, account: str
) -> tuple[str, dict[str, str], list[str]]:
    """The ids of the account, its agents, which run offline, and its workspaces."""

    def get(table: Table, identity: dict[str, str], **values: Any) -> str:
        """The id of the row with this identity, which is made if it is absent."""
        is_it = [table.c[name] == value for name, value in identity.items()]
        id_ = connection.execute(select(table.c.id).where(*is_it)).scalar()
        if id_ is None:
            id_ = seeded.id(created)
            connection.execute(table.insert(), {"id": id_, **identity, **values, **seeded.timestamps(created)})
        return str(id_)

    account_id = get(tables.accounts, {"name": account}, type="organization", full_name=account)
    owner, creator = {"owner_id": account_id}, {"creator_id": account_id}
    workspaces = [get(tables.workspaces, {"name": name, **owner}, **creator) for name in _WORKSPACES]
    agents = {}
    version = {"type": "COMMITTED", "version_number": "1.0.0", "published_at": instant_of_ms(created)}
    for name, engine in _AGENTS.items():
        id_ = get(tables.agents, {"name": name, **owner}, engine=engine, template="PLATFORM_NATIVE", **creator)
        agents[name] = id_
        get(tables.agent_versions, {"agent_id": id_}, **version, **creator)
        for workspace in workspaces:
            get(tables.workspace_agents, {"workspace_id": workspace, "agent_id": id_}, **creator)
    return account_id, agents, workspaces


class _Texts:
    """Names of sessions, and contents of events."""

    def __init__(self, rng: random.Random) -> None:
        pool = [thread for workspace in ("support", "data", "release", "sales") for thread in threads(workspace)]
        self.questions: list[Content] = []
        self.answers: list[Content] = []
        self.names: list[str] = []
        for thread in rng.choices(pool, k=_TEXTS):
            values, exchange = thread_values(thread, rng), rng.choice(thread.exchanges)
            self.questions.append({"text": fill(exchange.ask, values, rng)})
            self.answers.append({"text": fill(exchange.reply, values, rng)})
            self.names.append(fill(thread.name, values, rng))
        self.failures: list[Content] = [asdict(failure(kind, _WORKSPACES[0])) for kind in RUN_FAILURES]


def _events(
    seeded: SeededIds, session_id: str, at: int, count: int, texts: _Texts, person: Author, agent: Author, now_ms: int
) -> Iterator[EventRow]:
    """Exactly `count` events of one session.

    If the last turn does not fit, it is left unanswered.
    """
    # `random() * n` costs a fifth of `randint`.
    rng, new_id, chance = seeded.rng, seeded.id, seeded.rng.random
    # A long session has shorter pauses, so that it ends before now.
    max_pause_ms = max(2, (now_ms - at) // (count + 1))
    pause_ms, step_ms = min(90_000, max_pause_ms), min(4_000, max_pause_ms)
    event_count = 0
    while event_count < count:
        at += 1 + int(chance() * pause_ms)
        task = new_id(at - 1)
        yield event_row(
            seeded, session_id, at, "message", task, person, content=texts.questions[int(chance() * _TEXTS)]
        )
        subtasks = rng.choices(_SUBTASKS, _SUBTASK_WEIGHTS)[0]
        for _ in range(min(subtasks, count - event_count - 1)):
            begin = at  # a task's id says when it began
            at += 1 + int(chance() * step_ms)
            yield event_row(seeded, session_id, at, "runtime_done", new_id(begin), agent, content={})
        event_count += 2 + subtasks
        if event_count > count:
            return
        at += 1 + int(chance() * step_ms)
        fails = chance() < _FAILURE_RATE
        kind, contents = "runtime_error" if fails else "runtime_done", texts.failures if fails else texts.answers
        yield event_row(seeded, session_id, at, kind, task, agent, content=contents[int(chance() * len(contents))])
