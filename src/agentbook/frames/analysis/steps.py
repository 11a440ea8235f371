"""The tasks and tool runs of the turns of many sessions as one table.

`turn_details` reads those of one turn from its events.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from ...api.span import parse_length
from ..parse.reader import instants_of_ids
from ..parse.schemas import STR
from ..tabular import with_provenance
from .arguments import category, rows_in, span_in
from .turn_details import Step, opened, read_steps
from .turns import LABELS, Assignment, EventColumns, Integers, assigned, rows_at, to_arrow

KINDS = ("task", "tool")
STATUSES = ("done", "failed", "open")

Times = npt.NDArray[np.datetime64]


def steps(
    events: Any,
    *,
    clock: str = "created_at",
    unanswered_after: str | timedelta = "15min",
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
    unanswered_after : str or timedelta
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
    after = parse_length(unanswered_after, "unanswered_after")
    events, columns, assignment = assigned(events, clock, after, caller="steps")
    frame = _table(columns, assignment, clock, contents)
    span = span_in(events, "created_at", since, until)
    moments = frame["started_at"].fillna(frame["ended_at"])
    frame = rows_in(span, frame, moments, caller="steps").reset_index(drop=True)
    return with_provenance(frame, events, "steps", clock=clock, dropped=columns.dropped, **span.details())


def _table(columns: EventColumns, assignment: Assignment, clock: str, contents: bool) -> pd.DataFrame:
    events, at = columns.events, columns.events[clock].dt.tz_localize(None).to_numpy("datetime64[us]")
    steps, turn, rows = _steps_of_turns(columns, assignment)
    first, begin, end = (
        np.array([-1 if number is None else each[number] for number, each in zip(numbers, rows, strict=True)], np.int64)
        for numbers in ([getattr(step, name) for step in steps] for name in ("first", "begin", "end"))
    )
    tasks, asked = rows_at(events["task_id"], first), at[assignment.starts][turn]
    ended = _or(_instants([step.ended_at for step in steps]), _at(at, end))
    started = _or(_instants([step.started_at for step in steps]), _at(at, begin))
    # Only a step that is a task has an id with a time, of whole milliseconds, in it.
    in_ids: Times = instants_of_ids(to_arrow(tasks)).to_numpy(zero_copy_only=False)
    within = (in_ids >= asked.astype("datetime64[ms]")) & (in_ids <= _or(ended, at[first]))
    within &= tasks.to_numpy(object) == np.array([step.task_id for step in steps], object)
    started = _or(started, np.where(within, np.maximum(in_ids, asked), np.datetime64("NaT", "us")))
    depth = np.array([step.depth for step in steps], np.int64)
    order = np.lexsort((depth, _or(_or(started, ended), at[first]), turn))
    steps, turn, started, ended = [steps[place] for place in order], turn[order], started[order], ended[order]
    _, begins, counts = np.unique(turn, return_index=True, return_counts=True)
    number = np.arange(len(order)) - np.repeat(begins, counts) + 1
    keys = list(zip(turn.tolist(), (step.task_id for step in steps), strict=True))
    numbers: dict[Any, int] = dict(zip(keys, number.tolist(), strict=True))
    parent = [numbers.get((place, step.parent)) for (place, _), step in zip(keys, steps, strict=True)]
    took = pd.Series(ended - started).dt.total_seconds()
    table: dict[str, Any] = {
        "session_id": pd.Series(columns.sessions[columns.session[assignment.starts[turn]]], dtype="str"),
        "turn": assignment.number[turn],
        "step": number,
        "parent": pd.array(parent, "Int64"),
        "depth": depth[order],
        "kind": category([int(step.of_tool) for step in steps], KINDS),
        "name": pd.Series([step.name or None for step in steps], dtype=STR),
        "arguments": pd.Series([_json(step.arguments) if contents else None for step in steps], dtype=STR),
        "result": pd.Series([_json(step.result) if contents else None for step in steps], dtype=STR),
        "error": pd.Series([_text(step.error) for step in steps], dtype=STR),
        "status": category([1 if step.failed else 0 if step.done else 2 for step in steps], STATUSES),
        "started_at": pd.Series(started).dt.tz_localize("UTC"),
        "ended_at": pd.Series(ended).dt.tz_localize("UTC"),
        "duration_s": took.where(took >= 0),
        "event_id": rows_at(events["id"], np.where(end >= 0, end, first)[order]),
        "task_id": rows_at(events["task_id"], first[order]),
    }
    for label in LABELS:
        if label in events:
            table[label] = rows_at(events[label], assignment.starts[turn])
    return pd.DataFrame(table)


def _steps_of_turns(columns: EventColumns, assignment: Assignment) -> tuple[list[Step], Integers, list[Integers]]:
    """The steps of all turns, with the turn of each and the rows of its events."""
    inside = np.flatnonzero(~columns.opens & ~assignment.closes)
    inside = inside[np.argsort(assignment.turn[inside], kind="stable")]
    part = columns.events.iloc[inside]
    extra = [_opened(text) for text in part["extra"]] if "extra" in part else [{}] * len(part)
    contents = [{} if text == "{}" else _opened(text) for text in part["content"]]
    ids, kinds, tasks = (to_arrow(part[name]).to_pylist() for name in ("id", "type", "task_id"))
    events = [
        {**more, "id": id_, "type": kind, "task_id": task, "content": content}
        for more, id_, kind, task, content in zip(extra, ids, kinds, tasks, contents, strict=True)
    ]
    asking = np.where(columns.opens[assignment.starts], assignment.starts, -1)
    own_tasks = [rows_at(columns.events["task_id"], each).to_list() for each in (asking, assignment.ends)]
    steps: list[Step] = []
    turn: list[int] = []
    rows: list[Integers] = []
    numbers, begins = np.unique(assignment.turn[inside], return_index=True)
    for number, begin, end in zip(numbers.tolist(), begins, np.append(begins, len(inside))[1:], strict=True):
        found = read_steps(events[begin:end], {each[number] for each in own_tasks})
        steps += found
        turn += [number] * len(found)
        rows += [inside[begin:end]] * len(found)
    return steps, np.array(turn, np.int64), rows


def _opened(text: Any) -> Any:
    """The fields of a JSON object, each still JSON; none of anything else."""
    return (opened(msgspec.Raw(text.encode())) if isinstance(text, str) and text[:1] == "{" else None) or {}


def _json(value: Any) -> str | None:
    return None if value is None else bytes(value).decode()


def _text(value: Any) -> str | None:
    text = None if value is None else opened(value)
    return text if isinstance(text, str) else _json(value)


def _instants(times: list[Any]) -> Times:
    return pd.Series(times, dtype="datetime64[us, UTC]").dt.tz_localize(None).to_numpy("datetime64[us]")


def _or(times: Times, others: Times) -> Times:
    return np.where(np.isnat(times), others, times)


def _at(times: Times, rows: Integers) -> Times:
    """The times of these rows; NaT for -1."""
    return np.append(times, np.datetime64("NaT", "us"))[rows]
