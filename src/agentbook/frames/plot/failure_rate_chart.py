"""The chart of the share of turns that fail, over time."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

import pandas as pd

from ..analysis.failures import FAILURE_COLUMNS, failures
from ..analysis.periods import zone_in
from ..analysis.selection import warns_once
from .chart import Chart, with_text
from .groups import group_channels, group_labels, group_names, shown_groups
from .inputs import turns_within
from .periods import default_period, period_name
from .style import (
    BAD,
    Marks,
    altair,
    clock_text,
    count_text,
    styled,
    time_axis,
    tooltip,
    wall_clock,
)

_COUNTS = ("period", "kind", *FAILURE_COLUMNS)


@warns_once
def failure_rate(
    data: Any,
    *,
    by: str | None = None,
    freq: str | None = None,
    since: Any = None,
    until: Any = None,
    top: int | None = None,
    tz: str | tzinfo | None = None,
) -> Chart:
    """The share of turns that failed, over time.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        Events, or the result of `turns`.
    by : str, optional
        ``"kind"`` draws a line per kind of failure: its share of all turns. A column of
        the turns, such as ``"agent"``, draws a line per value: the share of its own
        turns.
    freq : str, optional
        Length of a period. Default: the shortest from 15 minutes to a month that makes
        at most 60 periods.
    since, until : str, datetime, date or Timedelta, optional
        Only turns asked from `since` on and before `until`: instants, dates, or lengths
        of time before the data were loaded, such as ``"7d"``.
    top : int, optional
        With `by`: how many lines, those with the most turns; the rest is ``"other"``.
        Default: up to twelve.
    tz : str or tzinfo, optional
        Time zone of the periods, as an IANA name or `zoneinfo.ZoneInfo`. Default: that
        of the history, else UTC.

    Returns
    -------
    Chart
        `data` is the table of `agentbook.failures` by period: ``turns`` that failed,
        ``n`` turns in all, and ``share``.

    Raises
    ------
    ValueError
        If a column is missing, an argument is unknown, or there are too many periods or
        groups.
    ImportError
        If the extra ``lab`` is not installed.

    Notes
    -----
    A failure that leaves no event is not visible here. Specification: "Errors", runtime
    limit failures.

    Examples
    --------
    >>> table = pd.DataFrame({
    ...     "turn": [1, 2], "session_id": "s", "status": ["answered", "failed"],
    ...     "failure": [None, "llm_calls"], "failure_message": None,
    ...     "replied_at": pd.to_datetime(["2026-10-03T08:01Z"] * 2),
    ...     "asked_at": pd.to_datetime(["2026-10-03T08:00Z"] * 2)})
    >>> failure_rate(table)
    1 of 2 turns failed (50.0 %). Highest rate: 50.0 % (Sat 2026-10-03 08:00).
    """
    alt, table = altair(), turns_within(data, "status", since=since, until=until, tz=tz, caller="plot.failure_rate")
    tz = zone_in(tz, table)
    table = table[table["asked_at"].notna()]
    freq = freq or default_period(table["asked_at"])
    if by not in (None, "kind"):
        table = shown_groups(table, str(by), top, *_COUNTS, caller="plot.failure_rate")
    rows = _rates(table, by, freq, tz)
    shown = rows[["turns", "n", "share"]].assign(at=wall_clock(rows["period"]), when=clock_text(rows["period"]))
    x = time_axis(tz)
    y = alt.Y("share:Q", title="failed", axis=alt.Axis(format="%"), scale=alt.Scale(zero=True))
    tips = tooltip(when="asked", share=("failed", ".1%"), turns=("failed turns", ","), n=("turns", ","))
    if by is None:
        marks = Marks(shown)
        base = marks.chart.encode(x=x, y=y)
        points = base.mark_point(color=BAD, filled=True, size=24).encode(tooltip=tips)
        chart = alt.layer(base.mark_line(color=BAD, strokeWidth=2), marks.selectable(points, "x"))
    else:
        shown["group"] = group_labels(rows[by])
        channels = group_channels(group_names(shown, "group", weight="turns"), by)
        marks = Marks(shown)
        base = marks.chart.encode(x=x, y=y, color=channels["color"])
        points = base.mark_point(filled=True, size=36)
        points = points.encode(shape=channels["shape"], tooltip=[*tooltip(group=by), *tips])
        chart = alt.layer(base.mark_line(strokeWidth=1.8), marks.selectable(points, "x"))
    subtitle = {None: "of all turns", "kind": "of all turns, by kind"}.get(by, f"of each {by}'s turns")
    chart = chart.properties(width=560, height=200)
    return with_text(
        styled(chart, "Failed turns", f"{subtitle}, per {period_name(freq)}"), _text(table, rows, by), rows, shown
    )


def _rates(table: pd.DataFrame, by: str | None, freq: str, tz: str) -> pd.DataFrame:
    """The table of `failures` by period and group, of `by` or of kinds."""
    if by == "kind":
        return failures(table, freq=freq, tz=tz)
    return failures(table, by=by, freq=freq, tz=tz, kinds=False)


def _text(table: pd.DataFrame, rows: pd.DataFrame, by: str | None) -> str:
    failed, total = int((table["status"] == "failed").sum()), len(table)
    text = f"{failed:,} of {count_text(total, 'turn')} failed"
    text += f" ({100 * failed / total:.1f} %)." if total else "."
    if not failed:
        return text
    highest = rows.iloc[int(rows["share"].argmax())]
    of = "" if by is None else f"{group_labels(pd.Series([highest[by]]))[0]}, "
    when = clock_text(pd.Series([highest["period"]]))[0]
    return f"{text} Highest rate: {100 * highest['share']:.1f} % ({of}{when})."
