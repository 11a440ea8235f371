"""Prepares events for reading turns: persisted, without repeats, in id order.

The rules are those of `agentbook.events.turns`. What an event means for turns is
computed for whole columns; only the rows that may change something go through the rule.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ...api.span import milliseconds_of
from ...events.turns import ENDS, UNANSWERED_AFTER, Failure, TurnRule, failure_of
from ..parse.schemas import STR
from .arguments import require, with_instants

Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

# Every message of `agentbook.api.run_limits` contains one of these, so only few events
# need a closer look. In JSON, a letter of it may be escaped.
_LIMIT_WORDS = "exceed|413 Request Entity Too Large|Agent ran too many|TURN_TIMEOUT:"
_LIMIT_WORDS_OR_ESCAPE = rf"\\u00[2-7]|{_LIMIT_WORDS}"
# The ids that `agentbook.api.span.is_persisted` accepts, in lower case.
_PERSISTED = r"\A[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\z"
REQUIRED = ("id", "session_id", "type", "author_type", "text", "content", "task_id", "created_at")
INSTANTS = ("created_at", "updated_at", "at")
RULES = ("task", "order")


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
    numbers, sessions = pd.factorize(events["session_id"])
    codes = numbers.astype(np.int64)
    ids = pc.ascii_lower(to_arrow(events["id"]))
    keep = rows_with(ids, _PERSISTED) & (codes >= 0)
    if not (keep.all() and (codes[1:] >= codes[:-1]).all() and _ascend(ids, codes)):
        rows = np.flatnonzero(keep)
        table = pa.table({"session": codes[rows], "id": ids.take(pa.array(rows))})
        rows = rows[pc.sort_indices(table, [("session", "ascending"), ("id", "ascending")]).to_numpy()]
        ids, codes = ids.take(pa.array(rows)), codes[rows]
        is_new = np.ones(len(rows), np.bool_)
        is_new[1:] = np.asarray(pc.not_equal(ids.slice(1), ids.slice(0, max(len(ids) - 1, 0)))) | (
            codes[1:] != codes[:-1]
        )
        events, codes = events.iloc[rows[is_new]], codes[is_new]
    return events, codes, pd.Index(sessions)


def _ascend(ids: Any, sessions: Integers) -> bool:
    later = np.asarray(pc.less(ids.slice(0, max(len(ids) - 1, 0)), ids.slice(1)))
    return bool((later | (sessions[1:] != sessions[:-1])).all())


def to_arrow(series: pd.Series) -> Any:
    """The series as Arrow text, without a copy if it holds Arrow text already."""
    return pa.array(series.astype(STR), from_pandas=True)


def rows_with(texts: Any, pattern: str) -> Flags:
    """Which texts match a regular expression somewhere; False for null.

    Examples
    --------
    >>> rows_with(pa.array(["limit exceeded", None, "fine"]), "exceed").tolist()
    [True, False, False]
    """
    return np.asarray(pc.fill_null(pc.match_substring_regex(texts, pattern), False))


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
    return pd.Series(pd.api.extensions.take(series.array, rows, allow_fill=True), name=series.name)


def matches(series: pd.Series, condition: Callable[[str], bool]) -> Flags:
    """Which rows have a category that meets the condition; False for null."""
    flags = np.array([isinstance(name, str) and condition(name) for name in series.cat.categories] + [False], np.bool_)
    return np.take(flags, series.cat.codes.to_numpy(), mode="wrap")  # code -1 is the last flag


def _failures(events: pd.DataFrame, opens: Flags, done: Flags) -> dict[int, Failure]:
    suspect = matches(as_category(events["type"]), lambda name: name == "runtime_error")
    suspect |= rows_with(to_arrow(events["text"]), _LIMIT_WORDS)
    suspect |= ~done & rows_with(to_arrow(events["content"]), _LIMIT_WORDS_OR_ESCAPE)
    rows = np.flatnonzero(suspect & ~opens)
    parts = (events[name].iloc[rows].to_list() for name in ("type", "text", "content"))
    failures = {
        row: failure_of(event_of(kind, text, content))
        for row, kind, text, content in zip(rows.tolist(), *parts, strict=True)
    }
    return {row: failure for row, failure in failures.items() if failure is not None}


def event_of(kind: Any, text: Any, content: Any) -> dict[str, Any]:
    """The wire's ``type`` and ``content`` from those of an events frame."""
    text_field = {"text": text} if isinstance(text, str) else {}
    if isinstance(content, str):
        decoded = json.loads(content)
        whole = {**text_field, **decoded} if isinstance(decoded, dict) else decoded
    else:
        whole = text if text_field else None
    return {"type": kind, "content": whole}


@dataclass(slots=True)
class Assignment:
    """The turn of each event.

    Attributes
    ----------
    turn : ndarray of int64
        Each event's turn, counted from 0 over all sessions.
    starts : ndarray of int64
        The row of the first event of each turn.
    number : ndarray of int64
        Each turn's number within its session, from 1.
    closes : ndarray of bool
        Whether an event is a reply or a failure.
    tasks : ndarray of int64
        The number of each event's ``task_id``; -1 for none.
    rule : ndarray of int64
        The index in `RULES` of what paired each turn's question and reply; -1 without
        either.
    """

    turn: Integers
    starts: Integers
    number: Integers
    closes: Flags
    tasks: Integers
    rule: Integers


def assign_turns(columns: EventColumns, unanswered_after: timedelta = UNANSWERED_AFTER) -> Assignment:
    """Assign each event to a turn."""
    closes = (columns.answers | columns.fails) & ~columns.opens
    tasks = pd.factorize(columns.events["task_id"])[0].astype(np.int64)
    # Any other event belongs to the oldest open question or to the last turn, as would
    # one just before it.
    asked = np.zeros(tasks.max(initial=0) + 2, np.bool_)
    asked[tasks[columns.opens & (tasks >= 0)]] = True  # a task of -1 is the last, never asked
    rows = np.flatnonzero(columns.first | columns.opens | closes | asked[tasks])
    at_us = np.zeros(len(rows), np.int64)
    asks = columns.opens[rows] | columns.first[rows]
    at_us[asks] = _microseconds(columns.events, rows[asks])
    followed = np.diff(rows, append=len(tasks)) > 1
    turn, turn_after, rule_of = [], [], {}
    base, turns = 0, TurnRule(unanswered_after)
    for first, task, us, opens, is_closing, answers, is_followed in zip(
        columns.first[rows].tolist(), tasks[rows].tolist(), at_us.tolist(), columns.opens[rows].tolist(),
        closes[rows].tolist(), columns.answers[rows].tolist(), followed.tolist(), strict=True,
    ):  # fmt: skip
        if first:
            base, turns = base + turns.count, TurnRule(unanswered_after)
        number, matched_by = turns.read(
            task if task >= 0 else None, us, opens=opens, closes=is_closing, answers=answers
        )
        turn.append(base + number)
        if matched_by is not None:
            rule_of[base + number] = RULES.index(matched_by)
        if is_followed:
            number = turns.read(None, us, opens=False, closes=False, answers=False)[0]
        turn_after.append(base + number)
    of_row = np.repeat(np.array(turn_after, np.int64), np.diff(rows, append=len(tasks)))
    of_row[rows] = turn
    starts = np.flatnonzero(np.diff(np.maximum.accumulate(of_row), prepend=-1))
    of_session = of_row[columns.first]  # the first turn of each session
    number = np.arange(len(starts)) - of_session[np.cumsum(columns.first)[starts] - 1] + 1
    rule = np.full(len(starts), -1, np.int64)
    rule[list(rule_of)] = list(rule_of.values())
    return Assignment(of_row, starts, number, closes, tasks, rule)


def _microseconds(events: pd.DataFrame, rows: Integers) -> Integers:
    """`created_at` in microseconds since the epoch, else the time in the id."""
    moments = events["created_at"].iloc[rows].dt.tz_localize(None).to_numpy("datetime64[us]")
    times: Integers = moments.astype(np.int64)
    unknown = np.flatnonzero(np.isnat(moments))
    times[unknown] = [milliseconds_of(event_id) * 1000 for event_id in events["id"].iloc[rows[unknown]]]
    return times


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
