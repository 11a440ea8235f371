"""Demo data: a believable month of an organization's work, and bulk synthetic history.

`write` makes the data for the tutorials, Binder and tests: accounts, workspaces, agents
with versions, about 600 sessions with their events, and credentials in every state.
They are the same for everyone: see `month`. `fixtures` appends any number of sessions
and events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, select
from sqlalchemy.exc import IntegrityError

from ..ids import instant_of_ms
from ..store import Store, Transaction, tables
from .fixtures import fixtures
from .month import AnsweredTask, write_month
from .rows import (
    DAY_MS,
    MINUTE_MS,
    Ids,
    SeededIds,
    insert,
    midnight,
    read_yaml,
    released_ms,
    to_milliseconds,
    write_tables,
)
from .texts import Version, versions

__all__ = ["fixtures", "write", "write_once"]

ACCOUNT = "acme"
_STATE = select(tables.meta.c.value).where(tables.meta.c.name == "demo")
# workspace -> number of contexts that were generated from tasks
_GENERATED_NOTES = {"support": 5, "data": 4, "on-call": 4, "release": 2, "finance": 1, "shop": 1}


def write(connection: Connection, *, now: datetime) -> None:
    """Write the demo data into a store that has none.

    Parameters
    ----------
    connection
        Everything is written in the caller's transaction.
    now
        Time-zone-aware; the month ends just before this time.

    Raises
    ------
    sqlalchemy.exc.IntegrityError
        The store has an account with a name of the demo's.

    Examples
    --------
    >>> from datetime import UTC
    >>> from sqlalchemy import create_engine
    >>> engine = create_engine("sqlite://")
    >>> tables.metadata.create_all(engine)
    >>> with engine.begin() as connection:
    ...     now = datetime(2026, 11, 20, 15, tzinfo=UTC)
    ...     write(connection, now=now)
    ...     len(connection.execute(select(tables.accounts)).all())
    14
    >>> engine.dispose()
    """
    now_ms = to_milliseconds(now)
    ids = write_tables(connection, ("accounts.yaml", "workspaces.yaml", "credentials.yaml"), now_ms)
    insert(connection, tables.agent_versions, list(_versions(ids, now_ms)))
    insert(connection, tables.credential_grants, list(_grants(ids)))
    tasks = write_month(connection, ids, now_ms)
    insert(connection, tables.contexts, list(_notes(ids, now_ms, tasks)))


def write_once(store: Store, *, bare: bool) -> str | None:
    """Write the demo data into a store once, but not into one that began without.

    Returns why it is left out, if that may surprise; `bare` says that none is wanted.
    """

    def write_if_new(tx: Transaction) -> str | None:
        state: str | None = tx.db.execute(_STATE).scalar()
        if state is None:
            if not bare:
                write(tx.db, now=datetime.fromtimestamp(tx.clock.milliseconds() / 1000, UTC))
            insert(tx.db, tables.meta, [{"name": "demo", "value": "bare" if bare else "1"}])
        return state

    try:
        if store.write_now(write_if_new) != "bare" or bare:
            return None
        reason = "the store began with --bare"
    except IntegrityError:  # an account created beforehand has the name of a demo account
        reason = "some of its names are taken"
    return (
        f"the demo data is left out, because {reason}; another directory (--data) can have it, and --bare says that "
        "none is wanted."
    )


def _versions(ids: Ids, now_ms: int) -> Iterator[dict[str, Any]]:
    """The versions of each agent; at least one, because only versions can run."""
    for name, agent in read_yaml("workspaces.yaml")["agents"].items():
        for version in versions().get(name, (Version("1.0.0", "COMMITTED", agent["days"] - 1),)):
            seeded, released = SeededIds(f"{name} {version.number}"), released_ms(now_ms, version.days)
            yield {
                "id": seeded.id(released - 10 * MINUTE_MS),
                "agent_id": ids["agents"][name],
                "creator_id": ids["accounts"][agent["creator"]],
                "type": version.type,
                "version_number": version.number,
                "description": agent["description"],
                "summary": version.summary,
                "system_prompt": version.system_prompt,
                "mode": version.mode,
                "tools_json": msgspec.json.encode(version.tools).decode(),
                "validation": version.validation,
                "published_at": instant_of_ms(released) if version.published else None,
                **seeded.timestamps(released - 10 * MINUTE_MS, released if version.published else None),
            }


def _grants(ids: Ids) -> Iterator[dict[str, str]]:
    """Each credential is granted to its target, and some to other agents too."""
    for name, credential in read_yaml("credentials.yaml")["credentials"].items():
        for agent in [credential.get("target", "unknown"), *credential.get("also", ())]:
            if agent != "unknown":
                agent_id = ids["workspace_agents"][agent]
                yield {"credential_id": ids["credentials"][name], "workspace_agent_id": agent_id}


def _notes(ids: Ids, now_ms: int, tasks: Sequence[AnsweredTask]) -> Iterator[dict[str, Any]]:
    """Contexts generated from tasks of earlier days, the same at any hour of today."""
    seeded = SeededIds("notes")
    for workspace, count in _GENERATED_NOTES.items():
        done = [task for task in tasks if task.workspace == workspace and task.answered_ms < midnight(now_ms)]
        for task in seeded.rng.sample(done, count):
            created = task.answered_ms + seeded.rng.randrange(5 * MINUTE_MS)
            published = created < midnight(now_ms, 3) and seeded.rng.random() < 0.6
            publisher = ids["accounts"]["radia" if workspace == "shop" else "ada"]
            yield {
                "id": seeded.id(created),
                "workspace_id": ids["workspaces"][workspace],
                "task_id": task.id,
                "published_by_id": publisher if published else None,
                "type": "generated",
                "status": "PUBLISHED" if published else "DRAFT",
                "generated_context": f"From the session “{task.session_name}”: what was asked, found and decided.",
                "summary": task.session_name,
                **seeded.timestamps(created, created + (DAY_MS if published else 0)),
            }
