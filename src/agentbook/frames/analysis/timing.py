"""How long turns take, and how many are in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import tzinfo
from typing import Any

import numpy as np
import pandas as pd

from ..tabular import with_provenance
from .arguments import (
    groups_of,
    keep_top,
    next_period,
    period_range,
    period_starts,
    require,
    rows_in,
    span_in,
    with_instants,
    zone_in,
)
from .statistic import aggregate, check_stat
from .turns import turns_of

QUANTILES = (0.5, 0.9, 0.95, 0.99)


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
    table = turns_of(data, caller="latency")
    tz = zone_in(tz, table)
    if stat is None:
        stats = ["mean", "min", *(f"p{q * 100:g}" for q in quantiles), "max"]
    else:
        stats = [check_stat(stat, caller="latency")]
    groups = groups_of(by, "period", "n", *(f"{name}_s" for name in stats), caller="latency", frame=table)
    require(table, "status", "latency_s", "asked_at", caller="latency")
    table = with_instants(table, "asked_at", caller="latency")
    span = span_in(table, "asked_at", since, until, tz=tz)
    table = rows_in(span, table, table["asked_at"], caller="latency")
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


def concurrency(
    data: Any,
    *,
    by: str | list[str] | None = None,
    freq: str | None = None,
    tz: str | tzinfo | None = None,
    since: Any = None,
    until: Any = None,
    top: int | None = None,
) -> pd.DataFrame:
    """Turns in flight: asked and not yet closed.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        Events, or the result of `turns`. Turns without both times are left out;
        ``attrs["agentbook"]["endless"]`` counts them.
    by : str or list of str, optional
        Columns of the turns to group by, such as ``"agent"``: the turns in flight of
        each group.
    freq : str, optional
        None (default) returns a row per change; a period such as ``"1h"`` a row per
        period.
    tz : str or tzinfo, optional
        Time zone of the periods, as an IANA name or `zoneinfo.ZoneInfo`. Default: that
        of the history, else UTC.
    since, until : str, datetime or Timedelta, optional
        Turns asked from `since` on and before `until`: instants with a time zone, dates
        (midnight in `tz`), or lengths of time such as ``"30d"`` before the data were
        loaded.
    top : int, optional
        Number of groups to keep apart: those with the most closed turns. The others
        together are ``"other"``. Default: all.

    Returns
    -------
    DataFrame
        By group: ``at`` (datetime64[us, UTC]) and ``in_flight`` (int64, from that time
        on). With `freq`, by period: ``period`` (datetime64[us, tz]), the group,
        ``most`` (int64) and ``mean`` (float64, weighted by time). A turn that closes
        when another one is asked does not overlap it.

    Raises
    ------
    ValueError
        If a column is missing, or an argument is invalid.

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
    >>> concurrency(table)["in_flight"].to_list()
    [1, 2, 1, 0]
    >>> concurrency(table, by="agent", freq="1h")[["agent", "most"]].values.tolist()
    [['a', 1], ['b', 1]]
    """
    table = turns_of(data, caller="concurrency")
    tz = zone_in(tz, table)
    groups = groups_of(by, "at", "in_flight", "period", "most", "mean", caller="concurrency", frame=table)
    require(table, "asked_at", "replied_at", caller="concurrency")
    table = with_instants(table, "asked_at", "replied_at", caller="concurrency")
    span = span_in(table, "asked_at", since, until, tz=tz)
    table = rows_in(span, table, table["asked_at"], caller="concurrency")
    closed = table[table["asked_at"].notna() & table["replied_at"].notna()]
    endless = len(table) - len(closed)
    closed = keep_top(closed[closed["replied_at"] > closed["asked_at"]], groups, top, caller="concurrency")

    def measure(part: pd.DataFrame) -> pd.DataFrame:
        steps = _steps(part)
        return steps if freq is None else _per_period(steps, freq, tz)

    frame = _by_group(closed, groups, measure)
    if freq is not None and groups:
        frame = frame[["period", *frame.columns.drop("period")]].sort_values("period", kind="stable", ignore_index=True)
    return with_provenance(frame, table, "concurrency", endless=endless, **span.details())


def _by_group(rows: pd.DataFrame, groups: list[str], measure: Callable[[pd.DataFrame], pd.DataFrame]) -> pd.DataFrame:
    """The measurements of each group, one below the other."""
    if not groups:
        return measure(rows)
    parts = [part for _, part in rows.groupby(groups, observed=True, dropna=False)] or [rows]
    tables = []
    for part in parts:
        table = measure(part)
        labels = part[groups].iloc[np.zeros(len(table), np.int64)].reset_index(drop=True)
        tables.append(pd.concat([labels, table], axis=1))
    return pd.concat(tables, ignore_index=True)


def _steps(closed: pd.DataFrame) -> pd.DataFrame:
    """The turns in flight after each change."""
    changes = pd.concat(
        [
            pd.Series(1, index=pd.DatetimeIndex(closed["asked_at"])),
            pd.Series(-1, index=pd.DatetimeIndex(closed["replied_at"])),
        ]
    )
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
