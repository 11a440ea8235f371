"""How much happened: per session, per period, and per hour of the week."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

import pandas as pd

from ..parse.schemas import STR
from ..tabular import events_of, part_of, with_provenance
from .arguments import (
    clock_times,
    groups_of,
    keep_top,
    period_range,
    period_starts,
    rows_in,
    span_in,
    warn_if_empty,
    zone_in,
)
from .statistic import aggregate, check_stat
from .turns import EventColumns, ordered_events, read_events, tell_apart, turns, turns_in
from .usage import with_cost

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
WEEKLY = ("events", "turns", "answered", "failed", "failed_share")  # what `hour_of_week` shows besides latency
COUNTS = ("events", "messages", "replies", "failures", "sessions", "people", "returning")
MAX_FILLED_ROWS = 5_000_000
IDLE = pd.Timedelta(minutes=30)
_SUMMARY_COLUMNS = (
    *("session_id", "workspace_id", "agent_id", "initiator_type", "initiator_id", "first_author_type"),
    *("first_author_id", "first_at", "last_at", "span_s"),
    *("active_s", "events", "turns", "answered", "failed", "unanswered", "open", "subtasks", "latency_p50_s"),
    *("prompt_chars", "reply_chars", "edited", "people", "outcome", "cost"),
)


def session_summary(
    events: Any, *, since: Any = None, until: Any = None, as_of: Any = None, prices: Any = None
) -> pd.DataFrame:
    """One row per session: when, how much, and how it went.

    Parameters
    ----------
    events : DataFrame, History, or any other table of events
        From `load_events` or `load_history`.
    since, until : str, datetime, date or Timedelta, optional
        Only events from `since` on and before `until`, and turns asked then: instants
        with a time zone, dates, or lengths of time such as ``"30d"`` before the frame
        was loaded.
    as_of : datetime, optional
        The time up to which the events are known, as for `turns`.
    prices : dict, DataFrame, str or path, optional
        As for `with_cost`: adds the column ``cost``.

    Returns
    -------
    DataFrame
        In order of first appearance:

        ================= =================== ===== ===================================
        column            dtype               unit  meaning
        ================= =================== ===== ===================================
        session_id        str                       the session
        first_author_type category                  who wrote its first loaded message;
                                                    null if the agent started
        first_author_id   str                       id of who wrote it
        first_at          datetime64[us, UTC]       `created_at` of its first event
        last_at           datetime64[us, UTC]       `created_at` of its last event
        span_s            float64             s     from first to last
        active_s          float64             s     span without pauses of 30 minutes
                                                    or more
        events            int64                     persisted events
        turns             int64                     turns
        answered          int64                     answered turns
        failed            int64                     failed turns
        unanswered        int64                     unanswered turns
        open              int64                     open turns
        subtasks          int64                     finished subtasks and tool runs
        latency_p50_s     float64             s     median latency of answered turns
        prompt_chars      int64               chars length of all questions
        reply_chars       int64               chars length of all replies
        edited            int64                     events changed after they were
                                                    written
        people            int64                     users who asked something
        outcome           str                       status of its last turn; null
                                                    without one
        cost              float64                   with `prices`: of all turns; null
                                                    if that of one with usage is not
                                                    known, or none has usage
        ================= =================== ===== ===================================

        Also ``workspace_id``, ``agent_id``, ``initiator_type`` and ``initiator_id``,
        who started the session, if the events have them, as those of a history.

    Raises
    ------
    ValueError
        If a column is missing (the message names it), or `since` is not before `until`.
    TypeError
        If `events` is not a table; the message names the call that makes one.

    Warns
    -----
    EmptyWarning
        If there are no events, or none in the span.

    Notes
    -----
    Specification: "Resources and their fields", Session event; "Events".

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [
    ...   {"id": "019a0b1c-0000-7000-8000-000000000001", "type": "message",
    ...    "content": {"text": "How many?"}, "author": {"type": "api_key"},
    ...    "created_at": "2026-10-03T08:15:00Z"},
    ...   {"id": "019a0b1c-0000-7000-8000-000000000003", "type": "runtime_done",
    ...    "content": {"text": "Three."}, "created_at": "2026-10-03T08:15:03Z"}]}'''
    >>> events = to_frame("events", [page], context={"session_id": "s1"})
    >>> table = session_summary(events)
    >>> table[["session_id", "turns", "answered", "latency_p50_s"]].values.tolist()
    [['s1', 1, 1, 3.0]]
    """
    of_turns = part_of(events, "turn_events")
    events = events_of(events, caller="session_summary")
    rows = ordered_events(events, caller="session_summary")
    span = span_in(rows, "created_at", since, until)
    table = turns(events if of_turns is None else of_turns, as_of=as_of)
    if prices is not None:
        table = with_cost(table, prices)
    first_turns = table.drop_duplicates("session_id").set_index("session_id")
    rows = rows_in(span, rows, rows["created_at"], caller="session_summary")
    table = rows_in(span, table, table["asked_at"].fillna(table["replied_at"]))
    session = rows["session_id"].reset_index(drop=True)
    at = rows["created_at"].reset_index(drop=True)
    pause = at.groupby(session, sort=False).diff()
    active = pause.where((pause > pd.Timedelta(0)) & (pause < IDLE))
    edited = rows["updated_at"].reset_index(drop=True) > at if "updated_at" in rows else pd.Series(False, at.index)
    by_event = pd.DataFrame(
        {"session_id": session, "at": at, "active_s": active.dt.total_seconds(), "edited": edited}
    ).groupby("session_id", sort=False)
    summary = by_event.agg(
        first_at=("at", "min"), last_at=("at", "max"), active_s=("active_s", "sum"), events=("at", "size"),
        edited=("edited", "sum"),
    )  # fmt: skip
    by_turn = table.groupby("session_id", sort=False)
    summary = summary.join(first_turns[["author_type", "author_id"]].add_prefix("first_"))
    labels = [name for name in ("workspace_id", "agent_id", "initiator_type", "initiator_id") if name in rows]
    summary = summary.join(rows.drop_duplicates("session_id").set_index("session_id")[labels])
    summary["active_s"] = summary["active_s"].where(summary["first_at"].notna())  # no times, no length
    summary["span_s"] = (summary["last_at"] - summary["first_at"]).dt.total_seconds()
    counts = pd.DataFrame({"turns": by_turn.size()})
    for status in ("answered", "failed", "unanswered", "open"):
        counts[status] = (table["status"] == status).groupby(table["session_id"], sort=False).sum()
    counts = counts.join(by_turn[["subtasks", "prompt_chars", "reply_chars"]].sum())
    counts["people"] = _people(table).groupby(table["session_id"], sort=False).nunique()
    # A session may have events in the span, and all its turns outside.
    summary = summary.join(counts.reindex(summary.index, fill_value=0).astype("int64"))
    answered = table["latency_s"].where(table["status"] == "answered")
    summary["latency_p50_s"] = answered.groupby(table["session_id"], sort=False).median()
    summary["outcome"] = by_turn["status"].last().astype(STR)
    if prices is not None:
        used = table["tokens"].notna()
        costs = table["cost"].where(used).groupby(table["session_id"], sort=False)
        summary["cost"] = costs.sum(min_count=1).where(
            costs.count() == used.groupby(table["session_id"], sort=False).sum()
        )
    frame = summary.reset_index()
    frame = frame[[name for name in _SUMMARY_COLUMNS if name in frame]]
    return with_provenance(frame, events, "session_summary", **span.details())


def _people(turns: pd.DataFrame) -> pd.Series:
    """The ids of the users who asked; null for keys, triggers and agents."""
    return turns["author_id"].astype(STR).where(turns["author_type"].astype(STR) == "user")


def activity(
    events: Any,
    freq: str = "1h",
    *,
    tz: str | tzinfo | None = None,
    by: str | list[str] | None = None,
    top: int | None = None,
    since: Any = None,
    until: Any = None,
    fill: bool = True,
) -> pd.DataFrame:
    """Events per period, and what they were.

    Parameters
    ----------
    events : DataFrame, History, or any other table of events
        From `load_events` or `load_history`.
    freq : str
        Length of a period: ``"15min"``, ``"1h"`` (default), ``"1D"``, ``"W"`` (Monday
        to Sunday), ``"M"``, ...
    tz : str or tzinfo, optional
        Time zone of the hours, days and weeks, as an IANA name or `zoneinfo.ZoneInfo`.
        Default: that of the history, else UTC.
    by : str or list of str, optional
        Columns of the events to group by as well. ``"author"`` means the name of who
        wrote the event.
    top : int, optional
        Number of groups to keep apart: those with the most events. The others are
        counted together as ``"other"``. Default: all.
    since, until : str, datetime, date or Timedelta, optional
        Only events from `since` on and before `until`: instants with a time zone, dates
        in `tz`, or lengths of time such as ``"30d"`` before the frame was loaded.
    fill : bool
        If True (default), periods between the first and the last event in which nothing
        happened are rows of zeros.

    Returns
    -------
    DataFrame
        By period (and `by`):

        ========= ================== ===================================================
        column    dtype              meaning
        ========= ================== ===================================================
        period    datetime64[us, tz] start of the period
        events    int64              persisted events by `created_at`
        messages  int64              events that open a turn
        replies   int64              ``runtime_done`` events with a text
        failures  int64              events that report a failure
        sessions  int64              sessions with an event in the period
        people    int64              users who asked something in it
        returning int64              those of them who did in an earlier period, too
        ========= ================== ===================================================

    Raises
    ------
    ValueError
        If a column is missing, an argument is invalid, or `by` names no column.
    TypeError
        If `events` is not a table; the message names the call that makes one.

    Warns
    -----
    EmptyWarning
        If there are no events, or none in the span.

    Notes
    -----
    Events without a readable `created_at` are not in any period;
    ``attrs["agentbook"]["undated"]`` counts them. Specification: "Events".

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "019a0b1c-0000-7000-8000-000000000001",
    ...   "type": "message", "content": "Hi", "author": {"type": "user"},
    ...   "created_at": "2026-10-03T08:15:00Z"}]}'''
    >>> table = activity(to_frame("events", [page], context={"session_id": "s1"}), "1D")
    >>> table[["events", "messages", "replies", "sessions"]].values.tolist()
    [[1, 1, 0, 1]]
    >>> weeks = activity(events, "W")
    >>> bool((weeks["returning"] <= weeks["people"]).all())
    True
    """
    groups = groups_of(by, "period", *COUNTS, caller="activity")
    events = events_of(events, caller="activity")
    tz = zone_in(tz, events)
    rows = _counted(read_events(events, caller="activity"), groups)
    undated = int(rows["(at)"].isna().sum())
    warn_if_empty(events, caller="activity")
    span = span_in(events, "created_at", since, until, tz=tz)
    rows = keep_top(rows_in(span, rows, rows["(at)"], caller="activity"), groups, top, caller="activity")
    rows = rows.assign(period=period_starts(rows["(at)"], freq, tz))
    first = rows.groupby("(person)")["period"].transform("min")
    rows = rows.assign(**{"(again)": rows["(person)"].where(first < rows["period"])})
    keys = ["period", *groups]
    table = rows.groupby(keys, observed=True, dropna=not groups).agg(
        events=("(opens)", "size"), messages=("(opens)", "sum"), replies=("(answers)", "sum"), failures=("(fails)", "sum"),
        sessions=("(session)", "nunique"), people=("(person)", "nunique"), returning=("(again)", "nunique"),
    ).reset_index()  # fmt: skip
    table = table[table["period"].notna()]
    if fill and len(table):
        table = _fill_periods(table, groups, freq, tz)
    table = table.sort_values(keys, ignore_index=True)
    return with_provenance(table, events, "activity", undated=undated, tz=tz, freq=freq, **span.details())


def _counted(columns: EventColumns, groups: list[str]) -> pd.DataFrame:
    """One row per event: time, session, effect on turns, and the group columns."""
    events = columns.events
    rows = pd.DataFrame(
        {
            # In parentheses, so that they cannot clash with a column to group by.
            "(at)": events["created_at"].reset_index(drop=True),
            "(session)": columns.session,
            "(opens)": columns.opens,
            "(answers)": columns.answers,
            "(fails)": columns.fails,
            "(person)": _people(events.reset_index(drop=True)).where(columns.opens),
        }
    )
    for name in groups:
        if name == "author" and name not in events and "author_name" in events:
            names, ids = (events[each].astype(STR).reset_index(drop=True) for each in ("author_name", "author_id"))
            rows[name] = tell_apart(names, ids)
        else:
            groups_of(name, caller="activity", frame=events)
            rows[name] = events[name].reset_index(drop=True)
    return rows


def _fill_periods(table: pd.DataFrame, groups: list[str], freq: str, tz: str) -> pd.DataFrame:
    starts = period_range(table["period"].min(), table["period"].max(), freq, tz)
    periods = pd.DataFrame({"period": starts.union(pd.DatetimeIndex(table["period"].unique()))})
    values = table[groups].drop_duplicates()
    if groups and len(periods) * len(values) > MAX_FILLED_ROWS:
        raise ValueError(
            f"{len(values):,} values of {', '.join(groups)} in each of {len(periods):,} periods of {freq!r} make more than "
            f"{MAX_FILLED_ROWS:,} rows: choose a longer period, fewer groups, or fill=False."
        )
    filled = (periods.merge(values, how="cross") if groups else periods).merge(
        table, how="left", on=["period", *groups]
    )
    return filled.fillna(dict.fromkeys(COUNTS, 0)).astype(dict.fromkeys(COUNTS, "int64"))


def hour_of_week(
    data: Any, *, value: str = "events", tz: str | tzinfo | None = None, since: Any = None, until: Any = None
) -> pd.DataFrame:
    """Events, or a measure of turns, by weekday and hour of local time.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        Events; for other values than ``"events"`` also the result of `turns` or
        `steps`.
    value : str
        ``"events"`` (default), ``"turns"``, ``"answered"`` or ``"failed"``: their
        number; ``"failed_share"``: the share of turns that failed, 0 to 1; or the
        latency of answered turns: ``"p50"``, ``"p95"`` or another percentile,
        ``"mean"``, ``"min"`` or ``"max"``, in seconds.
    tz : str or tzinfo, optional
        Time zone, as an IANA name or `zoneinfo.ZoneInfo`. Default: that of the history,
        else UTC.
    since, until : str, datetime, date or timedelta, optional
        As for `activity`.

    Returns
    -------
    DataFrame
        Seven rows (Monday to Sunday) and 24 columns (hours 0 to 23): of int64 for
        numbers of events, by `created_at`, or of turns, by the time of the question; of
        float64 for shares and latencies, null for hours without such turns.
        ``attrs["agentbook"]["undated"]`` counts rows without a time.

    Raises
    ------
    ValueError
        If a column is missing, or an argument is invalid.
    TypeError
        If `data` is not a table; the message names the call that makes one.

    Warns
    -----
    EmptyWarning
        If there are no rows, or none in the span.

    Notes
    -----
    Specification: "Events".

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "019a0b1c-0000-7000-8000-000000000001",
    ...   "created_at": "2026-10-03T23:15:00Z"}]}'''
    >>> frame = to_frame("events", [page], context={"session_id": "s1"})
    >>> int(hour_of_week(frame, tz="Europe/Berlin").loc["Sunday", 1])
    1
    """
    stat = None if value in WEEKLY else check_stat(value, caller="hour_of_week", others=WEEKLY)
    if value == "events":
        source = events_of(data, caller="hour_of_week")
        rows, tz = ordered_events(source, caller="hour_of_week"), zone_in(tz, source)
        rows = rows.assign(**{"(at)": rows["created_at"]})
        span = span_in(rows, "(at)", since, until, tz=tz)
        rows = rows_in(span, rows, rows["(at)"], caller="hour_of_week")
    else:
        rows, _, tz, span = turns_in(
            data, "asked_at", "replied_at", "status", "latency_s", caller="hour_of_week", since=since, until=until, tz=tz,
            or_replied=True,
        )  # fmt: skip
        source = rows
    undated = int(rows["(at)"].isna().sum())
    rows = rows.dropna(subset="(at)")
    local = clock_times(rows["(at)"], tz)
    slot, slots = local.dt.day_of_week * 24 + local.dt.hour, range(7 * 24)
    if value == "failed_share":
        numbers = (rows["status"] == "failed").groupby(slot).mean().reindex(slots)
    elif stat is not None:
        latency = rows["latency_s"].where(rows["status"] == "answered").dropna()
        numbers = aggregate(latency.groupby(slot), stat).reindex(slots)
    else:
        counted = slot if value in ("events", "turns") else slot[rows["status"] == value]
        numbers = counted.value_counts().reindex(slots, fill_value=0).astype("int64")
    table = pd.DataFrame(
        numbers.to_numpy().reshape(7, 24),
        index=pd.Index(WEEKDAYS, name="weekday", dtype="str"),
        columns=pd.RangeIndex(24, name="hour"),
    )
    return with_provenance(table, source, "hour_of_week", undated=undated, tz=tz, **span.details())
