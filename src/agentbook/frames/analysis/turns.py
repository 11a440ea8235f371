"""Turns of many sessions as one table, by the rules of `agentbook.events.turns`, without a loop over rows.

Replies arrive in the order of the questions, so the open turns of a session are a queue, and how long it is after each
event is a sum: plus one where a turn opens, minus one where one closes, never below zero. From that alone follows which
turn an event belongs to: the k-th that closes one closes the k-th that was opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow.compute as pc

from ..parse.frame import jsonable
from .event_columns import INSTANTS, NEEDED, Flags, Reading, Whole, factorize, read, to_arrow
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

    A turn opens at an event whose author is there and is not an agent, and closes at the first later ``runtime_done``
    with a text, or at a failure. Open turns are answered in the order they were asked. An agent that speaks unasked
    (a session begun by a schedule or a webhook) makes a turn without a question.

    Parameters
    ----------
    events : DataFrame
        As `to_frame("events", ...)` makes it, of any number of sessions, in any order. Drafts, repeats of an id and
        rows without a session are left out, and counted in ``attrs["agentbook"]["dropped"]``.
    clock : str
        Which instant of an event counts: ``"created_at"`` (default), or ``"at"``, the millisecond of its id.
    as_of : datetime, optional
        The instant up to which the events are known (UTC where it has no zone); default: when the frame was loaded
        (``attrs["agentbook"]["loaded_at"]``), else the newest event's.
    unanswered_after : str or Timedelta
        An open turn this old at `as_of` counts as unanswered; default 15 minutes.
    texts : bool
        True adds the columns ``prompt`` and ``reply``.

    Returns
    -------
    DataFrame
        By session and turn:

        =============== ==================== ===== =============================================================
        column          dtype                unit  meaning
        =============== ==================== ===== =============================================================
        session_id      str                        the session
        turn            int64                      number within the session, from 1
        message_id      str                        the event that opened it; null where the agent spoke unasked
        reply_id        str                        the event that closed it: reply or failure
        initiator_type  category                   who asked, as ``author_type``
        initiator_id    str                        id of who asked
        asked_at        datetime64[us, UTC]        when it was asked
        replied_at      datetime64[us, UTC]        when it was closed
        latency_s       float64              s     from asked to closed
        status          category                   answered, failed, unanswered or open
        failure         category                   kind of the failure: a run limit's, or ``error``
        failure_status  Int64                      its HTTP status where one was sent
        failure_message str                        its message
        events          int64                      events of the turn, its question included
        subtasks        int64                      finished subtasks and tool runs; the API does not tell them apart
        tasks           int64                      distinct task ids
        prompt_chars    Int64                chars length of the question
        reply_chars     Int64                chars length of the reply
        =============== ==================== ===== =============================================================

        Columns ``workspace_id`` and ``agent_id`` come along where the events have them.

    Raises
    ------
    ValueError
        A column is missing (the message names it), or `clock` is none of the two.

    Notes
    -----
    Specification: "Events", rules 3 to 5; "Errors", runtime limit failures. `agentbook.events.turns.TurnLog` reads one
    session the same way; its ``open`` is ``open`` or ``unanswered`` here.

    Examples
    --------
    >>> from agentbook.frames.parse import to_frame
    >>> page = b'''{"items": [
    ...   {"id": "019a0b1c-0000-7000-8000-000000000001", "type": "message", "content": {"text": "How many?"},
    ...    "author": {"type": "api_key"}, "created_at": "2026-10-03T08:15:00Z"},
    ...   {"id": "019a0b1c-0000-7000-8000-000000000002", "type": "runtime_done", "content": {},
    ...    "created_at": "2026-10-03T08:15:02Z"},
    ...   {"id": "019a0b1c-0000-7000-8000-000000000003", "type": "runtime_done", "content": {"text": "Three."},
    ...    "created_at": "2026-10-03T08:15:03Z"}]}'''
    >>> table = turns(to_frame("events", [page], context={"session_id": "s1"}))
    >>> table[["turn", "status", "latency_s", "subtasks"]].values.tolist()
    [[1, 'answered', 3.0, 1]]
    """
    if clock not in CLOCKS:
        raise ValueError(f"There is no clock {clock!r}: choose one of {', '.join(CLOCKS)}.")
    after = length_of(unanswered_after, "unanswered_after")
    require(events, *NEEDED, what="turns")
    events = with_instants(events, *INSTANTS, what="turns")
    reading = read(events, what="turns")
    if clock not in events:
        raise ValueError(f"turns needs the column {clock!r}, and the frame has none.")
    assigned = assign(reading)
    frame = _table(reading, assigned, clock, texts)
    known_until = moment_of(events, as_of, "created_at")
    age = known_until - frame["asked_at"]
    late = (frame["status"] == "open") & (age > after)
    frame.loc[late, "status"] = "unanswered"
    about = dict(events.attrs.get("agentbook", {}))
    about.pop("problems", None)
    frame.attrs["agentbook"] = jsonable(
        {**about, "derived": "turns", "as_of": None if pd.isna(known_until) else known_until.isoformat(),
         "clock": clock, "dropped": reading.dropped}
    )  # fmt: skip
    return frame


def is_turns(frame: pd.DataFrame) -> bool:
    """Whether a frame is one of `turns` rather than of events."""
    return isinstance(frame, pd.DataFrame) and {"turn", "asked_at", "status"} <= set(frame.columns)


@dataclass(slots=True)
class Assigned:
    """Which turn each event belongs to: `turn` counts from 0 over all sessions; `starts` is the row that made each."""

    turn: Whole
    starts: Whole
    number: Whole
    closes: Flags


def assign(reading: Reading) -> Assigned:
    """Which turn each event of a reading belongs to."""
    opens, first = reading.opens, reading.first
    replies = reading.done & reading.has_text & ~opens
    closes = (replies | reading.fails) & ~opens
    count = len(opens)
    start = np.maximum.accumulate(np.where(first, np.arange(count), 0)) if count else np.zeros(0, np.int64)
    # Each session starts below everything before it, so that one running minimum serves all of them.
    base = -2 * (start + reading.session)
    steps = opens.astype(np.int64) - closes + (first & ~opens & ~closes)
    walk = base + _running(steps, first, start)
    floor = np.minimum(np.minimum.accumulate(walk), base) if count else walk
    waiting = walk - floor  # open turns after the event
    before = np.zeros(count, np.int64)
    before[1:] = waiting[:-1]
    before[first] = 0
    creates = opens | (first & ~opens) | (replies & (before == 0))
    made = _running(creates.astype(np.int64), first, start)
    closed = _running((closes & ((before > 0) | creates)).astype(np.int64), first, start)
    within = np.where(opens, made, np.where(closes, closed, np.where(before > 0, closed + 1, made)))
    starts = np.flatnonzero(creates)
    total = np.cumsum(creates)
    offset = total[start] - 1 if count else total  # turns made in earlier sessions: each session's first row makes one
    return Assigned(offset + within - 1, starts, made[starts], closes)


def _running(values: Whole, first: Flags, start: Whole) -> Whole:
    """Running sum within each session."""
    total = np.cumsum(values)
    result: Whole = total - (total[start] - values[start]) if len(values) else total
    return result


def _table(reading: Reading, assigned: Assigned, clock: str, texts: bool) -> pd.DataFrame:
    events, turn, starts = reading.events, assigned.turn, assigned.starts
    count = len(starts)
    asked = reading.opens[starts]
    closing = np.flatnonzero(assigned.closes)
    last = np.full(count, -1, np.int64)
    last[turn[closing]] = closing  # rows ascend, so the last one stays
    reply = np.full(count, -1, np.int64)
    answers = closing[~reading.fails[closing]]
    reply[turn[answers]] = answers
    failed_rows = closing[reading.fails[closing]]
    question = np.where(asked, starts, -1)
    asked_at, replied_at = _pick(events[clock], question), _pick(events[clock], last)
    failures = [reading.failures[int(row)] for row in failed_rows]
    failure = np.full(count, -1, np.int64)
    failure[turn[failed_rows]] = np.arange(len(failures))
    status = np.where(failure >= 0, 1, np.where(reply >= 0, 0, 3))
    lengths = pd.Series(pc.utf8_length(to_arrow(events["text"])).to_numpy(zero_copy_only=False), dtype="float64")
    subtask = reading.done & ~reading.has_text & ~reading.opens & ~reading.fails
    columns: dict[str, Any] = {
        "session_id": pd.Series(reading.sessions.take(reading.session[starts]), dtype="str"),
        "turn": assigned.number,
        "message_id": _pick(events["id"], question),
        "reply_id": _pick(events["id"], last),
        "initiator_type": _pick(events["author_type"], question),
        "initiator_id": _pick(events["author_id"], question) if "author_id" in events else _nothing(count, "str"),
        "asked_at": asked_at,
        "replied_at": replied_at,
        "latency_s": (replied_at - asked_at).dt.total_seconds(),
        "status": pd.Categorical.from_codes(status, categories=pd.Index(STATUSES, dtype="str")),
        "failure": _pick(pd.Series([one.kind for one in failures], dtype="str"), failure).astype("category"),
        "failure_status": _pick(pd.Series([one.status for one in failures], dtype="Int64"), failure),
        "failure_message": _pick(pd.Series([one.message for one in failures], dtype="str"), failure),
        "events": np.bincount(turn, minlength=count),
        "subtasks": np.bincount(turn[subtask], minlength=count),
        "tasks": _distinct(turn, events["task_id"], count),
        "prompt_chars": _pick(lengths, question).fillna(0).astype("Int64"),
        "reply_chars": _pick(lengths, reply).astype("Int64"),
    }
    if texts:
        columns["prompt"], columns["reply"] = _pick(events["text"], question), _pick(events["text"], reply)
    for name in ("workspace_id", "agent_id"):
        if name in events:
            columns[name] = _pick(events[name], starts)
    return pd.DataFrame(columns)


def _pick(series: pd.Series, rows: npt.NDArray[np.int64]) -> pd.Series:
    """Values at these rows; null where a row is -1."""
    return pd.Series(pd.api.extensions.take(series.array, rows, allow_fill=True), name=series.name)


def _nothing(count: int, dtype: str) -> pd.Series:
    return pd.Series(None, range(count), dtype=dtype)


def _distinct(groups: Whole, values: pd.Series, count: int) -> Whole:
    """Number of distinct values, nulls aside, in each group."""
    codes, _ = factorize(values)
    there = codes >= 0
    width = int(codes.max(initial=0)) + 1
    pairs = np.sort(groups[there] * width + codes[there])
    fresh = np.ones(len(pairs), np.bool_)
    fresh[1:] = pairs[1:] != pairs[:-1]
    return np.bincount(pairs[fresh] // width, minlength=count)
