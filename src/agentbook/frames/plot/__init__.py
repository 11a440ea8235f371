"""Pictures of sessions and credentials. Each aggregates first, says in words what it shows, and is saved as SVG.

They need the extra ``lab`` (Altair and vl-convert), which is imported when the first one is drawn.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

import pandas as pd

from ..analysis.activity import WEEKDAYS, hour_of_week
from ..analysis.credentials import credential_report
from ..analysis.failures import failures as failure_table
from ..analysis.findings import SEVERITIES
from ..analysis.periods import zone_name
from ..analysis.timing import latency as latency_table
from ..analysis.turns import is_turns, turns
from ..analysis.validate import group_of, require, with_instants
from ..parse.schemas import STR
from .chart import COLOURS, FAINT, INK, SEVERITY_COLOURS, Chart, altair, data_of, drawn, listed, wall_clock
from .timeline import MOST_BARS, MOST_TURNS, bars_of, one_session

_NAMED = {"15min": "15 minutes", "1h": "hour", "6h": "6 hours", "1D": "day", "W": "week", "M": "month"}
_STEPS = tuple(_NAMED)
_PERIODS = 60  # more points than this make a line of noise


def activity_heatmap(events: pd.DataFrame, *, tz: str | tzinfo = "UTC") -> Chart:
    """Events by weekday and hour.

    Parameters
    ----------
    events : DataFrame
        As `to_frame("events", ...)` makes it.
    tz : str or tzinfo
        IANA name (or `zoneinfo.ZoneInfo`) of the time zone whose hours count; default UTC.

    Returns
    -------
    Chart

    Raises
    ------
    ValueError
        A column is missing, or `tz` is unknown.
    ImportError
        The extra ``lab`` is not installed.

    Notes
    -----
    Specification: "Events". The counts are `agentbook.frames.analysis.activity.hour_of_week`'s.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "019a0b1c-0000-7000-8000-000000000001", "created_at": "2026-10-03T23:15:00Z"}]}'''
    >>> activity_heatmap(to_frame("events", [page], context={"session_id": "s1"}))
    1 event by weekday and hour (UTC). Most on Saturday at 23:00 (1). None on 6 of 7 weekdays.
    """
    alt, tz = altair(), zone_name(tz)
    table = hour_of_week(events, tz=tz)
    rows = table.reset_index().melt("weekday", var_name="hour", value_name="events").astype({"hour": "int64"})
    total = int(rows["events"].sum())
    x = alt.X("hour:O", title="hour of the day", axis=alt.Axis(labelAngle=0, domain=False, ticks=False))
    y = alt.Y("weekday:N", sort=list(WEEKDAYS), title=None, axis=alt.Axis(domain=False, ticks=False))
    base = alt.Chart(data_of(rows)).encode(x=x, y=y)
    # One hue by opacity reads as little to much on any background; a scheme of colours fits only one.
    heat = base.mark_rect(color=COLOURS[0], cornerRadius=2).encode(
        opacity=alt.Opacity(
            "events:Q", scale=alt.Scale(domain=[0, max(1, int(rows["events"].max()))], range=[0, 1]), title="events"
        )
    )
    grid = base.mark_rect(fillOpacity=0, stroke=FAINT, strokeWidth=0.5, cornerRadius=2)
    chart = (grid + heat).properties(width=alt.Step(22), height=alt.Step(22))
    text = f"{_count(total, 'event')} by weekday and hour ({tz})."
    if total:
        top = rows.iloc[int(rows["events"].argmax())]
        quiet = int((table.sum(axis=1) == 0).sum())
        text += f" Most on {top['weekday']} at {top['hour']:02d}:00 ({top['events']:,})."
        text += f" None on {quiet} of 7 weekdays." if quiet else ""
    return Chart(drawn(chart, "Events by weekday and hour", f"{_count(total, 'event')}, {tz}"), text, rows)


def latency(data: pd.DataFrame, *, by: str | None = None, freq: str | None = None, tz: str | tzinfo = "UTC") -> Chart:
    """Median and 95th percentile of the time from question to answer, over time.

    Parameters
    ----------
    data : DataFrame
        Events, or what `turns` made of them.
    by : str, optional
        A column of the turns: one line per value, without the percentile.
    freq : str, optional
        Length of a period; default: the shortest of 15 minutes to a month that makes at most 60.
    tz : str or tzinfo
        IANA name (or `zoneinfo.ZoneInfo`) of the time zone of the periods; default UTC.

    Returns
    -------
    Chart

    Raises
    ------
    ValueError
        A column is missing, `freq` or `tz` is unknown, or there are too many periods and groups.
    ImportError
        The extra ``lab`` is not installed.

    Notes
    -----
    Specification: "Events", rule 4. The numbers are `agentbook.frames.analysis.timing.latency`'s.

    Examples
    --------
    >>> table = pd.DataFrame({"turn": [1, 2], "status": ["answered"] * 2, "latency_s": [1.0, 3.0],
    ...                       "asked_at": pd.to_datetime(["2026-10-03T08:00Z"] * 2)})
    >>> latency(table)
    Latency of 2 answered turns: median 2 s, 95th percentile 2.9 s.
    """
    alt, tz = altair(), zone_name(tz)
    if by is not None:
        group_of(by, what="plot.latency")
    table = data if is_turns(data) else turns(data)
    require(table, "asked_at", what="plot.latency")
    table = with_instants(table, "asked_at", what="plot.latency")
    freq = freq or _fitting(table["asked_at"])
    rows = latency_table(table, by=by, freq=freq, tz=tz, quantiles=(0.5, 0.95))
    whole = latency_table(table, quantiles=(0.5, 0.95)).iloc[0]
    text = f"Latency of {_count(int(whole['n']), 'answered turn')}"
    text += f": median {whole['p50_s']:.3g} s, 95th percentile {whole['p95_s']:.3g} s." if whole["n"] else "."
    if by and len(rows):
        slow = latency_table(table, by=by, quantiles=(0.5,)).sort_values("p50_s", ascending=False)
        name = slow[by].iloc[0]
        text += f" Slowest by {by}: {'(not said)' if pd.isna(name) else name} (median {slow['p50_s'].iloc[0]:.3g} s)."
    shown = rows.assign(period=wall_clock(rows["period"]))
    # An axis without any instant would be read aloud as from NaN to NaN.
    axis = alt.Axis(grid=False, aria=len(rows) > 0)
    x = alt.X("period:T", title=f"asked ({tz})", scale=alt.Scale(type="utc"), axis=axis)
    # A few turns that waited long would press all others flat.
    wide = bool(len(rows) and rows["p50_s"].min() > 0 and rows["p95_s"].max() > 30 * whole["p50_s"])
    scale = alt.Scale(type="log", nice=False) if wide and not by else alt.Scale(zero=True)
    y = alt.Y("p50_s:Q", title="seconds (logarithmic)" if wide and not by else "seconds", scale=scale)
    base = alt.Chart(data_of(shown)).encode(x=x)
    if by:
        # Under a name that is no expression to Altair or Vega, as one with a colon or a quote in it would be.
        shown = shown.drop(columns=by).assign(group=shown[by].astype(STR).fillna("(not said)"))
        colour = alt.Color("group:N", title=by, legend=alt.Legend(orient="top", columns=6))
        base = alt.Chart(data_of(shown)).encode(x=x, color=colour)
        chart = base.mark_line(point=alt.OverlayMarkDef(size=20), strokeWidth=2).encode(y=y)
    else:
        band = base.mark_area(opacity=0.3, color=COLOURS[0], line=False).encode(y=y, y2="p95_s:Q")
        line = base.mark_line(color=COLOURS[0], strokeWidth=2, point=alt.OverlayMarkDef(size=20)).encode(y=y)
        edge = base.mark_point(color=COLOURS[0], size=12).encode(y="p95_s:Q")
        chart = band + edge + line
    each = _NAMED.get(freq, freq)
    what = f"median per {each}" if by else f"median and up to the 95th percentile, per {each}"
    return Chart(drawn(chart.properties(width=560, height=220), "Latency of turns", what), text, rows)


def turn_timeline(events: pd.DataFrame, session_id: Any = None) -> Chart:
    """One session turn by turn: how long each took, and its subtasks as bars.

    An event is persisted when a task is done, so a subtask's bar runs from the event before it in the turn to its own.

    Parameters
    ----------
    events : DataFrame
        As `to_frame("events", ...)` makes it.
    session_id : str or Record, optional
        Which session, by id, address or record; needed where the frame holds several.

    Returns
    -------
    Chart
        The first 200 turns, and of their bars the first 4,000; `text` says where that is not all.

    Raises
    ------
    ValueError
        A column is missing, or the session is not said or not there.
    ImportError
        The extra ``lab`` is not installed.

    Notes
    -----
    Specification: "Events", rules 3 and 4.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [
    ...   {"id": "019a0b1c-0000-7000-8000-000000000001", "type": "message", "content": {"text": "How many?"},
    ...    "author": {"type": "api_key"}, "created_at": "2026-10-03T08:15:00Z"},
    ...   {"id": "019a0b1c-0000-7000-8000-000000000003", "type": "runtime_done", "content": {"text": "Three."},
    ...    "created_at": "2026-10-03T08:15:03Z"}]}'''
    >>> turn_timeline(to_frame("events", [page], context={"session_id": "s1"}))
    Session s1: 1 turn, 1 answered. The longest took 3 s (turn 1).
    """
    alt = altair()
    require(events, "session_id", what="turn_timeline")
    one = one_session(events, session_id)
    table = turns(one)
    rows = bars_of(one, table)
    steps, rows = len(rows), rows.head(MOST_BARS)
    kinds = {"subtask": COLOURS[0], "reply": COLOURS[2], "failure": COLOURS[7], "waiting": INK}
    scale = alt.Scale(domain=list(kinds), range=list(kinds.values()))
    bars = (
        alt.Chart(data_of(rows))
        .mark_bar(height=12, x2Offset=-1.5)  # the gap tells one subtask from the next
        .encode(
            x=alt.X("from_s:Q", title="seconds since the question"),
            x2="to_s:Q",
            y=alt.Y("turn:O", title="turn", axis=alt.Axis(domain=False, ticks=False)),
            color=alt.Color("step:N", title=None, legend=alt.Legend(orient="top"), scale=scale),
        )
    )
    name = str(table["session_id"].iloc[0]) if len(table) else "?"
    statuses = table["status"].value_counts()
    parts = [
        f"{statuses[status]:,} {status}" for status in ("answered", "failed", "unanswered", "open") if statuses[status]
    ]
    text = ", ".join([f"Session {name}: {_count(len(table), 'turn')}", *parts]) + "."
    if table["latency_s"].notna().any():
        longest = table.iloc[int(table["latency_s"].fillna(-1).argmax())]
        text += f" The longest took {longest['latency_s']:.3g} s (turn {longest['turn']})."
    if len(table) > MOST_TURNS:
        text += f" The first {MOST_TURNS} are drawn."
    if steps > MOST_BARS:
        text += f" Of their {steps:,} bars the first {MOST_BARS:,} are drawn."
    chart = bars.properties(width=560, height=alt.Step(18))
    return Chart(drawn(chart, "Turns and their subtasks", f"session {name}"), text, rows)


def failures(data: pd.DataFrame) -> Chart:
    """Failed turns by kind.

    Parameters
    ----------
    data : DataFrame
        Events, or what `turns` made of them.

    Returns
    -------
    Chart

    Raises
    ------
    ValueError
        A column is missing; the message names it.
    ImportError
        The extra ``lab`` is not installed.

    Notes
    -----
    Specification: "Errors", runtime limit failures.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "019a0b1c-0000-7000-8000-000000000001", "type": "runtime_done",
    ...   "content": {"text": "exceeded LLM call limit for this execution tree"}}]}'''
    >>> failures(to_frame("events", [page], context={"session_id": "s1"}))
    1 of 1 turn failed (100.0 %): llm_calls 1.
    """
    alt = altair()
    table = failure_table(data)
    rows = table[["kind", "turns", "sessions", "share", "cause"]]
    known = table.attrs["agentbook"]
    total, failed = known["turns"], known["failed"]
    text = f"{failed:,} of {_count(total, 'turn')} failed" + (
        f" ({failed / total:.1%})".replace("%", " %") if total else ""
    )
    parts = [f"{row.kind} {row.turns:,}" for row in rows.itertuples()]
    text += (": " + listed(parts, 5) if parts else "") + "."
    base = alt.Chart(data_of(rows)).encode(
        y=alt.Y("kind:N", sort=rows["kind"].to_list(), title=None, axis=alt.Axis(domain=False, ticks=False)),
        x=alt.X("turns:Q", title="turns", axis=alt.Axis(tickMinStep=1, format="d")),
    )
    bars = base.mark_bar(color=COLOURS[7], height=14, cornerRadiusEnd=2)
    labels = base.mark_text(align="left", dx=4).encode(text="turns:Q")
    chart = (bars + labels).properties(width=480, height=alt.Step(22))
    return Chart(drawn(chart, "Failed turns by kind", f"{failed:,} of {_count(total, 'turn')}"), text, rows)


def credentials(report: pd.DataFrame, *, most: int = 30) -> Chart:
    """Credentials per integration, by their worst finding.

    Parameters
    ----------
    report : DataFrame
        From `credential_report`, or credentials as `to_frame("credentials", ...)` makes them.
    most : int
        How many integrations are drawn, those with the most credentials; the rest is one bar. Default 30.

    Returns
    -------
    Chart
        Holds no parameters, names or addresses of credentials.

    Raises
    ------
    ValueError
        A column is missing; the message names it.
    ImportError
        The extra ``lab`` is not installed.

    Notes
    -----
    Specification: "Resources and their fields", IntegrationCredentials.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'{"items": [{"id": "c1", "integration": "github", "params": {"token": "x"}, "webhook_enabled": true}]}'
    >>> credentials(to_frame("credentials", [page]))
    1 credential of 1 integration. By worst finding: 1 high. Most: github 1.
    """
    alt = altair()
    require(report, what="plot.credentials")
    table = report if "findings" in report else credential_report(report)
    require(table, "integration", "severity", what="plot.credentials")
    named = table["integration"].fillna("(not said)")
    top = named.value_counts(sort=False).rename("n").rename_axis("integration").reset_index()
    top = top.sort_values(["n", "integration"], ascending=[False, True], ignore_index=True)
    order = top["integration"].to_list()[:most]
    shown = named.where(named.isin(order), "(others)")
    order += ["(others)"] if len(top) > most else []
    rows = pd.DataFrame({"integration": shown, "severity": table["severity"].astype("str")})
    rows = rows.value_counts(sort=False).rename("credentials").reset_index()
    rows["rank"] = rows["severity"].map({name: -n for n, name in enumerate(SEVERITIES)}).astype("int64")
    rows = rows.sort_values(["integration", "rank"], ignore_index=True)
    worst = table["severity"].value_counts()
    parts = [f"{worst[name]:,} {name}" for name in SEVERITIES[::-1] if worst[name]]
    text = f"{_count(len(table), 'credential')} of {_count(len(top), 'integration')}."
    if len(table):
        most_of = [f"{one} {n}" for one, n in zip(top["integration"], top["n"], strict=True)]
        text += f" By worst finding: {', '.join(parts)}. Most: {listed(most_of)}."
    chart = (
        alt.Chart(data_of(rows))
        .mark_bar(height=14)
        .encode(
            y=alt.Y("integration:N", sort=order, title=None, axis=alt.Axis(domain=False, ticks=False)),
            x=alt.X("credentials:Q", title="credentials", axis=alt.Axis(tickMinStep=1, format="d")),
            color=alt.Color(
                "severity:N",
                title="worst finding",
                scale=alt.Scale(
                    domain=list(SEVERITIES[::-1]), range=[SEVERITY_COLOURS[one] for one in SEVERITIES[::-1]]
                ),
            ),
            order="rank:Q",
        )
        .properties(width=480, height=alt.Step(22))
    )
    return Chart(drawn(chart, "Credentials by worst finding", "per integration"), text, rows)


def _fitting(moments: pd.Series) -> str:
    span = moments.max() - moments.min()
    if pd.isna(span):
        return "1h"
    lengths = [pd.Timedelta(one) for one in ("15min", "1h", "6h", "1D", "7D")]
    return next((step for step, length in zip(_STEPS, lengths, strict=False) if span / length <= _PERIODS), "M")


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


__all__ = ["activity_heatmap", "credentials", "failures", "latency", "turn_timeline"]


def __dir__() -> list[Any]:
    return list(__all__)
