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
from ..parse.ids import parse_ids
from ..parse.schemas import STR
from .validate import require, with_instants

Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

# Every message of `agentbook.api.run_limits` contains one of these, so that only few
# events are examined more closely.
LIMIT_WORDS = r"exceed|413 Request Entity Too Large|synchronous steps|TURN_TIMEOUT:"
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
        Whether an event opens a turn, is a ``runtime_done``, has a text, reports a
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
    def replies(self) -> Flags:
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
    done = _where(kind, lambda name: name == "runtime_done")
    opens = _where(as_category(ordered["author_type"]), lambda name: "agent" not in name.lower())
    opens &= ~_where(kind, lambda name: name in ENDS)
    failures = _failures(ordered, opens, done)
    fails = np.zeros(len(session), np.bool_)
    fails[list(failures)] = True
    has_text = ordered["text"].notna().to_numpy()
    return EventColumns(
        ordered, session, sessions, first, opens, done, has_text, fails, failures, len(events) - len(ordered)
    )


def in_order(events: pd.DataFrame) -> tuple[pd.DataFrame, Integers, pd.Index]:
    """Persisted events by session and id, their session numbers, and the sessions.

    Repeated ids are dropped. Sessions are numbered in order of first appearance.
    """
    codes, sessions = factorize(events["session_id"])
    high, low, valid = parse_ids(to_arrow(events["id"]))
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


def _is_ascending(low: Any, high: Any, codes: Any) -> bool:
    same = codes[1:] == codes[:-1]
    later = (high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] >= low[:-1]))
    return bool(((codes[1:] > codes[:-1]) | (same & later)).all())


def to_arrow(series: pd.Series) -> Any:
    """The series as Arrow text, without a copy if it holds Arrow text already."""
    return pa.array(series.astype(STR), from_pandas=True)


def as_category(series: pd.Series) -> pd.Series:
    """The series as categories."""
    return series if isinstance(series.dtype, pd.CategoricalDtype) else series.astype("category")


def factorize(series: pd.Series) -> tuple[Integers, pd.Index]:
    """Codes in order of first appearance (-1 for null), and their values."""
    codes, values = pd.factorize(series)
    return codes.astype(np.int64), pd.Index(values)


def rows_at(series: pd.Series, rows: Integers) -> pd.Series:
    """The values at these row numbers; null for -1.

    Examples
    --------
    >>> values = pd.Series(["a", "b"], dtype="str")
    >>> rows_at(values, np.array([1, -1])).fillna("?").to_list()
    ['b', '?']
    """
    return pd.Series(series.array, name=series.name).reindex(rows).reset_index(drop=True)


def _where(series: pd.Series, condition: Callable[[str], bool]) -> Flags:
    """Which rows have a category that meets the condition; False for null."""
    flags = np.array([isinstance(name, str) and condition(name) for name in series.cat.categories] + [False], np.bool_)
    return flags[series.cat.codes.to_numpy()]  # code -1 is the last flag


def _failures(events: pd.DataFrame, opens: Flags, done: Flags) -> dict[int, Failure]:
    suspect = _where(as_category(events["type"]), lambda name: name == "runtime_error")
    suspect |= _contains(events["text"], LIMIT_WORDS)
    # JSON may escape any letter, so contents with an escape are examined too.
    suspect |= ~done & _contains(events["content"], LIMIT_WORDS + r"|\\u00")
    failures: dict[int, Failure] = {}
    for row in np.flatnonzero(suspect & ~opens):
        failure = failure_of(event_of(events.iloc[int(row)]))
        if failure is not None:
            failures[int(row)] = failure
    return failures


def _contains(texts: pd.Series, pattern: str) -> Flags:
    matches = pc.match_substring_regex(to_arrow(texts), pattern)
    flags: Flags = pc.fill_null(matches, False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return flags


def event_of(row: pd.Series) -> dict[str, Any]:
    """The wire's ``type`` and ``content`` from a row of an events frame."""
    text, rest = row["text"], row["content"]
    text_field = {"text": text} if isinstance(text, str) else {}
    if isinstance(rest, str):
        decoded = json.loads(rest)
        content = {**text_field, **decoded} if isinstance(decoded, dict) else decoded
    else:
        content = text if text_field else None
    return {"type": row["type"], "content": content}
