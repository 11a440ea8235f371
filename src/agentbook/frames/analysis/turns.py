"""Turns of many sessions as one table, with the columns of these sessions.

The rules are those of `agentbook.events.turns`. What an event means for turns is
computed for whole columns; only the rows that may change something go through the rule.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta, tzinfo
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ...api.errors import EmptyWarning
from ...api.span import Span, normalize, parse_length
from ...events.turns import ENDS, UNANSWERED_AFTER, Failure, TurnRule, failure_of
from ..parse.reader import instants_of_ids
from ..parse.schemas import STR
from ..tabular import events_of, frame_of, with_provenance
from .arguments import (
    category,
    groups_of,
    moment_of,
    require,
    rows_in,
    span_in,
    warn_caller,
    warn_if_empty,
    with_details,
    with_instants,
    zone_in,
)
from .turn_details import BY_MODEL, COUNTS, sum_usage

Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Every message of `agentbook.api.run_limits` contains one of these, so only few events
# need a closer look. In JSON, a letter of it may be escaped.
_LIMIT_WORDS = "exceed|413 Request Entity Too Large|Agent ran too many|TURN_TIMEOUT:"
_LIMIT_WORDS_OR_ESCAPE = rf"\\u00[2-7]|{_LIMIT_WORDS}"
# The ids that `agentbook.api.span.is_persisted` accepts, in lower case: they sort by
# time.
_UUID7 = r"\A[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\z"
_NUMBER = r"\A[0-9]{1,18}\z"
REQUIRED = ("id", "session_id", "type", "author_type", "text", "content", "task_id", "created_at")
INSTANTS = ("created_at", "updated_at", "at")
RULES = ("task", "order")
STATUSES = ("answered", "failed", "unanswered", "open")
CLOCKS = ("created_at", "at")
_FIRST = ("asked_at", "workspace", "agent", "author", "status", "latency_s", "prompt", "reply")
# Columns that `with_sessions` adds by default.
_OF_SESSIONS = ("workspace_id", "agent_id")
# Columns of the events' sessions that turns and steps keep.
LABELS = (
    *("workspace_id", "agent_id", "agent_version", "workspace", "agent", "session", "initiator"),
    *("initiator_type", "initiator_id"),
)

_LATEST_US = 1 << 62


def turns(
    events: Any,
    *,
    clock: str = "created_at",
    as_of: Any = None,
    unanswered_after: str | timedelta = "15min",
    texts: bool = False,
    since: Any = None,
    until: Any = None,
) -> pd.DataFrame:
    """One row per turn of the sessions in an events frame.

    A turn opens at an event with an author who is not an agent, and closes at a later
    ``runtime_done`` with a text, or at a failure. A reply belongs to the open question
    with the same ``task_id``; without one, to the oldest open question that is not
    abandoned. A question is abandoned once a later one is asked more than
    `unanswered_after` after it, so a run that died without a reply does not shift every
    later reply by one. A failure closes only a question of its own task, or one where
    either has no task; and a turn that has ended stays as it is. If an agent speaks
    without being asked, as in a session started by a schedule or a webhook, that is a
    turn without a question.

    Parameters
    ----------
    events : DataFrame, Listing, History, or any other table
        Events, such as from `load_events` or `to_frame("events", ...)`: any number of
        sessions, in any order. Sessions with ids that are not UUIDs of version 7, such
        as hashed ones, are read by ``created_at``. Drafts, repeated ids and rows
        without an id or a session are left out; ``attrs["agentbook"]["dropped"]``
        counts them, and a warning says how many lack an id or a session.
    clock : str
        Which time of an event is used: ``"created_at"`` (default), or ``"at"``, the
        time in its id.
    as_of : datetime, optional
        The time up to which the events are known; naive times are UTC. Default: when
        the frame was loaded (``attrs["agentbook"]["loaded_at"]``), else the time of the
        latest event.
    unanswered_after : str or timedelta
        An open turn older than this at `as_of` is unanswered, and an open question is
        abandoned when another one is asked more than this after it. Default 15 minutes.
    texts : bool
        If True, add the columns ``prompt`` and ``reply``, after `latency_s`.
    since, until : str, datetime, date or timedelta, optional
        Only turns asked from `since` on and before `until`: instants, dates, or
        lengths of time such as ``"30d"`` before the frame was loaded.

    Returns
    -------
    DataFrame
        By session and turn, what people read first:

        =============== =================== ===== ======================================
        column          dtype               unit  meaning
        =============== =================== ===== ======================================
        asked_at        datetime64[us, UTC]       time of the question
        author          str                       who asked, by name or else id, if the
                                                  events have ``author_name``; where
                                                  several have one name, with a part of
                                                  the id
        status          category                  answered, failed, unanswered or open
        latency_s       float64             s     from `asked_at` to `replied_at`; NaN
                                                  if that is before it
        session_id      str                       the session
        turn            int64                     number within the session, from 1
        message_id      str                       the event that opened the turn; null
                                                  without a question
        reply_id        str                       the event that closed it: reply or
                                                  failure
        author_type     category                  ``author_type`` of the question
        author_id       str                       ``author_id`` of the question
        replied_at      datetime64[us, UTC]       time of the reply or failure
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
        model           str                       language model, of several the last
                                                  one, where the platform sends it;
                                                  likewise all that follows
        input_tokens    Int64                     tokens that models read
        output_tokens   Int64                     tokens that they wrote
        tokens          Int64                     both
        cached_tokens   Int64                     of the input, those that came from a
                                                  prompt cache; ``cache_write_tokens``
                                                  are those that were written to one
        reported_cost   float64                   what the source says that it cost, in
                                                  its currency
        usage_by_model  str                       the tokens by model as JSON, where
                                                  `model` and the sums do not suffice
        =============== =================== ===== ======================================

        Also those of ``workspace_id``, ``agent_id``, ``workspace``, ``agent``,
        ``session``, ``initiator``, ``initiator_type`` and ``initiator_id`` that the
        events have. An initiator is who started the session. And ``link``, if the
        address of sessions is known: see `connect`.

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
    after = parse_length(unanswered_after, "unanswered_after")
    events, columns, assignment = assigned(events, clock, after, caller="turns")
    frame = _table(columns, assignment, clock, texts)
    end = moment_of(events, as_of, "created_at")
    late = (frame["status"] == "open") & (end - frame["asked_at"] > after)
    frame.loc[late, "status"] = "unanswered"
    span = span_in(events, "created_at", since, until)
    frame = rows_in(span, frame, frame["asked_at"].fillna(frame["replied_at"]), caller="turns")
    return with_provenance(
        frame.reset_index(drop=True), events, "turns", as_of=None if pd.isna(end) else end.isoformat(), clock=clock,
        dropped=columns.dropped, **span.details(),
    )  # fmt: skip


def assigned(
    events: Any, clock: str, after: timedelta, *, caller: str
) -> tuple[pd.DataFrame, EventColumns, Assignment]:
    """The events of a history or a table, what they mean for turns, and their turns."""
    if clock not in CLOCKS:
        raise ValueError(f"Unknown clock {clock!r}. Choose one of: {', '.join(CLOCKS)}.")
    events = frame_of(events, caller=caller, resource="turn_events")
    require(events, *dict.fromkeys((*REQUIRED, clock)), caller=caller)
    events = with_instants(events, *INSTANTS, caller=caller)
    columns = read_events(events, caller=caller)
    return events, columns, assign_turns(columns, after)


def turn_events(events: pd.DataFrame, choose: Callable[[pd.DataFrame], pd.Series]) -> pd.DataFrame:
    """The events of some turns, wherever they are; `choose` says which of a table."""
    columns = read_events(events, caller="turns")
    assignment = assign_turns(columns)
    table = _table(columns, assignment, "created_at", texts=False)
    chosen = choose(table).to_numpy(bool)
    part: pd.DataFrame = columns.events[chosen[assignment.turn]].reset_index(drop=True)
    part.attrs = events.attrs
    return part


def is_turns(frame: pd.DataFrame) -> bool:
    """Whether a frame is the result of `turns` rather than events."""
    return isinstance(frame, pd.DataFrame) and {"turn", "asked_at", "status"} <= set(frame.columns)


def is_sessions(frame: pd.DataFrame) -> bool:
    """Whether a frame has a row per session: that of a list, or of a summary."""
    names = set(frame.columns)
    return not {"turn", "message_id", "author_type", "text"} & names and bool({"session_id", "id"} & names)


def people_of(frame: pd.DataFrame) -> pd.Series:
    """Whose session each row of turns or sessions is, which may be one of many.

    The id of the user who started it, or else asked first; of a session that no user
    did, that of the session, because a key or a trigger is not one person.
    """
    session = frame["session_id" if "session_id" in frame else "id"].astype(STR)
    for who in ("initiator", "first_author", "author"):
        if {f"{who}_id", f"{who}_type"} <= set(frame):
            user = frame[f"{who}_id"].astype(STR).where(frame[f"{who}_type"].astype(STR) == "user")
            return user.groupby(session).transform("first").fillna(session)
    return session


def turns_of(data: Any, *, caller: str = "turns", as_of: Any = None) -> pd.DataFrame:
    """The turns of a `History` or of events, or `data` itself if it holds turns.

    With `as_of`, the turns of a `History` are computed again, from its events.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        As for `agentbook.frames.tabular.frame_of`.
    caller : str
        The function called, for error messages.
    as_of : datetime, optional
        As for `turns`.
    """
    frame = frame_of(data, caller=caller, resource="turns" if as_of is None else "turn_events")
    warn_if_empty(frame, caller=caller)
    if is_steps(frame):
        return steps_as_turns(frame)
    return frame if is_turns(frame) else turns(frame, as_of=as_of)


def turns_in(
    data: Any,
    *columns: str,
    caller: str,
    by: Any = None,
    reserved: Iterable[str] = (),
    since: Any = None,
    until: Any = None,
    tz: str | tzinfo | None = None,
    as_of: Any = None,
    or_replied: bool = False,
) -> tuple[pd.DataFrame, list[str], str, Span]:
    """The turns asked in a span, the columns of `by`, the zone's name, and the span.

    The turns have the `columns`, and ``(at)``, which no column to group by is called:
    the time of the question; with `or_replied`, of the reply where there is none.
    """
    table = turns_of(data, caller=caller, as_of=as_of)
    tz = zone_in(tz, table)
    groups = groups_of(by, *reserved, caller=caller, frame=table)
    require(table, *columns, caller=caller)
    instants = [name for name in ("asked_at", "replied_at") if name in ("asked_at", *columns)]
    table = with_instants(table, *instants, caller=caller)
    at = table["asked_at"] if "asked_at" in table else table["replied_at"]
    table = table.assign(**{"(at)": at.fillna(table["replied_at"]) if or_replied else at})
    span = span_in(table, "(at)", since, until, tz=tz)
    return rows_in(span, table, table["(at)"], caller=caller), groups, tz, span


def is_steps(frame: pd.DataFrame) -> bool:
    """Whether a frame is the result of `steps`."""
    return isinstance(frame, pd.DataFrame) and {"step", "started_at", "duration_s", "status"} <= set(frame.columns)


def steps_as_turns(steps: pd.DataFrame) -> pd.DataFrame:
    """Steps, with the columns that analyses read of turns.

    A step that is done counts as an answered turn, and its duration as the latency.
    """
    status = steps["status"].astype("str").replace("done", "answered")
    return steps.assign(
        status=status, asked_at=steps["started_at"], replied_at=steps["ended_at"], latency_s=steps["duration_s"],
        failure=status.where(status != "failed", "error").where(status == "failed"), failure_message=steps.get("error"),
    )  # fmt: skip


def with_sessions(events: Any, sessions: Any, columns: str | Sequence[str] | None = None) -> pd.DataFrame:
    """The events with columns of their sessions, to group by.

    Parameters
    ----------
    events : DataFrame, History, or any other table
        Events, turns or any other frame with a ``session_id``.
    sessions : DataFrame, History, Listing, or any other table
        One row per session with ``session_id`` or ``id``: a loaded list of sessions, or
        ``ab.session_log.sessions()``.
    columns : str or sequence of str, optional
        Columns of `sessions` to add. Default: ``workspace_id`` and ``agent_id``, as far
        as it has them.

    Returns
    -------
    DataFrame
        The rows and the ``attrs`` of `events`. Added values are null for unknown
        sessions, and replace a column of the same name. ``attrs["agentbook"]
        ["unlabelled"]`` counts the rows without a row in `sessions`.

    Raises
    ------
    ValueError
        If a column is missing (the message names it), or if `sessions` has a session
        twice with different values.
    TypeError
        If an argument is not a table; the message names the call that makes one.

    Notes
    -----
    Events do not carry their workspace or agent; sessions carry their workspace.
    Specification: "Resources and their fields", Session event; Session.

    Examples
    --------
    >>> events = pd.DataFrame({"session_id": ["s1", "s2", "s1"]})
    >>> sessions = pd.DataFrame({"id": ["s1"], "workspace_id": ["w1"]})
    >>> with_sessions(events, sessions)["workspace_id"].fillna("?").to_list()
    ['w1', '?', 'w1']
    """
    events = events_of(events, caller="with_sessions")
    sessions = frame_of(sessions, caller="with_sessions (sessions)", resource="sessions")
    key = "session_id" if "session_id" in sessions else "id"
    if columns is None:
        names = [name for name in _OF_SESSIONS if name in sessions]
    else:
        names = [columns] if isinstance(columns, str) else list(dict.fromkeys(columns))
    if key in names:
        raise ValueError(f"with_sessions looks up sessions by {key!r}: columns= names other columns to add.")
    require(events, "session_id", caller="with_sessions")
    require(sessions, key, *names, caller="with_sessions (sessions)")
    if not names:
        raise ValueError(
            f"with_sessions finds none of {', '.join(_OF_SESSIONS)} in the frame of sessions: name others with columns=."
        )
    labels = sessions[[key, *names]].dropna(subset=key).drop_duplicates()
    repeated = labels[key].duplicated()
    if repeated.any():
        raise ValueError(
            f"The frame of sessions has {labels.loc[repeated, key].iloc[0]!r} twice, "
            f"with different values of {', '.join(names)}."
        )
    rows = _rows_of(events["session_id"], labels[key])
    labelled = with_details(events, unlabelled=int((rows < 0).sum()))
    return labelled.assign(**{name: rows_at(labels[name], rows).set_axis(events.index) for name in names})


def _rows_of(sessions: pd.Series, known: pd.Series) -> Any:
    """The position of each session among those known; -1 for an unknown one.

    The case of UUIDs does not matter: loads write them in lower case, and a list of
    sessions has them as the platform does.
    """
    rows = pd.Index(known).get_indexer(pd.Index(sessions))
    missing = (rows < 0) & sessions.notna().to_numpy()
    if missing.any():
        in_lower_case = pd.Index([normalize(str(session)) for session in known])
        codes, distinct = pd.factorize(sessions[missing])
        missing_ids = pd.Index([normalize(str(session)) for session in distinct])
        if in_lower_case.is_unique:
            rows[missing] = in_lower_case.get_indexer(missing_ids)[codes]
    return rows


def _table(columns: EventColumns, assignment: Assignment, clock: str, texts: bool) -> pd.DataFrame:
    events, turn, starts = columns.events, assignment.turn, assignment.starts
    count = len(starts)
    last = assignment.ends
    ending = last[last >= 0]
    failing = ending[columns.fails[ending]]
    reply = np.where((last >= 0) & ~np.append(columns.fails, False)[last], last, -1)
    failures = [columns.failures[int(row)] for row in failing]
    failure = np.full(count, -1, np.int64)
    failure[turn[failing]] = np.arange(len(failures))
    question = np.where(columns.opens[starts], starts, -1)
    asked_at, replied_at = rows_at(events[clock], question), rows_at(events[clock], last)
    status = np.where(failure >= 0, 1, np.where(reply >= 0, 0, 3))
    latency = (replied_at - asked_at).dt.total_seconds()
    subtask = columns.done & ~columns.has_text & ~columns.opens & ~columns.fails
    table: dict[str, Any] = {
        "session_id": pd.Series(columns.sessions[columns.session[starts]], dtype=STR),
        "turn": assignment.number,
        "message_id": rows_at(events["id"], question),
        "reply_id": rows_at(events["id"], last),
        "author_type": rows_at(events["author_type"], question),
        "author_id": rows_at(events.get("author_id", pd.Series(None, events.index, dtype=STR)), question),
        "asked_at": asked_at,
        "replied_at": replied_at,
        "latency_s": latency.where(latency >= 0),
        "status": category(status, STATUSES),
        "failure": _kinds(failures, failure),
        "failure_status": rows_at(pd.Series([failure.status for failure in failures], dtype=pd.Int64Dtype()), failure),
        "failure_message": rows_at(pd.Series([failure.message for failure in failures], dtype=STR), failure),
        "matched_by": category(assignment.rule, RULES),
        "events": np.bincount(turn, minlength=count),
        "subtasks": np.bincount(turn[subtask], minlength=count),
        "tasks": _count_tasks(turn, assignment.tasks, count),
        "prompt_chars": _lengths(events["text"], question).fillna(0),
        "reply_chars": _lengths(events["text"], reply),
        **turn_tokens(columns, turn, assignment.closes, count),
    }
    if "author_name" in events:
        names = rows_at(events["author_name"], question).astype(STR)
        table["author"] = tell_apart(names, table["author_id"])
    if texts:
        table["prompt"], table["reply"] = rows_at(events["text"], question), rows_at(events["text"], reply)
    for name in LABELS:
        if name in events:
            table[name] = rows_at(events[name], starts)
    return people_first(pd.DataFrame(table, copy=False))


def people_first(table: pd.DataFrame) -> pd.DataFrame:
    """The turns with the columns that people read first in front."""
    first = [name for name in _FIRST if name in table]
    return table[[*first, *(name for name in table.columns if name not in first)]]


def _kinds(failures: Sequence[Failure], numbers: Integers) -> pd.Categorical:
    """The kind of the failure with each number; null for -1."""
    kinds = [failure.kind for failure in failures]
    categories = sorted(set(kinds))
    codes = np.array([*map(categories.index, kinds), -1], np.int64)
    return category(codes[numbers], categories)


def _lengths(texts: pd.Series, rows: Integers) -> pd.Series:
    """The characters of the texts at these row numbers; null without one."""
    lengths = pc.utf8_length(to_arrow(rows_at(texts, rows))).cast(pa.int64())
    return pd.Series(lengths.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get))


def _count_tasks(turn: Integers, tasks: Integers, count: int) -> Integers:
    """Number of distinct tasks of each turn."""
    rows = np.flatnonzero(tasks >= 0)
    pairs = np.sort(turn[rows] * (tasks.max(initial=0) + 1) + tasks[rows])
    is_new = np.diff(pairs, prepend=-1) > 0
    return np.bincount(pairs[is_new] // (tasks.max(initial=0) + 1), minlength=count)


def tell_apart(names: pd.Series, ids: pd.Series) -> pd.Series:
    """The names; those that several ids share, with the beginning of the id.

    Who has no name is called by the id.

    Examples
    --------
    >>> names = pd.Series(["ci", "ci", "ada"], dtype="str")
    >>> tell_apart(names, pd.Series(["0a1b2c3d4e", "9f8e7d6c5b", "u1"])).to_list()
    ['ci (0a1b2c3d)', 'ci (9f8e7d6c)', 'ada']
    >>> ids = pd.Series(["019a0b1c-0000-7000", "019a0b1c-0001-7000"])
    >>> tell_apart(names[:2], ids).to_list()
    ['ci (019a0b1c-0000)', 'ci (019a0b1c-0001)']
    """
    names = names.fillna(ids.astype(STR))
    pairs = pd.DataFrame({"name": names.array, "id": ids.array}).dropna().drop_duplicates()
    pairs = pairs[pairs["name"].duplicated(keep=False)]
    if pairs.empty:
        return names
    # UUIDs of the same minute begin alike.
    length = next((n for n in (8, 13, 23) if not pairs.assign(id=pairs["id"].str.slice(0, n)).duplicated().any()), None)
    return names.mask(names.isin(pairs["name"]) & ids.notna(), names + " (" + ids.str.slice(0, length) + ")")


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
        Number of rows left out: drafts, rows without an id or a session, repeated ids.
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
    ordered, session, sessions = in_order(events, caller=caller)
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
    """Persisted events by session and id, without reading what they mean for turns.

    It warns in the name of `caller` if there are none.
    """
    warn_if_empty(events, caller=caller)
    return in_order(events, caller=caller)[0]


def in_order(events: pd.DataFrame, *, caller: str) -> tuple[pd.DataFrame, Integers, pd.Index]:
    """Persisted events by session and id, their session numbers, and the sessions.

    Drafts and repeated ids are dropped, and rows without an id or a session, with a
    warning in the name of `caller`. Sessions are numbered in order of first appearance.
    """
    require(events, *REQUIRED, caller=caller)
    events = with_instants(events, *INSTANTS, caller=caller)
    numbers, sessions = pd.factorize(events["session_id"])
    codes = numbers.astype(np.int64)
    if events["id"].dtype != STR:
        events = events.assign(id=events["id"].astype(STR))
    ids = pc.ascii_lower(to_arrow(events["id"]))
    is_usual = rows_with(ids, _UUID7)
    is_draft = matches(as_category(events["type"]), lambda name: "draft" in name.lower()) | rows_with(ids, r"\Adraft")
    keep = ~is_draft & (codes >= 0) & events["id"].notna().to_numpy()
    if lost := int((~keep & ~is_draft).sum()):
        warn_caller(
            f"{caller}: {lost:,} of {len(keep):,} rows have no id or no session: they are left out.", UserWarning
        )
    elif len(keep) and not keep.any():
        warn_caller(f"{caller}: all {len(keep):,} rows are drafts, so the result is empty.", EmptyWarning)
    if (keep & is_usual).all() and (codes[1:] >= codes[:-1]).all() and _ascend(ids, codes):
        return events, codes, pd.Index(sessions)
    rows = np.flatnonzero(keep)
    rows = rows[~pd.DataFrame({"session": codes[rows], "id": ids.take(pa.array(rows)).to_pandas()}).duplicated()]
    by_time = np.isin(codes[rows], codes[rows[~is_usual[rows]]])
    ids = ids.take(pa.array(rows))
    moments = events["created_at"].iloc[rows].dt.tz_localize(None)
    at = np.where(by_time & moments.notna(), moments.to_numpy("datetime64[us]").astype(np.int64), by_time * _LATEST_US)
    # Of events of one time, those with numbers as ids ascend; others stay as they are.
    numbered = np.flatnonzero(by_time & rows_with(ids, _NUMBER))
    number = np.zeros(len(rows), np.int64)
    number[numbered] = ids.take(pa.array(numbered)).cast(pa.int64()).to_numpy(zero_copy_only=False)
    place = np.empty(len(rows), np.int64)
    place[pc.sort_indices(ids).to_numpy()] = np.arange(len(rows))
    place = np.where(by_time, np.arange(len(rows)), place)
    order = np.lexsort((place, number, at, codes[rows]))
    return events.iloc[rows[order]], codes[rows[order]], pd.Index(sessions)


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
    ends : ndarray of int64
        The row of the event that ended each turn; -1 if none has.
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
    ends: Integers
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
    turn, turn_after, rule_of, end_of = [], [], {}, {}
    base, turns = 0, TurnRule(unanswered_after)
    answering = columns.answers & ~columns.fails
    for row, first, task, us, opens, is_closing, answers, is_followed in zip(
        rows.tolist(), columns.first[rows].tolist(), tasks[rows].tolist(), at_us.tolist(), columns.opens[rows].tolist(),
        closes[rows].tolist(), answering[rows].tolist(), followed.tolist(), strict=True,
    ):  # fmt: skip
        if first:
            base, turns = base + turns.count, TurnRule(unanswered_after)
        number, matched_by, ended = turns.read(
            task if task >= 0 else None, us, opens=opens, closes=is_closing, answers=answers
        )
        turn.append(base + number)
        if matched_by is not None:
            rule_of[base + number] = RULES.index(matched_by)
        if ended:
            end_of[base + number] = row
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
    ends = np.full(len(starts), -1, np.int64)
    ends[list(end_of)] = list(end_of.values())
    return Assignment(of_row, starts, number, closes, ends, tasks, rule)


def _microseconds(events: pd.DataFrame, rows: Integers) -> Integers:
    """`created_at` in microseconds since the epoch, else the time in the id, if any."""
    moments = events["created_at"].iloc[rows].dt.tz_localize(None)
    if (missing := moments.isna()).any():
        in_ids = instants_of_ids(to_arrow(events["id"].iloc[rows[missing]]))
        moments[missing] = in_ids.to_numpy(zero_copy_only=False)
    times: Integers = moments.ffill().fillna(pd.Timestamp(0)).to_numpy("datetime64[us]").astype(np.int64)
    return times


class _Event(msgspec.Struct, gc=False):
    usage: dict[str, Any] | None = None
    model: Any = None


_decode = msgspec.json.Decoder(_Event).decode


def turn_tokens(columns: EventColumns, turn: Integers, closes: Flags, count: int) -> dict[str, Any]:
    """The columns of what the events of each turn used; see `sum_usage`.

    Unknown fields of all events are read, and the contents of those that close a turn.
    """
    usages: dict[int, dict[int, tuple[Any, Any]]] = {}
    for row, event in _events_with_usage(columns, closes):
        if event.usage:  # beside the content, before the same in it
            usages.setdefault(int(turn[row]), {}).setdefault(row, (event.usage, event.model))
    used = {position: sum_usage(each.values()) for position, each in usages.items()}
    dtypes: dict[str, Any] = {"model": STR, **dict.fromkeys(COUNTS, "Int64"), "reported_cost": "float64", BY_MODEL: STR}
    return {
        name: pd.Series([each[name] for each in used.values()], [*used], dtype=dtype).reindex(range(count))
        for name, dtype in dtypes.items()
    }


def _events_with_usage(columns: EventColumns, closes: Flags) -> list[tuple[int, _Event]]:
    events, texts = columns.events, []
    for name, rows in (("extra", np.arange(len(closes))), ("content", np.flatnonzero(closes))):
        if name in events:
            column = to_arrow(events[name].iloc[rows])
            named = np.flatnonzero(rows_with(column, '"usage"'))
            texts += list(zip(rows[named].tolist(), column.take(pa.array(named)).to_pylist(), strict=True))
    decoded = []
    for row, text in sorted(texts, key=lambda pair: pair[0]):
        with contextlib.suppress(msgspec.DecodeError, RecursionError, UnicodeError):
            decoded.append((row, _decode(text)))
    return decoded
