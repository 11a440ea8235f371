"""The demo's sessions as events: waiting times, subtasks, failures and late edits."""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection

from ..engines.run_limits import RUN_FAILURES, failure
from ..store import tables
from . import event_json
from .people import People
from .schedule import SessionPlan, in_incident, plan_sessions
from .seeded_rows import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, SeededIds, insert, insert_tuples
from .texts import Exchange, fill, follow_ups, thread_values, threads
from .workspaces import Workspaces

# Median seconds for a subtask, and for writing the reply.
_SPEED: dict[str, tuple[float, float]] = {
    "data-desk": (2.4, 4.0),
    "helpdesk": (0.9, 2.2),
    "guide": (0.2, 1.6),
    "analyst": (0.3, 1.2),
    "echo": (0.1, 0.4),
}
_USUAL_SPEED = (1.3, 2.8)
# data-desk's version 2.0.0, released nine days ago, made it careful and slow.
_SLOWER_SINCE_DAYS, _SLOWER_FACTOR = 9, 2.6
_FAILURE_RATE, _FAILURE_RATE_IN_INCIDENT, _UNANSWERED_RATE, _EDITED_RATE = 0.018, 0.34, 0.008, 0.004
_SECOND_THREAD_RATE = 0.42
_USUAL_FAILURES = {
    "error": 9, "turn_timeout": 7, "llm_calls": 5, "llm_tokens": 5, "tool_fan_out": 4, "budget": 3, "agent_tasks": 2,
    "synchronous_steps": 2, "llm_request_size": 2, "state_size": 1,
}  # fmt: skip
_INCIDENT_FAILURES = {"error": 6, "turn_timeout": 9, "llm_calls": 2}

Outcome = Literal["answered", "failed", "unanswered"]
Dialogue = list[tuple[Exchange, dict[str, str]]]  # each exchange with the values of its slots


class EventRow(NamedTuple):
    """A row of the table ``events``."""

    session_id: str
    id: str
    type: str
    task_id: str
    author_type: str
    created_at: str
    size_bytes: int
    wire: str


@dataclass(frozen=True, slots=True)
class AnsweredTask:
    """A task that was answered, from which a workspace context may be generated."""

    workspace: str
    id: str
    session_name: str
    answered_ms: int


@dataclass(slots=True)
class _HistoryBuilder:
    """Builds the rows of one session after another.

    `due_failures` are the kinds to use before any others, so that every kind occurs
    with any seed.
    """

    seeded: SeededIds
    people: People
    workspaces: Workspaces
    now_ms: int
    due_failures: deque[str]

    @property
    def rng(self) -> random.Random:
        return self.seeded.rng

    def session(self, plan: SessionPlan) -> tuple[dict[str, Any], list[EventRow], list[AnsweredTask]]:
        """The session's row, its events' rows, and its answered tasks."""
        id_ = self.seeded.id(plan.started_ms)
        values = thread_values(plan.thread, self.rng)
        name = fill(plan.thread.name, values, self.rng)
        events: list[EventRow] = []
        tasks: list[AnsweredTask] = []
        at = plan.started_ms + self.rng.randint(2, 40)
        for number, (exchange, slots) in enumerate(self._dialogue(plan, values)):
            speaker = plan.initiator if number == 0 else plan.speaker
            turn, ended, outcome = self._turn(id_, plan, exchange, speaker, slots, at)
            if ended > self.now_ms - MINUTE_MS:
                # The turn would end in the future. If it is the first, it is still
                # running; a later one has not been started.
                limit = self.seeded.instant(self.now_ms - MINUTE_MS)
                events = events or [event for event in turn if event.created_at <= limit]
                break
            events += turn
            if outcome == "answered":
                tasks.append(AnsweredTask(plan.workspace, turn[-1].task_id, name, ended))
            if outcome == "unanswered" or (outcome == "failed" and self.rng.random() < 0.55):
                break
            at = ended + self._thinking_ms(plan)
        row = {
            "id": id_,
            "workspace_id": self.workspaces.ids[plan.workspace],
            "agent_id": self.workspaces.agent_ids[plan.agent],
            "type": plan.type,
            "initiator_id": self.people.author(*plan.initiator)["id"],
            "initiator_type": plan.initiator[0],
            "name": None if self.rng.random() < 0.08 else name,
            "created_at": self.seeded.instant(plan.started_ms),
            "updated_at": events[-1].created_at,
        }
        return row, events, tasks

    def _dialogue(self, plan: SessionPlan, values: dict[str, str]) -> Dialogue:
        """The exchanges of a session.

        People often bring up a second thread, and sometimes a third.
        """
        dialogue = [(exchange, values) for exchange in plan.thread.exchanges]
        if plan.type in {"time", "api_trigger", "agent_test"}:
            return dialogue
        if plan.type == "webhook":
            return dialogue if self.rng.random() < 0.55 else dialogue[:1]
        count = len(dialogue)
        dialogue = dialogue[: max(1, round(self.rng.triangular(1, count + 0.4, count)))]
        dialogue += self._follow_ups(values)
        while self.rng.random() < _SECOND_THREAD_RATE:
            thread = self.rng.choice(threads(plan.workspace))
            fresh = thread_values(thread, self.rng)
            dialogue += [(exchange, fresh) for exchange in thread.exchanges]
            dialogue += self._follow_ups(fresh)
        return dialogue

    def _follow_ups(self, values: dict[str, str]) -> Dialogue:
        count = min(len(follow_ups()), int(self.rng.expovariate(0.5)))
        return [(exchange, values) for exchange in self.rng.sample(follow_ups(), count)]

    def _thinking_ms(self, plan: SessionPlan) -> int:
        """Milliseconds until the next message; occasionally it comes hours later."""
        if self.rng.random() < 0.03:
            return self.rng.randint(1, 20) * HOUR_MS
        return int(self._lognormal(75 if plan.speaker[0] == "user" else 30, 0.8) * SECOND_MS) + 900

    def _lognormal(self, median: float, sigma: float) -> float:
        return self.rng.lognormvariate(math.log(median), sigma)

    def _turn(
        self,
        session_id: str,
        plan: SessionPlan,
        exchange: Exchange,
        speaker: tuple[str, str],
        values: dict[str, str],
        at: int,
    ) -> tuple[list[EventRow], int, Outcome]:
        """The events of one turn, when it ended, and how."""
        task = self.seeded.id(at)
        person = event_json.encode(self.people.author(*speaker))
        agent = event_json.author("agent", self.workspaces.agent_ids[plan.agent], plan.agent)
        message = event_json.text_content(fill(exchange.ask, values, self.rng))
        events = [self._event(session_id, at, "message", message, task, speaker[0], person)]
        outcome = self._outcome(plan, at)
        slowness = self._slowness(plan, at)
        step_s, reply_s = _SPEED.get(plan.agent, _USUAL_SPEED)
        # Some answers take extra subtasks, so the same question does not always have
        # the same number of them.
        subtasks = len(exchange.tools) + self.rng.choices((0, 1, 2), (5, 3, 1))[0]
        for number in range(subtasks if outcome == "answered" else self.rng.randint(0, subtasks)):
            started = at + 2
            at += int(self._lognormal(step_s * slowness, 0.5) * SECOND_MS) + 5
            tool = exchange.tools[number % len(exchange.tools)] if exchange.tools else "think"
            step = event_json.step_field(tool, self.seeded.instant(started), self.seeded.instant(at))
            subtask = self.seeded.id(started)
            events.append(self._event(session_id, at, "runtime_done", "{}", subtask, "agent", agent, step))
        if outcome == "unanswered":
            return events, at, outcome
        at += int(self._lognormal(reply_s * slowness, 0.45) * SECOND_MS) + 5
        if outcome == "failed":
            kind = self._failure_kind(at)
            if kind == "turn_timeout":
                at += self.rng.randint(570, 600) * SECOND_MS
            content = _failure_content(kind, plan.workspace)
            events.append(self._event(session_id, at, "runtime_error", content, task, "agent", agent))
        else:
            content = event_json.text_content(fill(exchange.reply, values, self.rng))
            events.append(self._event(session_id, at, "runtime_done", content, task, "agent", agent))
        return events, at, outcome

    def _event(
        self,
        session_id: str,
        at: int,
        kind: str,
        content: str,
        task: str,
        author_type: str,
        author: str,
        step: str = "",
    ) -> EventRow:
        id_, created = self.seeded.id(at), self.seeded.instant(at)
        updated = created
        if kind == "message" and self.rng.random() < _EDITED_RATE:
            # A late edit: the author corrected the message.
            updated = self.seeded.instant(min(self.now_ms, at + self.rng.randint(40, 9_000) * SECOND_MS))
        json_text = event_json.event(id_, kind, content, task, author, created, updated, step)
        return EventRow(session_id, id_, kind, task, author_type, created, len(json_text.encode()), json_text)

    def _outcome(self, plan: SessionPlan, at: int) -> Outcome:
        chance = self.rng.random()
        failure_rate = _FAILURE_RATE_IN_INCIDENT if in_incident(at, self.now_ms) else _FAILURE_RATE
        if self.due_failures and at > self.now_ms - 30 * DAY_MS:
            failure_rate = max(failure_rate, 0.05)
        if chance < failure_rate and plan.agent != "echo":
            return "failed"
        return "unanswered" if chance > 1 - _UNANSWERED_RATE else "answered"

    def _slowness(self, plan: SessionPlan, at: int) -> float:
        factor = 3.2 if in_incident(at, self.now_ms) else 1.0
        if plan.agent == "data-desk" and at > self.now_ms - _SLOWER_SINCE_DAYS * DAY_MS:
            factor *= _SLOWER_FACTOR
        return factor

    def _failure_kind(self, at: int) -> str:
        if self.due_failures:
            return self.due_failures.popleft()
        weights = _INCIDENT_FAILURES if in_incident(at, self.now_ms) else _USUAL_FAILURES
        return self.rng.choices(list(weights), list(weights.values()))[0]


def _failure_content(kind: str, workspace: str) -> str:
    if kind == "error":
        return event_json.failure_content(500, "ServerError", "Something went wrong")
    run_failure = failure(kind, workspace)
    return event_json.failure_content(run_failure.status, run_failure.error, run_failure.message)


def write_history(
    connection: Connection, seeded: SeededIds, now_ms: int, people: People, workspaces: Workspaces
) -> list[AnsweredTask]:
    """Write sessions and their events; return the answered tasks."""
    due_failures = [*RUN_FAILURES, "error"]
    seeded.rng.shuffle(due_failures)
    builder = _HistoryBuilder(seeded, people, workspaces, now_ms, deque(due_failures))
    session_rows: list[dict[str, Any]] = []
    event_rows: list[EventRow] = []
    tasks: list[AnsweredTask] = []
    for plan in plan_sessions(seeded.rng, now_ms):
        session_row, session_events, session_tasks = builder.session(plan)
        session_rows.append(session_row)
        event_rows += session_events
        tasks += session_tasks
    insert(connection, tables.sessions, session_rows)
    insert_tuples(connection, tables.events, EventRow._fields, event_rows)
    return tasks
