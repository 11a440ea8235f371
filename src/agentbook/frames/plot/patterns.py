"""Where turns lie: by weekday and hour."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

from ..._text import count_text
from ..analysis.activity import WEEKDAYS, hour_of_week
from ..tabular import frame_of
from .chart import Chart, with_text
from .style import COLOURS, FAINT, INK, Marks, altair, styled, tooltip


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
