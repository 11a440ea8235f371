"""What happened: every planned session told as events, with waiting times, subtasks, failures and edits."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from ..engines.run_limits import RUN_FAILURES, failure
from ..store import tables
from . import event_json, schedule, topics
from .people import People
from .plans import Plan, plans
from .rows import insert, insert_tuples
from .seeded_ids import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Mint
from .topics import Exchange, Thread
from .topics.thread import fill, slots
from .workspaces import Places

EVENT_COLUMNS = ("session_id", "id", "type", "task_id", "author_type", "created_at", "wire")

# Median seconds of a subtask, and of writing the reply.
_PACE: dict[str, tuple[float, float]] = {
    "data-desk": (2.4, 4.0),
    "helpdesk": (0.9, 2.2),
    "guide": (0.2, 1.6),
    "analyst": (0.3, 1.2),
    "echo": (0.1, 0.4),
}
_USUAL_PACE = (1.3, 2.8)
# data-desk's version 2.0.0, nine days ago, made it careful and slow.
_SLOWER_SINCE_DAYS, _SLOWER_BY = 9, 2.6
_FAILS, _FAILS_IN_INCIDENT, _NEVER_ANSWERED, _EDITED = 0.018, 0.34, 0.008, 0.004
_ANOTHER_MATTER = 0.42
_USUAL_FAILURES = {
    "error": 9, "turn_timeout": 7, "llm_calls": 5, "llm_tokens": 5, "tool_fan_out": 4, "budget": 3, "agent_tasks": 2,
    "synchronous_steps": 2, "llm_request_size": 2, "state_size": 1,
}  # fmt: skip
_INCIDENT_FAILURES = {"error": 6, "turn_timeout": 9, "llm_calls": 2}


@dataclass(slots=True)
class History:
    """What was written, for whoever builds on it."""

    sessions: int = 0
    events: int = 0
    # (workspace, task id, session name, when it was answered): what contexts are made of
    tasks: list[tuple[str, str, str, int]] = field(default_factory=list)


@dataclass(slots=True)
class _Teller:
    """Tells one session after another."""

    mint: Mint
    people: People
    places: Places
    now_ms: int
    # The first failures go through every kind once, so that each is there whatever the seed.
    owed: deque[str]

    @property
    def rng(self) -> random.Random:
        return self.mint.rng

    def session(self, plan: Plan) -> tuple[dict[str, Any], list[tuple[Any, ...]], list[tuple[str, str, str, int]]]:
        """The session's row, its events' rows, and its answered tasks."""
        id_ = self.mint.id(plan.begins_ms)
        values = self._values(plan.thread)
        name = fill(plan.thread.name, values, self.rng)
        events: list[tuple[Any, ...]] = []
        tasks: list[tuple[str, str, str, int]] = []
        at = plan.begins_ms + self.rng.randint(2, 40)
        for number, (exchange, known) in enumerate(self._exchanges(plan, values)):
            speaker = plan.initiator if number == 0 else plan.speaker
            turn, ended, outcome = self._turn(id_, plan, exchange, speaker, known, at)
            if ended > self.now_ms - MINUTE_MS:
                # It would end in the future: a later turn was not begun yet, a first one is still running.
                begun = [event for event in turn if event[5] <= self.mint.instant(self.now_ms - MINUTE_MS)]
                events = events or begun
                break
            events += turn
            if outcome == "answered":
                tasks.append((plan.workspace, turn[-1][3], name, ended))
            if outcome == "unanswered" or (outcome == "failed" and self.rng.random() < 0.55):
                break
            at = ended + self._thinking(plan)
        row = {
            "id": id_,
            "workspace_id": self.places.workspaces[plan.workspace],
            "agent_id": self.places.agents[plan.agent],
            "type": plan.type,
            "initiator_id": self.people.author(*plan.initiator)["id"],
            "initiator_type": plan.initiator[0],
            "name": None if self.rng.random() < 0.08 else name,
            "created_at": self.mint.instant(plan.begins_ms),
            "updated_at": events[-1][5],
        }
        return row, events, tasks

    def _values(self, thread: Thread) -> dict[str, str]:
        values = slots(self.rng)
        values["gist"] = fill(thread.gist, values, self.rng)
        return values

    def _exchanges(self, plan: Plan, values: dict[str, str]) -> list[tuple[Exchange, dict[str, str]]]:
        """What is said, each with the values of its thread: people often bring up a second matter, some a third."""
        told = [(exchange, values) for exchange in plan.thread.exchanges]
        if plan.type in {"time", "api_trigger", "agent_test"}:
            return told
        if plan.type == "webhook":
            return told if self.rng.random() < 0.55 else told[:1]
        told = self._with_follow_ups(told[: self._kept(plan.thread)], values)
        while self.rng.random() < _ANOTHER_MATTER:
            thread = self.rng.choice(topics.CHATS[plan.workspace])
            fresh = self._values(thread)
            told += self._with_follow_ups([(exchange, fresh) for exchange in thread.exchanges], fresh)
        return told

    def _kept(self, thread: Thread) -> int:
        most = len(thread.exchanges)
        return max(1, round(self.rng.triangular(1, most + 0.4, most)))

    def _with_follow_ups(
        self, told: list[tuple[Exchange, dict[str, str]]], values: dict[str, str]
    ) -> list[tuple[Exchange, dict[str, str]]]:
        more = min(len(topics.FOLLOW_UPS), int(self.rng.expovariate(0.5)))
        return told + [(exchange, values) for exchange in self.rng.sample(topics.FOLLOW_UPS, more)]

    def _thinking(self, plan: Plan) -> int:
        """Milliseconds until somebody writes again; now and then somebody comes back hours later."""
        if self.rng.random() < 0.03:
            return self.rng.randint(1, 20) * HOUR_MS
        return int(self._spread(75 if plan.speaker[0] == "user" else 30, 0.8) * SECOND_MS) + 900

    def _spread(self, median: float, sigma: float) -> float:
        return self.rng.lognormvariate(math.log(median), sigma)

    def _turn(
        self, session_id: str, plan: Plan, exchange: Exchange, speaker: tuple[str, str], values: dict[str, str], at: int
    ) -> tuple[list[tuple[Any, ...]], int, str]:
        """The events of one turn, when it ended, and how: answered, failed or unanswered."""
        task = self.mint.id(at)
        who = event_json.quoted(self.people.author(*speaker))
        agent = event_json.author("agent", self.places.agents[plan.agent], plan.agent)
        said = event_json.text_content(fill(exchange.ask, values, self.rng))
        events = [self._event(session_id, at, "message", said, task, speaker[0], who)]
        outcome = self._outcome(plan, at)
        slow = self._slowness(plan, at)
        step, reply = _PACE.get(plan.agent, _USUAL_PACE)
        # Some answers take a second look, so the same question does not always cost the same number of subtasks.
        subtasks = len(exchange.tools) + self.rng.choices((0, 1, 2), (5, 3, 1))[0]
        for _ in range(subtasks if outcome == "answered" else self.rng.randint(0, subtasks)):
            at += int(self._spread(step * slow, 0.5) * SECOND_MS) + 5
            events.append(self._event(session_id, at, "runtime_done", "{}", self.mint.id(at - 3), "agent", agent))
        if outcome == "unanswered":
            return events, at, outcome
        at += int(self._spread(reply * slow, 0.45) * SECOND_MS) + 5
        if outcome == "failed":
            kind = self._failure_kind(at)
            if kind == "turn_timeout":
                at += self.rng.randint(570, 600) * SECOND_MS
            content = self._failure(kind, plan.workspace)
            events.append(self._event(session_id, at, "runtime_error", content, task, "agent", agent))
        else:
            text = event_json.text_content(fill(exchange.reply, values, self.rng))
            events.append(self._event(session_id, at, "runtime_done", text, task, "agent", agent))
        return events, at, outcome

    def _event(
        self, session_id: str, at: int, kind: str, content: str, task: str, author_type: str, author: str
    ) -> tuple[Any, ...]:
        id_, created = self.mint.id(at), self.mint.instant(at)
        updated = created
        if kind == "message" and self.rng.random() < _EDITED:
            # A late edit: somebody corrected what they had written.
            updated = self.mint.instant(min(self.now_ms, at + self.rng.randint(40, 9_000) * SECOND_MS))
        wire = event_json.event(id_, kind, content, task, author, created, updated)
        return session_id, id_, kind, task, author_type, created, wire

    def _outcome(self, plan: Plan, at: int) -> str:
        chance = self.rng.random()
        fails = _FAILS_IN_INCIDENT if schedule.in_incident(at, self.now_ms) else _FAILS
        if self.owed and at > self.now_ms - 30 * DAY_MS:
            fails = max(fails, 0.05)
        if chance < fails and plan.agent != "echo":
            return "failed"
        return "unanswered" if chance > 1 - _NEVER_ANSWERED else "answered"

    def _slowness(self, plan: Plan, at: int) -> float:
        slow = 3.2 if schedule.in_incident(at, self.now_ms) else 1.0
        if plan.agent == "data-desk" and at > self.now_ms - _SLOWER_SINCE_DAYS * DAY_MS:
            slow *= _SLOWER_BY
        return slow

    def _failure_kind(self, at: int) -> str:
        if self.owed:
            return self.owed.popleft()
        weights = _INCIDENT_FAILURES if schedule.in_incident(at, self.now_ms) else _USUAL_FAILURES
        return self.rng.choices(list(weights), list(weights.values()))[0]

    def _failure(self, kind: str, workspace: str) -> str:
        if kind == "error":
            return event_json.failure_content(500, "ServerError", "Something went wrong")
        known = failure(kind, workspace)
        return event_json.failure_content(known.status, known.error, known.message)


def write(connection: Connection, mint: Mint, now_ms: int, people: People, places: Places) -> History:
    """Sessions and their events."""
    owed = [*RUN_FAILURES, "error"]
    mint.rng.shuffle(owed)
    teller = _Teller(mint, people, places, now_ms, deque(owed))
    sessions: list[dict[str, Any]] = []
    events: list[tuple[Any, ...]] = []
    history = History()
    for row, told, tasks in _told(teller, plans(mint.rng, now_ms)):
        sessions.append(row)
        events += told
        history.tasks += tasks
    insert(connection, tables.sessions, sessions)
    insert_tuples(connection, tables.events, EVENT_COLUMNS, events)
    history.sessions, history.events = len(sessions), len(events)
    return history


def _told(
    teller: _Teller, planned: list[Plan]
) -> Iterator[tuple[dict[str, Any], list[tuple[Any, ...]], list[tuple[str, str, str, int]]]]:
    for plan in planned:
        yield teller.session(plan)
