"""The chart of two spans compared: what changed, and whether it is more than noise."""

from __future__ import annotations

from datetime import timedelta, tzinfo
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from ..._text import count_text
from ...api.span import zone
from ..analysis.arguments import group_of, require, zone_in
from ..analysis.clusters import holm, levels, p_value
from ..analysis.comparison import compare_periods, is_share
from ..tabular import frame_of, part_of
from .chart import Chart, with_text
from .style import BAD, COLOURS, INK, Marks, altair, group_labels, join_names, styled, tooltip

MAX_LINES = 40
_COMPARED = {"metric", "before", "after", "ratio", "z"}
_OWN = {"metric", "before", "after", "change", "ratio", "z", "n", "sessions", "p", "p_holm", "significant"}
_CLEAR, _NOISE = "more than noise", "within noise"


def comparison(
    data: Any,
    *,
    a: tuple[Any, Any] | None = None,
    b: tuple[Any, Any] | None = None,
    period: str | timedelta = "7D",
    as_of: Any = None,
    by: str | None = None,
    top: int | None = None,
    metric: str | list[str] | None = None,
    stat: str = "p50",
    tz: str | tzinfo | None = None,
) -> Chart:
    """Two spans compared: the change of each metric, with its range.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        Events, the result of `turns`, or the result of `agentbook.compare_periods`. The
        other arguments are passed to that function.
    a, b : tuple of str, datetime or date, optional
        Start and end of the earlier and of the later span.
    period : str or timedelta
        Without `a` and `b`: length of each period; default 7 days.
    as_of : datetime, optional
        Without `a` and `b`: the end of the later period.
    by : str, optional
        A column of the events or turns, such as ``"agent"``: one line per value.
    top : int, optional
        With `by`: how many values, those with the most turns; the rest is ``"other"``.
    metric : str or list of str, optional
        Which metrics; default all, and with `by` latency.
    stat : str
        The statistic of latency: ``"p50"`` (default), ``"p95"`` or another percentile,
        ``"mean"`` or ``"max"``.
    tz : str or tzinfo, optional
        Time zone of dates, as an IANA name or `zoneinfo.ZoneInfo`. Default: that of the
        history, else UTC.

    Returns
    -------
    Chart
        The 40 clearest changes, if there are more. A metric that was 0 before has no
        change in percent, and is in `text` and `data` only.

    Raises
    ------
    ValueError
        If a column is missing, or an argument is invalid.
    ImportError
        If the extra ``lab`` is not installed.

    Notes
    -----
    The numbers are those of `agentbook.compare_periods`. The range is that of 95 %, and
    with several groups as much longer as Holm's correction asks of the group, so it
    leaves out zero exactly where the change is more than noise. The subtitle says for
    how many groups it is corrected. A change without a standard error has no range.
    Specification: "Events", rules 3 to 5.

    Examples
    --------
    >>> table = pd.DataFrame({
    ...     "metric": ["turns", "failed"], "before": [100.0, 5.0],
    ...     "after": [150.0, 6.0], "change": [50.0, 1.0], "ratio": [1.5, 1.2],
    ...     "z": [3.2, 0.3], "n": [250, 11], "significant": [True, False]})
    >>> comparison(table)
    2 changes, 1 of them more than noise: turns +50 % (100 to 150).
    """
    alt = altair()
    table = frame_of(data, caller="plot.comparison", resource="events")
    if not set(table.columns) >= _COMPARED:
        if by is not None:
            group_of(by, caller="plot.comparison", frame=table)
        metric = "latency" if metric is None and by is not None else metric
        source = table if part_of(data, "turn_events") is None else data
        table = compare_periods(
            source, a=a, b=b, period=period, as_of=as_of, by=by, top=top, metric=metric, stat=stat, tz=tz
        )
    require(table, *_COMPARED, "significant", caller="plot.comparison")
    rows = table.sort_values("z", key=abs, ascending=False, kind="stable", ignore_index=True)
    drawable = rows[rows["ratio"].notna() & np.isfinite(rows["ratio"].astype("float64"))]
    tests = _tests(rows)
    shown = _drawn(drawable.head(MAX_LINES), tests)
    marks, lines = Marks(shown), shown["label"].to_list()
    colour = alt.Color(
        "clear:N", title=None, scale=alt.Scale(domain=[_CLEAR, _NOISE], range=[COLOURS[8], INK]),
        legend=alt.Legend(orient="top", symbolOpacity=1, columns=2),
    )  # fmt: skip
    base = marks.chart.encode(
        y=alt.Y("label:N", sort=lines, title=None, axis=alt.Axis(domain=False, ticks=False, labelLimit=240, grid=True)),
        color=colour,
        tooltip=tooltip(
            label="metric", before=("before", ",.4~g"), after=("after", ",.4~g"), change_share=("change", "+.1%"),
            z=("standard errors", "+.1f"), n=("n", ","), clear="this is",
        ),
    )  # fmt: skip
    x = alt.X("change_share:Q", title="change from before to after", axis=alt.Axis(format="+.0%", grid=False))
    ranges = base.mark_rule(strokeWidth=2, opacity=0.55).encode(x=alt.X("low:Q"), x2="high:Q")
    points = marks.selectable(base.mark_point(filled=True, size=60).encode(x=x), "y")
    values = base.mark_text(align="left", dx=8, dy=-8, fontSize=10).encode(x=x, text="values:N", color=alt.value(INK))
    zero = alt.Chart(alt.InlineData(values=[{"zero": 0}])).mark_rule(color=BAD, strokeDash=[3, 3]).encode(x="zero:Q")
    chart = alt.layer(zero, ranges, values, points).properties(width=460, height=alt.Step(26))
    text = _text(rows, tests) if len(shown) else _nothing_drawn(rows, tests)
    return with_text(styled(chart, "What changed", _subtitle(table, tests)), text, rows.loc[shown.index], shown)


def _nothing_drawn(rows: pd.DataFrame, tests: pd.Series) -> str:
    if not rows["n"].any():
        return "Nothing to compare: there are no data in either span."
    advice = "Nothing is drawn: a change from zero has no percentage. Choose other spans with a= and b=."
    return f"{_text(rows, tests)} {advice}"


def _tests(rows: pd.DataFrame) -> pd.Series:
    """The number of groups for which each row's probability is corrected."""
    known = rows.attrs.get("agentbook", {}).get("tests") or rows.groupby("metric")["z"].count().to_dict()
    counts: pd.Series = rows["metric"].map(lambda metric: max(1, known.get(metric, 1))).astype("int64")
    return counts


def _reach(rows: pd.DataFrame, tests: pd.Series) -> pd.Series:
    """How many standard errors the range of each row is long, on each side."""
    p = rows["z"].map(p_value).astype("float64")
    corrected = p.groupby(rows["metric"]).transform(lambda part: holm(part.to_numpy()))
    if {"p", "p_holm"} <= set(rows):
        p, corrected = rows["p"].astype("float64"), rows["p_holm"].astype("float64")
    level = levels(np.asarray(p, np.float64), np.asarray(corrected, np.float64), tests[rows.index].to_numpy())
    normal = NormalDist()
    return pd.Series([np.nan if np.isnan(each) else -normal.inv_cdf(each / 2) for each in level], rows.index)


def _drawn(rows: pd.DataFrame, tests: pd.Series) -> pd.DataFrame:
    """The rows as the marks use them: the change as a share of the value before."""
    change = rows["ratio"].astype("float64") - 1
    z = rows["z"].astype("float64")
    # Where the score and the change point in two directions, there is no range.
    error = (change / z).where((z.abs() > 1e-9) & (change * z > 0))
    reach = error * _reach(rows, tests)
    # No share is below 0 or above 1, however few the turns.
    most = (1 / rows["before"].astype("float64") - 1).where(rows["metric"].map(is_share))
    return pd.DataFrame(
        {
            "label": _labels(rows),
            **{name: rows[name] for name in ("before", "after", "z", "n")},
            "change_share": change,
            "low": (change - reach).clip(lower=-1),
            "high": (change + reach).clip(upper=most),
            "values": [f"{_number(a)} → {_number(b)}" for a, b in zip(rows["before"], rows["after"], strict=True)],
            "clear": np.where(rows["significant"].astype(bool), _CLEAR, _NOISE),
        }
    )


def _labels(rows: pd.DataFrame) -> list[str]:
    """The label of each row: its group, its metric, or both."""
    parts = [group_labels(rows[name]) for name in rows if name not in _OWN]
    if rows["metric"].nunique() > 1 or not parts:
        parts.append(rows["metric"].astype("str"))
    return [", ".join(names) for names in zip(*parts, strict=True)]


def _correction(tests: pd.Series) -> str:
    count = int(tests.max()) if len(tests) else 1
    return f", corrected for {count:,} groups (Holm)" if count > 1 else ""


def _subtitle(table: pd.DataFrame, tests: pd.Series) -> list[str]:
    ranges = f"range: 95 %{_correction(tests)}; without 0 in it, the change is more than noise"
    periods = table.attrs.get("agentbook", {}).get("periods", {})
    if "NaT" in str(periods) or set(periods) != {"before", "after"}:
        return ["from before to after", ranges]
    tz = zone(zone_in(None, table))
    before, after = (
        " to ".join(f"{pd.Timestamp(end).tz_convert(tz):%Y-%m-%d}" for end in periods[side])
        for side in ("before", "after")
    )
    return [f"from {before} (before), to {after} (after)", ranges]


def _text(rows: pd.DataFrame, tests: pd.Series) -> str:
    clear = rows[rows["significant"].astype(bool)]
    text = f"{count_text(len(rows), 'change')}, {len(clear):,} of them more than noise{_correction(tests)}"
    if clear.empty:
        return text + "."
    sentences = [
        f"{label} {'from 0' if pd.isna(ratio) else f'{100 * (ratio - 1):+.0f} %'} ({_number(before)} to {_number(after)})"
        for label, ratio, before, after in zip(
            _labels(clear), clear["ratio"], clear["before"], clear["after"], strict=True
        )
    ]
    return f"{text}: {join_names(sentences)}."


def _number(value: Any) -> str:
    return "?" if pd.isna(value) else f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
