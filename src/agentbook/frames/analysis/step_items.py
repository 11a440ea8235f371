"""The events that may belong to tasks and tool runs, with what they say about them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..parse.json_arrays import TEXT
from .event_columns import Assignment, EventColumns, Flags, Integers, as_category, matches, to_arrow
from .step_content import OpenedSteps, open_steps
from .step_fields import ENDED_STATES, ENDING_WORDS, FAILED_STATES, FAILING_WORDS, TOOL_WORDS

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_FAILED_STATES = [*(f'"{state}"' for state in FAILED_STATES), "true"]
_ENDED_STATES = [*(f'"{state}"' for state in ENDED_STATES), "true"]
_NO_ERRORS = pa.array(["false", '""', "{}", "[]"], TEXT)


@dataclass(slots=True)
class StepItems:
    """What one event says about one task or tool run, in the order of the events.

    An event that names several calls makes several items.

    Attributes
    ----------
    row, turn : ndarray of int64
        The row of the event, and its turn.
    task, call, name : ndarray of int64
        Numbers of its task, of its call's id and of its tool; -1 for none.
    of_subtask : ndarray of bool
        Whether its task differs from the turn's own.
    of_tool, is_task, done, ends, fails : ndarray of bool
        Whether it is about a tool run; whether it says that it is about a task; whether
        it is a ``runtime_done``; whether it ends a run; whether the run failed.
    started_at, ended_at : ndarray of datetime64[us]
        Times in its content; NaT for none.
    texts : dict
        ``name``, ``arguments``, ``result``, ``error``, ``task``, ``call`` and
        ``parent`` as Arrow columns.
    """

    row: Integers
    turn: Integers
    task: Integers
    call: Integers
    name: Integers
    of_subtask: Flags
    of_tool: Flags
    is_task: Flags
    done: Flags
    ends: Flags
    fails: Flags
    started_at: npt.NDArray[np.datetime64]
    ended_at: npt.NDArray[np.datetime64]
    texts: dict[str, Any]


def read_items(columns: EventColumns, assignment: Assignment, *, contents: bool) -> StepItems:
    """The items of all turns; with `contents`, arguments and results too."""
    events = columns.events
    inside = ~columns.opens & ~assignment.closes
    content = open_steps(contiguous(to_arrow(events["content"])), inside)
    entries = np.bincount(content.source, minlength=len(inside))
    row = np.repeat(np.flatnonzero(inside), np.maximum(entries[inside], 1))
    from_content = np.full(len(row), -1, np.int64)
    from_content[entries[row] > 0] = np.arange(len(content.source))
    opened = [(content, from_content)]
    if "extra" in events and events["extra"].notna().any():
        extra = open_steps(contiguous(to_arrow(events["extra"])), inside)
        first = np.full(len(inside), -1, np.int64)
        first[extra.source[::-1]] = np.arange(len(extra.source))[::-1]
        opened.append((extra, first[row]))
    return _items(columns, assignment, row, _Opened(opened), contents)


@dataclass(frozen=True, slots=True)
class _Opened:
    """Contents and unknown fields, each with the entry of every item; -1 for none."""

    parts: list[tuple[OpenedSteps, Integers]]

    def texts(self, field: str) -> Any:
        return self._column([_entries(part.texts(field), rows) for part, rows in self.parts])

    def json(self, field: str) -> Any:
        return self._column([_entries(part.json(field), rows) for part, rows in self.parts])

    def of_tool(self) -> Flags:
        flags = [np.append(part.of_tool, False)[rows] for part, rows in self.parts]
        of_tool: Flags = np.logical_or.reduce(flags)
        return of_tool

    @staticmethod
    def _column(columns: list[Any]) -> Any:
        return columns[0] if len(columns) == 1 else pc.coalesce(*columns)


def _items(columns: EventColumns, assignment: Assignment, row: Integers, opened: _Opened, contents: bool) -> StepItems:
    kind = as_category(columns.events["type"])
    turn, task = assignment.turn[row], assignment.tasks[row]
    of_subtask = (task >= 0) & ~np.any([task == own[turn] for own in _own_tasks(columns, assignment)], axis=0)
    done = columns.done[row]
    kind_text = opened.json("kind")
    is_task = _flags(pc.equal(kind_text, '"task"'))
    of_tool = (opened.of_tool() | _has_word(kind, TOOL_WORDS)[row]) & ~is_task
    error, state, ended_at = (
        opened.json("error"),
        pc.ascii_lower(opened.json("state")),
        _times(opened.texts("ended_at")),
    )
    error = pc.if_else(pc.is_in(error, _NO_ERRORS), pa.scalar(None, TEXT), error)
    result = opened.json("result")
    of_run = of_tool | of_subtask
    fails = _flags(pc.is_valid(error)) | _among(state, _FAILED_STATES) | _has_word(kind, FAILING_WORDS)[row]
    ends = fails | _flags(pc.is_valid(result)) | _among(state, _ENDED_STATES) | _has_word(kind, ENDING_WORDS)[row]
    ends |= ~np.isnat(ended_at)
    texts = {field: opened.texts(field) for field in ("name", "call", "parent")}
    texts["task"] = contiguous(to_arrow(columns.events["task_id"])).take(pa.array(row))
    texts["error"] = pc.coalesce(opened.texts("error"), error)
    if contents:
        texts |= {"arguments": opened.json("arguments"), "result": result}
    else:
        texts |= dict.fromkeys(("arguments", "result"), pa.nulls(len(row), TEXT))
    return StepItems(
        row=row, turn=turn, task=task, call=_codes(texts["call"]), name=_codes(texts["name"]),
        of_subtask=of_subtask, of_tool=of_tool, is_task=is_task, done=done, ends=done | (ends & of_run),
        fails=fails & of_run, started_at=_times(opened.texts("started_at")), ended_at=ended_at, texts=texts,
    )  # fmt: skip


def _own_tasks(columns: EventColumns, assignment: Assignment) -> tuple[Integers, Integers]:
    """The task of each turn's question, and of its reply or failure; -2 for none."""
    count = len(assignment.starts)
    asking = np.where(columns.opens[assignment.starts], assignment.tasks[assignment.starts], -2)
    closing = np.full(count, -2, np.int64)
    rows = np.flatnonzero(assignment.closes)
    closing[assignment.turn[rows]] = assignment.tasks[rows]
    return asking, closing


def _has_word(kind: pd.Series, words: frozenset[str]) -> Flags:
    return matches(kind, lambda name: not words.isdisjoint(word.lower() for word in _WORD.findall(name)))


def _flags(column: Any) -> Flags:
    flags: Flags = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return flags


def _among(column: Any, values: list[str]) -> Flags:
    return _flags(pc.is_in(column, pa.array(values, TEXT)))


def _entries(column: Any, rows: Integers) -> Any:
    return column.take(pa.array(rows, mask=rows < 0))


def _codes(column: Any) -> Integers:
    """A number per distinct text; -1 for null."""
    if column.null_count == len(column):
        return np.full(len(column), -1, np.int64)
    indices = pc.dictionary_encode(column).indices
    codes: Integers = pc.fill_null(indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _times(column: Any) -> npt.NDArray[np.datetime64]:
    times = np.full(len(column), "NaT", "datetime64[us]")
    rows = np.flatnonzero(pc.is_valid(column).to_numpy(zero_copy_only=False))
    if len(rows):
        texts = column.take(pa.array(rows)).to_pylist()
        parsed = pd.to_datetime(pd.Series(texts), utc=True, errors="coerce", format="ISO8601")
        times[rows] = parsed.dt.tz_localize(None).to_numpy("datetime64[us]")
    return times


def contiguous(column: Any) -> Any:
    if not isinstance(column, pa.ChunkedArray):
        return column.cast(TEXT)
    combined = column.cast(TEXT).combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined
