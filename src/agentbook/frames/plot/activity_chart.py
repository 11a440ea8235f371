"""The heat map of events by weekday and hour."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

from ..analysis.activity import WEEKDAYS, hour_of_week
from ..analysis.periods import zone_in
from ..analysis.validate import events_of
from .chart import Chart
from .style import COLOURS, FAINT, INK, altair, brush, click, count_text, data_of, styled, tooltip


def activity_heatmap(events: Any, *, since: Any = None, until: Any = None, tz: str | tzinfo | None = None) -> Chart:
    """Events by weekday and hour.

    Parameters
    ----------
    events : DataFrame, Listing, History, or any other table
        From `load_events` or `to_frame("events", ...)`.
    since, until : str, datetime, date or Timedelta, optional
        Only events from `since` on and before `until`: instants, dates, or lengths of
        time before the data were loaded, such as ``"7d"``.
    tz : str or tzinfo, optional
        Time zone of the hours, as an IANA name or `zoneinfo.ZoneInfo`. Default: that of
        the history, else UTC.

    Returns
    -------
    Chart

    Raises
    ------
    ValueError
        If a column is missing, or `tz` is unknown.
    ImportError
        If the extra ``lab`` is not installed.

    Notes
    -----
    Specification: "Events". The counts are those of
    `agentbook.frames.analysis.activity.hour_of_week`.

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
    alt, events = altair(), events_of(events, caller="plot.activity_heatmap")
    tz = zone_in(tz, events)
    table = hour_of_week(events, tz=tz, since=since, until=until)
    rows = table.reset_index().melt("weekday", var_name="hour", value_name="events").astype({"hour": "int64"})
    total = int(rows["events"].sum())
    # Few and short labels: a narrow page shrinks the picture.
    bare = {"domain": False, "ticks": False, "labelFontSize": 12}
    x = alt.X("hour:O", title="hour of the day", axis=alt.Axis(labelAngle=0, values=list(range(0, 24, 3)), **bare))
    y = alt.Y("weekday:N", sort=list(WEEKDAYS), title=None, axis=alt.Axis(labelExpr="slice(datum.label, 0, 3)", **bare))
    rows["share"] = rows["events"] / max(1, total)
    clicked = click()
    chart = (
        alt.Chart(data_of(rows))
        .mark_rect(color=COLOURS[0], stroke=FAINT, strokeWidth=0.5)
        .encode(
            x=x,
            y=y,
            # The opacity of one hue reads as little to much on any background; a colour
            # scheme suits only one.
            fillOpacity=alt.FillOpacity(
                "events:Q", scale=alt.Scale(domain=[0, max(1, int(rows["events"].max()))], range=[0, 1]), title="events"
            ),
            strokeWidth=alt.condition(clicked, alt.value(2), alt.value(0.5), empty=False),
            stroke=alt.condition(clicked, alt.value(INK), alt.value(FAINT), empty=False),
            tooltip=tooltip(weekday="weekday", hour="hour", events=("events", ","), share=("share", ".1%")),
        )
        .add_params(clicked, brush("x", "y"))
        .properties(width=24 * 16, height=alt.Step(20))
    )
    text = f"{count_text(total, 'event')} by weekday and hour ({tz})."
    if total:
        top = rows.iloc[int(rows["events"].argmax())]
        quiet = int((table.sum(axis=1) == 0).sum())
        text += f" Most on {top['weekday']} at {top['hour']:02d}:00 ({top['events']:,})."
        text += f" None on {quiet} of 7 weekdays." if quiet else ""
    return Chart(styled(chart, "Events by weekday and hour", f"{count_text(total, 'event')}, {tz}"), text, rows)
