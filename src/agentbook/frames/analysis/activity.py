"""How much happened: per session, per period, per hour of the week, and what failed. Pure functions of an events frame."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

import numpy as np
import pandas as pd

from ..parse.frame import jsonable
from .counting import counted
from .event_columns import read
from .periods import begins, between, zone, zone_name
from .turns import turns
from .validate import groups_of

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
COUNTS = ("events", "messages", "replies", "failures", "sessions")
MOST_FILLED = 5_000_000  # rows
IDLE = pd.Timedelta(minutes=30)


def session_summary(events: pd.DataFrame, *, as_of: Any = None) -> pd.DataFrame:
    """One row per session: when, how much, how it went.

    Parameters
    ----------
    events : DataFrame
        As `to_frame("events", ...)` makes it.
    as_of : datetime, optional
        As for `turns`.

    Returns
    -------
    DataFrame
        In the order the sessions appear:

        ================ ==================== ===== ============================================================
        column           dtype                unit  meaning
        ================ ==================== ===== ============================================================
        session_id       str                        the session
        initiator_type   category                   who wrote its first message; null where the agent began
        initiator_id     str                        id of who did
        first_at         datetime64[us, UTC]        its first event's `created_at`
        last_at          datetime64[us, UTC]        its last event's
        span_s           float64              s     from first to last
        active_s         float64              s     span without the pauses of 30 minutes or more
        events           int64                      persisted events
        turns            int64                      turns; of them answered, failed, unanswered and open:
        answered         int64
        failed           int64
        unanswered       int64
        open             int64
        subtasks         int64                      finished subtasks and tool runs
        latency_p50_s    float64              s     median latency of its answered turns
        prompt_chars     int64                chars length of all questions
        reply_chars      int64                chars length of all replies
        edited           int64                      events changed after they were written
        ================ ==================== ===== ============================================================

        Columns ``workspace_id`` and ``agent_id`` come along where the events have them.

    Raises
    ------
    ValueError
        A column is missing; the message names it.

    Notes
    -----
    Specification: "Resources and their fields", Session event; "Events".

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [
    ...   {"id": "019a0b1c-0000-7000-8000-000000000001", "type": "message", "content": {"text": "How many?"},
    ...    "author": {"type": "api_key"}, "created_at": "2026-10-03T08:15:00Z"},
    ...   {"id": "019a0b1c-0000-7000-8000-000000000003", "type": "runtime_done", "content": {"text": "Three."},
    ...    "created_at": "2026-10-03T08:15:03Z"}]}'''
    >>> table = session_summary(to_frame("events", [page], context={"session_id": "s1"}))
    >>> table[["session_id", "turns", "answered", "latency_p50_s"]].values.tolist()
    [['s1', 1, 1, 3.0]]
    """
    reading = read(events, what="session_summary")
    table = turns(events, as_of=as_of)
    rows = reading.events
    session = rows["session_id"].reset_index(drop=True)
    at = rows["created_at"].reset_index(drop=True)
    pause = at.groupby(session, sort=False).diff()
    pause = pause.where(pause > pd.Timedelta(0))
    edited = rows["updated_at"].reset_index(drop=True) > at if "updated_at" in rows else pd.Series(False, at.index)
    by_event = pd.DataFrame(
        {
            "session_id": session,
            "at": at,
            "active_s": pause.where(pause < IDLE).dt.total_seconds(),
            "edited": edited,
        }
    ).groupby("session_id", sort=False)
    summary = by_event.agg(
        first_at=("at", "min"), last_at=("at", "max"), active_s=("active_s", "sum"), events=("at", "size"),
        edited=("edited", "sum"),
    )  # fmt: skip
    by_turn = table.groupby("session_id", sort=False)
    first = table.drop_duplicates("session_id").set_index("session_id")
    for name in ("workspace_id", "agent_id", "initiator_type", "initiator_id"):
        if name in first:
            summary[name] = first[name]
    summary["span_s"] = (summary["last_at"] - summary["first_at"]).dt.total_seconds()
    summary["turns"] = by_turn.size()
    for status in ("answered", "failed", "unanswered", "open"):
        summary[status] = (table["status"] == status).groupby(table["session_id"], sort=False).sum()
    summary["subtasks"] = by_turn["subtasks"].sum()
    answered = table["latency_s"].where(table["status"] == "answered")
    summary["latency_p50_s"] = answered.groupby(table["session_id"], sort=False).median()
    for name in ("prompt_chars", "reply_chars"):
        summary[name] = by_turn[name].sum().astype("int64")
    order = [
        *("session_id", "workspace_id", "agent_id", "initiator_type", "initiator_id", "first_at", "last_at", "span_s"),
        *("active_s", "events", "turns", "answered", "failed", "unanswered", "open", "subtasks", "latency_p50_s"),
        *("prompt_chars", "reply_chars", "edited"),
    ]
    frame = summary.reset_index()
    return about(frame[[name for name in order if name in frame]], events, "session_summary")


def activity(
    events: pd.DataFrame,
    freq: str = "1h",
    *,
    tz: str | tzinfo = "UTC",
    by: str | list[str] | None = None,
    fill: bool = True,
) -> pd.DataFrame:
    """Events per period, and what they were.

    Parameters
    ----------
    events : DataFrame
        As `to_frame("events", ...)` makes it.
    freq : str
        Length of a period: ``"15min"``, ``"1h"`` (default), ``"1D"``, ``"W"`` (Monday to Sunday), ``"M"``, ...
    tz : str or tzinfo
        IANA name (or `zoneinfo.ZoneInfo`) of the time zone whose hours, days and weeks count; default UTC.
    by : str or list of str, optional
        Count per value of these columns of the events too; ``"initiator_type"`` and ``"initiator_id"`` mean who wrote
        the session's first message.
    fill : bool
        True (default) adds the periods in which nothing happened, with zeros.

    Returns
    -------
    DataFrame
        By period (and `by`):

        ========= ================== ==================================================================
        column    dtype              meaning
        ========= ================== ==================================================================
        period    datetime64[us, tz] when the period begins
        events    int64              persisted events by `created_at`
        messages  int64              of them, those that open a turn
        replies   int64              ``runtime_done`` with a text
        failures  int64              those that report a failure
        sessions  int64              sessions with an event in the period
        ========= ================== ==================================================================

    Raises
    ------
    ValueError
        A column is missing, or `freq` or `tz` is unknown.

    Notes
    -----
    An event without a readable `created_at` is in no period; ``attrs["agentbook"]["undated"]`` counts them.
    Specification: "Events".

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "019a0b1c-0000-7000-8000-000000000001", "type": "message", "content": "Hi",
    ...   "author": {"type": "user"}, "created_at": "2026-10-03T08:15:00Z"}]}'''
    >>> table = activity(to_frame("events", [page], context={"session_id": "s1"}), "1D")
    >>> table[["events", "messages", "replies", "sessions"]].values.tolist()
    [[1, 1, 0, 1]]
    """
    groups = groups_of(by, "period", *COUNTS, what="activity")
    tz = zone_name(tz)
    reading = read(events, what="activity")
    rows = counted(reading, groups, what="activity")
    rows["period"] = begins(rows["(at)"], freq, tz)
    undated = int(rows["period"].isna().sum())
    keys = ["period", *groups]
    tally = rows.groupby(keys, observed=True, dropna=not groups)
    table = tally.agg(
        events=("(opens)", "size"), messages=("(opens)", "sum"), replies=("(replies)", "sum"), failures=("(fails)", "sum"),
        sessions=("(session)", "nunique"),
    ).reset_index()  # fmt: skip
    table = table[table["period"].notna()]
    if fill and len(table):
        table = _filled(table, groups, freq, tz)
    return about(table.sort_values(keys, ignore_index=True), events, "activity", undated=undated, tz=tz, freq=freq)


def _filled(table: pd.DataFrame, groups: list[str], freq: str, tz: str) -> pd.DataFrame:
    every = between(table["period"].min(), table["period"].max(), freq, tz)
    periods = pd.DataFrame({"period": every.union(pd.DatetimeIndex(table["period"].unique()))})
    values = table[groups].drop_duplicates()
    if groups and len(periods) * len(values) > MOST_FILLED:
        raise ValueError(
            f"{len(values):,} values of {', '.join(groups)} in each of {len(periods):,} periods of {freq!r} make more than "
            f"{MOST_FILLED:,} rows: choose a longer period, fewer groups, or fill=False."
        )
    wanted = periods.merge(values, how="cross") if groups else periods
    filled = wanted.merge(table, how="left", on=["period", *groups])
    return (
        filled.astype(dict.fromkeys(COUNTS, "Int64"))
        .fillna(dict.fromkeys(COUNTS, 0))
        .astype(dict.fromkeys(COUNTS, "int64"))
    )


def hour_of_week(events: pd.DataFrame, *, tz: str | tzinfo = "UTC") -> pd.DataFrame:
    """Events by weekday and hour of local time.

    Parameters
    ----------
    events : DataFrame
        As `to_frame("events", ...)` makes it.
    tz : str or tzinfo
        IANA name (or `zoneinfo.ZoneInfo`) of the time zone; default UTC.

    Returns
    -------
    DataFrame
        Seven rows (Monday to Sunday), 24 columns (hours 0 to 23), int64 counts of persisted events by `created_at`.

    Raises
    ------
    ValueError
        A column is missing, or `tz` is unknown.

    Notes
    -----
    Specification: "Events".

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "019a0b1c-0000-7000-8000-000000000001", "created_at": "2026-10-03T23:15:00Z"}]}'''
    >>> frame = to_frame("events", [page], context={"session_id": "s1"})
    >>> int(hour_of_week(frame, tz="Europe/Berlin").loc["Sunday", 1])
    1
    """
    tz = zone_name(tz)
    at = read(events, what="hour_of_week").events["created_at"].dropna().dt.tz_convert(zone(tz))
    slot = at.dt.day_of_week.to_numpy() * 24 + at.dt.hour.to_numpy()
    counts = np.bincount(slot.astype(np.int64), minlength=7 * 24).reshape(7, 24)
    table = pd.DataFrame(
        counts, index=pd.Index(WEEKDAYS, name="weekday", dtype="str"), columns=pd.RangeIndex(24, name="hour")
    )
    return about(table, events, "hour_of_week", tz=tz)


def about(frame: pd.DataFrame, source: pd.DataFrame, derived: str, **more: Any) -> pd.DataFrame:
    """The frame with its source's provenance and what was made of it in ``attrs["agentbook"]``."""
    known = dict(source.attrs.get("agentbook", {}))
    known.pop("problems", None)
    frame.attrs["agentbook"] = jsonable({**known, "derived": derived, **more})
    return frame
