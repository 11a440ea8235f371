"""`load_history`: everything a credential may read of an account, as one object."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from typing import Any, Literal

import pandas as pd

from ...api.calls import ref
from ...api.connection import Connection
from ...api.errors import AgentbookError, NotFound, PartialLoad
from ...api.span import Span, parse_span, zone
from ..load.events import EventsLoad, advice_on, check_load
from ..load.loader import MAX_CONCURRENCY, Progress
from ..load.session_ids import require_client
from ..parse.frame import to_frame
from .catalog import Catalog, CatalogLoad, refs_of
from .history import History

OPERATION = "load_history"
# A session whose latest change is this much older than the span has no events in it:
# platforms write `updated_at` when a turn begins or ends, not at each event.
_UNCHANGED_FOR = pd.Timedelta("1D")
# Events from this long before the span are also read: they hold the questions to its
# first replies.
LEAD = pd.Timedelta("1h")


def load_history(
    client: Connection,
    account: Any = None,
    *,
    workspaces: Any = None,
    since: Any = None,
    until: Any = None,
    tz: str | tzinfo | None = None,
    contexts: bool = False,
    progress: bool | None = None,
    errors: Literal["raise", "keep"] = "raise",
    concurrency: int = MAX_CONCURRENCY,
) -> History:
    """Everything that a credential may read of an account's workspaces, as one object.

    Parameters
    ----------
    client : Client
    account : str or Record, optional
        Id or name of the account; None for all workspaces that the credential sees.
    workspaces : str, Record, DataFrame or iterable, optional
        Only these workspaces, by id, full name or record; None for all.
    since, until : str, datetime, date or timedelta, optional
        Events from `since` on and before `until`: lengths of time before now such as
        ``"30d"``; dates, which begin at midnight in `tz`; instants; or times on the
        clock of `tz`, such as ``"2026-11-20 09:00"``. None leaves an end open.
    tz : str or tzinfo, optional
        Time zone of `since` and `until`, and in which the report, charts, analyses and
        `Explorer` of the history show times, as an IANA name or `zoneinfo.ZoneInfo`.
        Default UTC. The frames stay in UTC.
    contexts : bool
        Whether to read the workspaces' contexts too, for `context_status`: a request
        per workspace.
    progress : bool, optional
        True shows one bar for the whole load, with rows and rate.
    errors : {"raise", "keep"}
        What to do about sessions whose events cannot be read: raise `PartialLoad`, or
        return the history without them, named in `History.missing`.
    concurrency : int
        As for `load_events`; the lists of several workspaces are read in parallel too.

    Returns
    -------
    History

    Raises
    ------
    PartialLoad
        Events of some sessions could not be read, or the load was interrupted or
        refused half-way. `partial_frame` has the events that had arrived; `resume()`
        loads what is missing and returns the `History`, unless the key lacks a scope:
        the message names it.
    NotFound, Unauthorized, InsufficientScope
        If the account's workspaces cannot be read, or a workspace that was named.
    TypeError
        `client` is not a `Client`.
    ValueError
        An argument is invalid; the message names it.

    Notes
    -----
    Where the platform lists no sessions, the sessions of `agentbook.session_log` are
    used, and the history says that it is not complete. The same applies to agents and
    credentials that the credential may not read. A session whose ``updated_at`` is more
    than a day before `since` is not read. A platform lists a workspace that is
    restricted to its members only to those members, never to an account key.
    Specification: "Endpoints", Accounts; Workspaces and sessions; gaps in this part.

    Examples
    --------
    >>> history = load_history(client, "acme", since="90d")
    >>> medians = history.turns.groupby("agent")["latency_s"].median()
    >>> bool(medians.notna().any())
    True
    """
    require_client(client, "ab.load_history")
    check_load(errors, concurrency)
    name = None if account is None else ref(account)
    selected = None if workspaces is None else refs_of(workspaces)
    lists = CatalogLoad(client, name, selected, contexts=contexts, concurrency=concurrency)
    tz = None if tz is None else zone(tz).key
    span = parse_span(since, until, tz)
    events_load: EventsLoad | None = None

    def run() -> History:
        """Load what is missing."""
        nonlocal events_load
        with Progress(progress) as bar:
            catalog = _read_catalog(lists, bar, run)
            if events_load is None:
                lead = Span(None if span.since is None else span.since - LEAD)
                events_load = EventsLoad(client, sessions_within(catalog.sessions, span), lead, None, concurrency)
            events = events_load.run(errors, bar, resume=run)
        return history_of(catalog, events, name, span, tz)

    return run()


def _read_catalog(lists: CatalogLoad, bar: Progress, run: Callable[[], History]) -> Catalog:
    try:
        return lists.read(bar)
    except NotFound:
        raise  # resuming would fail the same way
    except (AgentbookError, KeyboardInterrupt) as stopped:
        if not lists.rows:
            raise
        reason = "interrupted" if isinstance(stopped, KeyboardInterrupt) else str(stopped)
        raise PartialLoad(
            f"{OPERATION}: stopped after {lists.rows:,} rows of lists, before any event ({reason}); "
            f"{advice_on([stopped])}.",
            operation=OPERATION, partial_frame=to_frame("events", []), problems={OPERATION: reason}, _resume=run,
        ) from stopped  # fmt: skip


def history_of(
    catalog: Catalog, events: pd.DataFrame, account: str | None, span: Span, tz: str | None = None
) -> History:
    """The history of a catalog and the events of its sessions."""
    failed = events.attrs.get("agentbook", {}).get("failed_sessions", {})
    return History(
        events,
        catalog.sessions,
        workspaces=catalog.workspaces,
        agents=catalog.agents,
        credentials=catalog.credentials,
        contexts=catalog.contexts,
        account=account,
        since=None if span.since is None else pd.Timestamp(span.since),
        until=None if span.until is None else pd.Timestamp(span.until),
        tz=tz,
        missing={**catalog.missing, **{f"session {session}": reason for session, reason in failed.items()}},
    )


def sessions_within(sessions: pd.DataFrame, span: Span) -> list[str]:
    """The ids of the sessions that may have events in the span."""
    outside = pd.Series(False, sessions.index)
    if span.since is not None:
        outside |= (sessions["updated_at"] < span.since - _UNCHANGED_FOR).fillna(False)
    if span.until is not None:
        outside |= (sessions["created_at"] >= span.until).fillna(False)
    return list(sessions.loc[~outside, "id"].dropna().drop_duplicates())
