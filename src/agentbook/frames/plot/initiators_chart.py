"""The chart of who uses the agents: keys, people, schedules."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ...api.span import zone
from ..analysis.initiators import initiators as initiator_table
from ..analysis.labels import tell_apart
from ..analysis.periods import zone_in
from ..analysis.selection import OTHER, keep_top, warns_once
from .chart import Chart, with_text
from .groups import group_labels
from .inputs import turns_within
from .style import COLOURS, INK, Marks, altair, clock_text, count_text, join_names, styled, tooltip

# A colour per kind of author, which does not depend on who is in the frame.
_KINDS = ("user", "organization", "api_key", "agent", "schedule", "webhook", "integration")
_SHOWN = ("turns", "answered", "failed", "sessions", "agents")


@warns_once
def initiators(data: Any, *, since: Any = None, until: Any = None, top: int = 20) -> Chart:
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
        `data` is the table of `agentbook.initiators`; the others are one row per kind.

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
    >>> initiators(table)
    2 turns of 1 author. Most: k1 2.
    """
    table = turns_within(
        data,
        "author_type",
        "author_id",
        "session_id",
        "status",
        since=since,
        until=until,
        caller="plot.initiators",
    )
    everyone, tz = initiator_table(table), zone_in(None, table)
    # The rest share an id, and therefore one row of the table per kind.
    merged = keep_top(table[table["asked_at"].notna()], ["author_id"], top, caller="plot.initiators")
    rows = initiator_table(merged)
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
