"""The rule of `agentbook.events.pairing` on whole columns, without a loop over rows.

A question is open from its own row to the row of its reply, and counts until it is
abandoned. Once each question has such an end, one search gives the question of every
event: the oldest one that has not ended (`_Waiting`). So the replies are first paired
provisionally, as if each queue were first come, first served, and the search then
checks these pairs. Sessions where it disagrees are read event by event, by the rule
itself. Such sessions are rare: their questions overlap for longer than the patience, or
tasks and order compete for the same question.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pandas as pd

from ...api.event_ids import milliseconds_of
from ...events.pairing import UNANSWERED_AFTER, OpenQuestions
from .event_columns import EventColumns, Flags, Integers

NONE = -1


@dataclass(slots=True)
class Pairs:
    """The question of each event.

    Attributes
    ----------
    question : ndarray of int64
        The row that opened the event's turn (for a question, its own row); -1 if the
        event can belong to no open question.
    by_task : ndarray of bool
        Whether it was found by the task rather than by the order.
    """

    question: Integers
    by_task: Flags


def pair_events(
    columns: EventColumns, tasks: Integers, closes: Flags, patience: timedelta | pd.Timedelta = UNANSWERED_AFTER
) -> Pairs:
    """Find the question of each event.

    Parameters
    ----------
    columns : EventColumns
    tasks : ndarray of int64
        The number of each event's ``task_id``; -1 for none.
    closes : ndarray of bool
        Whether an event is a reply or a failure.
    patience : timedelta
        A question is abandoned when another one is asked more than this after it.
    """
    asks = columns.opens | (columns.first & ~closes)  # the agent may begin a session
    session = _dense(columns)
    patience_us = int(pd.Timedelta(patience) // pd.Timedelta(microseconds=1))
    asking = np.flatnonzero(asks)
    questions = _Questions(columns, session, asking, np.where(columns.opens[asking], tasks[asking], NONE), patience_us)
    # Any other event belongs to the oldest question, and changes nothing.
    rows = np.flatnonzero(~asks & (closes | questions.have_question(tasks)))
    events = _Events(rows, session[rows], tasks[rows], closes[rows])
    tasks_of = questions.task_numbers(events)
    reply_rows = questions.provisional_reply_rows(events, *tasks_of)
    pairs = Pairs(questions.oldest_by_row(reply_rows), np.zeros(len(asks), np.bool_))
    matches, by_task = questions.match(events, pairs.question[rows], reply_rows, *tasks_of)
    pairs.question[rows], pairs.by_task[rows] = matches, by_task
    pairs.question[asking] = asking
    wrong = events.closes & (matches != _questions_of(events, reply_rows, questions.rows))
    if wrong.any():
        uneven = np.isin(session, events.session[wrong])
        _read_one_by_one(np.flatnonzero(uneven), columns, questions, tasks, closes, pairs)
    return pairs


def _dense(columns: EventColumns) -> Integers:
    """The number of each row's session, counting only sessions that have rows."""
    numbers = columns.session
    dense = not len(numbers) or numbers[-1] + 1 == np.count_nonzero(columns.first)
    return numbers if dense else np.cumsum(columns.first) - 1


@dataclass(slots=True)
class _Events:
    """Events that close a turn or have a question's task, and are not questions."""

    rows: Integers
    session: Integers
    task: Integers
    closes: Flags


def _questions_of(events: _Events, reply_rows: Integers, questions: Integers) -> Integers:
    """The row of the question that each event closes, -1 for none."""
    closed = np.full(int(events.rows.max(initial=0)) + 1, NONE, np.int64)
    answered = reply_rows >= 0
    closed[reply_rows[answered]] = questions[answered]
    return closed[events.rows]


class _Questions:
    """The questions of all sessions, in order, and when each is abandoned.

    Attributes
    ----------
    rows, session, task, question_us : ndarray of int64
    abandoned_at : ndarray of int64
        The row of the later question at which a question is abandoned; the end of its
        session if it never is.
    segment : ndarray of int64
        For every event, how many times before it all earlier questions had been
        abandoned or a session began.
    """

    def __init__(
        self, columns: EventColumns, session: Integers, rows: Integers, tasks: Integers, patience_us: int
    ) -> None:
        self.rows, self.session, self.task = rows, session[rows], tasks
        self.patience_us = patience_us
        self.question_us = _microseconds(columns, rows)
        starts = np.flatnonzero(columns.first)
        self.session_end = np.append(starts[1:], len(session))[self.session]
        self.abandoned_at = self._abandonments()
        breaks = columns.first.copy()
        breaks[rows[1:]] |= np.maximum.accumulate(self.abandoned_at)[:-1] <= rows[1:]
        self.segment: Integers = np.cumsum(breaks, dtype=np.int64)

    def _abandonments(self) -> Integers:
        """For each question, the row of the first one asked after the patience ends."""
        count = len(self.rows)
        begin = np.flatnonzero(np.concatenate(([True], self.session[1:] != self.session[:-1])))[:count]
        if not count or not np.any(
            np.maximum.reduceat(self.question_us, begin) - np.minimum.reduceat(self.question_us, begin)
            > self.patience_us
        ):
            return self.session_end
        # latest[k][i] is the greatest time of the 2**k questions from i on. Each
        # question skips ever smaller blocks in which nothing is late enough.
        latest, longest = [self.question_us], int(np.diff(np.append(begin, count)).max())
        while 1 << len(latest) <= longest:
            half = 1 << (len(latest) - 1)
            latest.append(np.maximum(latest[-1][:-half], latest[-1][half:]))
        later, limit = np.arange(1, count + 1), self.question_us + self.patience_us
        for level in reversed(range(len(latest))):
            block = latest[level][np.minimum(later, len(latest[level]) - 1)]
            later += ((later + (1 << level) <= count) & (block <= limit)) << level
        rows: Integers = np.minimum(np.append(self.rows, np.iinfo(np.int64).max)[later], self.session_end)
        return rows

    def provisional_reply_rows(self, events: _Events, numbers: Integers, group: Integers) -> Integers:
        """The row of each question's reply, -1 for none, as if none were abandoned.

        `numbers` and `group` are the results of `task_numbers`.
        """
        reply_rows = np.full(len(self.rows), NONE, np.int64)
        closing = np.flatnonzero(events.closes)
        by_task = closing[group[closing] >= 0]
        with_task = np.flatnonzero(numbers >= 0)
        shared = np.bincount(numbers[with_task]) > 1
        keys: list[Integers] = []
        for groups, rows in ((numbers[with_task], self.rows[with_task]), (group[by_task], events.rows[by_task])):
            # Questions of one task that are far apart form separate queues.
            keys.append(groups * (len(self.segment) + 1) + np.where(shared[groups], self.segment[rows], 0))
        pair_in_order(self.rows[with_task], events.rows[by_task], keys[0], keys[1], with_task, reply_rows)
        rest = np.flatnonzero(reply_rows < 0)
        taken = np.zeros(len(self.segment), np.bool_)
        taken[reply_rows[reply_rows >= 0]] = True
        other = closing[~taken[events.rows[closing]]]
        pair_in_order(
            self.rows[rest], events.rows[other],
            self.segment[self.rows[rest]], self.segment[events.rows[other]],
            rest, reply_rows,
        )  # fmt: skip
        return reply_rows

    def have_question(self, tasks: Integers) -> Flags:
        """Which events have the task of a question."""
        has_question = np.zeros(int(max(self.task.max(initial=0), tasks.max(initial=0))) + 2, np.bool_)
        has_question[self.task[self.task >= 0]] = True
        flags: Flags = has_question[tasks]  # a task of -1 is the last, never asked
        return flags

    def task_numbers(self, events: _Events) -> tuple[Integers, Integers]:
        """The number of each question's task, and of each event's; -1 for none.

        A task is numbered if a question and another event of one session share it.
        """
        numbers = np.full(len(self.rows), NONE, np.int64)
        group = np.full(len(events.rows), NONE, np.int64)
        with_task = np.flatnonzero(self.task >= 0)
        candidates = np.flatnonzero(self.have_question(events.task))
        width = int(max(self.task.max(initial=0), events.task.max(initial=0))) + 2
        if len(candidates):
            keys, numbers[with_task] = np.unique(
                self.session[with_task] * width + self.task[with_task], return_inverse=True
            )
            key = events.session[candidates] * width + events.task[candidates]
            at = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
            group[candidates] = np.where(keys[at] == key, at, NONE)
        return numbers, group

    def oldest_by_row(self, reply_rows: Integers) -> Integers:
        """The oldest question that waits at each row; -1 for none."""
        last = len(self.segment) - 1
        ends = np.maximum.accumulate(np.minimum(self._answered_at(reply_rows), self.abandoned_at))
        ends = np.minimum(ends, last)
        # The oldest question at a row is the first one whose end is not before the row.
        # So each question has the rows from the previous end on, except those up to its
        # own row.
        counts = np.diff(ends, prepend=NONE)
        before = np.clip(self.rows - (ends - counts), 0, counts)
        values = np.full(2 * len(ends) + 1, NONE, np.int64)
        values[1:-1:2] = self.rows
        repeats = np.empty_like(values)
        repeats[:-1:2], repeats[1:-1:2] = before, counts - before
        repeats[-1] = last - (ends[-1] if len(ends) else NONE)
        return np.repeat(values, repeats)

    def _answered_at(self, reply_rows: Integers) -> Integers:
        return np.where(reply_rows >= 0, reply_rows, self.session_end)

    def match(
        self, events: _Events, oldest: Integers, reply_rows: Integers, numbers: Integers, group: Integers
    ) -> tuple[Integers, Flags]:
        """The question of each event, given the replies, and whether its task decided.

        `oldest` is the question that has waited longest.
        """
        answered_at = self._answered_at(reply_rows)
        waits_until = np.minimum(answered_at, self.abandoned_at)
        matches = oldest.copy()
        by_task = np.zeros(len(matches), np.bool_)
        if not (group >= 0).any():
            return matches, by_task
        order = np.lexsort((self.rows, numbers))
        order = order[numbers[order] >= 0]
        rows, numbers = self.rows[order], numbers[order]
        same = np.flatnonzero(group >= 0)
        at, number = events.rows[same], group[same]
        own = _Waiting(rows, waits_until[order], numbers).oldest(at, number)
        own = np.where(own >= 0, own, _Waiting(rows, answered_at[order], numbers).oldest(at, number))
        # If all questions of a task have their replies, an event of that task gets none
        # of another task.
        came_before = rows[np.searchsorted(numbers, number)] < at
        free = self.task < 0
        without_task = _Waiting(self.rows[free], waits_until[free]).oldest(at)
        matches[same] = np.where(own >= 0, own, np.where(came_before, without_task, matches[same]))
        by_task[same] = own >= 0
        return matches, by_task


class _Waiting:
    """Finds the oldest question that waits at a row, within its group if there are any.

    Questions are in order of group and row. The running maximum of the ends first
    passes a row at the oldest question that has not ended there.
    """

    def __init__(self, rows: Integers, ends: Integers, groups: Integers | None = None) -> None:
        self.rows = np.append(rows, np.iinfo(np.int64).max)
        self.groups = None if groups is None else np.append(groups, NONE)
        self.width = int(ends.max(initial=0)) + 2
        self.ends = np.maximum.accumulate(ends if groups is None else groups * self.width + ends)

    def oldest(self, at: Integers, group: Integers | None = None) -> Integers:
        """The row of the oldest question that waits at each row; -1 for none."""
        limit = at if group is None else group * self.width + at
        index = np.searchsorted(self.ends, limit)
        row = self.rows[index]
        waits = row < at
        if self.groups is not None:
            waits &= self.groups[index] == group
        return np.where(waits, row, NONE)


def pair_in_order(
    questions: Integers,
    closing: Integers,
    question_key: Integers,
    closing_key: Integers,
    numbers: Integers,
    reply_rows: Integers,
) -> None:
    """Pair the k-th question of each key with the k-th reply that finds an open one.

    The length of a queue is a running sum that is never below zero: plus one for a
    question, minus one for a reply. `reply_rows` receives the rows of the replies.
    """
    if not len(questions) or not len(closing):
        return
    key = np.concatenate((question_key, closing_key))
    row = np.concatenate((questions, closing))
    step = np.repeat((1, -1), (len(questions), len(closing)))
    order = np.lexsort((row, key))
    key, row, step = key[order], row[order], step[order]
    first = np.concatenate(([True], key[1:] != key[:-1]))
    start = np.maximum.accumulate(np.where(first, np.arange(len(key)), 0))
    total = np.cumsum(step)
    # Each key starts below everything before it, so that one running minimum serves
    # all of them.
    base = -2 * start
    level = base + total - (total[start] - step[start])
    waiting = level - np.minimum(np.minimum.accumulate(level), base)
    before = np.concatenate(([0], waiting[:-1]))
    before[first] = 0
    is_ask = step > 0
    closes = ~is_ask & (before > 0)
    asks_so_far, closed_so_far = np.cumsum(is_ask), np.cumsum(closes)
    # The number of the question: the count of earlier keys' questions plus its place
    # among its own key's.
    at = np.flatnonzero(closes)
    begin = start[at]
    position = closed_so_far[at] - closed_so_far[begin] + closes[begin] - 1
    asks = np.flatnonzero(is_ask)
    question = asks[asks_so_far[begin] - is_ask[begin] + position]
    reply_rows[numbers[order[question]]] = row[at]


def _microseconds(columns: EventColumns, rows: Integers) -> Integers:
    """`created_at` in microseconds since the epoch, else the time in the id."""
    moments = columns.events["created_at"].dt.tz_localize(None).to_numpy("datetime64[us]")[rows]
    times: Integers = moments.astype(np.int64)
    unknown = np.flatnonzero(np.isnat(moments))
    if len(unknown):
        ids = columns.events["id"].array[rows[unknown]]
        times[unknown] = [milliseconds_of(event_id) * 1000 for event_id in ids]
    return times


def _read_one_by_one(
    rows: Integers, columns: EventColumns, questions: _Questions, tasks: Integers, closes: Flags, pairs: Pairs
) -> None:
    times_us = dict(zip(questions.rows.tolist(), questions.question_us.tolist(), strict=True))
    opens = columns.opens
    waiting: OpenQuestions[int] = OpenQuestions(questions.patience_us)
    for row, task, is_first in zip(rows.tolist(), tasks[rows].tolist(), columns.first[rows].tolist(), strict=True):
        if is_first:
            waiting = OpenQuestions(questions.patience_us)
        if row in times_us:
            waiting.ask(row, task if opens[row] and task >= 0 else None, times_us[row])
            continue
        match = waiting.match(task if task >= 0 else None)
        pairs.question[row] = match[0].question if match else NONE
        pairs.by_task[row] = match is not None and match[1] == "task"
        if match and closes[row]:
            match[0].close()
