"""How long things take: latency of turns, turns in flight, pauses, idle sessions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo
from typing import Any

import numpy as np
import pandas as pd

from .event_columns import read_events
from .labels import with_provenance
from .periods import next_period, period_range, period_starts, zone_name
from .turns import turns, turns_of
from .validate import groups_of, length_of, require, with_instants

QUANTILES = (0.5, 0.9, 0.95, 0.99)


def latency(
    data: pd.DataFrame,
    *,
    by: str | list[str] | None = None,
    freq: str | None = None,
    tz: str | tzinfo = "UTC",
    quantiles: Iterable[float] = QUANTILES,
) -> pd.DataFrame:
    """Quantiles of the time from question to answer, with sample sizes.

    Parameters
    ----------
    data : DataFrame
        Events, or the result of `turns`. Answered turns with both times are used.
    by : str or list of str, optional
        Columns of the turns to group by, such as ``"agent_id"`` or
        ``"initiator_type"``.
    freq : str, optional
        Also group by the period of the question: ``"1h"``, ``"1D"``, ``"W"``, ...
        None (default) does not.
    tz : str or tzinfo
        Time zone of the periods, as an IANA name or `zoneinfo.ZoneInfo`. Default UTC.
    quantiles : iterable of float
        Between 0 and 1; default 0.5, 0.9, 0.95 and 0.99. Linear interpolation.

    Returns
    -------
    DataFrame
        By group and period: ``n`` (int64, number of turns), ``mean_s``, ``min_s``,
        ``p50_s``, ``p90_s``, ... and ``max_s`` (float64, seconds). Without groups and
        without answered turns, one row with ``n`` 0 and nulls.

    Raises
    ------
    ValueError
        If a column is missing, a quantile is out of range, or `freq` or `tz` is
        unknown.

    Notes
    -----
    The times are those of persisted events: a turn's events are persisted when it
    completes. Specification: "Events", rule 4.

    Examples
    --------
    >>> table = pd.DataFrame({
    ...     "turn": [1, 2], "status": ["answered"] * 2, "latency_s": [1.0, 3.0],
    ...     "asked_at": pd.to_datetime(["2026-10-03T08:00Z"] * 2)})
    >>> latency(table, quantiles=[0.5])[["n", "p50_s", "max_s"]].values.tolist()
    [[2.0, 2.0, 3.0]]
    """
    tz, quantiles = zone_name(tz), list(quantiles)
    if any(not 0 <= q <= 1 for q in quantiles):
        raise ValueError(f"quantiles must be between 0 and 1, not {quantiles}.")
    table = turns_of(data)
    names = {f"p{q * 100:g}_s": q for q in quantiles}
    groups = groups_of(by, "period", "n", "mean_s", "min_s", *names, "max_s", caller="latency")
    require(table, "status", "latency_s", "asked_at", *groups, caller="latency")
    table = with_instants(table, "asked_at", caller="latency")
    answered = table[(table["status"] == "answered") & table["latency_s"].notna()]
    if freq is not None:
        answered = answered.assign(period=period_starts(answered["asked_at"], freq, tz))
        groups = [*groups, "period"]
    if not groups:
        values = answered["latency_s"]
        row = {"n": len(values), "mean_s": values.mean(), "min_s": values.min()}
        row |= {name: values.quantile(q) if len(values) else np.nan for name, q in names.items()}
        return with_provenance(pd.DataFrame([{**row, "max_s": values.max()}]), data, "latency")
    grouped = answered.groupby(groups, observed=True, dropna=False)["latency_s"]
    result = grouped.agg(n="size", mean_s="mean", min_s="min")
    for name, q in names.items():
        result[name] = grouped.quantile(q)
    result["max_s"] = grouped.max()
    return with_provenance(result.reset_index(), data, "latency")


def concurrency(data: pd.DataFrame, *, freq: str | None = None, tz: str | tzinfo = "UTC") -> pd.DataFrame:
    """Turns in flight: asked and not yet closed.

    Parameters
    ----------
    data : DataFrame
        Events, or the result of `turns`. Turns without both times are left out;
        ``attrs["agentbook"]["endless"]`` counts them.
    freq : str, optional
        None (default) returns a row per change; a period such as ``"1h"`` a row per
        period.
    tz : str or tzinfo
        Time zone of the periods, as an IANA name or `zoneinfo.ZoneInfo`. Default UTC.

    Returns
    -------
    DataFrame
        ``at`` (datetime64[us, UTC]) and ``in_flight`` (int64, from that time on). With
        `freq`: ``period`` (datetime64[us, tz]), ``most`` (int64) and ``mean`` (float64,
        weighted by time). A turn that closes when another one is asked does not overlap
        it.

    Raises
    ------
    ValueError
        If a column is missing, or `freq` or `tz` is unknown.

    Notes
    -----
    Specification: "Events".

    Examples
    --------
    >>> table = pd.DataFrame({
    ...     "turn": [1, 1], "status": "answered",
    ...     "asked_at": ["2026-10-03T08:00:00Z", "2026-10-03T08:00:01Z"],
    ...     "replied_at": ["2026-10-03T08:00:03Z", "2026-10-03T08:00:02Z"]})
    >>> for column in ("asked_at", "replied_at"):
    ...     table[column] = pd.to_datetime(table[column])
    >>> concurrency(table)["in_flight"].to_list()
    [1, 2, 1, 0]
    """
    tz = zone_name(tz)
    table = turns_of(data)
    require(table, "asked_at", "replied_at", caller="concurrency")
    table = with_instants(table, "asked_at", "replied_at", caller="concurrency")
    closed = table[table["asked_at"].notna() & table["replied_at"].notna()]
    endless = len(table) - len(closed)
    closed = closed[closed["replied_at"] > closed["asked_at"]]
    changes = pd.concat(
        [
            pd.Series(1, index=pd.DatetimeIndex(closed["asked_at"])),
            pd.Series(-1, index=pd.DatetimeIndex(closed["replied_at"])),
        ]
    )
    steps = changes.groupby(level=0).sum().cumsum()
    frame = pd.DataFrame(
        {"at": pd.DatetimeIndex(steps.index, tz="UTC").as_unit("us"), "in_flight": steps.to_numpy(dtype=np.int64)}
    )
    if freq is not None:
        frame = _per_period(frame, freq, tz)
    return with_provenance(frame, data, "concurrency", endless=endless)


def _per_period(steps: pd.DataFrame, freq: str, tz: str) -> pd.DataFrame:
    step_periods = period_starts(steps["at"], freq, tz)
    if steps.empty:
        return pd.DataFrame({"period": step_periods, "most": steps["in_flight"], "mean": np.zeros(0)})
    periods = period_range(step_periods.min(), step_periods.max(), freq, tz)
    periods = periods.union(pd.DatetimeIndex(step_periods.unique()))
    edges = pd.DatetimeIndex([*periods, next_period(periods[-1], freq, tz)]).tz_convert("UTC").as_unit("us")
    edge = edges.asi8
    at, level = pd.DatetimeIndex(steps["at"]).as_unit("us").asi8, steps["in_flight"].to_numpy()
    # The area under the steps is linear between them, so interpolation is exact.
    area = np.interp(edge, at, np.concatenate([[0], np.cumsum(level[:-1] * np.diff(at))]))
    # The maximum of a period includes the level at its start.
    before = np.searchsorted(at, edge[:-1], side="right") - 1
    initial = np.where(before >= 0, level[np.maximum(before, 0)], 0)
    highest = steps["in_flight"].groupby(pd.DatetimeIndex(step_periods).tz_convert("UTC")).max()
    maximum = np.maximum(initial, highest.reindex(edges[:-1]).fillna(0).to_numpy()).astype(np.int64)
    return pd.DataFrame({"period": periods, "most": maximum, "mean": np.diff(area) / np.diff(edge)})


def activity_gaps(events: pd.DataFrame, *, longer_than: str | pd.Timedelta = "30min") -> pd.DataFrame:
    """Pauses between the events of a session, the longest first.

    Parameters
    ----------
    events : DataFrame
        From `load_events` or `to_frame("events", ...)`.
    longer_than : str or Timedelta
        Shorter pauses are left out. Default 30 minutes.

    Returns
    -------
    DataFrame
        ``session_id`` (str), ``begins_at`` and ``ends_at`` (datetime64[us, UTC],
        `created_at` of the events before and after the pause), ``gap_s`` (float64,
        seconds).

    Raises
    ------
    ValueError
        If a column is missing; the message names it.

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
    threshold = length_of(longer_than, "longer_than")
    rows = read_events(events, caller="activity_gaps").events
    dated = rows[rows["created_at"].notna()]
    before = dated.groupby("session_id", sort=False)["created_at"].shift()
    pause = dated["created_at"] - before
    frame = pd.DataFrame(
        {
            "session_id": dated["session_id"],
            "begins_at": before,
            "ends_at": dated["created_at"],
            "gap_s": pause.dt.total_seconds(),
        }
    )[pause > threshold]
    frame = frame.sort_values("gap_s", ascending=False, kind="stable", ignore_index=True)
    return with_provenance(frame, events, "activity_gaps")


def idle_sessions(events: pd.DataFrame, *, after: str | pd.Timedelta = "7D", as_of: Any = None) -> pd.DataFrame:
    """Sessions without recent events, the longest idle first.

    Parameters
    ----------
    events : DataFrame
        From `load_events` or `to_frame("events", ...)`.
    after : str or Timedelta
        Sessions that were idle for longer than this are listed. Default 7 days.
    as_of : datetime, optional
        The time up to which idle time is counted; default as for `turns`.

    Returns
    -------
    DataFrame
        ``session_id`` (str), ``last_at`` (datetime64[us, UTC], the last event),
        ``idle_s`` (float64, seconds), ``last_status`` (category, status of the last
        turn).

    Raises
    ------
    ValueError
        If a column is missing; the message names it.

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
    threshold = length_of(after, "after")
    table = turns(events, as_of=as_of)
    until = pd.Timestamp(table.attrs["agentbook"]["as_of"] or "NaT")
    last = read_events(events, caller="idle_sessions").events.groupby("session_id", sort=False)["created_at"].max()
    frame = last.rename("last_at").reset_index()
    frame["idle_s"] = (until - frame["last_at"]).dt.total_seconds()
    frame["last_status"] = frame["session_id"].map(table.groupby("session_id", sort=False)["status"].last())
    frame["last_status"] = frame["last_status"].astype(table["status"].dtype)
    frame = frame[frame["idle_s"] > threshold.total_seconds()]
    frame = frame.sort_values("idle_s", ascending=False, kind="stable", ignore_index=True)
    return with_provenance(frame, events, "idle_sessions")
