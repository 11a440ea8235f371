"""The rule that decides which question an event of a session belongs to.

1. The open question with the same ``task_id``, if both carry one.
2. Else the oldest open question that is not abandoned.

A question is abandoned once a later one is asked more than `UNANSWERED_AFTER` after it.
Otherwise, a run that died without an event would shift every later reply by one. An
event with the task of a question that already has its reply never closes a question of
another task, so a reply that arrives twice shifts nothing.

`OpenQuestions` reads event by event, for `agentbook.events.turns`.
`agentbook.frames.analysis.pairing` computes the same on whole columns.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Generic, TypeVar

UNANSWERED_AFTER = timedelta(minutes=15)

Q = TypeVar("Q")


@dataclass(slots=True, eq=False)
class OpenQuestion(Generic[Q]):
    """A question, with the task that answers it, if known."""

    question: Q
    task_id: Hashable | None
    is_open: bool = True
    is_abandoned: bool = False

    def close(self) -> None:
        """Record that the question has its reply."""
        self.is_open = False


@dataclass(slots=True)
class _Queue(Generic[Q]):
    """Questions, oldest first. Those no longer open are dropped when they come up."""

    waiting: deque[OpenQuestion[Q]] = field(default_factory=deque)
    abandoned: deque[OpenQuestion[Q]] = field(default_factory=deque)

    def oldest(self) -> OpenQuestion[Q] | None:
        """The oldest open question that is not abandoned."""
        while self.waiting and (not self.waiting[0].is_open or self.waiting[0].is_abandoned):
            question = self.waiting.popleft()
            if question.is_open:
                self.abandoned.append(question)
        return self.waiting[0] if self.waiting else None

    def oldest_abandoned(self) -> OpenQuestion[Q] | None:
        """The oldest abandoned open question, once `oldest` finds none."""
        while self.abandoned and not self.abandoned[0].is_open:
            self.abandoned.popleft()
        return self.abandoned[0] if self.abandoned else None


class OpenQuestions(Generic[Q]):
    """The open questions of one session, in the platform's order.

    Parameters
    ----------
    patience_us : int
        A question is abandoned when another one is asked more than this after it, in
        microseconds.
    """

    def __init__(self, patience_us: int = UNANSWERED_AFTER // timedelta(microseconds=1)) -> None:
        self._patience_us = patience_us
        self._all: _Queue[Q] = _Queue()
        self._without_task: _Queue[Q] = _Queue()
        self._by_task: dict[Hashable, _Queue[Q]] = {}
        # The number makes equal times comparable.
        self._by_time: list[tuple[int, int, OpenQuestion[Q]]] = []
        self._count = 0

    def ask(self, question: Q, task_id: Hashable | None, question_us: int) -> OpenQuestion[Q]:
        """Add the newest question; `question_us` is in microseconds since the epoch."""
        while self._by_time and self._by_time[0][0] + self._patience_us < question_us:
            heapq.heappop(self._by_time)[2].is_abandoned = True
        added = OpenQuestion(question, task_id)
        heapq.heappush(self._by_time, (question_us, self._count, added))
        self._count += 1
        self._all.waiting.append(added)
        same_task = self._without_task if task_id is None else self._by_task.setdefault(task_id, _Queue())
        same_task.waiting.append(added)
        return added

    def match(self, task_id: Hashable | None) -> tuple[OpenQuestion[Q], str] | None:
        """The question of an event of this task, and the rule: ``task`` or ``order``.

        None if the event can belong to no open question.
        """
        same_task = self._by_task.get(task_id) if task_id is not None else None
        if same_task is not None:
            question = same_task.oldest() or same_task.oldest_abandoned()
            if question is not None:
                return question, "task"
        question = (self._all if same_task is None else self._without_task).oldest()
        return (question, "order") if question is not None else None
