"""How long turns take, how many are in flight, and when nothing happens."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo
from typing import Any

import numpy as np
import pandas as pd

from ...api.span import parse_length
from ..tabular import events_of, with_provenance
from .arguments import groups_of, keep_top, next_period, period_range, period_starts, rows_in, span_in, zone_in
from .statistic import aggregate, check_stat
from .turns import ordered_events, turns, turns_in

QUANTILES = (0.5, 0.9, 0.95, 0.99)
# What `timing` finds: its columns, and which of the arguments that not all take.
_COLUMNS = {
    "concurrency": ("at", "in_flight", "period", "most", "mean"),
    "gaps": ("session_id", "begins_at", "ends_at", "gap_s"),
    "idle": ("session_id", "last_at", "idle_s", "last_status"),
}
_TAKES = {"concurrency": ("freq",), "gaps": ("longer_than",), "idle": ("longer_than", "as_of")}
_LONGER_THAN = {"gaps": "30min", "idle": "7D"}


def latency(
    data: Any,
    *,
    by: str | list[str] | None = None,
    freq: str | None = None,
    tz: str | tzinfo | None = None,
    quantiles: Iterable[float] = QUANTILES,
    stat: str | None = None,
    since: Any = None,
    until: Any = None,
    top: int | None = None,
) -> pd.DataFrame:
    """Quantiles of the time from question to reply, with sample sizes.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        Events, or the result of `turns`. Answered turns with both times are used.
    by : str or list of str, optional
        Columns of the turns to group by, such as ``"agent_id"`` or
        ``"author_type"``.
    freq : str, optional
        Also group by the period of the question: ``"1h"``, ``"1D"``, ``"W"``, ...
        None (default) does not.
    tz : str or tzinfo, optional
        Time zone of the periods, as an IANA name or `zoneinfo.ZoneInfo`. Default: that
        of the history, else UTC.
    quantiles : iterable of float
        Between 0 and 1; default 0.5, 0.9, 0.95 and 0.99. Linear interpolation.
    stat : str, optional
        One number instead of all: ``"p50"``, ``"p95"`` or another percentile,
        ``"mean"``, ``"min"`` or ``"max"``. The result has ``n`` and its column, such as
        ``p95_s``; without `freq`, the slowest group comes first.
    since, until : str, datetime or Timedelta, optional
        Turns asked from `since` on and before `until`: instants with a time zone, dates
        (midnight in `tz`), or lengths of time such as ``"30d"`` before the data were
        loaded.
    top : int, optional
        Number of groups to keep apart: those with the most answered turns. The others
        together are ``"other"``. Default: all.

    Returns
    -------
    DataFrame
        By period and group: ``n`` (int64, number of turns), ``mean_s``, ``min_s``,
        ``p50_s``, ``p90_s``, ... and ``max_s`` (float64, seconds). Without groups and
        without answered turns, one row with ``n`` 0 and nulls.

    Raises
    ------
    ValueError
        If a column is missing, a quantile is out of range, or `freq`, `tz` or `stat` is
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
    quantiles = list(quantiles)
    if any(not 0 <= q <= 1 for q in quantiles):
        raise ValueError(f"quantiles must be between 0 and 1, not {quantiles}.")
    stats = ["mean", "min", *(f"p{q * 100:g}" for q in quantiles), "max"]
    if stat is not None:
        stats = [check_stat(stat, caller="latency")]
    table, groups, tz, span = turns_in(
        data, "status", "latency_s", "asked_at", caller="latency", by=by, since=since, until=until, tz=tz,
        reserved=("period", "n", *(f"{name}_s" for name in stats)),
    )  # fmt: skip
    answered = table[(table["status"] == "answered") & table["latency_s"].notna()]
    answered = keep_top(answered, groups, top, caller="latency")
    if freq is not None:
        answered = answered.assign(period=period_starts(answered["asked_at"], freq, tz))
        groups = ["period", *groups]
    if not groups:
        values = answered["latency_s"]
        numbers = {f"{name}_s": aggregate(values, name) if len(values) else np.nan for name in stats}
        return with_provenance(pd.DataFrame([{"n": len(values), **numbers}]), table, "latency", **span.details())
    grouped = answered.groupby(groups, observed=True, dropna=False)["latency_s"]
    result = pd.DataFrame({"n": grouped.size(), **{f"{name}_s": aggregate(grouped, name) for name in stats}})
    result = result.reset_index()
    if stat is not None and freq is None:
        result = result.sort_values(f"{stats[0]}_s", ascending=False, kind="stable", ignore_index=True)
    return with_provenance(result, table, "latency", **span.details())


def timing(
    data: Any,
    what: str = "concurrency",
    *,
    longer_than: str | pd.Timedelta | None = None,
    as_of: Any = None,
    by: str | list[str] | None = None,
    freq: str | None = None,
    tz: str | tzinfo | None = None,
    since: Any = None,
    until: Any = None,
    top: int | None = None,
) -> pd.DataFrame:
    """Turns in flight, pauses within sessions, or sessions that are idle.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        Events; for ``"concurrency"`` also the result of `turns`. Turns without both
        times are left out there; ``attrs["agentbook"]["endless"]`` counts them.
    what : {"concurrency", "gaps", "idle"}
        Turns that are asked and not yet closed (default); pauses between the events of
        a session, the longest first; or sessions without recent events, the longest
        idle first.
    longer_than : str or Timedelta, optional
        Shorter gaps, or sessions that are idle for less, are left out. Default: 30
        minutes, or 7 days for ``"idle"``.
    as_of : datetime, optional
        Of ``"idle"``, the time up to which it is counted. Default: as for `turns`.
    by : str or list of str, optional
        Columns to group by, such as ``"agent"``: those of the turns, of the event after
        the pause, or the last value of each session.
    freq : str, optional
        Of ``"concurrency"``: None (default) returns a row per change; a period such as
        ``"1h"`` a row per period.
    tz : str or tzinfo, optional
        Time zone of the periods, as an IANA name or `zoneinfo.ZoneInfo`. Default: that
        of the history, else UTC.
    since, until : str, datetime, date or Timedelta, optional
        Only turns asked, events, or sessions whose last event is from `since` on and
        before `until`: instants with a time zone, dates (midnight in `tz`), or lengths
        of time such as ``"30d"`` before the data were loaded.
    top : int, optional
        Number of groups to keep apart: those with the most turns, pauses or sessions.
        The others together are ``"other"``. Default: all.

    Returns
    -------
    DataFrame
        ``"concurrency"``, by group: ``at`` (datetime64[us, UTC]) and ``in_flight``
        (int64, from that time on). With `freq`, by period: ``period``
        (datetime64[us, tz]), the group, ``most`` (int64) and ``mean`` (float64,
        weighted by time). A turn that closes when another one is asked does not overlap
        it.

        ``"gaps"``: the columns of `by`, ``session_id`` (str), ``begins_at`` and
        ``ends_at`` (datetime64[us, UTC], `created_at` of the events before and after
        the pause), ``gap_s`` (float64, seconds).

        ``"idle"``: the columns of `by`, ``session_id`` (str), ``last_at``
        (datetime64[us, UTC], the last event), ``idle_s`` (float64, seconds),
        ``last_status`` (category, status of the last turn).

    Raises
    ------
    ValueError
        If a column is missing (the message names it), or an argument is invalid.

    Notes
    -----
    Specification: "Events".

    Examples
    --------
    >>> table = pd.DataFrame({
    ...     "turn": [1, 1], "status": "answered", "agent": ["a", "b"],
    ...     "asked_at": ["2026-10-03T08:00:00Z", "2026-10-03T08:00:01Z"],
    ...     "replied_at": ["2026-10-03T08:00:03Z", "2026-10-03T08:00:02Z"]})
    >>> for column in ("asked_at", "replied_at"):
    ...     table[column] = pd.to_datetime(table[column])
    >>> timing(table)["in_flight"].to_list()
    [1, 2, 1, 0]
    >>> timing(table, by="agent", freq="1h")[["agent", "most"]].values.tolist()
    [['a', 1], ['b', 1]]
    >>> pauses = timing(events, "gaps", longer_than="1s")
    >>> bool(pauses["gap_s"].is_monotonic_decreasing)
    True
    >>> idle = timing(events, "idle", longer_than="1D", as_of="2100-01-01")
    >>> bool((idle["idle_s"] > 86_400).all())
    True
    """
    if what not in _TAKES:
        raise ValueError(f"timing has no what={what!r}: choose one of {', '.join(map(repr, _TAKES))}.")
    given = {"longer_than": longer_than, "as_of": as_of, "freq": freq}
    if unused := [name for name, value in given.items() if value is not None and name not in _TAKES[what]]:
        raise ValueError(f"timing has no {unused[0]}= for {what!r}: leave it out.")
    if what == "concurrency":
        frame, groups, tz, span = turns_in(
            data, "asked_at", "replied_at", caller="timing", by=by, since=since, until=until, tz=tz,
            reserved=_COLUMNS[what],
        )  # fmt: skip
        closed = frame[frame["asked_at"].notna() & frame["replied_at"].notna()]
        endless = len(frame) - len(closed)
        closed = keep_top(closed[closed["replied_at"] > closed["asked_at"]], groups, top, caller="timing")
        result = _concurrency(closed, groups, freq, tz)
        return with_provenance(result, frame, "timing", endless=endless, **span.details())
    frame = events_of(data, caller="timing")
    groups = groups_of(by, *_COLUMNS[what], caller="timing", frame=frame)
    shortest = parse_length(_LONGER_THAN[what] if longer_than is None else longer_than, "longer_than")
    rows = ordered_events(frame, caller="timing")
    span = span_in(rows, "created_at", since, until, tz=zone_in(tz, frame))
    if what == "gaps":
        result = _gaps(rows_in(span, rows, rows["created_at"], caller="timing"), groups)
    else:
        result = _idle(frame, rows, groups, as_of)
        result = rows_in(span, result, result["last_at"], caller="timing")
    seconds = "gap_s" if what == "gaps" else "idle_s"
    result = keep_top(result[result[seconds] > shortest.total_seconds()], groups, top, caller="timing")
    result = result.sort_values(seconds, ascending=False, kind="stable", ignore_index=True)
    return with_provenance(result, frame, "timing", **span.details())


def _gaps(rows: pd.DataFrame, groups: list[str]) -> pd.DataFrame:
    dated = rows[rows["created_at"].notna()]
    before, after = dated.groupby("session_id", sort=False)["created_at"].shift(), dated["created_at"]
    result = dated[[*groups, "session_id"]].assign(begins_at=before, ends_at=after)
    return result.assign(gap_s=(after - before).dt.total_seconds())


def _idle(events: pd.DataFrame, rows: pd.DataFrame, groups: list[str], as_of: Any) -> pd.DataFrame:
    table = turns(events, as_of=as_of)
    now = pd.Timestamp(table.attrs["agentbook"]["as_of"] or "NaT")
    by_session = rows.groupby("session_id", sort=False)
    result = by_session["created_at"].max().rename("last_at").reset_index()
    for position, name in enumerate(groups):
        result.insert(position, name, by_session[name].last().array)
    last = table.groupby("session_id", sort=False)["status"].last()
    return result.assign(
        idle_s=(now - result["last_at"]).dt.total_seconds(),
        last_status=result["session_id"].map(last).astype(table["status"].dtype),
    )


def _concurrency(closed: pd.DataFrame, groups: list[str], freq: str | None, tz: str) -> pd.DataFrame:
    parts = [part for _, part in closed.groupby(groups, observed=True, dropna=False)] if groups else []
    tables = []
    for part in parts or [closed]:
        table = _steps(part) if freq is None else _per_period(_steps(part), freq, tz)
        labels = part[groups].iloc[np.zeros(len(table), np.int64)].reset_index(drop=True)
        tables.append(pd.concat([labels, table], axis=1))
    frame = pd.concat(tables, ignore_index=True)
    if freq is not None and groups:
        frame = frame[["period", *frame.columns.drop("period")]].sort_values("period", kind="stable", ignore_index=True)
    return frame


def _steps(closed: pd.DataFrame) -> pd.DataFrame:
    """The turns in flight after each change."""
    ends = {"asked_at": 1, "replied_at": -1}
    changes = pd.concat([pd.Series(step, index=pd.DatetimeIndex(closed[name])) for name, step in ends.items()])
    steps = changes.groupby(level=0).sum().cumsum()
    return pd.DataFrame(
        {"at": pd.DatetimeIndex(steps.index, tz="UTC").as_unit("us"), "in_flight": steps.to_numpy(dtype=np.int64)}
    )


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
