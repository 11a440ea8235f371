"""The events that may belong to tasks and tool runs, with what they say about them.

Contents are opened one by one; values such as arguments stay the JSON that was sent.
Contents that are not JSON objects are ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..parse.schemas import TEXT
from .turn_details import (
    CONTAINERS,
    ENDED_STATES,
    ENDING_WORDS,
    FAILED_STATES,
    FAILING_WORDS,
    FIELDS,
    OF_TOOLS,
    TOOL_WORDS,
)
from .turns import Assignment, EventColumns, Flags, Integers, as_category, matches, to_arrow

_KEYS = tuple(dict.fromkeys((*CONTAINERS, *(name for names in FIELDS.values() for name in names))))
_Content: Any = msgspec.defstruct("_Content", [(key, msgspec.Raw, msgspec.Raw()) for key in _KEYS], gc=False)
_decode = msgspec.json.Decoder(_Content).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_LEVELS = 3  # of containers in each other that are opened
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_FAILED_STATES = [*(f'"{state}"' for state in FAILED_STATES), "true"]
_ENDED_STATES = [*(f'"{state}"' for state in ENDED_STATES), "true"]
_NO_ERRORS = pa.array(["false", '""', "{}", "[]"], TEXT)

Said = dict[str, bytes]  # a name of `FIELDS` to its JSON, b"" where there is none


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


def open_content(text: str | bytes, levels: int = _LEVELS) -> list[tuple[Said, bool]]:
    """What a content says about runs: the fields of each, and whether it is of a tool.

    Examples
    --------
    >>> [(said, is_tool)] = open_content('{"tool":"sql","arguments":{"q":1}}')
    >>> said["name"], said["arguments"], is_tool
    (b'"sql"', b'{"q":1}', True)
    >>> open_content("oops")
    []
    """
    try:
        raws = map(bytes, msgspec.structs.astuple(_decode(text)))
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return []
    content = {key: raw for key, raw in zip(_KEYS, raws, strict=True) if raw and raw != b"null"}
    said = {field: next((content[name] for name in names if name in content), b"") for field, names in FIELDS.items()}
    # An object as the name is a container.
    said["name"] = next((raw for name in FIELDS["name"] if (raw := content.get(name, b""))[:1] == b'"'), b"")
    of_tool = any(key in content for key in OF_TOOLS) or bool(said["name"] and said["arguments"])
    container = next((raw for key in CONTAINERS if (raw := content.get(key, b""))[:1] in (b"{", b"[")), b"")
    several = container[:1] == b"["
    objects = [bytes(item) for item in _decode_items(container)] if several else [container]
    inner = [run for item in objects if levels > 1 and item[:1] == b"{" for run, _ in open_content(item, levels - 1)]
    # Each of several calls in a list has its own fields.
    runs = [{name: raw or (b"" if several else said[name]) for name, raw in run.items()} for run in inner] or [said]
    return [(run, _is_of_tool(run["kind"], of_tool)) for run in runs]


def _is_of_tool(kind: bytes, of_tool: bool) -> bool:
    return (of_tool or b"tool" in kind or b"function" in kind) and kind != b'"task"'


def _may_be_object(column: Any) -> Flags:
    return _flags(pc.and_(pc.starts_with(column, "{"), pc.greater(pc.binary_length(column), 2)))


def read_items(columns: EventColumns, assignment: Assignment, *, contents: bool) -> StepItems:
    """The items of all turns; with `contents`, arguments and results too."""
    inside = ~columns.opens & ~assignment.closes
    runs: dict[str, dict[int, list[tuple[Said, bool]]]] = {}
    for name in ("content", "extra"):
        texts = contiguous(to_arrow(columns.events[name])) if name in columns.events else pa.nulls(len(inside), TEXT)
        rows = np.flatnonzero(inside & _may_be_object(texts))
        runs[name] = {
            row: open_content(text)
            for row, text in zip(rows.tolist(), texts.take(pa.array(rows)).to_pylist(), strict=True)
        }
    nothing: tuple[Said, bool] = (dict.fromkeys(FIELDS, b""), False)
    entries = [
        (row, said, more, of_tool or also)
        for row in np.flatnonzero(inside).tolist()
        for more, also in (runs["extra"].get(row) or [nothing])[:1]
        for said, of_tool in runs["content"].get(row) or [nothing]
    ]
    row = np.array([entry[0] for entry in entries], np.int64)
    of_tool = np.array([entry[3] for entry in entries], np.bool_)

    def json(field: str) -> Any:
        return pa.array([(said[field] or more[field]).decode() or None for _, said, more, _ in entries], TEXT)

    def texts_of(field: str) -> Any:
        values = (_text(said[field]) for _, said, _, _ in entries)
        others = (_text(more[field]) for _, _, more, _ in entries)
        return pa.array([b if a is None else a for a, b in zip(values, others, strict=True)], TEXT)

    kind = as_category(columns.events["type"])
    turn, task = assignment.turn[row], assignment.tasks[row]
    of_subtask = (task >= 0) & ~np.any([task == own[turn] for own in _own_tasks(columns, assignment)], axis=0)
    done = columns.done[row]
    kind_text = json("kind")
    is_task = _flags(pc.equal(kind_text, '"task"'))
    of_tool = (of_tool | _has_word(kind, TOOL_WORDS)[row]) & ~is_task
    error, state, ended_at = (
        json("error"),
        pc.ascii_lower(json("state")),
        _times(texts_of("ended_at")),
    )
    error = pc.if_else(pc.is_in(error, _NO_ERRORS), pa.scalar(None, TEXT), error)
    result = json("result")
    of_run = of_tool | of_subtask
    fails = _flags(pc.is_valid(error)) | _among(state, _FAILED_STATES) | _has_word(kind, FAILING_WORDS)[row]
    ends = fails | _flags(pc.is_valid(result)) | _among(state, _ENDED_STATES) | _has_word(kind, ENDING_WORDS)[row]
    ends |= ~np.isnat(ended_at)
    texts = {field: texts_of(field) for field in ("name", "call", "parent")}
    texts["task"] = contiguous(to_arrow(columns.events["task_id"])).take(pa.array(row))
    texts["error"] = pc.coalesce(texts_of("error"), error)
    if contents:
        texts |= {"arguments": json("arguments"), "result": result}
    else:
        texts |= dict.fromkeys(("arguments", "result"), pa.nulls(len(row), TEXT))
    return StepItems(
        row=row, turn=turn, task=task, call=_codes(texts["call"]), name=_codes(texts["name"]),
        of_subtask=of_subtask, of_tool=of_tool, is_task=is_task, done=done, ends=done | (ends & of_run),
        fails=fails & of_run, started_at=_times(texts_of("started_at")), ended_at=ended_at, texts=texts,
    )  # fmt: skip


def _own_tasks(columns: EventColumns, assignment: Assignment) -> tuple[Integers, Integers]:
    """The task of each turn's question, and of its reply or failure; -2 for none."""
    asking = np.where(columns.opens[assignment.starts], assignment.tasks[assignment.starts], -2)
    return asking, np.where(assignment.ends >= 0, assignment.tasks[assignment.ends], -2)


def _has_word(kind: pd.Series, words: frozenset[str]) -> Flags:
    return matches(kind, lambda name: not words.isdisjoint(word.lower() for word in _WORD.findall(name)))


def _flags(column: Any) -> Flags:
    flags: Flags = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return flags


def _among(column: Any, values: list[str]) -> Flags:
    return _flags(pc.is_in(column, pa.array(values, TEXT)))


def _text(raw: bytes) -> str | None:
    try:
        text: str | None = msgspec.json.decode(raw, type=str) if raw[:1] == b'"' else None
        return text
    except msgspec.DecodeError:  # half of a character, as in "\\ud800"
        return None


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
