"""The timeline of one session: what each step of a turn took, by persisted events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..analysis.event_columns import read_events
from ..analysis.turns import STATUSES, assign_turns, turns
from ..analysis.validate import require
from ..load.session_ids import session_ids
from .chart import COLOURS, INK, Chart, altair, count_text, data_of, join_names, styled

MAX_TURNS = 200
MAX_BARS = 4_000
_STEP_COLOURS = {"subtask": COLOURS[0], "reply": COLOURS[2], "failure": COLOURS[7], "waiting": INK}


def turn_timeline(events: pd.DataFrame, session_id: Any = None) -> Chart:
    """One session turn by turn: how long each took, with its subtasks as bars.

    An event is persisted when its task is done, so the bar of a subtask runs from the
    previous event of the turn to its own.

    Parameters
    ----------
    events : DataFrame
        From `load_events` or `to_frame("events", ...)`.
    session_id : str or Record, optional
        The session by id, address or record; required if the frame holds several.

    Returns
    -------
    Chart
        The first 200 turns, and the first 4,000 of their bars; `text` tells if there
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
    require(events, "session_id", caller="turn_timeline")
    events = _one_session(events, session_id)
    table = turns(events)
    rows = _bars(events, table)
    bar_count, rows = len(rows), rows.head(MAX_BARS)
    scale = alt.Scale(domain=list(_STEP_COLOURS), range=list(_STEP_COLOURS.values()))
    bars = (
        alt.Chart(data_of(rows))
        .mark_bar(height=12, x2Offset=-1.5)  # the gap separates subtasks
        .encode(
            x=alt.X("from_s:Q", title="seconds since the question"),
            x2="to_s:Q",
            y=alt.Y("turn:O", title="turn", axis=alt.Axis(domain=False, ticks=False)),
            color=alt.Color("step:N", title=None, legend=alt.Legend(orient="top"), scale=scale),
        )
    )
    name = str(table["session_id"].iloc[0]) if len(table) else "?"
    statuses = table["status"].value_counts()
    parts = [f"{statuses[status]:,} {status}" for status in STATUSES if statuses[status]]
    text = ", ".join([f"Session {name}: {count_text(len(table), 'turn')}", *parts]) + "."
    if table["latency_s"].notna().any():
        longest = table.iloc[int(table["latency_s"].fillna(-1).argmax())]
        text += f" The longest took {longest['latency_s']:.3g} s (turn {longest['turn']})."
    if len(table) > MAX_TURNS:
        text += f" The first {MAX_TURNS} are drawn."
    if bar_count > MAX_BARS:
        text += f" Of their {bar_count:,} bars the first {MAX_BARS:,} are drawn."
    chart = bars.properties(width=560, height=alt.Step(18))
    return Chart(styled(chart, "Turns and their subtasks", f"session {name}"), text, rows)


def _bars(events: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The bars of the steps of each turn, in seconds since its question.

    The bar of a step runs from the previous event of the turn to its own.
    """
    columns = read_events(events, caller="turn_timeline")
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


def _one_session(events: pd.DataFrame, session: Any) -> pd.DataFrame:
    """The events of one session; a `ValueError` lists the sessions there are."""
    sessions = events["session_id"].dropna().unique()
    if session is None:
        if len(sessions) > 1:
            raise ValueError(
                f"The frame holds {len(sessions):,} sessions: choose one, such as session_id={str(sessions[0])!r}."
            )
        return events
    ids = [session] if isinstance(session, str) and session in sessions else session_ids(None, session)
    if len(ids) != 1:
        raise ValueError(f"turn_timeline draws one session, and session_id= names {len(ids):,}.")
    if ids[0] not in sessions:
        raise ValueError(f"The frame has no session {ids[0]!r}; it has {join_names([str(name) for name in sessions])}.")
    return events[events["session_id"] == ids[0]]
