"""The chart of latency over time."""

from __future__ import annotations

from datetime import tzinfo

import pandas as pd

from ..analysis.periods import zone_name
from ..analysis.timing import latency as latency_table
from ..analysis.turns import turns_of
from ..analysis.validate import group_of, require, with_instants
from ..parse.schemas import STR
from .chart import COLOURS, Chart, altair, count_text, data_of, styled, wall_clock

# Periods to choose from: length, and name in the subtitle. "M" is used beyond them.
_PERIODS = {
    "15min": ("15min", "15 minutes"),
    "1h": ("1h", "hour"),
    "6h": ("6h", "6 hours"),
    "1D": ("1D", "day"),
    "W": ("7D", "week"),
}
_MAX_PERIODS = 60  # more points than this make a noisy line


def latency(data: pd.DataFrame, *, by: str | None = None, freq: str | None = None, tz: str | tzinfo = "UTC") -> Chart:
    """Median and 95th percentile of the time from question to answer, over time.

    Parameters
    ----------
    data : DataFrame
        Events, or the result of `turns`.
    by : str, optional
        A column of the turns: one line of medians per value.
    freq : str, optional
        Length of a period. Default: the shortest from 15 minutes to a month that makes
        at most 60 periods.
    tz : str or tzinfo
        Time zone of the periods, as an IANA name or `zoneinfo.ZoneInfo`. Default UTC.

    Returns
    -------
    Chart

    Raises
    ------
    ValueError
        If a column is missing, `freq` or `tz` is unknown, or there are too many periods
        and groups.
    ImportError
        If the extra ``lab`` is not installed.

    Notes
    -----
    Specification: "Events", rule 4. The numbers are those of
    `agentbook.frames.analysis.timing.latency`.

    Examples
    --------
    >>> table = pd.DataFrame({
    ...     "turn": [1, 2], "status": ["answered"] * 2, "latency_s": [1.0, 3.0],
    ...     "asked_at": pd.to_datetime(["2026-10-03T08:00Z"] * 2)})
    >>> latency(table)
    Latency of 2 answered turns: median 2 s, 95th percentile 2.9 s.
    """
    alt, tz = altair(), zone_name(tz)
    if by is not None:
        group_of(by, caller="plot.latency")
    table = turns_of(data)
    require(table, "asked_at", caller="plot.latency")
    table = with_instants(table, "asked_at", caller="plot.latency")
    freq = freq or _default_period(table["asked_at"])
    rows = latency_table(table, by=by, freq=freq, tz=tz, quantiles=(0.5, 0.95))
    overall = latency_table(table, quantiles=(0.5, 0.95)).iloc[0]
    text = f"Latency of {count_text(int(overall['n']), 'answered turn')}"
    text += f": median {overall['p50_s']:.3g} s, 95th percentile {overall['p95_s']:.3g} s." if overall["n"] else "."
    if by and len(rows):
        slowest = latency_table(table, by=by, quantiles=(0.5,)).sort_values("p50_s", ascending=False)
        name = slowest[by].iloc[0]
        text += (
            f" Slowest by {by}: {'(not said)' if pd.isna(name) else name} (median {slowest['p50_s'].iloc[0]:.3g} s)."
        )
    shown = rows.assign(period=wall_clock(rows["period"]))
    # A screen reader would read an empty axis as "from NaN to NaN".
    axis = alt.Axis(grid=False, aria=len(rows) > 0)
    x = alt.X("period:T", title=f"asked ({tz})", scale=alt.Scale(type="utc"), axis=axis)
    # On a linear scale, a few very slow turns would flatten all others.
    skewed = bool(len(rows) and rows["p50_s"].min() > 0 and rows["p95_s"].max() > 30 * overall["p50_s"])
    scale = alt.Scale(type="log", nice=False) if skewed and not by else alt.Scale(zero=True)
    y = alt.Y("p50_s:Q", title="seconds (logarithmic)" if skewed and not by else "seconds", scale=scale)
    if by:
        # Altair and Vega would read a column's name with a colon or a quote as an
        # expression, so the column is renamed.
        shown = shown.drop(columns=by).assign(group=shown[by].astype(STR).fillna("(not said)"))
        colour = alt.Color("group:N", title=by, legend=alt.Legend(orient="top", columns=6))
        base = alt.Chart(data_of(shown)).encode(x=x, color=colour)
        chart = base.mark_line(point=alt.OverlayMarkDef(size=20), strokeWidth=2).encode(y=y)
    else:
        base = alt.Chart(data_of(shown)).encode(x=x)
        band = base.mark_area(opacity=0.3, color=COLOURS[0], line=False).encode(y=y, y2="p95_s:Q")
        line = base.mark_line(color=COLOURS[0], strokeWidth=2, point=alt.OverlayMarkDef(size=20)).encode(y=y)
        edge = base.mark_point(color=COLOURS[0], size=12).encode(y="p95_s:Q")
        chart = band + edge + line
    period = {**{key: name for key, (_, name) in _PERIODS.items()}, "M": "month"}.get(freq, freq)
    subtitle = f"median per {period}" if by else f"median and up to the 95th percentile, per {period}"
    return Chart(styled(chart.properties(width=560, height=220), "Latency of turns", subtitle), text, rows)


def _default_period(moments: pd.Series) -> str:
    span = moments.max() - moments.min()
    if pd.isna(span):
        return "1h"
    return next((freq for freq, (length, _) in _PERIODS.items() if span / pd.Timedelta(length) <= _MAX_PERIODS), "M")
