"""Demo data: a believable month of an organization's life on the platform, and history by the yard.

`write` makes the data that tutorials, Binder and tests run on: accounts, workspaces, agents with versions, some 600 sessions with
their events, credentials in every state. `fixtures` appends any number of sessions and events. Both are functions of (seed, now):
equal arguments on an equal store give equal rows.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, func, select

from ..store import tables
from . import credentials, history, notes, people, prompt_agent, workspaces
from .fixtures import fixtures
from .seeded_ids import Mint, milliseconds
from .summary import DemoSummary

__all__ = ["DemoSummary", "fixtures", "write"]

ACCOUNT = "acme"


def write(connection: Connection, *, seed: int, now: datetime) -> DemoSummary:
    """Write the demo data into a store that has none.

    Parameters
    ----------
    connection
        Everything is written in the caller's transaction.
    seed
        Everything random comes from it.
    now
        Time zone aware; the history ends just before.

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
    ...     summary = write(connection, seed=1, now=datetime(2026, 11, 20, 15, tzinfo=UTC))
    >>> summary.account_name
    'acme'
    >>> engine.dispose()
    """
    if connection.execute(select(tables.accounts.c.id).where(tables.accounts.c.name == ACCOUNT)).first() is not None:
        raise ValueError(f"The store already has an account named {ACCOUNT!r}: demo data goes into a fresh one.")
    mint, now_ms = Mint(f"demo:{seed}:{milliseconds(now)}"), milliseconds(now)
    who = people.write(connection, mint, now_ms)
    where = workspaces.write(connection, mint, now_ms, who)
    credentials.write(connection, mint, now_ms, who, where)
    told = history.write(connection, mint, now_ms, who, where)
    notes.write(connection, mint, now_ms, who, where, told)
    where = prompt_agent.write(connection, Mint(f"scribe:{seed}:{milliseconds(now)}"), now_ms, who, where)
    return _summary(connection, who, where)


def _summary(connection: Connection, who: people.People, where: workspaces.Places) -> DemoSummary:
    counts = {
        name: connection.execute(select(func.count()).select_from(table)).scalar_one()
        for name, table in tables.metadata.tables.items()
        if name not in {"meta", "pending_turns"}
    }
    first, last = connection.execute(
        select(func.min(tables.sessions.c.created_at), func.max(tables.sessions.c.created_at))
    ).one()
    return DemoSummary(
        account_id=who.accounts[ACCOUNT],
        account_name=ACCOUNT,
        users=who.accounts,
        workspaces=where.workspaces,
        agents=where.agents,
        counts=counts,
        first_at=first,
        last_at=last,
    )
