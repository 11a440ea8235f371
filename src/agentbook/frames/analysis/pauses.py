"""When nothing happened: pauses within sessions, and sessions that are idle."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ...api.span import parse_length
from ..tabular import events_of, with_provenance
from .arguments import groups_of, keep_top, rows_in, span_in, warn_if_empty
from .turns import ordered_events, turns


def activity_gaps(
    events: Any,
    *,
    longer_than: str | pd.Timedelta = "30min",
    by: str | list[str] | None = None,
    since: Any = None,
    until: Any = None,
    top: int | None = None,
) -> pd.DataFrame:
    """Pauses between the events of a session, the longest first.

    Parameters
    ----------
    events : DataFrame, History, or any other table of events
        From `load_events` or `load_history`.
    longer_than : str or Timedelta
        Shorter pauses are left out. Default 30 minutes.
    by : str or list of str, optional
        Columns of the events to show as well, such as ``"agent"``: those of the event
        after the pause.
    since, until : str, datetime, date or Timedelta, optional
        Only events from `since` on and before `until`: instants with a time zone,
        dates, or lengths of time such as ``"30d"`` before the frame was loaded.
    top : int, optional
        Number of groups to keep apart: those with the most pauses. The others together
        are ``"other"``. Default: all.

    Returns
    -------
    DataFrame
        The columns of `by`, ``session_id`` (str), ``begins_at`` and ``ends_at``
        (datetime64[us, UTC], `created_at` of the events before and after the pause),
        ``gap_s`` (float64, seconds).

    Raises
    ------
    ValueError
        If a column is missing (the message names it), or an argument is invalid.

    Notes
    -----
    Specification: "Events".

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [
    ...   {"id": "019a0b1c-0000-7000-8000-000000000001",
    ...    "created_at": "2026-10-03T08:00:00Z"},
    ...   {"id": "019a0b1c-0000-7000-8000-000000000002",
    ...    "created_at": "2026-10-03T09:00:00Z"}]}'''
    >>> frame = to_frame("events", [page], context={"session_id": "s1"})
    >>> activity_gaps(frame)["gap_s"].to_list()
    [3600.0]
    """
    threshold = parse_length(longer_than, "longer_than")
    events = events_of(events, caller="activity_gaps")
    groups = groups_of(by, "session_id", "begins_at", "ends_at", "gap_s", caller="activity_gaps", frame=events)
    warn_if_empty(events, caller="activity_gaps")
    rows = ordered_events(events, caller="activity_gaps")
    span = span_in(rows, "created_at", since, until)
    rows = rows_in(span, rows, rows["created_at"], caller="activity_gaps")
    dated = rows[rows["created_at"].notna()]
    before = dated.groupby("session_id", sort=False)["created_at"].shift()
    pause = dated["created_at"] - before
    columns = {name: dated[name] for name in (*groups, "session_id")}
    frame = pd.DataFrame(
        {**columns, "begins_at": before, "ends_at": dated["created_at"], "gap_s": pause.dt.total_seconds()}
    )[pause > threshold]
    frame = keep_top(frame, groups, top, caller="activity_gaps")
    frame = frame.sort_values("gap_s", ascending=False, kind="stable", ignore_index=True)
    return with_provenance(frame, events, "activity_gaps", **span.details())


def idle_sessions(
    events: Any,
    *,
    after: str | pd.Timedelta = "7D",
    as_of: Any = None,
    by: str | list[str] | None = None,
    since: Any = None,
    until: Any = None,
    top: int | None = None,
) -> pd.DataFrame:
    """Sessions without recent events, the longest idle first.

    Parameters
    ----------
    events : DataFrame, History, or any other table of events
        From `load_events` or `load_history`.
    after : str or Timedelta
        Sessions that were idle for longer than this are listed. Default 7 days.
    as_of : datetime, optional
        The time up to which idle time is counted. Default: as for `turns`.
    by : str or list of str, optional
        Columns of the events to show as well, such as ``"agent"``: the last value of
        each session.
    since, until : str, datetime, date or Timedelta, optional
        Only sessions whose last event is from `since` on and before `until`: instants
        with a time zone, dates, or lengths of time such as ``"30d"`` before the frame
        was loaded.
    top : int, optional
        Number of groups to keep apart: those with the most idle sessions. The others
        together are ``"other"``. Default: all.

    Returns
    -------
    DataFrame
        The columns of `by`, ``session_id`` (str), ``last_at`` (datetime64[us, UTC], the
        last event), ``idle_s`` (float64, seconds), ``last_status`` (category, status of
        the last turn).

    Raises
    ------
    ValueError
        If a column is missing (the message names it), or an argument is invalid.

    Notes
    -----
    Specification: "Events".

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "019a0b1c-0000-7000-8000-000000000001",
    ...   "type": "runtime_done", "content": {"text": "Done."},
    ...   "created_at": "2026-10-03T08:00:00Z"}]}'''
    >>> frame = to_frame("events", [page], context={"session_id": "s1"})
    >>> idle = idle_sessions(frame, as_of="2026-10-13T08:00:00Z")
    >>> idle[["session_id", "last_status"]].values.tolist()
    [['s1', 'answered']]
    """
    threshold = parse_length(after, "after")
    events = events_of(events, caller="idle_sessions")
    groups = groups_of(by, "session_id", "last_at", "idle_s", "last_status", caller="idle_sessions", frame=events)
    warn_if_empty(events, caller="idle_sessions")
    table = turns(events, as_of=as_of)
    now = pd.Timestamp(table.attrs["agentbook"]["as_of"] or "NaT")
    rows = ordered_events(events, caller="idle_sessions")
    span = span_in(rows, "created_at", since, until)
    by_session = rows.groupby("session_id", sort=False)
    frame = by_session["created_at"].max().rename("last_at").reset_index()
    for position, name in enumerate(groups):
        frame.insert(position, name, by_session[name].last().array)
    frame["idle_s"] = (now - frame["last_at"]).dt.total_seconds()
    frame["last_status"] = frame["session_id"].map(table.groupby("session_id", sort=False)["status"].last())
    frame["last_status"] = frame["last_status"].astype(table["status"].dtype)
    frame = rows_in(span, frame, frame["last_at"], caller="idle_sessions")
    frame = keep_top(frame[frame["idle_s"] > threshold.total_seconds()], groups, top, caller="idle_sessions")
    frame = frame.sort_values("idle_s", ascending=False, kind="stable", ignore_index=True)
    return with_provenance(frame, events, "idle_sessions", **span.details())
