# ruff: noqa: E501 - prose and tables of facts: a sentence or a row is one line
"""History by the yard: any number of sessions and events, for load tests and large frames.

Batches are written as they are made, so a million events never sit in memory; texts are drawn from a few hundred that were written
out once, because what counts here is volume and the shape of the columns.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select

from ..engines.run_limits import RUN_FAILURES, failure
from ..store import tables
from . import event_json, schedule, topics
from .history import EVENT_COLUMNS
from .rows import insert, insert_tuples
from .seeded_ids import DAY_MS, Mint, milliseconds
from .summary import DemoSummary
from .topics.thread import fill, slots

_BATCH = 20_000
_TEXTS = 240
# What a turn is made of: one message, these subtasks (by weight), one reply.
_SUBTASKS, _SUBTASK_WEIGHTS = (0, 1, 2, 3, 5), (4, 5, 4, 2, 1)
_FAILS = 0.03


@dataclass(frozen=True, slots=True)
class _Texts:
    """JSON contents that were encoded once."""

    asks: list[str]
    replies: list[str]
    failures: list[str]
    names: list[str]


def fixtures(
    connection: Connection, *, sessions: int, events: int, seed: int, now: datetime, account: str = "acme"
) -> DemoSummary:
    """Append a realistic history of exactly that size; everything random comes from `seed`.

    Parameters
    ----------
    connection
        Everything is written in the caller's transaction.
    sessions, events
        How many to add, in total. With `events` below `sessions`, some sessions stay empty.
    seed
        Equal seeds, moments and stores give equal rows. Appending twice gives different ids.
    now
        Time zone aware; the history covers the five weeks before.
    account
        Name of the account whose workspaces ``fixtures-1`` to ``fixtures-4`` hold the history; created if absent.

    Returns
    -------
    DemoSummary
        `workspaces` and `agents` are those of the fixtures.

    Raises
    ------
    ValueError
        A negative count, or events without a session to hold them.
    """
    if sessions < 0 or events < 0:
        raise ValueError("Sessions and events are counts: neither can be negative.")
    if events and not sessions:
        raise ValueError("Events need sessions: ask for at least one session.")
    already = connection.execute(select(func.count()).select_from(tables.sessions)).scalar_one()
    mint, now_ms = Mint(f"fixtures:{seed}:{already}"), milliseconds(now)
    account_id = _account(connection, mint, now_ms, account)
    agents = _agents(connection, mint, now_ms, account_id)
    workspaces = _workspaces(connection, mint, now_ms, account_id, agents)
    texts = _texts(mint.rng)
    shares = _shares(mint.rng, sessions, events)
    begins = schedule.moments(mint.rng, sessions, now_ms)
    who = event_json.author("user", account_id, account)
    authors = {name: event_json.author("agent", id_, name) for name, id_ in agents.items()}
    session_rows: list[dict[str, Any]] = []
    event_rows: list[tuple[Any, ...]] = []
    for begins_ms, share in zip(begins, shares, strict=True):
        agent = mint.rng.choice(list(agents))
        id_ = mint.id(begins_ms)
        event_rows += _events(mint, id_, begins_ms, share, texts, who, authors[agent], now_ms)
        session_rows.append(
            {
                "id": id_,
                "workspace_id": mint.rng.choice(list(workspaces.values())),
                "agent_id": agents[agent],
                "type": "chat",
                "initiator_id": account_id,
                "initiator_type": "user",
                "name": mint.rng.choice(texts.names),
                "created_at": mint.instant(begins_ms),
                "updated_at": event_rows[-1][5] if share else mint.instant(begins_ms),
            }
        )
        if len(event_rows) >= _BATCH:
            insert_tuples(connection, tables.events, EVENT_COLUMNS, event_rows)
            event_rows.clear()
        if len(session_rows) >= _BATCH:
            insert(connection, tables.sessions, session_rows)
            session_rows.clear()
    insert_tuples(connection, tables.events, EVENT_COLUMNS, event_rows)
    insert(connection, tables.sessions, session_rows)
    return DemoSummary(
        account_id=account_id,
        account_name=account,
        users={},
        workspaces=workspaces,
        agents=agents,
        counts={"sessions": sessions, "events": events},
        first_at=mint.instant(begins[0]) if begins else None,
        last_at=mint.instant(begins[-1]) if begins else None,
    )


def _account(connection: Connection, mint: Mint, now_ms: int, name: str) -> str:
    found = connection.execute(select(tables.accounts.c.id).where(tables.accounts.c.name == name)).scalar()
    if found is not None:
        return str(found)
    at = mint.instant(now_ms - 60 * DAY_MS)
    row = {
        "id": mint.id(now_ms - 60 * DAY_MS),
        "type": "organization",
        "name": name,
        "full_name": name,
        "created_at": at,
        "updated_at": at,
    }
    insert(connection, tables.accounts, [row])
    return str(row["id"])


def _named(connection: Connection, table: Any, owner_id: str) -> dict[str, str]:
    rows = connection.execute(select(table.c.name, table.c.id).where(table.c.owner_id == owner_id))
    return {str(name): str(id_) for name, id_ in rows}


def _agents(connection: Connection, mint: Mint, now_ms: int, account_id: str) -> dict[str, str]:
    """Two agents of the account's own that run offline."""
    known, created = _named(connection, tables.agents, account_id), now_ms - 59 * DAY_MS
    at = mint.instant(created)
    wanted = {"fixtures-echo": "echo", "fixtures-verbose": "verbose"}
    rows = [
        {"id": mint.id(created), "owner_id": account_id, "creator_id": account_id, "name": name, "engine": engine, "template": "PLATFORM_NATIVE", "created_at": at, "updated_at": at}
        for name, engine in wanted.items()
        if name not in known
    ]  # fmt: skip
    insert(connection, tables.agents, rows)
    versions = [
        {"id": mint.id(created), "agent_id": row["id"], "creator_id": account_id, "type": "COMMITTED", "version_number": "1.0.0", "published_at": at, "created_at": at, "updated_at": at}
        for row in rows
    ]  # fmt: skip
    insert(connection, tables.agent_versions, versions)
    known |= {row["name"]: row["id"] for row in rows}
    return {name: known[name] for name in wanted}


def _workspaces(
    connection: Connection, mint: Mint, now_ms: int, account_id: str, agents: Mapping[str, str]
) -> dict[str, str]:
    known, created = _named(connection, tables.workspaces, account_id), now_ms - 58 * DAY_MS
    at = mint.instant(created)
    wanted = [f"fixtures-{number}" for number in range(1, 5)]
    rows = [
        {"id": mint.id(created), "owner_id": account_id, "creator_id": account_id, "name": name, "created_at": at, "updated_at": at}
        for name in wanted
        if name not in known
    ]  # fmt: skip
    insert(connection, tables.workspaces, rows)
    installed = [
        {"id": mint.id(created), "workspace_id": row["id"], "agent_id": agent, "creator_id": account_id, "created_at": at, "updated_at": at}
        for row in rows
        for agent in agents.values()
    ]  # fmt: skip
    insert(connection, tables.workspace_agents, installed)
    known |= {row["name"]: row["id"] for row in rows}
    return {name: known[name] for name in wanted}


def _texts(rng: random.Random) -> _Texts:
    threads = [thread for name in ("support", "data", "release", "sales") for thread in topics.CHATS[name]]
    texts = _Texts([], [], [], [])
    for _ in range(_TEXTS):
        thread, values = rng.choice(threads), slots(rng)
        values["gist"] = fill(thread.gist, values, rng)
        exchange = rng.choice(thread.exchanges)
        texts.asks.append(event_json.text_content(fill(exchange.ask, values, rng)))
        texts.replies.append(event_json.text_content(fill(exchange.reply, values, rng)))
        texts.names.append(fill(thread.name, values, rng))
    for kind in RUN_FAILURES:
        known = failure(kind, "fixtures-1")
        texts.failures.append(event_json.failure_content(known.status, known.error, known.message))
    return texts


def _shares(rng: random.Random, sessions: int, events: int) -> list[int]:
    """How many events each session gets: some long, most short, exactly `events` in all."""
    if not sessions:
        return []
    weights = [rng.lognormvariate(0, 0.8) for _ in range(sessions)]
    scale, carried, shares = events / sum(weights), 0.0, []
    for weight in weights:
        carried += weight * scale
        whole = int(carried)
        shares.append(whole)
        carried -= whole
    shares[-1] += events - sum(shares)
    return shares


def _events(
    mint: Mint, session_id: str, at: int, count: int, texts: _Texts, who: str, agent: str, now_ms: int
) -> Iterator[tuple[Any, ...]]:
    """Exactly `count` events of one session; a last turn that does not fit stays unanswered."""
    # The loop that a million events go through: `random() * n` costs a fifth of `randint`.
    rng, new_id, instant, event, chance = mint.rng, mint.id, mint.instant, event_json.event, mint.rng.random
    # However long a session is, it ends before now: gaps shrink instead of running into the future.
    most = max(2, (now_ms - at) // (count + 1))
    pause_ms, step_ms = min(90_000, most), min(4_000, most)
    written = 0
    while written < count:
        at += 1 + int(chance() * pause_ms)
        task, id_, created = new_id(at - 1), new_id(at), instant(at)
        wire = event(id_, "message", _one(texts.asks, chance()), task, who, created, created)
        yield session_id, id_, "message", task, "user", created, wire
        subtasks = rng.choices(_SUBTASKS, _SUBTASK_WEIGHTS)[0]
        for _ in range(min(subtasks, count - written - 1)):
            at += 1 + int(chance() * step_ms)
            own, id_, created = new_id(at - 1), new_id(at), instant(at)
            wire = event(id_, "runtime_done", "{}", own, agent, created, created)
            yield session_id, id_, "runtime_done", own, "agent", created, wire
        written += 2 + subtasks
        if written > count:
            return
        at += 1 + int(chance() * step_ms)
        id_, created = new_id(at), instant(at)
        if chance() < _FAILS:
            kind, content = "runtime_error", _one(texts.failures, chance())
        else:
            kind, content = "runtime_done", _one(texts.replies, chance())
        yield session_id, id_, kind, task, "agent", created, event(id_, kind, content, task, agent, created, created)


def _one(texts: list[str], chance: float) -> str:
    return texts[int(chance * len(texts))]
