"""How long things took: latency of turns, turns in flight, pauses, idle sessions. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo
from typing import Any

import numpy as np
import pandas as pd

from .activity import about
from .event_columns import read
from .periods import begins, between, following, zone_name
from .turns import is_turns, turns
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
    """Quantiles of the time from question to answer, with their sample sizes.

    Parameters
    ----------
    data : DataFrame
        Events, or what `turns` made of them. Answered turns with both instants count.
    by : str or list of str, optional
        Columns of the turns to group by, such as ``"agent_id"`` or ``"initiator_type"``.
    freq : str, optional
        Group by period of the question too: ``"1h"``, ``"1D"``, ``"W"``, ...; None (default) takes all together.
    tz : str or tzinfo
        IANA name (or `zoneinfo.ZoneInfo`) of the time zone of the periods; default UTC.
    quantiles : iterable of float
        Between 0 and 1; default 0.5, 0.9, 0.95 and 0.99. Linear interpolation.

    Returns
    -------
    DataFrame
        By group and period: ``n`` (int64, turns), ``mean_s``, ``min_s``, ``p50_s``, ``p90_s``, ... and ``max_s`` (float64,
        seconds). One row with ``n`` 0 and nulls where there are no answered turns and no groups.

    Raises
    ------
    ValueError
        A column is missing, a quantile is out of range, or `freq` or `tz` is unknown.

    Notes
    -----
    The instants are those of persisted events: a turn's events are persisted when it completes. Specification: "Events",
    rule 4.

    Examples
    --------
    >>> table = pd.DataFrame({"turn": [1, 2], "status": ["answered"] * 2, "latency_s": [1.0, 3.0],
    ...                       "asked_at": pd.to_datetime(["2026-10-03T08:00Z"] * 2)})
    >>> latency(table, quantiles=[0.5])[["n", "p50_s", "max_s"]].values.tolist()
    [[2.0, 2.0, 3.0]]
    """
    tz, quantiles = zone_name(tz), list(quantiles)
    if any(not 0 <= q <= 1 for q in quantiles):
        raise ValueError(f"Quantiles lie between 0 and 1, not {quantiles}.")
    table = data if is_turns(data) else turns(data)
    names = {f"p{q * 100:g}_s": q for q in quantiles}
    groups = groups_of(by, "period", "n", "mean_s", "min_s", *names, "max_s", what="latency")
    require(table, "status", "latency_s", "asked_at", *groups, what="latency")
    table = with_instants(table, "asked_at", what="latency")
    answered = table[(table["status"] == "answered") & table["latency_s"].notna()]
    if freq is not None:
        answered = answered.assign(period=begins(answered["asked_at"], freq, tz))
        groups = [*groups, "period"]
    if not groups:
        values = answered["latency_s"]
        row = {"n": len(values), "mean_s": values.mean(), "min_s": values.min()}
        row |= {name: values.quantile(q) if len(values) else np.nan for name, q in names.items()}
        return about(pd.DataFrame([{**row, "max_s": values.max()}]), data, "latency")
    grouped = answered.groupby(groups, observed=True, dropna=False)["latency_s"]
    result = grouped.agg(n="size", mean_s="mean", min_s="min")
    for name, q in names.items():
        result[name] = grouped.quantile(q)
    result["max_s"] = grouped.max()
    return about(result.reset_index(), data, "latency")


def concurrency(data: pd.DataFrame, *, freq: str | None = None, tz: str | tzinfo = "UTC") -> pd.DataFrame:
    """Turns in flight: asked and not yet closed.

    Parameters
    ----------
    data : DataFrame
        Events, or what `turns` made of them. Turns without both instants are left out, and counted in
        ``attrs["agentbook"]["endless"]``.
    freq : str, optional
        None (default): a row at each change. A period such as ``"1h"``: a row per period.
    tz : str or tzinfo
        IANA name (or `zoneinfo.ZoneInfo`) of the time zone of the periods; default UTC.

    Returns
    -------
    DataFrame
        ``at`` (datetime64[us, UTC]) and ``in_flight`` (int64, from that instant on); with `freq`: ``period``
        (datetime64[us, tz]), ``most`` (int64) and ``mean`` (float64, weighted by time). A turn closed at the instant
        another is asked does not overlap it.

    Raises
    ------
    ValueError
        A column is missing, or `freq` or `tz` is unknown.

    Notes
    -----
    Specification: "Events".

    Examples
    --------
    >>> table = pd.DataFrame({"turn": [1, 1], "status": "answered",
    ...     "asked_at": pd.to_datetime(["2026-10-03T08:00:00Z", "2026-10-03T08:00:01Z"]),
    ...     "replied_at": pd.to_datetime(["2026-10-03T08:00:03Z", "2026-10-03T08:00:02Z"])})
    >>> concurrency(table)["in_flight"].to_list()
    [1, 2, 1, 0]
    """
    tz = zone_name(tz)
    table = data if is_turns(data) else turns(data)
    require(table, "asked_at", "replied_at", what="concurrency")
    table = with_instants(table, "asked_at", "replied_at", what="concurrency")
    whole = table[table["asked_at"].notna() & table["replied_at"].notna()]
    whole = whole[whole["replied_at"] > whole["asked_at"]]
    changes = pd.concat(
        [
            pd.Series(1, index=pd.DatetimeIndex(whole["asked_at"])),
            pd.Series(-1, index=pd.DatetimeIndex(whole["replied_at"])),
        ]
    )
    steps = changes.groupby(level=0).sum().cumsum()
    frame = pd.DataFrame(
        {"at": pd.DatetimeIndex(steps.index, tz="UTC").as_unit("us"), "in_flight": steps.to_numpy(dtype=np.int64)}
    )
    endless = len(table) - int((table["asked_at"].notna() & table["replied_at"].notna()).sum())
    if freq is not None:
        frame = _per_period(frame, freq, tz)
    return about(frame, data, "concurrency", endless=endless)


def _per_period(steps: pd.DataFrame, freq: str, tz: str) -> pd.DataFrame:
    placed = begins(steps["at"], freq, tz)
    if steps.empty:
        return pd.DataFrame({"period": placed, "most": steps["in_flight"], "mean": np.zeros(0)})
    periods = between(placed.min(), placed.max(), freq, tz).union(pd.DatetimeIndex(placed.unique()))
    edges = pd.DatetimeIndex([*periods, following(periods[-1], freq, tz)]).tz_convert("UTC").as_unit("us")
    edge = edges.asi8
    at, level = pd.DatetimeIndex(steps["at"]).as_unit("us").asi8, steps["in_flight"].to_numpy()
    # The area under the steps is linear between them, so it is exact at any instant.
    area = np.interp(edge, at, np.concatenate([[0], np.cumsum(level[:-1] * np.diff(at))]))
    # A period has what it begins with as well as what changes in it.
    before = np.searchsorted(at, edge[:-1], side="right") - 1
    carried = np.where(before >= 0, level[np.maximum(before, 0)], 0)
    inner = steps["in_flight"].groupby(pd.DatetimeIndex(placed).tz_convert("UTC")).max()
    reached = inner.reindex(edges[:-1]).fillna(0).to_numpy()
    most = np.maximum(carried, reached).astype(np.int64)
    return pd.DataFrame({"period": periods, "most": most, "mean": np.diff(area) / np.diff(edge)})


def activity_gaps(events: pd.DataFrame, *, longer_than: str | pd.Timedelta = "30min") -> pd.DataFrame:
    """Pauses within sessions, the longest first.

    Parameters
    ----------
    events : DataFrame
        As `to_frame("events", ...)` makes it.
    longer_than : str or Timedelta
        Shorter pauses between two events of a session are left out; default 30 minutes.

    Returns
    -------
    DataFrame
        ``session_id`` (str), ``begins_at`` and ``ends_at`` (datetime64[us, UTC], `created_at` of the events around it),
        ``gap_s`` (float64, seconds).

    Raises
    ------
    ValueError
        A column is missing; the message names it.

    Notes
    -----
    Specification: "Events".

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "019a0b1c-0000-7000-8000-000000000001", "created_at": "2026-10-03T08:00:00Z"},
    ...                       {"id": "019a0b1c-0000-7000-8000-000000000002", "created_at": "2026-10-03T09:00:00Z"}]}'''
    >>> gaps(to_frame("events", [page], context={"session_id": "s1"}))["gap_s"].to_list()
    [3600.0]
    """
    longest = length_of(longer_than, "longer_than")
    rows = read(events, what="activity_gaps").events
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
    )[pause > longest]
    return about(frame.sort_values("gap_s", ascending=False, kind="stable", ignore_index=True), events, "activity_gaps")


def idle_sessions(events: pd.DataFrame, *, after: str | pd.Timedelta = "7D", as_of: Any = None) -> pd.DataFrame:
    """Sessions in which nothing has happened for a while, the longest idle first.

    Parameters
    ----------
    events : DataFrame
        As `to_frame("events", ...)` makes it.
    after : str or Timedelta
        How long is a while; default 7 days.
    as_of : datetime, optional
        Idle until then; as for `turns`.

    Returns
    -------
    DataFrame
        ``session_id`` (str), ``last_at`` (datetime64[us, UTC]), ``idle_s`` (float64, seconds), ``last_status`` (category:
        how its last turn stands).

    Raises
    ------
    ValueError
        A column is missing; the message names it.

    Notes
    -----
    Specification: "Events".

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "019a0b1c-0000-7000-8000-000000000001", "type": "runtime_done",
    ...   "content": {"text": "Done."}, "created_at": "2026-10-03T08:00:00Z"}]}'''
    >>> frame = to_frame("events", [page], context={"session_id": "s1"})
    >>> idle_sessions(frame, as_of="2026-10-13T08:00:00Z")[["session_id", "last_status"]].values.tolist()
    [['s1', 'answered']]
    """
    least = length_of(after, "after")
    table = turns(events, as_of=as_of)
    until = pd.Timestamp(table.attrs["agentbook"]["as_of"] or "NaT")
    last = read(events, what="idle_sessions").events.groupby("session_id", sort=False)["created_at"].max()
    frame = last.rename("last_at").reset_index()
    frame["idle_s"] = (until - frame["last_at"]).dt.total_seconds()
    frame["last_status"] = frame["session_id"].map(table.groupby("session_id", sort=False)["status"].last())
    frame["last_status"] = frame["last_status"].astype(table["status"].dtype)
    frame = frame[frame["idle_s"] > least.total_seconds()]
    return about(
        frame.sort_values("idle_s", ascending=False, kind="stable", ignore_index=True), events, "idle_sessions"
    )
