"""Turns of many sessions as one table, without a loop over rows.

The rules are those of `agentbook.events.turns`. Replies arrive in the order of the
questions, so the open turns of a session are a queue. Its length after each event is a
running sum, never below zero: plus one where a turn opens, minus one where one closes.
This determines the turn of each event: the k-th closing event closes the k-th turn that
was opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from .event_columns import INSTANTS, REQUIRED, EventColumns, Flags, Integers, factorize, read_events, rows_at, to_arrow
from .provenance import with_provenance
from .validate import length_of, moment_of, require, with_instants

STATUSES = ("answered", "failed", "unanswered", "open")
CLOCKS = ("created_at", "at")


def turns(
    events: pd.DataFrame,
    *,
    clock: str = "created_at",
    as_of: Any = None,
    unanswered_after: str | pd.Timedelta = "15min",
    texts: bool = False,
) -> pd.DataFrame:
    """One row per turn of the sessions in an events frame.

    A turn opens at an event with an author who is not an agent, and closes at the first
    later ``runtime_done`` with a text, or at a failure. Open turns are answered in the
    order of their questions. An agent that speaks without a question, in a session
    started by a schedule or a webhook, makes a turn without a question.

    Parameters
    ----------
    events : DataFrame
        From `load_events` or `to_frame("events", ...)`: any number of sessions, in any
        order. Drafts, repeated ids and rows without a session are left out;
        ``attrs["agentbook"]["dropped"]`` counts them.
    clock : str
        Which time of an event is used: ``"created_at"`` (default), or ``"at"``, the
        time in its id.
    as_of : datetime, optional
        The time up to which the events are known; naive times are UTC. Default: when
        the frame was loaded (``attrs["agentbook"]["loaded_at"]``), else the time of the
        latest event.
    unanswered_after : str or Timedelta
        An open turn older than this at `as_of` is unanswered. Default 15 minutes.
    texts : bool
        If True, add the columns ``prompt`` and ``reply``.

    Returns
    -------
    DataFrame
        By session and turn:

        =============== =================== ===== ======================================
        column          dtype               unit  meaning
        =============== =================== ===== ======================================
        session_id      str                       the session
        turn            int64                     number within the session, from 1
        message_id      str                       the event that opened the turn; null
                                                  without a question
        reply_id        str                       the event that closed it: reply or
                                                  failure
        initiator_type  category                  who asked, as ``author_type``
        initiator_id    str                       id of who asked
        asked_at        datetime64[us, UTC]       time of the question
        replied_at      datetime64[us, UTC]       time of the reply or failure
        latency_s       float64             s     from `asked_at` to `replied_at`
        status          category                  answered, failed, unanswered or open
        failure         category                  kind of failure: a run limit, or
                                                  ``error``
        failure_status  Int64                     its HTTP status, if sent
        failure_message str                       its message
        events          int64                     events of the turn, with the question
        subtasks        int64                     finished subtasks and tool runs; the
                                                  API does not tell them apart
        tasks           int64                     distinct task ids
        prompt_chars    Int64               chars length of the question
        reply_chars     Int64               chars length of the reply
        =============== =================== ===== ======================================

        Also ``workspace_id`` and ``agent_id`` if the events have them.

    Raises
    ------
    ValueError
        If a column is missing (the message names it), or `clock` is unknown.

    Notes
    -----
    Specification: "Events", rules 3 to 5; "Errors", runtime limit failures.
    `agentbook.events.turns.TurnLog` reads one session in the same way; its ``open`` is
    ``open`` or ``unanswered`` here.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [
    ...   {"id": "019a0b1c-0000-7000-8000-000000000001", "type": "message",
    ...    "content": {"text": "How many?"}, "author": {"type": "api_key"},
    ...    "created_at": "2026-10-03T08:15:00Z"},
    ...   {"id": "019a0b1c-0000-7000-8000-000000000002", "type": "runtime_done",
    ...    "content": {}, "created_at": "2026-10-03T08:15:02Z"},
    ...   {"id": "019a0b1c-0000-7000-8000-000000000003", "type": "runtime_done",
    ...    "content": {"text": "Three."}, "created_at": "2026-10-03T08:15:03Z"}]}'''
    >>> table = turns(to_frame("events", [page], context={"session_id": "s1"}))
    >>> table[["turn", "status", "latency_s", "subtasks"]].values.tolist()
    [[1, 'answered', 3.0, 1]]
    """
    if clock not in CLOCKS:
        raise ValueError(f"Unknown clock {clock!r}. Choose one of: {', '.join(CLOCKS)}.")
    after = length_of(unanswered_after, "unanswered_after")
    require(events, *dict.fromkeys((*REQUIRED, clock)), caller="turns")
    events = with_instants(events, *INSTANTS, caller="turns")
    columns = read_events(events, caller="turns")
    frame = _table(columns, assign_turns(columns), clock, texts)
    until = moment_of(events, as_of, "created_at")
    late = (frame["status"] == "open") & (until - frame["asked_at"] > after)
    frame.loc[late, "status"] = "unanswered"
    return with_provenance(
        frame, events, "turns", as_of=None if pd.isna(until) else until.isoformat(), clock=clock, dropped=columns.dropped
    )  # fmt: skip


def is_turns(frame: pd.DataFrame) -> bool:
    """Whether a frame is the result of `turns` rather than events."""
    return isinstance(frame, pd.DataFrame) and {"turn", "asked_at", "status"} <= set(frame.columns)


def turns_of(data: pd.DataFrame, *, as_of: Any = None) -> pd.DataFrame:
    """The turns of events, or `data` itself if it is the result of `turns`."""
    return data if is_turns(data) else turns(data, as_of=as_of)


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
    """

    turn: Integers
    starts: Integers
    number: Integers
    closes: Flags


def assign_turns(columns: EventColumns) -> Assignment:
    """Assign each event to a turn."""
    opens, first, replies = columns.opens, columns.first, columns.replies
    closes = (replies | columns.fails) & ~opens
    count = len(opens)
    start = np.maximum.accumulate(np.where(first, np.arange(count), 0)) if count else np.zeros(0, np.int64)
    # Each session starts below everything before it, so that one running minimum serves
    # all sessions.
    base = -2 * (start + columns.session)
    steps = opens.astype(np.int64) - closes + (first & ~opens & ~closes)
    level = base + _running_sum(steps, start)
    floor = np.minimum(np.minimum.accumulate(level), base) if count else level
    waiting = level - floor  # open turns after the event
    before = np.zeros(count, np.int64)
    before[1:] = waiting[:-1]
    before[first] = 0
    creates = opens | (first & ~opens) | (replies & (before == 0))
    created = _running_sum(creates.astype(np.int64), start)
    closed = _running_sum((closes & ((before > 0) | creates)).astype(np.int64), start)
    within = np.where(opens, created, np.where(closes, closed, np.where(before > 0, closed + 1, created)))
    starts = np.flatnonzero(creates)
    total = np.cumsum(creates)
    # Turns of earlier sessions: the first row of each session creates one.
    offset = total[start] - 1 if count else total
    return Assignment(offset + within - 1, starts, created[starts], closes)


def _running_sum(values: Integers, start: Integers) -> Integers:
    """Running sum within each session; `start` is the first row of a row's session."""
    total = np.cumsum(values)
    result: Integers = total - (total[start] - values[start]) if len(values) else total
    return result


def _table(columns: EventColumns, assignment: Assignment, clock: str, texts: bool) -> pd.DataFrame:
    events, turn, starts = columns.events, assignment.turn, assignment.starts
    count = len(starts)
    closing = np.flatnonzero(assignment.closes)
    last = np.full(count, -1, np.int64)
    last[turn[closing]] = closing  # rows ascend, so the last one remains
    reply = np.full(count, -1, np.int64)
    replying = closing[~columns.fails[closing]]
    reply[turn[replying]] = replying
    failing = closing[columns.fails[closing]]
    failures = [columns.failures[int(row)] for row in failing]
    failure = np.full(count, -1, np.int64)
    failure[turn[failing]] = np.arange(len(failures))
    question = np.where(columns.opens[starts], starts, -1)
    asked_at, replied_at = rows_at(events[clock], question), rows_at(events[clock], last)
    status = np.where(failure >= 0, 1, np.where(reply >= 0, 0, 3))
    lengths = pd.Series(pc.utf8_length(to_arrow(events["text"])).to_numpy(zero_copy_only=False), dtype="float64")
    subtask = columns.done & ~columns.has_text & ~columns.opens & ~columns.fails
    table: dict[str, Any] = {
        "session_id": pd.Series(columns.sessions[columns.session[starts]], dtype="str"),
        "turn": assignment.number,
        "message_id": rows_at(events["id"], question),
        "reply_id": rows_at(events["id"], last),
        "initiator_type": rows_at(events["author_type"], question),
        "initiator_id": rows_at(events["author_id"], question)
        if "author_id" in events
        else pd.Series(None, range(count), dtype="str"),
        "asked_at": asked_at,
        "replied_at": replied_at,
        "latency_s": (replied_at - asked_at).dt.total_seconds(),
        "status": pd.Categorical.from_codes(status, categories=pd.Index(STATUSES, dtype="str")),
        "failure": rows_at(pd.Series([failure.kind for failure in failures], dtype="str"), failure).astype("category"),
        "failure_status": rows_at(pd.Series([failure.status for failure in failures], dtype="Int64"), failure),
        "failure_message": rows_at(pd.Series([failure.message for failure in failures], dtype="str"), failure),
        "events": np.bincount(turn, minlength=count),
        "subtasks": np.bincount(turn[subtask], minlength=count),
        "tasks": _count_distinct(turn, events["task_id"], count),
        "prompt_chars": rows_at(lengths, question).fillna(0).astype("Int64"),
        "reply_chars": rows_at(lengths, reply).astype("Int64"),
    }
    if texts:
        table["prompt"], table["reply"] = rows_at(events["text"], question), rows_at(events["text"], reply)
    for name in ("workspace_id", "agent_id"):
        if name in events:
            table[name] = rows_at(events[name], starts)
    return pd.DataFrame(table)


def _count_distinct(groups: Integers, values: pd.Series, count: int) -> Integers:
    """Number of distinct non-null values in each group."""
    codes, _ = factorize(values)
    present = codes >= 0
    width = int(codes.max(initial=0)) + 1
    pairs = np.sort(groups[present] * width + codes[present])
    is_new = np.ones(len(pairs), np.bool_)
    is_new[1:] = pairs[1:] != pairs[:-1]
    return np.bincount(pairs[is_new] // width, minlength=count)
