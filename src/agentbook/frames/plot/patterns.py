"""Where turns lie: by weekday and hour, and by length of the question."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

import numpy as np
import pandas as pd

from ..analysis.activity import WEEKDAYS, hour_of_week
from ..analysis.arguments import warns_once
from ..analysis.correlation import prompt_latency as medians_by_length
from ..analysis.correlation import rank_correlation
from ..tabular import frame_of
from .chart import Chart, with_text
from .inputs import turn_labels, turns_within
from .style import (
    COLOURS,
    FAINT,
    INK,
    Marks,
    altair,
    count_text,
    group_channels,
    group_labels,
    group_names,
    shown_groups,
    styled,
    tooltip,
)


def activity_heatmap(
    data: Any, *, value: str = "events", since: Any = None, until: Any = None, tz: str | tzinfo | None = None
) -> Chart:
    """Events, or a measure of turns, by weekday and hour.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        As for `agentbook.hour_of_week`.
    value : str
        As for `agentbook.hour_of_week`: ``"events"`` (default), ``"failed"``,
        ``"failed_share"``, ``"p95"``, ...
    since, until : str, datetime, date or timedelta, optional
        Only what happened from `since` on and before `until`: instants, dates, or
        lengths of time before the data were loaded, such as ``"7d"``.
    tz : str or tzinfo, optional
        Time zone of the hours, as an IANA name or `zoneinfo.ZoneInfo`. Default: that of
        the history, else UTC.

    Returns
    -------
    Chart

    Raises
    ------
    ValueError
        If a column is missing, or `value` or `tz` is unknown.
    ImportError
        If the extra ``lab`` is not installed.

    Notes
    -----
    Specification: "Events". The numbers are those of `agentbook.hour_of_week`.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "019a0b1c-0000-7000-8000-000000000001",
    ...   "created_at": "2026-10-03T23:15:00Z"}]}'''
    >>> events = to_frame("events", [page], context={"session_id": "s1"})
    >>> chart = activity_heatmap(events)
    >>> chart.text.partition(". ")[0]
    '1 event by weekday and hour (UTC)'
    """
    alt = altair()
    frame = frame_of(data, caller="plot.activity_heatmap", resource="events")
    table = hour_of_week(frame, value=value, tz=tz, since=since, until=until)
    tz = str(table.attrs["agentbook"]["tz"])
    is_count = bool((table.dtypes == "int64").all())
    column = value if is_count or value == "failed_share" else f"{value}_s"
    format_ = "," if is_count else ".1%" if value == "failed_share" else ",.2f"
    rows = table.reset_index().melt("weekday", var_name="hour", value_name=column).astype({"hour": "int64"})
    total = int(rows[column].sum()) if is_count else 0
    # Few and short labels: a narrow page shrinks the picture.
    bare = {"domain": False, "ticks": False, "labelFontSize": 12}
    x = alt.X("hour:O", title="hour of the day", axis=alt.Axis(labelAngle=0, values=list(range(0, 24, 3)), **bare))
    y = alt.Y("weekday:N", sort=list(WEEKDAYS), title=None, axis=alt.Axis(labelExpr="slice(datum.label, 0, 3)", **bare))
    title = {"failed_share": "share of failed turns"}.get(value, value if is_count else f"{value} latency (s)")
    shown: dict[str, Any] = {"weekday": "weekday", "hour": "hour", column: (column, format_)}
    if is_count:
        rows["share"] = rows[column] / max(1, total)
        shown["share"] = ("share", ".1%")
    marks, most = Marks(rows), rows[column].max()
    chart = (
        marks.chart.mark_rect(color=COLOURS[0], stroke=FAINT, strokeWidth=0.5)
        .encode(
            x=x,
            y=y,
            # The opacity of one hue reads as little to much on any background; a colour
            # scheme suits only one.
            fillOpacity=alt.FillOpacity(
                f"{column}:Q", scale=alt.Scale(domain=[0, float(most) if most > 0 else 1], range=[0, 1]), title=title
            ),
            strokeWidth=alt.condition(marks.clicked, alt.value(2), alt.value(0.5), empty=False),
            stroke=alt.condition(marks.clicked, alt.value(INK), alt.value(FAINT), empty=False),
            tooltip=tooltip(**shown),
        )
        .properties(width=24 * 16, height=alt.Step(20))
    )
    chart = marks.selectable(chart, "x", "y", name="cells", opacity=None)
    counted = {"events": "event", "turns": "turn"}.get(value, f"{value} turn")
    what = count_text(total, counted) if is_count else title[:1].upper() + title[1:]
    text = f"{what} by weekday and hour ({tz})."
    if most > 0:
        top = rows.iloc[int(rows[column].argmax())]
        number = f"{top[column]:{format_}}" + ("" if is_count or value == "failed_share" else " s")
        text += f" {'Most' if is_count else 'Highest'} on {top['weekday']} at {top['hour']:02d}:00 ({number})."
    if total:
        quiet = int((table.sum(axis=1) == 0).sum())
        text += f" None on {quiet} of 7 weekdays." if quiet else ""
    head = f"{title[:1].upper()}{title[1:]} by weekday and hour"
    return with_text(styled(chart, head, f"{what}, {tz}" if is_count else tz), text, rows)


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
    chosen = np.unique(np.linspace(0, len(table) - 1, min(MAX_POINTS, len(table))).round().astype(int))
    rows = table.iloc[chosen].reset_index(drop=True)
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
    subtitle = "each point a turn, the line their median"
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
