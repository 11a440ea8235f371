"""Compares a period with the one before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .event_columns import read_events
from .labels import with_provenance
from .turns import assign_turns, turns
from .validate import group_of, length_of, require

_COLUMNS = {"metric": "str", **dict.fromkeys(("before", "after", "change", "ratio", "z"), "float64"), "n": "int64"}
_GROUP = "(by)"  # in parentheses, so that it cannot clash with a column


def compare_periods(
    events: pd.DataFrame, *, period: str | pd.Timedelta = "7D", as_of: Any = None, by: str | None = None
) -> pd.DataFrame:
    """Two adjacent periods of equal length by metric, the largest change first.

    Parameters
    ----------
    events : DataFrame
        From `load_events` or `to_frame("events", ...)`.
    period : str or Timedelta
        Length of each period; default 7 days. The later one ends at `as_of`
        (inclusive), the earlier one where the later one begins.
    as_of : datetime, optional
        As for `turns`.
    by : str, optional
        A column of the events, such as ``"workspace_id"``, to compare per value. A turn
        has the value of its first event.

    Returns
    -------
    DataFrame
        ======== ======= =======================================================
        column   dtype   meaning
        ======== ======= =======================================================
        metric   str     events, sessions, turns, answered, failed,
                         failed_share, latency_p50_s
        before   float64 in the earlier period
        after    float64 in the later period
        change   float64 after - before
        ratio    float64 after / before; null if before is 0
        z        float64 change in standard errors, comparable across metrics
        n        int64   sample size: events, sessions or turns of both periods
        ======== ======= =======================================================

        Standard errors: Poisson for counts, pooled for shares, and that of the mean
        logarithm for latencies.

    Raises
    ------
    ValueError
        If a column is missing (the message names it), or an argument is invalid.

    Notes
    -----
    A turn belongs to the period of its question, or of its reply if it has no question.
    Specification: "Events".

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "019a0b1c-0000-7000-8000-000000000001",
    ...   "created_at": "2026-10-03T08:00:00Z"}]}'''
    >>> frame = to_frame("events", [page], context={"session_id": "s1"})
    >>> table = compare_periods(frame, as_of="2026-10-04T00:00:00Z").set_index("metric")
    >>> table.loc["events", ["before", "after"]].to_list()
    [0.0, 1.0]
    """
    if by is not None:
        group_of(by, *_COLUMNS, caller="compare_periods")
        require(events, by, caller="compare_periods")
    length = length_of(period, "period")
    if not length:
        raise ValueError(f"period must be longer than zero, not {period!r}.")
    columns = read_events(events, caller="compare_periods")
    rows = columns.events
    table = turns(events, as_of=as_of)
    # Without a known time, `as_of` is that of the latest event, which must be included:
    # periods are open at the start and closed at the end.
    until = pd.Timestamp(table.attrs["agentbook"]["as_of"] or "NaT")
    periods = {"before": (until - 2 * length, until - length), "after": (until - length, until)}
    if by is not None:
        # Columns of the turns may have the same name with another meaning.
        table[_GROUP] = rows[by].array[assign_turns(columns).starts]
    moment = table["asked_at"].fillna(table["replied_at"])
    parts = {
        name: (rows[_is_within(rows["created_at"], *period)], table[_is_within(moment, *period)])
        for name, period in periods.items()
    }
    groups: list[Any] = [None]
    if by is not None:
        groups = sorted(set(pd.concat([part_rows[by] for part_rows, _ in parts.values()]).dropna()), key=str)
    metrics = [metric for group in groups for metric in _metrics(parts, by, group)]
    result = pd.DataFrame(metrics, columns=[*([by] if by else []), *_COLUMNS]).astype(_COLUMNS)
    result = result.sort_values("z", key=abs, ascending=False, kind="stable", na_position="last", ignore_index=True)
    spans = {name: [str(begin), str(end)] for name, (begin, end) in periods.items()}
    return with_provenance(result, events, "compare_periods", periods=spans)


def _is_within(moments: pd.Series, begin: Any, end: Any) -> Any:
    return (moments > begin) & (moments <= end)


def _metrics(parts: dict[str, Any], by: str | None, group: Any) -> list[dict[str, Any]]:
    before, after = (_measure(*parts[side], by=by, group=group) for side in ("before", "after"))
    metrics = []
    for name in ("events", "sessions", "turns", "answered", "failed"):
        a, b = before[name], after[name]
        metrics.append(_metric(name, a, b, (b - a) / np.sqrt(a + b) if a + b else np.nan, a + b))
    metrics.append(_failed_share(before, after))
    metrics.append(_latency(before["latencies"], after["latencies"]))
    return [{**({by: group} if by else {}), **metric} for metric in metrics]


def _measure(rows: pd.DataFrame, table: pd.DataFrame, *, by: str | None, group: Any) -> dict[str, Any]:
    if by is not None:
        rows, table = rows[rows[by] == group], table[table[_GROUP] == group]
    answered = table["status"] == "answered"
    return {
        "events": len(rows),
        "sessions": rows["session_id"].nunique(),
        "turns": len(table),
        "answered": int(answered.sum()),
        "failed": int((table["status"] == "failed").sum()),
        "latencies": table.loc[answered, "latency_s"].dropna().to_numpy(dtype="float64"),
    }


def _metric(name: str, before: float, after: float, z: float, n: int) -> dict[str, Any]:
    ratio = after / before if before else np.nan
    return {"metric": name, "before": before, "after": after, "change": after - before, "ratio": ratio, "z": z, "n": n}


def _failed_share(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    n, m = before["turns"], after["turns"]
    a = before["failed"] / n if n else np.nan
    b = after["failed"] / m if m else np.nan
    pooled = (before["failed"] + after["failed"]) / (n + m) if n + m else np.nan
    error = np.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m)) if n and m else np.nan
    return _metric("failed_share", a, b, (b - a) / error if error else np.nan, n + m)


def _latency(before: Any, after: Any) -> dict[str, Any]:
    n, m = len(before), len(after)
    a, b = (float(np.median(latencies)) if len(latencies) else np.nan for latencies in (before, after))
    z = np.nan
    if n > 1 and m > 1:
        # By the platform's clock a latency can be 0; its resolution is a millisecond.
        x, y = np.log(np.maximum(before, 1e-3)), np.log(np.maximum(after, 1e-3))
        error = np.sqrt(x.var(ddof=1) / n + y.var(ddof=1) / m)
        z = (y.mean() - x.mean()) / error if error else np.nan
    return _metric("latency_p50_s", a, b, z, n + m)
