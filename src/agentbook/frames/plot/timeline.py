"""The timeline of one session: how long each step took, by persisted events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..analysis.event_columns import assign_turns, read_events
from ..analysis.turns import STATUSES, turns
from ..analysis.validate import frame_of, require
from .chart import Chart, with_text
from .inputs import turn_labels
from .sessions import one_session
from .style import BAD, COLOURS, GOOD, INK, Marks, altair, count_text, styled, tooltip

MAX_TURNS = 200
MAX_BARS = 4_000
_STEP_COLOURS = {"subtask": COLOURS[0], "reply": GOOD, "failure": BAD, "waiting": INK}


def turn_timeline(events: Any, session_id: Any = None) -> Chart:
    """One session, turn by turn: how long each took, with its subtasks as bars.

    An event is persisted when its task is done, so the bar of a subtask runs from the
    previous event of the turn to its own.

    Parameters
    ----------
    events : DataFrame, Listing, History, or any other table
        From `load_events` or `to_frame("events", ...)`.
    session_id : str or Record, optional
        The session by id, address or record; required if the frame holds several.

    Returns
    -------
    Chart
        The first 200 turns, and the first 4,000 of their bars; `text` says so if there
        are more.

    Raises
    ------
    ValueError
        If a column is missing, or the session is missing or ambiguous.
    ImportError
        If the extra ``lab`` is not installed.

    Notes
    -----
    Specification: "Events", rules 3 and 4.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [
    ...   {"id": "019a0b1c-0000-7000-8000-000000000001", "type": "message",
    ...    "content": {"text": "How many?"}, "author": {"type": "api_key"},
    ...    "created_at": "2026-10-03T08:15:00Z"},
    ...   {"id": "019a0b1c-0000-7000-8000-000000000003", "type": "runtime_done",
    ...    "content": {"text": "Three."}, "created_at": "2026-10-03T08:15:03Z"}]}'''
    >>> turn_timeline(to_frame("events", [page], context={"session_id": "s1"}))
    Session s1: 1 turn, 1 answered. The longest took 3 s (turn 1).
    """
    alt = altair()
    events = frame_of(events, caller="plot.turn_timeline", resource="turn_events")
    require(events, "session_id", caller="plot.turn_timeline")
    events = one_session(events, session_id, caller="plot.turn_timeline")
    table = turns(events, texts=True)
    rows = _bars(events, table)
    bar_count, rows = len(rows), rows.head(MAX_BARS)
    labels, titles = turn_labels(table.drop(columns="turn"))
    shown = rows.join(labels.assign(latency_s=table["latency_s"]).set_index(table["turn"]), on="turn")
    shown["length_s"] = shown["to_s"] - shown["from_s"]
    marks = Marks(shown)
    scale = alt.Scale(domain=list(_STEP_COLOURS), range=list(_STEP_COLOURS.values()))
    bars = marks.chart.mark_bar(height=12, x2Offset=-1.5).encode(  # the gap separates subtasks
        x=alt.X("from_s:Q", title="seconds since the question"),
        x2="to_s:Q",
        y=alt.Y("turn:O", title="turn", axis=alt.Axis(domain=False, ticks=False)),
        color=alt.Color("step:N", title=None, legend=alt.Legend(orient="top"), scale=scale),
        tooltip=tooltip(
            step="step",
            length_s=("seconds", ",.2~f"),
            turn="turn",
            latency_s=("seconds of the turn", ",.2~f"),
            **titles,
        ),
    )
    name = str(table["session_id"].iloc[0]) if len(table) else ""
    statuses = table["status"].value_counts()
    parts = [f"{statuses[status]:,} {status}" for status in STATUSES if statuses[status]]
    text = ", ".join([f"{f'Session {name}' if name else 'No session'}: {count_text(len(table), 'turn')}", *parts]) + "."
    if table["latency_s"].notna().any():
        longest = table.iloc[int(table["latency_s"].fillna(-1).argmax())]
        text += f" The longest took {longest['latency_s']:.3g} s (turn {longest['turn']})."
    if len(table) > MAX_TURNS:
        text += f" The first {MAX_TURNS} are drawn."
    if bar_count > MAX_BARS:
        text += f" Of their {bar_count:,} bars the first {MAX_BARS:,} are drawn."
    chart = marks.selectable(bars, "x", "y", name="bars").properties(width=560, height=alt.Step(18))
    return with_text(styled(chart, "Turns and their subtasks", f"session {name}"), text, rows, shown)


def _bars(events: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The bars of the steps of each turn, in seconds since its question.

    The bar of a step runs from the previous event of the turn to its own.
    """
    columns = read_events(events, caller="plot.turn_timeline")
    number = assign_turns(columns).turn + 1
    at = columns.events["created_at"].reset_index(drop=True)
    kinds = [columns.fails, columns.done & columns.has_text, columns.done]
    rows = pd.DataFrame({"turn": number, "step": np.select(kinds, ["failure", "reply", "subtask"], ""), "at": at})
    rows["before"] = rows.groupby("turn")["at"].shift().fillna(rows["at"])
    rows = rows[(rows["step"] != "") & ~columns.opens]
    waiting_turns = table.loc[table["replied_at"].isna(), "turn"].reset_index(drop=True)
    if len(waiting_turns):
        last = at.groupby(number).max().reindex(waiting_turns).reset_index(drop=True)
        waiting = pd.DataFrame({"turn": waiting_turns, "step": "waiting", "before": last})
        waiting["at"] = pd.Series(at.max(), waiting.index, dtype=at.dtype)
        rows = pd.concat([rows, waiting], ignore_index=True)
    starts = table.set_index("turn")["asked_at"].fillna(at.groupby(number).min())
    start = starts.reindex(rows["turn"]).set_axis(rows.index)
    rows["from_s"] = (rows["before"] - start).dt.total_seconds()
    rows["to_s"] = (rows["at"] - start).dt.total_seconds()
    rows = rows[rows["to_s"].notna() & (rows["turn"] <= MAX_TURNS)].sort_values(["turn", "from_s", "to_s"])
    dtypes = {"turn": "int64", "step": "str", "from_s": "float64", "to_s": "float64"}
    return rows[list(dtypes)].astype(dtypes).reset_index(drop=True)
