"""Demo data: a believable month of an organization's work, and bulk synthetic history.

`write` makes the data for the tutorials, Binder and tests: accounts, workspaces, agents
with versions, about 600 sessions with their events, and credentials in every state.
`fixtures` appends any number of sessions and events. Both are functions of (seed, now):
equal arguments on an equal store give equal rows.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, func, select

from ..store import tables
from .contexts import write_contexts
from .credentials import write_credentials
from .fixtures import fixtures
from .history import write_history
from .people import People, write_people
from .prompt_agent import write_prompt_agent
from .seeded_rows import DemoSummary, SeededIds, to_milliseconds
from .workspaces import Workspaces, write_members, write_workspaces

__all__ = ["DemoSummary", "fixtures", "write"]

ACCOUNT = "acme"


def write(connection: Connection, *, seed: int, now: datetime) -> DemoSummary:
    """Write the demo data into a store that has none.

    Parameters
    ----------
    connection
        Everything is written in the caller's transaction.
    seed
        The seed of everything random.
    now
        Time-zone-aware; the history ends just before this time.

    Returns
    -------
    DemoSummary

    Raises
    ------
    ValueError
        The store already has an account named ``acme``.

    Examples
    --------
    >>> from datetime import UTC
    >>> from sqlalchemy import create_engine
    >>> engine = create_engine("sqlite://")
    >>> tables.metadata.create_all(engine)
    >>> with engine.begin() as connection:
    ...     now = datetime(2026, 11, 20, 15, tzinfo=UTC)
    ...     summary = write(connection, seed=1, now=now)
    >>> summary.account_name
    'acme'
    >>> engine.dispose()
    """
    if connection.execute(select(tables.accounts.c.id).where(tables.accounts.c.name == ACCOUNT)).first() is not None:
        raise ValueError(f"The store already has an account named {ACCOUNT!r}: demo data goes into a fresh one.")
    now_ms = to_milliseconds(now)
    seeded = SeededIds(f"demo:{seed}:{now_ms}")
    people = write_people(connection, seeded, now_ms)
    workspaces = write_workspaces(connection, seeded, now_ms, people)
    write_credentials(connection, seeded, now_ms, people, workspaces)
    tasks = write_history(connection, seeded, now_ms, people, workspaces)
    write_contexts(connection, seeded, now_ms, people, workspaces, tasks)
    # Last, and with their own random numbers, so that all other demo data are the same
    # as they would be without them.
    write_members(connection, SeededIds(f"members:{seed}:{now_ms}"), now_ms, people, workspaces)
    workspaces = write_prompt_agent(connection, SeededIds(f"scribe:{seed}:{now_ms}"), now_ms, people, workspaces)
    return _summary(connection, people, workspaces)


def _summary(connection: Connection, people: People, workspaces: Workspaces) -> DemoSummary:
    counts = {
        name: connection.execute(select(func.count()).select_from(table)).scalar_one()
        for name, table in tables.metadata.tables.items()
        if name not in {"meta", "pending_turns"}
    }
    first, last = connection.execute(
        select(func.min(tables.sessions.c.created_at), func.max(tables.sessions.c.created_at))
    ).one()
    return DemoSummary(
        account_id=people.accounts[ACCOUNT],
        account_name=ACCOUNT,
        users=people.accounts,
        workspaces=workspaces.ids,
        agents=workspaces.agent_ids,
        counts=counts,
        first_at=first,
        last_at=last,
    )
