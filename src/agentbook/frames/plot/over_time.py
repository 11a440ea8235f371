"""Charts over time: how much happened, how long it took, and the share that fails."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

import numpy as np
import pandas as pd

from ..._text import count_text
from ...api.span import zone
from ..analysis.activity import activity as activity_table
from ..analysis.arguments import rows_in, span_in, warns_once, with_instants, zone_in
from ..analysis.failures import FAILURE_COLUMNS, failures
from ..analysis.statistic import check_stat, quantile_of
from ..analysis.timing import latency as latency_table
from ..parse.schemas import STR
from ..tabular import events_of
from .chart import Chart, with_text
from .inputs import turns_within
from .style import (
    BAD,
    COLOURS,
    INK,
    Marks,
    altair,
    clock_text,
    default_period,
    group_channels,
    group_labels,
    group_names,
    join_names,
    period_name,
    shown_groups,
    styled,
    time_axis,
    tooltip,
    wall_clock,
)

_NUMBERS = ("n", "mean_s", "min_s", "p50_s", "p95_s", "max_s")
_COUNTED = {"messages": "questions", "sessions": "sessions", "people": "people"}
_MAX_VERSIONS, _ROWS = 8, 4  # that are marked, and the rows of their names
_NAMES = {"p50": "median", "mean": "mean", "min": "minimum", "max": "maximum"}  # of statistics


@warns_once()
def activity(
    data: Any, *, freq: str | None = None, since: Any = None, until: Any = None, tz: str | tzinfo | None = None
) -> Chart:
    """Questions, sessions and people over time, and where a version began.

    Parameters
    ----------
    data : DataFrame, History, or any other table of events
        Events.
    freq : str, optional
        Length of a period. Default: the shortest from 15 minutes to a month that makes
        at most 60 periods.
    since, until : str, datetime, date or Timedelta, optional
        Only events from `since` on and before `until`: instants, dates, or lengths of
        time before the data were loaded, such as ``"7d"``.
    tz : str or tzinfo, optional
        Time zone of the periods, as an IANA name or `zoneinfo.ZoneInfo`. Default: that
        of the history, else UTC.

    Returns
    -------
    Chart
        `data` has a row per period and line, of the table of `agentbook.activity`. A
        dashed line marks the first event of a version of an agent after another one, if
        the events have ``agent_version``: the last eight of them.

    Raises
    ------
    ValueError
        If a column is missing, an argument is unknown, or there are too many periods.
    ImportError
        If the extra ``lab`` is not installed.

    Notes
    -----
    Specification: "Events", rule 3.

    Examples
    --------
    >>> activity(events, freq="1D").data["count"].unique().tolist()
    ['questions', 'sessions', 'people']
    """
    alt, events = altair(), events_of(data, caller="plot.activity")
    tz = zone_in(tz, events)
    span = span_in(events, "created_at", since, until, tz=tz)
    events = with_instants(events, "created_at", caller="plot.activity")
    inside = rows_in(span, events, events["created_at"], caller="plot.activity")
    freq = freq or default_period(inside["created_at"])
    table = activity_table(events, freq, tz=tz, since=since, until=until).rename(columns=_COUNTED)
    rows = table.melt("period", [*_COUNTED.values()], "count", "n")
    shown = rows[["n"]].assign(at=wall_clock(rows["period"]), when=clock_text(rows["period"]), group=rows["count"])
    begun = _versions(events)
    first, last = inside["created_at"].min(), inside["created_at"].max()
    begun = begun[begun["at"].between(first, last)].tail(_MAX_VERSIONS)
    local = begun["at"].dt.tz_convert(zone(tz))
    begun = begun.assign(at=wall_clock(local), when=clock_text(local), late=begun["at"] > first + (last - first) / 2)
    # The names of versions have room above the lines.
    top = shown["n"].max() * (1.35 if len(begun) else 1)
    x, y = time_axis(tz, "time"), alt.Y("n:Q", title=None, scale=alt.Scale(domain=[0, max(float(top), 1)]))
    lines = _line_per_group(shown, "", x, y, "n", tooltip(when="from", group="count", n=("number", ",")))
    marks = alt.Chart(alt.InlineData(values=begun.to_dict("records"))).encode(
        x=x, tooltip=tooltip(name="version", when="from")
    )
    labels = [  # in rows, so that they do not overlap
        marks.transform_filter(f"datum.row == {row} && {'' if late else '!'}datum.late")
        .mark_text(align="right" if late else "left", dx=-4 if late else 4, y=6 + 12 * row)
        .encode(text="name:N")
        for row in range(min(len(begun), _ROWS))
        for late in (False, True)
    ]
    rules = marks.mark_rule(color=INK, strokeDash=[3, 3])
    chart = alt.layer(rules, *labels, lines).properties(width=560, height=220)
    text = f"{count_text(int(table['questions'].sum()), 'question')}."
    if len(table):
        most = int(table["questions"].argmax())
        when = clock_text(table["period"])[most]
        text += f" Most per {period_name(freq)}: {count_text(int(table['questions'][most]), 'question')} ({when}), "
        text += f"{count_text(int(table['sessions'].max()), 'session')}, {table['people'].max():,} users."
    if len(begun):
        text += f" Began: {join_names([f'{each.name} ({each.when})' for each in begun.itertuples(index=False)], _MAX_VERSIONS)}."
    return with_text(styled(chart, "Activity", f"per {period_name(freq)}; dashed: a version began"), text, rows, shown)


def _versions(events: pd.DataFrame) -> pd.DataFrame:
    """When each version of an agent began that was not its first, and its name."""
    agent = "agent" if "agent" in events else "agent_id"
    names = [agent, "agent_version"]
    if not set(names) <= set(events):
        return pd.DataFrame({"at": pd.to_datetime([], utc=True), "name": [], "row": []})
    first = events.groupby([events[name].astype(STR) for name in names])["created_at"].min().dropna().sort_values()
    begun = first[first.index.get_level_values(agent).duplicated()].rename("at").reset_index()
    begun["name"] = begun[agent].str.slice(0, 30) + " " + begun["agent_version"].str.slice(0, 12)
    return begun.assign(row=np.arange(len(begun))[::-1] % _ROWS)[["at", "name", "row"]]


@warns_once()
def latency(
    data: Any,
    *,
    by: str | None = None,
    freq: str | None = None,
    stat: str | None = None,
    since: Any = None,
    until: Any = None,
    top: int | None = None,
    tz: str | tzinfo | None = None,
) -> Chart:
    """The time from question to reply, over time.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        Events, or the result of `turns`.
    by : str, optional
        A column of the turns, such as ``"agent"``: one line per value.
    freq : str, optional
        Length of a period. Default: the shortest from 15 minutes to a month that makes
        at most 60 periods.
    stat : str, optional
        The statistic to draw for each period: ``"p50"``, ``"p95"`` or another
        percentile, ``"mean"``, ``"min"`` or ``"max"``. Default: the median, and without
        `by` also the 95th percentile.
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

    Raises
    ------
    ValueError
        If a column is missing, an argument is unknown, or there are too many periods or
        groups.
    ImportError
        If the extra ``lab`` is not installed.

    Notes
    -----
    The numbers are those of `agentbook.latency`. Specification: "Events", rule 4.

    Examples
    --------
    >>> table = pd.DataFrame({
    ...     "turn": [1, 2], "status": ["answered"] * 2, "latency_s": [1.0, 3.0],
    ...     "asked_at": pd.to_datetime(["2026-10-03T08:00Z"] * 2)})
    >>> latency(table)
    Latency of 2 answered turns: median 2 s, 95th percentile 2.9 s.
    >>> latency(table, stat="max")
    Latency of 2 answered turns: maximum 3 s.
    """
    alt, stat = altair(), None if stat is None else check_stat(stat, caller="plot.latency")
    table = turns_within(data, "status", "latency_s", since=since, until=until, tz=tz, caller="plot.latency")
    tz = zone_in(tz, table)
    if by is not None:
        table = shown_groups(
            table[table["status"] == "answered"], by, top, "period", *_NUMBERS, f"{stat}_s", caller="plot.latency"
        )
    freq = freq or default_period(table["asked_at"])
    quantiles = sorted({0.5, 0.95, quantile_of(stat or "p50") or 0.5})
    rows = latency_table(table, by=by, freq=freq, tz=tz, quantiles=quantiles)
    overall = latency_table(table, quantiles=quantiles).iloc[0]
    shown = _drawn(rows, by, stat or "p50")
    x = time_axis(tz)
    text = f"Latency of {count_text(int(overall['n']), 'answered turn')}{_stats_text(overall, stat)}."
    if by is None:
        chart = _one_line(shown, x, stat, overall)
    else:
        text += _slowest_text(table, by, stat or "p50", quantiles) if len(rows) else ""
        y = alt.Y("value_s:Q", title="seconds", scale=alt.Scale(zero=True))
        chart = _line_per_group(shown, by, x, y, "n", _tooltip(group=by))
    subtitle = "median and up to the 95th percentile" if stat is None and by is None else stat_name(stat or "p50")
    chart = chart.properties(width=560, height=220)
    return with_text(styled(chart, "Latency of turns", f"{subtitle}, per {period_name(freq)}"), text, rows, shown)


def stat_name(stat: str) -> str:
    """The name of a statistic in words.

    Examples
    --------
    >>> stat_name("p50"), stat_name("p95")
    ('median', '95th percentile')
    """
    return _NAMES.get(stat, f"{stat.removeprefix('p')}th percentile")


def _drawn(rows: pd.DataFrame, by: str | None, stat: str) -> pd.DataFrame:
    """The rows as the marks have them.

    Altair and Vega would read a column's name with a colon or a quote as an expression,
    so the column of the groups is renamed.
    """
    shown = rows[[*_NUMBERS]].assign(value_s=rows[f"{stat}_s"])
    shown = shown.assign(at=wall_clock(rows["period"]), when=clock_text(rows["period"]))
    return shown if by is None else shown.assign(group=group_labels(rows[by]))


def _one_line(shown: pd.DataFrame, x: Any, stat: str | None, overall: Any) -> Any:
    alt = altair()
    # On a linear scale, a few very slow turns would flatten all others.
    highest = shown["p95_s" if stat is None else "value_s"].max()
    skewed = bool(len(shown) and shown["value_s"].min() > 0 and highest > 30 * overall["p50_s"])
    scale = alt.Scale(type="log", nice=False) if skewed else alt.Scale(zero=True)
    y = alt.Y("value_s:Q", title="seconds (logarithmic)" if skewed else "seconds", scale=scale)
    marks = Marks(shown)
    base = marks.chart.encode(x=x)
    layers = [base.mark_line(color=COLOURS[0], strokeWidth=2).encode(y=y)]
    if stat is None:
        band = base.mark_area(opacity=0.3, color=COLOURS[0], line=False).encode(y=y, y2="p95_s:Q")
        edge = base.mark_point(color=COLOURS[0], size=12).encode(y="p95_s:Q", tooltip=_tooltip())
        layers = [band, edge, *layers]
    points = base.mark_point(color=COLOURS[0], filled=True, size=24).encode(y=y, tooltip=_tooltip())
    return alt.layer(*layers, marks.selectable(points, "x"))


def _line_per_group(shown: pd.DataFrame, by: str, x: Any, y: Any, weight: str, tips: list[Any]) -> Any:
    """A line for each value of the column ``group``, the greatest `weight` first."""
    channels, marks = group_channels(group_names(shown, "group", weight=weight), by), Marks(shown)
    base = marks.chart.encode(x=x, y=y, color=channels["color"])
    points = base.mark_point(filled=True, size=36).encode(shape=channels["shape"], tooltip=tips)
    return altair().layer(base.mark_line(strokeWidth=1.8), marks.selectable(points, "x"))


def _tooltip(**group: str) -> list[Any]:
    seconds = {f"{stat}_s": (stat_name(stat), ",.2~f") for stat in ("p50", "p95", "mean", "max")}
    return tooltip(**group, when="asked", n=("turns", ","), **seconds)


def _stats_text(overall: Any, stat: str | None) -> str:
    if not overall["n"]:
        return ""
    stats = ("p50", "p95") if stat is None else (stat,)
    return ": " + ", ".join(f"{stat_name(name)} {overall[f'{name}_s']:.3g} s" for name in stats)


def _slowest_text(table: pd.DataFrame, by: str, stat: str, quantiles: list[float]) -> str:
    column = f"{stat}_s"
    groups = latency_table(table, by=by, quantiles=quantiles).sort_values(column, ascending=False)
    name = group_labels(groups[by]).iloc[0]
    return f" Slowest by {by}: {name} ({stat_name(stat)} {groups[column].iloc[0]:.3g} s)."


_COUNTS = ("period", "kind", *FAILURE_COLUMNS)


@warns_once()
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
    kinds = isinstance(by, str) and by == "kind"
    if by is not None and not kinds:
        table = shown_groups(table, by, top, *_COUNTS, caller="plot.failure_rate")
    rows = failures(table, by=None if kinds else by, freq=freq, tz=tz, kinds=kinds)
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
        chart = _line_per_group(shown, by, x, y, "turns", [*tooltip(group=by), *tips])
    subtitle = {None: "of all turns", "kind": "of all turns, by kind"}.get(by, f"of each {by}'s turns")
    chart = chart.properties(width=560, height=200)
    return with_text(
        styled(chart, "Failed turns", f"{subtitle}, per {period_name(freq)}"), _rate_text(table, rows, by), rows, shown
    )


def _rate_text(table: pd.DataFrame, rows: pd.DataFrame, by: str | None) -> str:
    failed, total = int((table["status"] == "failed").sum()), len(table)
    text = f"{failed:,} of {count_text(total, 'turn')} failed"
    text += f" ({100 * failed / total:.1f} %)." if total else "."
    if not failed:
        return text
    highest = rows.iloc[int(rows["share"].argmax())]
    of = "" if by is None else f"{group_labels(pd.Series([highest[by]]))[0]}, "
    when = clock_text(pd.Series([highest["period"]]))[0]
    return f"{text} Highest rate: {100 * highest['share']:.1f} % ({of}{when})."
