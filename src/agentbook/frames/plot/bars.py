"""Bar charts: failed turns by kind, credentials by finding, and who asked."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ..._text import count_text
from ...api.span import zone
from ..analysis.arguments import OTHER, keep_top, require, warns_once, zone_in
from ..analysis.authors import authors as author_table
from ..analysis.credentials import credential_report
from ..analysis.failures import failures as failure_table
from ..analysis.findings import SEVERITIES
from ..analysis.turns import tell_apart
from ..tabular import frame_of
from .chart import Chart, with_text
from .inputs import turns_within
from .style import (
    BAD,
    COLOURS,
    INK,
    SEVERITY_COLOURS,
    Marks,
    altair,
    clock_text,
    group_labels,
    join_names,
    styled,
    tooltip,
)


@warns_once()
def failures(data: Any, *, since: Any = None, until: Any = None) -> Chart:
    """Failed turns by kind of failure.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        Events, or the result of `turns`.
    since, until : str, datetime, date or Timedelta, optional
        Only turns asked from `since` on and before `until`: instants, dates, or lengths
        of time before the data were loaded, such as ``"7d"``.

    Returns
    -------
    Chart

    Raises
    ------
    ValueError
        If a column is missing; the message names it.
    ImportError
        If the extra ``lab`` is not installed.

    Notes
    -----
    Specification: "Errors", runtime limit failures.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "019a0b1c-0000-7000-8000-000000000001",
    ...   "type": "runtime_done",
    ...   "content": {"text": "exceeded LLM call limit for this execution tree"}}]}'''
    >>> failures(to_frame("events", [page], context={"session_id": "s1"}))
    1 of 1 turn failed (100.0 %): llm_calls 1.
    """
    alt = altair()
    table = failure_table(turns_within(data, since=since, until=until, caller="plot.failures"))
    rows = table[["kind", "turns", "sessions", "share", "cause"]]
    counts = table.attrs["agentbook"]
    total, failed = counts["turns"], counts["failed"]
    text = f"{failed:,} of {count_text(total, 'turn')} failed"
    text += f" ({100 * failed / total:.1f} %)" if total else ""
    parts = [f"{row.kind} {row.turns:,}" for row in rows.itertuples()]
    text += (": " + join_names(parts, 5) if parts else "") + "."
    marks = Marks(rows)
    base = marks.chart.encode(
        y=alt.Y("kind:N", sort=rows["kind"].to_list(), title=None, axis=alt.Axis(domain=False, ticks=False)),
        x=alt.X("turns:Q", title="turns", axis=alt.Axis(tickMinStep=1, format="d")),
    )
    bars = marks.selectable(base.mark_bar(color=BAD, height=14, cornerRadiusEnd=2), name="bars").encode(
        tooltip=tooltip(
            kind="kind", turns=("turns", ","), sessions=("sessions", ","), share=("share", ".1%"), cause="cause"
        )
    )
    labels = base.mark_text(align="left", dx=4).encode(text="turns:Q")
    chart = (bars + labels).properties(width=480, height=alt.Step(22))
    return with_text(styled(chart, "Failed turns by kind", f"{failed:,} of {count_text(total, 'turn')}"), text, rows)


def credentials(report: Any, *, top: int = 30) -> Chart:
    """Credentials per integration, by their worst finding.

    Parameters
    ----------
    report : DataFrame, Listing, History, or any other table
        The result of `credential_report`, or credentials.
    top : int
        Number of integrations with a bar of their own: those with the most credentials.
        The others share one bar. Default 30.

    Returns
    -------
    Chart
        Contains no parameters, names or addresses of credentials.

    Raises
    ------
    ValueError
        If a column is missing; the message names it.
    ImportError
        If the extra ``lab`` is not installed.

    Notes
    -----
    Specification: "Resources and their fields", IntegrationCredentials.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [{"id": "c1", "integration": "github",
    ...   "params": {"token": "x"}, "webhook_enabled": true}]}'''
    >>> credentials(to_frame("credentials", [page]))
    1 credential of 1 integration. By worst finding: 1 high. Most: github 1.
    """
    alt = altair()
    report = frame_of(report, caller="plot.credentials", resource="credentials")
    table = report if "findings" in report else credential_report(report)
    require(table, "integration", "severity", caller="plot.credentials")
    names = table["integration"].fillna("(unknown)")
    counts = names.value_counts(sort=False).rename("n").rename_axis("integration").reset_index()
    counts = counts.sort_values(["n", "integration"], ascending=[False, True], ignore_index=True)
    rows = pd.DataFrame({"integration": names, "severity": table["severity"].astype("str")})
    rows = keep_top(rows, ["integration"], top, caller="plot.credentials")
    order = [name for name in [*counts["integration"], OTHER] if rows["integration"].eq(name).any()]
    rows = rows.value_counts(sort=False).rename("credentials").reset_index()
    rows["rank"] = rows["severity"].map({name: -n for n, name in enumerate(SEVERITIES)}).astype("int64")
    rows = rows.sort_values(["integration", "rank"], ignore_index=True)
    severities = table["severity"].value_counts()
    text = f"{count_text(len(table), 'credential')} of {count_text(len(counts), 'integration')}."
    if len(table):
        by_severity = [f"{severities[name]:,} {name}" for name in SEVERITIES[::-1] if severities[name]]
        by_integration = [f"{name} {n}" for name, n in zip(counts["integration"], counts["n"], strict=True)]
        text += f" By worst finding: {', '.join(by_severity)}. Most: {join_names(by_integration)}."
    marks = Marks(rows)
    colours = alt.Scale(domain=list(SEVERITIES[::-1]), range=[SEVERITY_COLOURS[name] for name in SEVERITIES[::-1]])
    chart = (
        marks.selectable(marks.chart.mark_bar(height=14), name="bars")
        .encode(
            y=alt.Y("integration:N", sort=order, title=None, axis=alt.Axis(domain=False, ticks=False)),
            x=alt.X("credentials:Q", title="credentials", axis=alt.Axis(tickMinStep=1, format="d")),
            color=alt.Color("severity:N", title="worst finding", scale=colours),
            order="rank:Q",
            tooltip=tooltip(integration="integration", severity="worst finding", credentials=("credentials", ",")),
        )
        .properties(width=480, height=alt.Step(22))
    )
    return with_text(styled(chart, "Credentials by worst finding", "per integration"), text, rows)


# A colour per kind of author, which does not depend on who is in the frame.
_KINDS = ("user", "organization", "api_key", "agent", "schedule", "webhook", "integration")
_SHOWN = ("turns", "answered", "failed", "sessions", "agents")


@warns_once()
def authors(data: Any, *, since: Any = None, until: Any = None, top: int = 20) -> Chart:
    """Turns by the author of the question: keys, people and others.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        Events, or the result of `turns`.
    since, until : str, datetime, date or Timedelta, optional
        Only turns asked from `since` on and before `until`: instants, dates, or lengths
        of time before the data were loaded, such as ``"7d"``.
    top : int
        Number of authors with a bar of their own: those with the most turns. The
        others share the bar ``"other"``. Default 20.

    Returns
    -------
    Chart
        `data` is the table of `agentbook.authors`; the others are one row per kind.

    Raises
    ------
    ValueError
        If a column is missing, or `top` is not positive.
    ImportError
        If the extra ``lab`` is not installed.

    Notes
    -----
    Specification: "Resources and their fields", Session event.

    Examples
    --------
    >>> table = pd.DataFrame({
    ...     "turn": [1, 2], "session_id": "s", "status": "answered",
    ...     "author_id": "k1", "author_type": "api_key",
    ...     "asked_at": pd.to_datetime(["2026-10-03T08:00Z", "2026-10-04T08:00Z"])})
    >>> authors(table)
    2 turns of 1 author. Most: k1 2.
    """
    table = turns_within(
        data, "author_type", "author_id", "session_id", "status", since=since, until=until, caller="plot.authors"
    )
    everyone, tz = author_table(table), zone_in(None, table)
    # The rest share an id, and therefore one row of the table per kind.
    merged = keep_top(table[table["asked_at"].notna()], ["author_id"], top, caller="plot.authors")
    rows = author_table(merged)
    names = _names(rows)
    order = [name for name in dict.fromkeys(names) if name != OTHER] + ([OTHER] if OTHER in set(names) else [])
    shown = rows[[name for name in _SHOWN if name in rows]].assign(
        name=names,
        kind=group_labels(rows["author_type"]),
        first=_when(rows["first_at"], tz),
        last=_when(rows["last_at"], tz),
    )
    by_turns = [f"{name} {n:,}" for name, n in zip(_names(everyone), everyone["turns"], strict=True)]
    text = f"{count_text(int(everyone['turns'].sum()), 'turn')} of {count_text(len(everyone), 'author')}."
    text += f" Most: {join_names(by_turns)}." if by_turns else ""
    return with_text(styled(_drawing(shown, order), "Turns by who asked", "keys, people and others"), text, rows, shown)


def _names(rows: pd.DataFrame) -> list[str]:
    """The name of each author; its id if it has no name."""
    ids = group_labels(rows["author_id"])
    if "author" not in rows:
        return ids.to_list()
    names = group_labels(rows["author"]).where(rows["author"].notna(), ids)
    return tell_apart(names, rows["author_id"]).where(ids != OTHER, OTHER).to_list()


def _when(moments: pd.Series, tz: str) -> pd.Series:
    local = moments if tz == "UTC" else moments.dt.tz_convert(zone(tz))
    return clock_text(local).astype("str") + ("" if tz == "UTC" else f" {tz}")


def _drawing(shown: pd.DataFrame, order: list[str]) -> Any:
    alt, marks = altair(), Marks(shown)
    kinds = [name for name in _KINDS if name in set(shown["kind"])] + sorted(set(shown["kind"]) - set(_KINDS))
    colours = [COLOURS[_KINDS.index(name)] if name in _KINDS else INK for name in kinds]
    legend = alt.Legend(orient="top", columns=5) if len(kinds) > 1 else None
    counts = {name: (name, ",") for name in _SHOWN if name in shown}
    return (
        marks.selectable(marks.chart.mark_bar(height=14), name="bars")
        .encode(
            y=alt.Y("name:N", sort=order, title=None, axis=alt.Axis(domain=False, ticks=False, labelLimit=220)),
            x=alt.X("turns:Q", title="turns", axis=alt.Axis(tickMinStep=1, format="d")),
            color=alt.Color(
                "kind:N", title=None, sort=kinds, scale=alt.Scale(domain=kinds, range=colours), legend=legend
            ),
            tooltip=tooltip(name="asked by", kind="kind", **counts, first="first", last="last"),
        )
        .properties(width=420, height=alt.Step(22))
    )
