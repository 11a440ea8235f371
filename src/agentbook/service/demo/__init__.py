"""Demo data: a believable month of an organization's work, and bulk synthetic history.

`write` makes the data for the tutorials, Binder and tests: accounts, workspaces, agents
with versions, about 600 sessions with their events, and credentials in every state.
They are the same for everyone: see `month`. `fixtures` appends any number of sessions
and events.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, func, select

from ..store import tables
from .contexts import write_contexts
from .fixtures import fixtures
from .month import write_month
from .people import People
from .prompt_agent import write_prompt_agent
from .rows import DemoSummary, Ids, SeededIds, insert, midnight, read_yaml, to_milliseconds, write_tables
from .workspaces import write_members, write_workspaces

__all__ = ["DemoSummary", "fixtures", "labels", "write"]

ACCOUNT = "acme"


def write(connection: Connection, *, now: datetime) -> DemoSummary:
    """Write the demo data into a store that has none.

    Parameters
    ----------
    connection
        Everything is written in the caller's transaction.
    now
        Time-zone-aware; the month ends just before this time.

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
    ...     summary = write(connection, now=now)
    >>> summary.account_name
    'acme'
    >>> engine.dispose()
    """
    if connection.execute(select(tables.accounts.c.id).where(tables.accounts.c.name == ACCOUNT)).first() is not None:
        raise ValueError(f"The store already has an account named {ACCOUNT!r}: demo data goes into a fresh one.")
    now_ms, seeded, ids = to_milliseconds(now), SeededIds("demo"), Ids()
    write_tables(connection, "accounts.yaml", ids, now_ms)
    people = People(ids["accounts"], ids["api_keys"])
    today_ms = midnight(now_ms)
    workspaces = write_workspaces(connection, seeded, today_ms, people)
    write_members(connection, seeded, today_ms, people, workspaces)
    workspaces = write_prompt_agent(connection, seeded, today_ms, people, workspaces)
    ids["workspaces"], ids["agents"] = dict(workspaces.ids), dict(workspaces.agent_ids)
    ids["workspace_agents"] = {"/".join(pair): id_ for pair, id_ in workspaces.workspace_agent_ids.items()}
    write_tables(connection, "credentials.yaml", ids, now_ms)
    _grant(connection, ids)
    tasks = write_month(connection, ids, now_ms)
    write_contexts(connection, seeded, now_ms, people, workspaces, tasks)
    return _summary(connection, ids)


def labels() -> list[dict[str, str]]:
    """Sixty labels that two colleagues gave to turns of the month.

    Returns
    -------
    list of dict
        ``message``: the end of the id of the turn's question, without its time, which
        is the same in each of the seven months; ``rater``, ``question``, ``value``.

    Examples
    --------
    >>> len(labels())
    60
    """
    return [
        dict(zip(("message", "rater", "question", "value"), row, strict=True))
        for row in read_yaml("labels.yaml")["labels"]
    ]


def _grant(connection: Connection, ids: Ids) -> None:
    """Grant each credential to its target, and three of them to a second agent."""
    pairs = [
        (name, row["target"]) for name, row in read_yaml("credentials.yaml")["credentials"].items() if "target" in row
    ]
    pairs += [
        ("Company chat", "release/release-notes"),
        ("Order system", "sales/helpdesk"),
        ("Warehouse (reader)", "finance/data-desk"),
    ]
    rows = [
        {"credential_id": ids["credentials"][name], "workspace_agent_id": ids["workspace_agents"][agent]}
        for name, agent in pairs
        if agent != "unknown"
    ]
    insert(connection, tables.credential_grants, rows)


def _summary(connection: Connection, ids: Ids) -> DemoSummary:
    counts = {
        name: connection.execute(select(func.count()).select_from(table)).scalar_one()
        for name, table in tables.metadata.tables.items()
        if name not in {"meta", "pending_turns"}
    }
    first, last = connection.execute(
        select(func.min(tables.sessions.c.created_at), func.max(tables.sessions.c.created_at))
    ).one()
    return DemoSummary(
        account_id=ids["accounts"][ACCOUNT],
        account_name=ACCOUNT,
        users=ids["accounts"],
        workspaces=ids["workspaces"],
        agents=ids["agents"],
        counts=counts,
        first_at=first,
        last_at=last,
    )
