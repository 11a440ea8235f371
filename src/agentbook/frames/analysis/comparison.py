"""This period against the one before it, and what changed most."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .activity import about
from .event_columns import read
from .turns import assign, turns
from .validate import group_of, length_of, require

_COLUMNS = {"metric": "str", **dict.fromkeys(("before", "after", "change", "ratio", "z"), "float64"), "n": "int64"}
_GROUP = "(by)"  # in brackets, so that no column has such a name


def compare_periods(
    events: pd.DataFrame, *, period: str | pd.Timedelta = "7D", as_of: Any = None, by: str | None = None
) -> pd.DataFrame:
    """Two neighbouring periods of the same length, metric by metric, what changed most first.

    Parameters
    ----------
    events : DataFrame
        As `to_frame("events", ...)` makes it.
    period : str or Timedelta
        Length; default 7 days. The later one ends with `as_of`, the earlier one with the instant the
        later begins after.
    as_of : datetime, optional
        As for `turns`.
    by : str, optional
        A column of the events to compare per value of, such as ``"workspace_id"``; for a turn the value of its first
        event counts.

    Returns
    -------
    DataFrame
        ======== ======= ===================================================================================
        column   dtype   meaning
        ======== ======= ===================================================================================
        metric   str     events, sessions, turns, answered, failed, failed_share, latency_p50_s
        before   float64 in the earlier period
        after    float64 in the later period
        change   float64 after - before
        ratio    float64 after / before; null where before is 0
        z        float64 the change in standard errors, so that counts, shares and times can be set side by side
        n        int64   what it rests on: events, sessions or turns of both periods together
        ======== ======= ===================================================================================

        Counts are taken as Poisson; of shares the pooled error counts, of latencies that of the mean of their logarithms.

    Raises
    ------
    ValueError
        A column is missing (the message names it), or an argument makes no sense.

    Notes
    -----
    A turn belongs to the period it was asked in (closed in, where the agent spoke unasked). Specification: "Events".

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "019a0b1c-0000-7000-8000-000000000001", "created_at": "2026-10-03T08:00:00Z"}]}'''
    >>> frame = to_frame("events", [page], context={"session_id": "s1"})
    >>> table = compare_periods(frame, as_of="2026-10-04T00:00:00Z").set_index("metric")
    >>> table.loc["events", ["before", "after"]].to_list()
    [0.0, 1.0]
    """
    if by is not None:
        group_of(by, *_COLUMNS, what="compare_periods")
        require(events, by, what="compare_periods")
    length = length_of(period, "period")
    if not length:
        raise ValueError(f"period must be longer than nothing, not {period!r}.")
    reading = read(events, what="compare_periods")
    rows = reading.events
    table = turns(events, as_of=as_of)
    # `as_of` is the newest event's instant where nothing better is known: the period holds it.
    until = pd.Timestamp(table.attrs["agentbook"]["as_of"] or "NaT")
    sides = {"before": (until - 2 * length, until - length), "after": (until - length, until)}
    if by is not None:
        # Not the turns' own columns, which may mean something else by the same name.
        table[_GROUP] = rows[by].array[assign(reading).starts]
    moment = table["asked_at"].fillna(table["replied_at"])
    parts = {}
    for name, (begin, end) in sides.items():
        parts[name] = rows[_within(rows["created_at"], begin, end)], table[_within(moment, begin, end)]
    groups: list[Any] = [None]
    if by is not None:
        groups = sorted(set(pd.concat([part[0][by] for part in parts.values()]).dropna()), key=str)
    lines = [line for group in groups for line in _lines(parts, by, group)]
    result = pd.DataFrame(lines, columns=[*([by] if by else []), *_COLUMNS]).astype(_COLUMNS)
    result = result.sort_values("z", key=abs, ascending=False, kind="stable", na_position="last", ignore_index=True)
    spans = {name: [str(begin), str(end)] for name, (begin, end) in sides.items()}
    return about(result, events, "compare_periods", periods=spans)


def _within(moments: pd.Series, begin: Any, end: Any) -> Any:
    return (moments > begin) & (moments <= end)


def _lines(parts: dict[str, Any], by: str | None, group: Any) -> list[dict[str, Any]]:
    known = {}
    for side, (rows, table) in parts.items():
        if by is not None:
            rows, table = rows[rows[by] == group], table[table[_GROUP] == group]
        answered = table.loc[table["status"] == "answered", "latency_s"].dropna()
        known[side] = {
            "events": len(rows),
            "sessions": rows["session_id"].nunique(),
            "turns": len(table),
            "answered": int((table["status"] == "answered").sum()),
            "failed": int((table["status"] == "failed").sum()),
            "times": answered.to_numpy(dtype="float64"),
        }
    before, after = known["before"], known["after"]
    lines = []
    for metric in ("events", "sessions", "turns", "answered", "failed"):
        a, b = before[metric], after[metric]
        lines.append(_line(metric, a, b, (b - a) / np.sqrt(a + b) if a + b else np.nan, a + b))
    lines.append(_share(before, after))
    lines.append(_latency(before["times"], after["times"]))
    return [{**({by: group} if by else {}), **line} for line in lines]


def _line(metric: str, before: float, after: float, z: float, n: int) -> dict[str, Any]:
    ratio = after / before if before else np.nan
    return {
        "metric": metric,
        "before": before,
        "after": after,
        "change": after - before,
        "ratio": ratio,
        "z": z,
        "n": n,
    }


def _share(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    n, m = before["turns"], after["turns"]
    a = before["failed"] / n if n else np.nan
    b = after["failed"] / m if m else np.nan
    pooled = (before["failed"] + after["failed"]) / (n + m) if n + m else np.nan
    error = np.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m)) if n and m else np.nan
    return _line("failed_share", a, b, (b - a) / error if error else np.nan, n + m)


def _latency(before: Any, after: Any) -> dict[str, Any]:
    n, m = len(before), len(after)
    a, b = (float(np.median(times)) if len(times) else np.nan for times in (before, after))
    z = np.nan
    if n > 1 and m > 1:
        # A turn may take no time at all by the platform's clock: a millisecond is as little as it can tell.
        x, y = np.log(np.maximum(before, 1e-3)), np.log(np.maximum(after, 1e-3))
        error = np.sqrt(x.var(ddof=1) / n + y.var(ddof=1) / m)
        z = (y.mean() - x.mean()) / error if error else np.nan
    return _line("latency_p50_s", a, b, z, n + m)
