"""The history of an account: its workspaces, sessions, events and turns, with names.

Specification: "Endpoints", Accounts; Workspaces and sessions; "Events".
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa

from ..api.calls import ListCall, ref
from ..api.connection import Connection
from ..api.endpoints import agents as agents_endpoint
from ..api.endpoints import credentials as credentials_endpoint
from ..api.endpoints import me as me_endpoint
from ..api.endpoints import sessions as sessions_endpoint
from ..api.endpoints import workspaces as workspaces_endpoint
from ..api.errors import Forbidden, NotFound, NotOffered, PartialLoad
from . import session_log
from .analysis.event_columns import rows_at
from .analysis.labels import with_sessions
from .analysis.turns import turns
from .analysis.validate import instant_of, length_of
from .export import to_arrow
from .load.concurrency import MAX_CONCURRENCY
from .load.events import EventsLoad
from .load.listing import ListingLoad
from .load.session_ids import require_client
from .parse.frame import to_frame, to_pandas
from .parse.schemas import STR

# A session whose latest change is this much older than the span has no event in it:
# platforms write `updated_at` when a turn begins or ends, not at each event.
_UNCHANGED_FOR = pd.Timedelta("1D")
_LENGTH = re.compile(r"\s*\d+(?:\.\d+)?\s*[A-Za-z]+\s*")  # "30d"
_REFUSALS = (Forbidden, NotFound)  # what this credential may not read
_NAMES = ("workspace", "agent", "session", "workspace_id", "agent_id")


class History:
    """What happened in an account's workspaces, as frames that carry names.

    Made by `load_history`.

    Attributes
    ----------
    account : str or None
        The account whose workspaces were read; None for those of the credential.
    since, until : Timestamp or None
        The span; None where it is open.
    workspaces, agents, credentials : DataFrame
        The columns of their lists. `agents` has every agent of `sessions` that the
        credential may read, archived ones too.
    sessions : DataFrame
        The columns of a list of sessions, with ``workspace`` and ``agent``: names.
    events : DataFrame
        The columns of `load_events`, with ``workspace``, ``agent``, ``session``,
        ``workspace_id`` and ``agent_id``, by session and id.
    missing : dict
        What could not be read, such as ``"credentials"``, and why.

    Notes
    -----
    Specification: "Endpoints", Accounts; Workspaces and sessions.

    Examples
    --------
    >>> history = load_history(client, "acme")
    >>> names = set(history.workspaces["full_name"])
    >>> history.complete, set(history.turns["workspace"]) <= names
    (True, True)
    """

    def __init__(
        self,
        account: str | None,
        span: tuple[pd.Timestamp | None, pd.Timestamp | None],
        entities: _Entities,
        events: pd.DataFrame,
    ) -> None:
        self.account = account
        self.since, self.until = span
        self.workspaces, self.agents, self.credentials = entities.workspaces, entities.agents, entities.credentials
        self.sessions = entities.sessions
        self.missing = {
            **entities.missing,
            **{f"session {session}": why for session, why in events.attrs["agentbook"]["failed_sessions"].items()},
        }
        self.events = self._with_names(self._within_span(events))

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing

    @functools.cached_property
    def turns(self) -> pd.DataFrame:
        """`agentbook.turns` of the events, with ``prompt`` and ``reply`` and the names.

        Computed on first use. A turn belongs to the span if its question does.

        Examples
        --------
        >>> history = load_history(client, "acme")
        >>> {"prompt", "reply", "workspace", "agent"} <= set(history.turns.columns)
        True
        """
        return self._with_names(turns(self.events, texts=True))

    def _with_names(self, frame: pd.DataFrame) -> pd.DataFrame:
        labels = self.sessions.rename(columns={"name": "session"})
        return with_sessions(frame, labels, [name for name in _NAMES if name in labels])

    def _within_span(self, events: pd.DataFrame) -> pd.DataFrame:
        if self.until is None:
            return events
        inside: pd.DataFrame = events[~(events["at"] >= self.until)].reset_index(drop=True)
        inside.attrs = events.attrs
        return inside

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(frame):,} {name}" for name, frame in self._frames().items())
        incomplete = "" if self.complete else f"; incomplete: {', '.join(list(self.missing)[:3])}"
        return f"<History of {self._title()}: {counts}{incomplete}>"

    def _title(self) -> str:
        begin = "the beginning" if self.since is None else f"{self.since:%Y-%m-%d %H:%M}"
        end = "now" if self.until is None else f"{self.until:%Y-%m-%d %H:%M}"
        span = "" if self.since is None and self.until is None else f", {begin} to {end} UTC"
        return f"{self.account or 'this credential'}{span}"

    def _frames(self) -> dict[str, pd.DataFrame]:
        return {name: getattr(self, name) for name in ("workspaces", "sessions", "events", "agents", "credentials")}

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{name}</th><td>{len(frame):,}</td><td style='text-align:left'>"
            f"<code>history.{name}</code></td></tr>"
            for name, frame in self._frames().items()
        )
        reasons = "".join(
            f"<li>{html.escape(part)}: {html.escape(reason)}</li>" for part, reason in list(self.missing.items())[:5]
        )
        more = f"<li>and {len(self.missing) - 5:,} more in <code>history.missing</code></li>"
        incomplete = f"<p>Not complete:</p><ul>{reasons}{more if len(self.missing) > 5 else ''}</ul>" if reasons else ""
        hint = "<p>Turns: <code>history.turns</code></p>"
        return f"<p><b>History</b> of {html.escape(self._title())}</p><table>{rows}</table>{hint}{incomplete}"


def load_history(
    client: Connection,
    account: Any = None,
    *,
    since: Any = None,
    until: Any = None,
    progress: bool | None = None,
    errors: Literal["raise", "keep"] = "raise",
    concurrency: int = MAX_CONCURRENCY,
) -> History:
    """All that a credential may read of an account's workspaces, as one object.

    Parameters
    ----------
    client : Client
    account : str or Record, optional
        Id or name of the account; None for the workspaces of ``client.me``.
    since, until : str, datetime or Timedelta, optional
        Events from `since` on and before `until`: instants, or lengths of time before
        now such as ``"30d"``. None leaves an end open. Naive times are UTC.
    progress : bool, optional
        True shows a bar with events and rate.
    errors : {"raise", "keep"}
        What to do about sessions whose events cannot be read: raise `PartialLoad`, or
        return the history without them, named in `History.missing`.
    concurrency : int
        As for `load_events`.

    Returns
    -------
    History

    Raises
    ------
    PartialLoad
        Events of some sessions could not be read, or the load was interrupted.
        `partial_frame` has the events that had arrived; `resume()` loads what is
        missing and returns the `History`.
    NotFound, Unauthorized, InsufficientScope
        If the account's workspaces cannot be read.
    TypeError
        `client` is not a `Client`.
    ValueError
        An argument is invalid; the message names it.

    Notes
    -----
    Where the platform lists no sessions, the sessions of `agentbook.session_log` are
    used, and the history says that it is not complete. So it does for agents and
    credentials that the credential may not read. A session whose ``updated_at`` is more
    than a day before `since` is not read. Specification: "Endpoints", Accounts;
    Workspaces and sessions; gaps in this part.

    Examples
    --------
    >>> history = load_history(client, "acme")
    >>> medians = history.turns.groupby("agent")["latency_s"].median()
    >>> bool(medians.notna().any())
    True
    """
    require_client(client, "ab.load_history")
    if errors not in ("raise", "keep"):
        raise ValueError(f"errors must be 'raise' or 'keep', not {errors!r}.")
    if concurrency < 1:
        raise ValueError(f"concurrency must be 1 or more, not {concurrency!r}.")
    span = _span(since, until)
    entities = _read_entities(client, account)
    load = EventsLoad(client, _sessions_within(entities.sessions, span), span[0], progress, concurrency)
    name = None if account is None else ref(account)
    return _finish(load, errors, lambda events: History(name, span, entities, events))


def _finish(load: EventsLoad, errors: str, make: Callable[[pd.DataFrame], History]) -> History:
    try:
        return make(load.run(errors))
    except PartialLoad as stopped:
        raise PartialLoad(
            str(stopped),
            operation="load_history",
            partial_frame=stopped.partial_frame,
            problems=stopped.problems,
            _resume=lambda: _finish(load, errors, make),
        ) from stopped


@dataclass(slots=True)
class _Entities:
    """What an account has, beside events."""

    workspaces: pd.DataFrame
    sessions: pd.DataFrame
    agents: pd.DataFrame
    credentials: pd.DataFrame
    missing: dict[str, str]


def _read_entities(client: Connection, account: Any) -> _Entities:
    missing: dict[str, str] = {}
    listed = me_endpoint.workspaces() if account is None else workspaces_endpoint.list_(account)
    workspaces = _load(client, listed)
    sessions = _read_sessions(client, workspaces, missing)
    agents = _read_agents(client, sessions["agent_id"].dropna().unique(), missing)
    owners = workspaces["owner_id"].dropna().unique() if account is None else [account]
    credentials = _read_credentials(client, owners, missing)
    sessions["workspace"] = _look_up(sessions["workspace_id"], workspaces["id"], workspaces["full_name"])
    sessions["agent"] = _look_up(sessions["agent_id"], agents["id"], _short_names(agents))
    return _Entities(workspaces, sessions, agents, credentials, missing)


def _load(client: Connection, list_call: ListCall) -> pd.DataFrame:
    return ListingLoad(list_call, list_call.context, None, None, reveal=False).run(client.run)


def _read_sessions(client: Connection, workspaces: pd.DataFrame, missing: dict[str, str]) -> pd.DataFrame:
    frames = [to_frame("sessions", [])]
    for workspace, name in zip(workspaces["id"], workspaces["full_name"], strict=True):
        try:
            frames.append(_load(client, sessions_endpoint.list_(workspace)))
        except NotOffered:
            missing["sessions"] = "this platform does not list sessions; those of ab.session_log were read"
            return _noted_sessions(client, workspaces["id"])
        except _REFUSALS as error:
            missing[f"sessions of {name}"] = str(error)
    tables = [to_arrow(frame).replace_schema_metadata(None) for frame in frames]
    return to_pandas(pa.concat_tables(tables).unify_dictionaries())


def _noted_sessions(client: Connection, workspaces: pd.Series) -> pd.DataFrame:
    noted = session_log.sessions(client).rename(columns={"session_id": "id", "started_at": "created_at"})
    rows: list[Any] = noted[noted["workspace_id"].isin(workspaces)].drop(columns="base_url").to_dict("records")
    return _frame_of("sessions", rows)


def _read_agents(client: Connection, used: Iterable[str], missing: dict[str, str]) -> pd.DataFrame:
    """The agents that a list names, and those of sessions that it leaves out."""
    try:
        records = list(client.records(agents_endpoint.list_()))
    except _REFUSALS as error:
        missing["agents"] = str(error)
        records = []
    unlisted = sorted(set(used) - {record.get("id") for record in records})
    unreadable: list[str] = []
    for agent in unlisted:
        try:
            records.append(client.run(agents_endpoint.get(agent)))
        except _REFUSALS as error:
            unreadable.append(str(error))
    if unreadable:
        missing.setdefault("agents", f"{len(unreadable):,} agents of sessions cannot be read: {unreadable[0]}")
    return _frame_of("agents", records)


def _read_credentials(client: Connection, owners: Iterable[Any], missing: dict[str, str]) -> pd.DataFrame:
    records: list[Mapping[str, Any]] = []
    for owner in owners:
        try:
            records.extend(client.records(credentials_endpoint.list_(owner)))
        except _REFUSALS as error:
            missing["credentials"] = str(error)
    return _frame_of("credentials", records)


def _frame_of(resource: str, records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    return to_frame(resource, [msgspec.json.encode({"items": records}, enc_hook=_wire_time)])


def _wire_time(value: Any) -> Any:
    return None if pd.isna(value) else str(value)


def _short_names(agents: pd.DataFrame) -> pd.Series:
    """Names of agents; ``<owner>~<name>`` where two have the same name."""
    names = agents["name"]
    full: pd.Series = (agents["owner_name"] + "~" + names).fillna(names)
    return names.where(~names.duplicated(keep=False), full)


def _look_up(ids: pd.Series, keys: pd.Series, values: pd.Series) -> pd.Series:
    rows = pd.Index(keys).get_indexer(pd.Index(ids))
    return rows_at(values, rows).astype(STR).set_axis(ids.index)


def _span(since: Any, until: Any) -> tuple[pd.Timestamp | None, pd.Timestamp | None]:
    now = pd.Timestamp(datetime.now(UTC))
    begin, end = (_end_of_span(value, name, now) for value, name in ((since, "since"), (until, "until")))
    if begin is not None and end is not None and begin >= end:
        raise ValueError(f"since must be before until: {begin.isoformat()} is not before {end.isoformat()}.")
    return begin, end


def _end_of_span(value: Any, name: str, now: pd.Timestamp) -> pd.Timestamp | None:
    if value is None:
        return None
    if isinstance(value, (timedelta, np.timedelta64)) or (isinstance(value, str) and _LENGTH.fullmatch(value)):
        return now - length_of(value, name)
    instant: pd.Timestamp = instant_of(value, name)
    return instant


def _sessions_within(sessions: pd.DataFrame, span: tuple[pd.Timestamp | None, pd.Timestamp | None]) -> list[str]:
    """The ids of the sessions that may have events in the span."""
    since, until = span
    outside = pd.Series(False, sessions.index)
    if since is not None:
        outside |= (sessions["updated_at"] < since - _UNCHANGED_FOR).fillna(False)
    if until is not None:
        outside |= (sessions["created_at"] >= until).fillna(False)
    ids: list[str] = sessions.loc[~outside, "id"].dropna().drop_duplicates().tolist()
    return ids


__all__ = ["History", "load_history"]
