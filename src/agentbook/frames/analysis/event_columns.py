"""Prepares events for reading turns: persisted, without repeats, in id order.

The rules are those of `agentbook.events.turns`, applied to whole columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ...events.turns import ENDS, Failure, failure_of
from ..parse.ids import ascend, parse_ids
from ..parse.schemas import STR
from .text_codes import factorize, texts_at, to_arrow
from .text_search import rows_with
from .validate import require, with_instants

Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

# Every message of `agentbook.api.run_limits` contains one of these, so only few events
# need a closer look.
LIMIT_WORDS = ("exceed", "413 Request Entity Too Large", "Agent ran too many", "TURN_TIMEOUT:")
_WORD_OR_ESCAPE = "|".join((r"\\u00[2-7]", *LIMIT_WORDS))
REQUIRED = ("id", "session_id", "type", "author_type", "text", "content", "task_id", "created_at")
INSTANTS = ("created_at", "updated_at", "at")


@dataclass(slots=True)
class EventColumns:
    """Persisted events, by session (in order of first appearance) and id.

    Attributes
    ----------
    events : DataFrame
    session : ndarray of int64
        Number of each row's session; `sessions` holds their ids.
    first : ndarray of bool
        Whether a row is the first of its session.
    opens, done, has_text, fails : ndarray of bool
        Whether an event opens a turn, is a ``runtime_done``, has a text, or reports a
        failure.
    failures : dict
        Row to its failure.
    dropped : int
        Number of rows left out: drafts, rows without a session, repeated ids.
    """

    events: pd.DataFrame
    session: Integers
    sessions: pd.Index
    first: Flags
    opens: Flags
    done: Flags
    has_text: Flags
    fails: Flags
    failures: dict[int, Failure]
    dropped: int

    @property
    def answers(self) -> Flags:
        """Whether an event is a ``runtime_done`` with a text that closes a turn."""
        return self.done & self.has_text & ~self.opens


def read_events(events: pd.DataFrame, *, caller: str) -> EventColumns:
    """Persisted events in order, with their effect on turns."""
    require(events, *REQUIRED, caller=caller)
    events = with_instants(events, *INSTANTS, caller=caller)
    ordered, session, sessions = in_order(events)
    first = np.ones(len(session), np.bool_)
    first[1:] = session[1:] != session[:-1]
    kind = as_category(ordered["type"])
    done = matches(kind, lambda name: name == "runtime_done")
    opens = matches(as_category(ordered["author_type"]), lambda name: "agent" not in name.lower())
    opens &= ~matches(kind, lambda name: name in ENDS)
    failures = _failures(ordered, opens, done)
    fails = np.zeros(len(session), np.bool_)
    fails[list(failures)] = True
    has_text = ordered["text"].notna().to_numpy()
    return EventColumns(
        ordered, session, sessions, first, opens, done, has_text, fails, failures, len(events) - len(ordered)
    )


def ordered_events(events: pd.DataFrame, *, caller: str) -> pd.DataFrame:
    """Persisted events by session and id, without reading what they mean for turns."""
    require(events, *REQUIRED, caller=caller)
    return in_order(with_instants(events, *INSTANTS, caller=caller))[0]


def in_order(events: pd.DataFrame) -> tuple[pd.DataFrame, Integers, pd.Index]:
    """Persisted events by session and id, their session numbers, and the sessions.

    Repeated ids are dropped. Sessions are numbered in order of first appearance.
    """
    codes, sessions = factorize(events["session_id"])
    ids = to_arrow(events["id"])
    if _in_sequence(codes) and ascend(ids, codes):
        return events, codes, sessions
    high, low, valid = parse_ids(ids)
    rows = np.flatnonzero(valid & (codes >= 0))
    key = (low[rows], high[rows], codes[rows])
    if not _is_ascending(*key):
        rows = rows[np.lexsort(key)]
    repeated = np.zeros(len(rows), np.bool_)
    repeated[1:] = (high[rows[1:]] == high[rows[:-1]]) & (low[rows[1:]] == low[rows[:-1]])
    repeated[1:] &= codes[rows[1:]] == codes[rows[:-1]]
    rows = rows[~repeated]
    ordered = events if len(rows) == len(events) and (np.diff(rows) == 1).all() else events.iloc[rows]
    return ordered, codes[rows], sessions


def _in_sequence(codes: Integers) -> bool:
    return bool(len(codes) and codes[0] >= 0 and (codes[1:] >= codes[:-1]).all())


def _is_ascending(low: Any, high: Any, codes: Any) -> bool:
    same = codes[1:] == codes[:-1]
    later = (high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] >= low[:-1]))
    return bool(((codes[1:] > codes[:-1]) | (same & later)).all())


def as_category(series: pd.Series) -> pd.Series:
    """The series as categories."""
    return series if isinstance(series.dtype, pd.CategoricalDtype) else series.astype("category")


def rows_at(series: pd.Series, rows: Integers) -> pd.Series:
    """The values at these row numbers; null for -1.

    Examples
    --------
    >>> values = pd.Series(["a", "b"], dtype="str")
    >>> rows_at(values, np.array([1, -1])).fillna("?").to_list()
    ['b', '?']
    """
    if series.dtype == STR:
        return pd.Series(pd.array(texts_at(to_arrow(series), rows), STR), name=series.name)
    return pd.Series(pd.api.extensions.take(series.array, rows, allow_fill=True), name=series.name)


def matches(series: pd.Series, condition: Callable[[str], bool]) -> Flags:
    """Which rows have a category that meets the condition; False for null."""
    flags = np.array([isinstance(name, str) and condition(name) for name in series.cat.categories] + [False], np.bool_)
    return np.take(flags, series.cat.codes.to_numpy(), mode="wrap")  # code -1 is the last flag


def _failures(events: pd.DataFrame, opens: Flags, done: Flags) -> dict[int, Failure]:
    suspect = matches(as_category(events["type"]), lambda name: name == "runtime_error")
    suspect |= rows_with(to_arrow(events["text"]), LIMIT_WORDS)
    suspect |= ~done & _may_report_a_limit(to_arrow(events["content"]))
    rows = np.flatnonzero(suspect & ~opens)
    parts = (rows_at(events[name], rows).to_list() for name in ("type", "text", "content"))
    failures: dict[int, Failure] = {}
    for row, kind, text, content in zip(rows.tolist(), *parts, strict=True):
        failure = failure_of(event_of(kind, text, content))
        if failure is not None:
            failures[row] = failure
    return failures


def _may_report_a_limit(contents: Any) -> Flags:
    """Which contents have a word of `LIMIT_WORDS`, or may escape one of its letters."""
    flags = rows_with(contents, (*LIMIT_WORDS, r"\u00"))
    if flags.any():
        # Many platforms escape every character outside ASCII; such escapes tell
        # nothing.
        flags[flags] = pc.match_substring_regex(contents.filter(pa.array(flags)), _WORD_OR_ESCAPE).to_numpy(
            zero_copy_only=False
        )
    return flags


def event_of(kind: Any, text: Any, content: Any) -> dict[str, Any]:
    """The wire's ``type`` and ``content`` from those of an events frame."""
    text_field = {"text": text} if isinstance(text, str) else {}
    if isinstance(content, str):
        decoded = json.loads(content)
        whole = {**text_field, **decoded} if isinstance(decoded, dict) else decoded
    else:
        whole = text if text_field else None
    return {"type": kind, "content": whole}


def distinct(numbers: Integers) -> Integers:
    """The distinct numbers, ascending.

    `numpy.unique` on its own hashes them, which takes a microsecond each (numpy 2.4).

    Examples
    --------
    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    ordered = np.sort(numbers)
    is_new = np.ones(len(ordered), np.bool_)
    is_new[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_new]
