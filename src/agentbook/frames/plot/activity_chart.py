"""The heat map of events by weekday and hour."""

from __future__ import annotations

from datetime import tzinfo

import pandas as pd

from ..analysis.activity import WEEKDAYS, hour_of_week
from ..analysis.periods import zone_name
from .chart import COLOURS, FAINT, Chart, altair, count_text, data_of, styled


def activity_heatmap(events: pd.DataFrame, *, tz: str | tzinfo = "UTC") -> Chart:
    """Events by weekday and hour.

    Parameters
    ----------
    events : DataFrame
        From `load_events` or `to_frame("events", ...)`.
    tz : str or tzinfo
        Time zone of the hours, as an IANA name or `zoneinfo.ZoneInfo`. Default UTC.

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
    alt, tz = altair(), zone_name(tz)
    table = hour_of_week(events, tz=tz)
    rows = table.reset_index().melt("weekday", var_name="hour", value_name="events").astype({"hour": "int64"})
    total = int(rows["events"].sum())
    x = alt.X("hour:O", title="hour of the day", axis=alt.Axis(labelAngle=0, domain=False, ticks=False))
    y = alt.Y("weekday:N", sort=list(WEEKDAYS), title=None, axis=alt.Axis(domain=False, ticks=False))
    base = alt.Chart(data_of(rows)).encode(x=x, y=y)
    # Opacity of one hue reads as little to much on any background; a colour scheme fits
    # only one.
    heat = base.mark_rect(color=COLOURS[0], cornerRadius=2).encode(
        opacity=alt.Opacity(
            "events:Q", scale=alt.Scale(domain=[0, max(1, int(rows["events"].max()))], range=[0, 1]), title="events"
        )
    )
    grid = base.mark_rect(fillOpacity=0, stroke=FAINT, strokeWidth=0.5, cornerRadius=2)
    chart = (grid + heat).properties(width=alt.Step(22), height=alt.Step(22))
    text = f"{count_text(total, 'event')} by weekday and hour ({tz})."
    if total:
        top = rows.iloc[int(rows["events"].argmax())]
        quiet = int((table.sum(axis=1) == 0).sum())
        text += f" Most on {top['weekday']} at {top['hour']:02d}:00 ({top['events']:,})."
        text += f" None on {quiet} of 7 weekdays." if quiet else ""
    return Chart(styled(chart, "Events by weekday and hour", f"{count_text(total, 'event')}, {tz}"), text, rows)
