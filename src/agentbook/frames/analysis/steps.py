"""The tasks and tool runs of turns as one table, without a loop over rows.

`step_items` opens what events say and finds those that belong to tasks and tool runs,
and `step_groups` groups and nests them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ...api.span import parse_length
from ..parse.frame import to_pandas
from ..parse.reader import instants_of_ids
from ..tabular import frame_of, with_provenance
from .arguments import require, rows_in, span_in, with_instants
from .step_groups import NONE, StepGroups, group_items
from .step_items import StepItems, contiguous, read_items
from .turns import (
    CLOCKS,
    INSTANTS,
    LABELS,
    REQUIRED,
    Assignment,
    EventColumns,
    Flags,
    Integers,
    assign_turns,
    read_events,
    rows_at,
    to_arrow,
)

KINDS = ("task", "tool")
STATUSES = ("done", "failed", "open")

Times = npt.NDArray[np.datetime64]


def steps(
    events: Any,
    *,
    clock: str = "created_at",
    unanswered_after: str | pd.Timedelta = "15min",
    contents: bool = True,
    since: Any = None,
    until: Any = None,
) -> pd.DataFrame:
    """One row per task or tool run of each turn: what the turn did.

    A step is a task of a turn other than the turn's own, or a tool run that an event
    names in its ``content``. Events of one task, or with the same id of a call, are one
    step. A result without an id belongs to the first open call of its tool, and a
    ``runtime_done`` without a task of its own to the first open call.

    The specification shows ``{}`` as the content of finished tasks and tool runs. So
    arguments and results are present only if a platform sends more than that.

    Parameters
    ----------
    events : DataFrame, Listing, History, or any other table
        From `load_events` or `to_frame("events", ...)`: any number of sessions, in any
        order.
    clock : str
        Which time of an event is used: ``"created_at"`` (default), or ``"at"``, the
        time in its id.
    unanswered_after : str or Timedelta
        When an open turn counts as unanswered, as for `turns`. Default 15 minutes.
    contents : bool
        If False, `arguments` and `result` are null, which saves memory.
    since, until : str, datetime, date or timedelta, optional
        Only steps that began from `since` on and before `until`: instants, dates, or
        lengths of time such as ``"30d"`` before the frame was loaded.

    Returns
    -------
    DataFrame
        By session, turn and start:

        =========== =================== ==== ===========================================
        column      dtype               unit meaning
        =========== =================== ==== ===========================================
        session_id  str                      the session
        turn        int64                    number of the turn, as in `turns`
        step        int64                    number within the turn, from 1
        parent      Int64                    the step that contains it: the one named as
                                             its parent, or the subtask it ran in
        depth       int64                    number of steps that contain it
        kind        category                 ``tool``; or ``task``, also where events do
                                             not tell them apart
        name        str                      the tool's or agent's name
        arguments   str                      its arguments, as JSON text
        result      str                      its result, as JSON text
        error       str                      its error: a text, or JSON text
        status      category                 ``done``, ``failed``, or ``open``: no event
                                             says that it ended
        started_at  datetime64[us, UTC]      time that an event says, time of its first
                                             event, or the time in its task's id; null
                                             if none is known
        ended_at    datetime64[us, UTC]      time that an event says, or time of the
                                             event that ended it
        duration_s  float64             s    from `started_at` to `ended_at`
        event_id    str                      the event that ended it, else its first
        task_id     str                      its task
        =========== =================== ==== ===========================================

        Also ``workspace_id``, ``agent_id``, ``agent_version``, ``workspace``,
        ``agent``, ``session``, ``initiator``, ``initiator_type`` and ``initiator_id``
        if the events have them.

    Raises
    ------
    ValueError
        If a column is missing (the message names it), or `clock` is unknown.

    Notes
    -----
    Platforms store events when a turn completes, so `ended_at` is exact only where an
    event says it. Specification: "Events", rules 3 and 4; "Resources and their fields",
    Session event.

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
    >>> table = steps(to_frame("events", [page], context={"session_id": "s1"}))
    >>> table[["name", "arguments", "status", "duration_s"]].values.tolist()
    [['sql', '{"limit": 5}', 'done', 2.0]]
    """
    if clock not in CLOCKS:
        raise ValueError(f"Unknown clock {clock!r}. Choose one of: {', '.join(CLOCKS)}.")
    after = parse_length(unanswered_after, "unanswered_after")
    events = frame_of(events, caller="steps", resource="turn_events")
    require(events, *dict.fromkeys((*REQUIRED, clock)), caller="steps")
    events = with_instants(events, *INSTANTS, caller="steps")
    columns = read_events(events, caller="steps")
    assignment = assign_turns(columns, after)
    items = read_items(columns, assignment, contents=contents)
    ids = contiguous(to_arrow(columns.events["id"])).take(pa.array(items.row))
    frame = _table(columns, assignment, items, group_items(items, ids), ids, clock)
    span = span_in(events, "created_at", since, until)
    frame = rows_in(span, frame, frame["started_at"].fillna(frame["ended_at"]), caller="steps")
    frame = frame.reset_index(drop=True) if span else frame
    return with_provenance(frame, events, "steps", clock=clock, dropped=columns.dropped, **span.details())


def _table(
    columns: EventColumns, assignment: Assignment, items: StepItems, groups: StepGroups, ids: Any, clock: str
) -> pd.DataFrame:
    at = columns.events[clock].dt.tz_localize(None).to_numpy("datetime64[us]")
    turn, first_at, end_at = items.turn[groups.first], at[items.row[groups.first]], _at(at[items.row], groups.end)
    ended = _or(_at(items.ended_at, _last(groups, ~np.isnat(items.ended_at))), end_at)
    started = _or(_at(items.started_at, _first(groups, ~np.isnat(items.started_at))), _first_event(groups, first_at))
    started = _or(started, _start_of_task(items, groups, at[assignment.starts][turn], _or(ended, first_at)))
    order = np.lexsort((groups.first, groups.depth, _or(_or(started, ended), first_at), turn))
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    turn, started, ended = turn[order], started[order], ended[order]
    _, begin = np.unique(turn, return_index=True)
    number = np.arange(len(order)) - np.repeat(begin, np.diff(np.append(begin, len(order)))) + 1
    parent = groups.parent[order]
    parent_number = np.where(parent >= 0, np.append(number, 0)[np.append(position, NONE)[parent]], 0)
    failed = np.zeros(len(order), np.bool_)
    failed[groups.member[items.fails & (groups.member >= 0)]] = True
    status = np.where(failed[order], 1, np.where(groups.end[order] >= 0, 0, 2))
    texts = _texts(items, groups, ids, order)
    table: dict[str, Any] = {
        "session_id": pd.Series(columns.sessions[columns.session[assignment.starts[turn]]], dtype="str"),
        "turn": assignment.number[turn],
        "step": number,
        "parent": pd.arrays.IntegerArray(parent_number, parent < 0),
        "depth": groups.depth[order],
        "kind": _category(groups.is_tool[order].astype(np.int64), KINDS),
        **{name: texts[name] for name in ("name", "arguments", "result", "error")},
        "status": _category(status, STATUSES),
        "started_at": pd.Series(started).dt.tz_localize("UTC"),
        "ended_at": pd.Series(ended).dt.tz_localize("UTC"),
        "duration_s": pd.Series(ended - started).dt.total_seconds(),
        "event_id": texts["event_id"],
        "task_id": texts["task_id"],
    }
    for label in LABELS:
        if label in columns.events:
            table[label] = rows_at(columns.events[label], assignment.starts[turn])
    return pd.DataFrame(table)


def _category(codes: Integers, names: tuple[str, ...]) -> pd.Categorical:
    return pd.Categorical.from_codes(codes, categories=pd.Index(names, dtype="str"))


def _or(times: Times, others: Times) -> Times:
    return np.where(np.isnat(times), others, times)


def _at(times: Times, items: Integers) -> Times:
    """The times of these items; NaT for -1."""
    return np.append(times, np.datetime64("NaT", "us"))[items]


def _first(groups: StepGroups, flags: Flags) -> Integers:
    """The first item with the flag of each step; -1 for none."""
    chosen = np.full(len(groups.first), NONE, np.int64)
    rows = np.flatnonzero(flags & (groups.member >= 0))[::-1]
    chosen[groups.member[rows]] = rows
    return chosen


def _last(groups: StepGroups, flags: Flags) -> Integers:
    chosen = np.full(len(groups.first), NONE, np.int64)
    rows = np.flatnonzero(flags & (groups.member >= 0))
    chosen[groups.member[rows]] = rows
    return chosen


def _first_event(groups: StepGroups, first_at: Times) -> Times:
    """The time of the first event of each step, unless it is the one that ends it."""
    return np.where(groups.first == groups.end, np.datetime64("NaT", "us"), first_at)


def _start_of_task(items: StepItems, groups: StepGroups, begin: Times, until: Times) -> Times:
    """The time in the id of each step's task, if it lies within the turn.

    Only a step that is a task has an id of its own.
    """
    has_task = items.of_subtask[groups.first] & (groups.member[groups.first] == np.arange(len(groups.first)))
    rows = np.flatnonzero(has_task)
    times = np.full(len(groups.first), "NaT", "datetime64[us]")
    tasks = items.texts["task"].take(pa.array(groups.first[rows]))
    times[rows] = instants_of_ids(tasks).to_numpy(zero_copy_only=False)
    # An id has whole milliseconds.
    inside = (times >= begin.astype("datetime64[ms]").astype("datetime64[us]")) & (times <= until)
    return np.where(inside, np.maximum(times, begin), np.datetime64("NaT", "us"))


def _texts(items: StepItems, groups: StepGroups, ids: Any, order: Integers) -> dict[str, pd.Series]:
    event = np.where(groups.end >= 0, groups.end, groups.first)[order]
    chosen = {"event_id": ids.take(pa.array(event)), "task_id": items.texts["task"].take(pa.array(groups.first[order]))}
    for name, choose in (("name", _first), ("arguments", _first), ("result", _last), ("error", _last)):
        column = items.texts[name]
        rows = choose(groups, pc.is_valid(column).to_numpy(zero_copy_only=False))[order]
        chosen[name] = column.take(pa.array(rows, mask=rows < 0))
    frame = to_pandas(pa.table(chosen))
    return {name: frame[name] for name in chosen}
