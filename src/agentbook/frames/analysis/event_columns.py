"""Events as turns are read from them: persisted ones only, each once, in id order, and what each does to a turn.

The rules are `agentbook.events.turns`'s, a column at a time.
"""

from __future__ import annotations

import json
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
Whole = npt.NDArray[np.int64]

# Every message of `agentbook.api.run_limits` holds one of these, so that only few events are looked at more closely.
LIMIT_WORDS = r"exceed|413 Request Entity Too Large|synchronous steps|TURN_TIMEOUT:"
NEEDED = ("id", "session_id", "type", "author_type", "text", "content", "task_id", "created_at")
INSTANTS = ("created_at", "updated_at", "at")


@dataclass(slots=True)
class Reading:
    """Persisted events in the order of their sessions' first appearance and their ids.

    Attributes
    ----------
    events : DataFrame
    session : ndarray of int64
        Number of the session of each row; `sessions` holds their ids.
    first : ndarray of bool
        Whether a row is its session's first.
    opens, done, replies, fails : ndarray of bool
        Whether it opens a turn, is a ``runtime_done``, carries a text, reports a failure.
    failures : dict
        Row to its failure.
    dropped : int
        Rows left out: drafts, rows without session, repeats of an id.
    """

    events: pd.DataFrame
    session: Whole
    sessions: pd.Index
    first: Flags
    opens: Flags
    done: Flags
    has_text: Flags
    fails: Flags
    failures: dict[int, Failure]
    dropped: int


def read(events: pd.DataFrame, *, what: str) -> Reading:
    """Events in order, with what each does to a turn."""
    require(events, *NEEDED, what=what)
    events = with_instants(events, *INSTANTS, what=what)
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
    return Reading(
        ordered, session, sessions, first, opens, done, has_text, fails, failures, len(events) - len(ordered)
    )


def in_order(events: pd.DataFrame) -> tuple[pd.DataFrame, Whole, pd.Index]:
    """Persisted events by session (as they first appear) and id, each once; their session's number; the sessions."""
    codes, sessions = factorize(events["session_id"])
    high, low, valid = parse_ids(to_arrow(events["id"]))
    keep = valid & (codes >= 0)
    rows = np.flatnonzero(keep)
    key = (low[rows], high[rows], codes[rows])
    if not _ascending(*key):
        rows = rows[np.lexsort(key)]
    repeated = np.zeros(len(rows), np.bool_)
    repeated[1:] = (high[rows[1:]] == high[rows[:-1]]) & (low[rows[1:]] == low[rows[:-1]])
    repeated[1:] &= codes[rows[1:]] == codes[rows[:-1]]
    rows = rows[~repeated]
    ordered = events if len(rows) == len(events) and (np.diff(rows) == 1).all() else events.take(rows)
    return ordered, codes[rows], sessions


def _ascending(low: Any, high: Any, codes: Any) -> bool:
    same = codes[1:] == codes[:-1]
    later = (high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] >= low[:-1]))
    return bool(((codes[1:] > codes[:-1]) | (same & later)).all())


def to_arrow(series: pd.Series) -> Any:
    """The series' values as Arrow text, without a copy where it holds Arrow text already."""
    array = pa.array(series.astype(STR), from_pandas=True)
    return array


def as_category(series: pd.Series) -> pd.Series:
    """The series as categories."""
    return series if isinstance(series.dtype, pd.CategoricalDtype) else series.astype("category")


def factorize(series: pd.Series) -> tuple[Whole, pd.Index]:
    """Numbers in the order of first appearance (-1 for null) and the values they stand for."""
    codes, values = pd.factorize(series)
    return codes.astype(np.int64), pd.Index(values)


def _where(series: pd.Series, holds: Any) -> Flags:
    """Which rows have a category for which `holds` is true; null rows do not."""
    flags = np.array([isinstance(name, str) and holds(name) for name in series.cat.categories] + [False], np.bool_)
    return flags[series.cat.codes.to_numpy()]  # code -1 is the False at the end


def _failures(events: pd.DataFrame, opens: Flags, done: Flags) -> dict[int, Failure]:
    kinds = as_category(events["type"])
    suspect = _where(kinds, lambda name: name == "runtime_error") | _mentions(events["text"], LIMIT_WORDS)
    # JSON may spell any letter as an escape, so those that hold one are looked at too.
    suspect |= ~done & _mentions(events["content"], LIMIT_WORDS + r"|\\u00")
    found: dict[int, Failure] = {}
    for row in np.flatnonzero(suspect & ~opens):
        failure = failure_of(event_of(events.iloc[int(row)]))
        if failure is not None:
            found[int(row)] = failure
    return found


def _mentions(texts: pd.Series, pattern: str) -> Flags:
    found = pc.match_substring_regex(to_arrow(texts), pattern)
    flags: Flags = pc.fill_null(found, False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return flags


def event_of(row: pd.Series) -> dict[str, Any]:
    """The wire's ``type`` and ``content`` from a row of an events frame."""
    text, rest = row["text"], row["content"]
    known = {"text": text} if isinstance(text, str) else {}
    if isinstance(rest, str):
        inner = json.loads(rest)
        content = {**known, **inner} if isinstance(inner, dict) else inner
    else:
        content = text if known else None
    return {"type": row["type"], "content": content}
