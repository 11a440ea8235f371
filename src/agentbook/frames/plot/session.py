"""One session: its turns, and the steps of a turn."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from ..._text import count_text
from ..analysis.arguments import require, with_instants
from ..analysis.steps import steps as steps_of
from ..analysis.turns import STATUSES, assign_turns, read_events, turns
from ..tabular import frame_of
from .chart import Chart, with_text
from .inputs import one_session, turn_labels
from .style import BAD, COLOURS, GOOD, INK, Marks, altair, shortened, styled, tooltip

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
    rows = _subtasks(events, table)
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


def _subtasks(events: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
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


MAX_STEPS = 200
_UNNAMED = "(unnamed)"
_LABEL_WIDTH = 150
_STEP_COLUMNS = {"step", "depth", "started_at", "ended_at"}
_INDENT = "\u2003"  # a space that labels keep
_COLOURS = {"turn": INK, "tool": COLOURS[0], "task": COLOURS[10], "failed": BAD, "open": COLOURS[2]}


def waterfall(data: Any, session_id: Any = None, turn: int | None = None) -> Chart:
    """What one turn did: a bar for each task and tool run, below its parent.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        Events, or the result of `agentbook.steps`. With events, the turn itself has a
        bar too, from its question to its reply.
    session_id : str or Record, optional
        The session by id, address or record; required if the frame holds several.
    turn : int, optional
        Its number, from 1, as in `turns`; required if several turns have steps.

    Returns
    -------
    Chart
        The first 200 steps; `text` says so if there are more.

    Raises
    ------
    ValueError
        If a column is missing, the session or the turn is missing or ambiguous, or
        other turns have steps and this one has none.
    ImportError
        If the extra ``lab`` is not installed.

    Notes
    -----
    A step that no event ends is open, and drawn up to the end of the turn. Platforms
    store events when a turn completes, so ends are exact only where events say them.
    Specification: "Events", rules 3 and 4.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [
    ...   {"id": "019a0b1c-0000-7000-8000-000000000001", "type": "message",
    ...    "content": {"text": "How many?"}, "author": {"type": "api_key"},
    ...    "created_at": "2026-10-03T08:15:00Z"},
    ...   {"id": "019a0b1c-0000-7000-8000-000000000002", "type": "tool_call",
    ...    "content": {"tool": "sql", "arguments": {"limit": 5}},
    ...    "created_at": "2026-10-03T08:15:01Z"},
    ...   {"id": "019a0b1c-0000-7000-8000-000000000003", "type": "runtime_done",
    ...    "content": {}, "created_at": "2026-10-03T08:15:03Z"}]}'''
    >>> waterfall(to_frame("events", [page], context={"session_id": "s1"}))
    Turn 1 of session s1: 1 step, 1 done. The longest is sql (2 s).
    """
    frame = frame_of(data, caller="plot.waterfall", resource="turn_events")
    require(frame, "session_id", caller="plot.waterfall")
    frame = one_session(frame, session_id, caller="plot.waterfall")
    has_steps = set(frame.columns) >= _STEP_COLUMNS
    table = with_instants(frame if has_steps else steps_of(frame), "started_at", "ended_at", caller="plot.waterfall")
    if table.empty:
        session = "of the session" if frame.empty else f"of session {frame['session_id'].iloc[0]}"
        return with_text(
            styled(_drawing(_bars(table, None)), "Steps of a turn", session), f"No steps {session}.", table
        )
    number = _chosen_turn(table, turn)
    rows = table[table["turn"] == number].sort_values("step", ignore_index=True)
    table_of_turns = None if has_steps else turns(frame, texts=True)
    whole = None if table_of_turns is None else table_of_turns[table_of_turns["turn"] == number].iloc[0]
    drawn = rows.head(MAX_STEPS)
    shown = _bars(drawn, whole)
    title = f"turn {number} of session {rows['session_id'].iloc[0]}"
    return with_text(
        styled(_drawing(shown), "Steps of a turn", title), _text(rows, title), drawn, shown.head(len(drawn))
    )


def _chosen_turn(table: pd.DataFrame, turn: int | None) -> int:
    numbers = table["turn"].unique().tolist()
    if turn is None and len(numbers) == 1:
        return int(numbers[0])
    if turn is None:
        longest = table.groupby("turn")["step"].size().idxmax()
        raise ValueError(
            f"{len(numbers):,} turns of the session have steps: choose one, such as turn={longest}, which has the most."
        )
    if turn not in numbers:
        raise ValueError(
            f"Turn {turn!r} of the session has no steps; the turns with steps are: {', '.join(map(str, numbers[:10]))}."
        )
    return turn


def _bars(rows: pd.DataFrame, whole: pd.Series | None) -> pd.DataFrame:
    """The bar of each step, in seconds since the turn began; the turn's own is last."""
    question_at = pd.NaT if whole is None else whole["asked_at"]
    begin = rows["started_at"].min() if pd.isna(question_at) else min(question_at, rows["started_at"].min())
    replied = pd.NaT if whole is None else whole["replied_at"]
    end = max(
        [moment for moment in (rows["ended_at"].max(), replied, rows["started_at"].max()) if pd.notna(moment)],
        default=begin,
    )
    started = rows["started_at"].fillna(rows["ended_at"]).fillna(begin)
    status = rows["status"].astype("str")
    bars = pd.DataFrame(
        {
            "line": rows["step"],
            "label": [
                f"{_INDENT * int(depth)}{name}"
                for depth, name in zip(rows["depth"], rows["name"].fillna(_UNNAMED), strict=True)
            ],
            "kind": rows["kind"].astype("str").where(status == "done", status),
            "status": status,
            "from_s": (started - begin).dt.total_seconds(),
            "to_s": (rows["ended_at"].where(status != "open", end).fillna(end) - begin).dt.total_seconds(),
            "length_s": rows["duration_s"],
            **{name: shortened(rows[name]).where(rows[name].notna()) for name in ("arguments", "result", "error")},
        }
    )
    if whole is None:
        return bars
    length = (end if pd.isna(replied) else replied) - begin
    turn = {
        "line": 0,
        "label": shortened(pd.Series([whole["prompt"]], dtype="str").fillna("(no text)"))[0],
        "kind": "turn",
        "status": str(whole["status"]),
    }
    turn |= {"from_s": 0.0, "to_s": length.total_seconds(), "length_s": whole["latency_s"]}
    return pd.concat([bars, pd.DataFrame([turn])], ignore_index=True)


def _drawing(shown: pd.DataFrame) -> Any:
    alt, marks = altair(), Marks(shown)
    kinds = [kind for kind in _COLOURS if kind in set(shown["kind"])]
    scale = alt.Scale(domain=kinds, range=[_COLOURS[kind] for kind in kinds])
    # Steps may have the same name, so each line is placed by number and then labelled.
    labels = {str(line): label for line, label in zip(shown["line"], shown["label"], strict=True)}
    names = f"{json.dumps(labels)}[datum.value]"
    limit = min(_LABEL_WIDTH, 8 + 6 * max(map(len, shown["label"]), default=0))
    axis = alt.Axis(
        labelExpr=names, domain=False, ticks=False, labelLimit=limit, labelAlign="left", labelPadding=limit + 6
    )
    base = marks.chart.encode(
        y=alt.Y("line:O", title=None, axis=axis),
        color=alt.Color("kind:N", title=None, sort=kinds, scale=scale, legend=alt.Legend(orient="top", columns=6)),
        opacity=alt.condition(marks.clicked, alt.value(1), alt.value(0.3)),
        tooltip=tooltip(
            label="step", status="status", from_s=("starts after (s)", ",.3~f"), length_s=("takes (s)", ",.3~f"),
            arguments="arguments", result="result", error="error",
        ),
    )  # fmt: skip
    bars = base.mark_bar(height=12).encode(x=alt.X("from_s:Q", title="seconds since the question"), x2="to_s:Q")
    # A step without length must be visible too.
    ticks = base.mark_tick(thickness=2, height=12).encode(x="from_s:Q")
    return alt.layer(marks.selectable(bars, "y", name="bars", opacity=None), ticks).properties(
        width=420, height=alt.Step(18)
    )


def _text(rows: pd.DataFrame, title: str) -> str:
    statuses = rows["status"].astype("str").value_counts()
    parts = [f"{statuses[status]:,} {status}" for status in ("done", "failed", "open") if status in statuses]
    text = f"{title[0].upper()}{title[1:]}: {count_text(len(rows), 'step')}, {', '.join(parts)}."
    if rows["duration_s"].notna().any():
        longest = rows.iloc[int(rows["duration_s"].fillna(-1).argmax())]
        name = _UNNAMED if pd.isna(longest["name"]) else longest["name"]
        text += f" The longest is {name} ({longest['duration_s']:.3g} s)."
    return text + (f" The first {MAX_STEPS} are drawn." if len(rows) > MAX_STEPS else "")
