"""Turns of many sessions as one table, without a loop over rows.

The rules are those of `agentbook.events.turns`. `agentbook.frames.analysis.pairing`
finds the question of each event.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from ...events.pairing import UNANSWERED_AFTER
from .event_columns import INSTANTS, REQUIRED, EventColumns, Flags, Integers, factorize, read_events, rows_at, to_arrow
from .labels import with_provenance
from .pairing import Pairs, pair_events
from .validate import length_of, moment_of, require, with_instants

STATUSES = ("answered", "failed", "unanswered", "open")
RULES = ("task", "order")
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

    A turn opens at an event with an author who is not an agent, and closes at a later
    ``runtime_done`` with a text, or at a failure. A reply belongs to the open question
    with the same ``task_id``; without one, to the oldest open question that is not
    abandoned. A question is abandoned once a later one is asked more than
    `unanswered_after` after it, so a run that died without a reply does not shift every
    later reply by one. An agent that speaks without a question, in a session started by
    a schedule or a webhook, makes a turn without a question.

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
        An open turn older than this at `as_of` is unanswered, and an open question is
        abandoned at a question asked later than this after it. Default 15 minutes.
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
        matched_by      category                  what paired question and reply:
                                                  ``task``, which is certain, or
                                                  ``order``; null without either
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
    frame = _table(columns, assign_turns(columns, after), clock, texts)
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
    tasks : ndarray of int64
        The number of each event's ``task_id``; -1 for none.
    pairs : Pairs
    """

    turn: Integers
    starts: Integers
    number: Integers
    closes: Flags
    tasks: Integers
    pairs: Pairs


def assign_turns(columns: EventColumns, unanswered_after: timedelta = UNANSWERED_AFTER) -> Assignment:
    """Assign each event to a turn."""
    closes = (columns.replies | columns.fails) & ~columns.opens
    tasks, _ = factorize(columns.events["task_id"])
    pairs = pair_events(columns, tasks, closes, unanswered_after)
    rows = np.arange(len(closes))
    alone = pairs.question < 0
    creates = (pairs.question == rows) | (alone & (columns.first | columns.replies))
    created = np.cumsum(creates)
    # An event that belongs to no open question joins the turn before it.
    turn = np.where(alone, created, created[pairs.question]) - 1
    starts = np.flatnonzero(creates)
    begin = np.maximum.accumulate(np.where(columns.first, rows, 0))[starts]  # each session's first row creates a turn
    number = created[starts] - created[begin] + 1
    return Assignment(turn, starts, number, closes, tasks, pairs)


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
        "matched_by": _matched_by(assignment, question, closing),
        "events": np.bincount(turn, minlength=count),
        "subtasks": np.bincount(turn[subtask], minlength=count),
        "tasks": _count_distinct(turn, assignment.tasks, count),
        "prompt_chars": rows_at(lengths, question).fillna(0).astype("Int64"),
        "reply_chars": rows_at(lengths, reply).astype("Int64"),
    }
    if texts:
        table["prompt"], table["reply"] = rows_at(events["text"], question), rows_at(events["text"], reply)
    for name in ("workspace_id", "agent_id"):
        if name in events:
            table[name] = rows_at(events[name], starts)
    return pd.DataFrame(table)


def _matched_by(assignment: Assignment, question: Integers, closing: Integers) -> pd.Categorical:
    """The rule that paired each turn's question and reply."""
    codes = np.full(len(question), -1, np.int64)
    paired = closing[assignment.pairs.question[closing] >= 0]
    codes[assignment.turn[paired]] = np.where(assignment.pairs.by_task[paired], 0, 1)
    codes[question < 0] = -1
    return pd.Categorical.from_codes(codes, categories=pd.Index(RULES, dtype="str"))


def _count_distinct(groups: Integers, codes: Integers, count: int) -> Integers:
    """Number of distinct codes in each group; -1 is none."""
    present = codes >= 0
    width = int(codes.max(initial=0)) + 1
    pairs = np.sort(groups[present] * width + codes[present])
    is_new = np.ones(len(pairs), np.bool_)
    is_new[1:] = pairs[1:] != pairs[:-1]
    return np.bincount(pairs[is_new] // width, minlength=count)
