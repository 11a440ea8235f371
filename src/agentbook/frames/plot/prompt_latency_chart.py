"""The chart of latency by length of the question."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..analysis.correlation import prompt_latency as medians_by_length
from ..analysis.correlation import rank_correlation
from ..analysis.selection import warns_once
from .chart import Chart, with_text
from .groups import group_channels, group_labels, group_names, shown_groups
from .inputs import turn_labels, turns_within
from .style import COLOURS, INK, Marks, altair, count_text, styled, tooltip

MAX_POINTS = 500
_BINS = 10
_MIN_PER_BIN = 5
_SHORTEST_S = 1e-3  # the clock's resolution; a logarithm needs more than 0


@warns_once
def prompt_latency(
    data: Any, *, by: str | None = None, since: Any = None, until: Any = None, top: int | None = None
) -> Chart:
    """Whether long questions take longer: each answered turn, and the median by length.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        Events, or the result of `turns`; with its column ``prompt``, tooltips show the
        question.
    by : str, optional
        A column of the turns, such as ``"agent"``: one colour per value.
    since, until : str, datetime, date or Timedelta, optional
        Only turns asked from `since` on and before `until`: instants, dates, or lengths
        of time before the data were loaded, such as ``"7d"``.
    top : int, optional
        With `by`: how many colours, for the values with the most turns; the rest is
        ``"other"``. Default: up to twelve.

    Returns
    -------
    Chart
        Up to 500 turns, chosen evenly over time if there are more, as `text` says.
        `data`, and so `selection`, has the turns' own columns.

    Raises
    ------
    ValueError
        If a column is missing, or there are too many groups.
    ImportError
        If the extra ``lab`` is not installed.

    Notes
    -----
    The correlation is that of `agentbook.rank_correlation`, over all turns; the line
    has the medians of `agentbook.prompt_latency`. Specification: "Events",
    rule 4.

    Examples
    --------
    >>> table = pd.DataFrame({
    ...     "session_id": "s", "turn": [1, 2, 3], "status": "answered",
    ...     "latency_s": [1.0, 3.0, 9.0], "prompt_chars": [5, 50, 500],
    ...     "asked_at": pd.to_datetime(["2026-10-03T08:00Z"] * 3)})
    >>> prompt_latency(table)
    3 answered turns by length of the question. Rank correlation with latency: 1.00.
    """
    alt = altair()
    table = turns_within(
        data,
        "session_id",
        "status",
        "latency_s",
        "prompt_chars",
        since=since,
        until=until,
        caller="plot.prompt_latency",
    )
    answered = table["asked_at"].notna() & (table["status"] == "answered") & table["latency_s"].notna()
    table = table[answered & table["prompt_chars"].notna()].sort_values("asked_at", kind="stable")
    if by is not None:
        table = shown_groups(table, by, top, caller="plot.prompt_latency")
    rows = (
        table.iloc[np.unique(np.linspace(0, len(table) - 1, MAX_POINTS).round().astype(int))]
        if len(table) > MAX_POINTS
        else table
    )
    rows = rows.reset_index(drop=True)
    labels, titles = turn_labels(rows)
    shown = labels.assign(
        chars=rows["prompt_chars"].astype("float64").clip(lower=1), latency_s=rows["latency_s"].clip(lower=_SHORTEST_S)
    )
    x = alt.X(
        "chars:Q",
        title="length of the question (characters, logarithmic)",
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(grid=False),
    )
    y = alt.Y("latency_s:Q", title="seconds to the reply (logarithmic)", scale=alt.Scale(type="log", nice=False))
    tips = tooltip(**titles, chars=("characters", ","), latency_s=("seconds", ",.2~f"))
    marks = Marks(shown if by is None else shown.assign(group=group_labels(rows[by])))
    points = marks.chart.mark_point(filled=True, size=30, color=COLOURS[0]).encode(x=x, y=y, tooltip=tips)
    if by is not None:
        points = points.encode(**group_channels(group_names(rows, by), by))
    points = marks.selectable(points, "x", "y", opacity=(0.6, 0.12))
    line = (
        Marks(_medians(table))
        .chart.mark_line(color=INK, strokeWidth=2.5, interpolate="monotone")
        .encode(x="chars:Q", y="latency_s:Q")
    )
    chart = alt.layer(points, line).properties(width=560, height=260)
    subtitle = "each point a turn, the line its median"
    return with_text(styled(chart, "Latency by length of the question", subtitle), _text(table, rows), rows, shown)


def _medians(table: pd.DataFrame) -> pd.DataFrame:
    """The medians of `agentbook.prompt_latency`, in the middle of each bin."""
    bins = min(_BINS, len(table) // _MIN_PER_BIN)
    medians = medians_by_length(table, bins=max(bins, 1), stat="p50")
    chars = np.sqrt(medians["chars_from"].clip(lower=1) * medians["chars_to"].clip(lower=1))
    return pd.DataFrame({"chars": chars, "latency_s": medians["p50_s"].clip(lower=_SHORTEST_S)})


def _text(table: pd.DataFrame, rows: pd.DataFrame) -> str:
    text = f"{count_text(len(table), 'answered turn')} by length of the question."
    correlation = rank_correlation(table).iloc[0]
    if pd.notna(correlation["rho"]):
        text += f" Rank correlation with latency: {correlation['rho']:.2f}"
        low, high = correlation["low"], correlation["high"]
        text += "." if pd.isna(low) else f" (95 % interval {low:.2f} to {high:.2f})."
    return text + (f" {len(rows):,} of them are drawn." if len(rows) < len(table) else "")
