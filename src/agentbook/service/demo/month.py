"""The demo's month: its sessions, and their events.

The month is the same for everyone. Its seed is fixed, and what happens on a day depends
only on how many days ago it was and on its weekday. A session is that of its day, its
workspace and its number, and the weekday says how many there are. So there are exactly
seven months, one for each weekday that today can be. Each ends now: of today, only
turns that have ended are there. ``month.yaml`` says what happens.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import cycle, islice
from typing import Any, NamedTuple

from sqlalchemy import Connection

from .. import ids
from ..engines.base import Failure
from ..engines.meter import failure
from ..store import event_json, tables
from .rows import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Ids, SeededIds, insert, midnight, read_yaml, released_ms
from .texts import Exchange, Thread, fill, follow_ups, run_of, thread_values, threads

_FAILURE_RATE, _UNANSWERED_RATE, _EDITED_RATE = 0.018, 0.008, 0.004
_SECOND_THREAD_RATE, _GOES_ON_AFTER_FAILURE, _UNNAMED_RATE = 0.42, 0.45, 0.08
_ERROR = Failure(500, "ServerError", "Something went wrong")
_SHARE_AT_FIRST = 0.85  # of the ordinary number of sessions, growing to all of it
_STORY = read_yaml("month.yaml")

Author = Mapping[str, str]
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


def event_row(
    seeded: SeededIds, session_id: str, at: int, type: str, task_id: str, author: Author, **fields: Any
) -> EventRow:
    """The row of an event at this millisecond, with its content, usage and step."""
    id_, created = seeded.id(at), ids.instant_of_ms(at)
    wire = event_json.event(id=id_, type=type, task_id=task_id, author=author, created_at=created, **fields)
    return EventRow(session_id, id_, type, task_id, author["type"], created, len(wire.encode()), wire)


@dataclass(frozen=True, slots=True)
class AnsweredTask:
    """A task that was answered, from which a workspace context may be generated."""

    workspace: str
    id: str
    session_name: str
    answered_ms: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """A session before its events are made.

    `initiator` and `speaker` are the kind and the name of an author; the speaker writes
    the messages after the first.
    """

    seeded: SeededIds
    started_ms: int
    workspace: str
    agent: str
    type: str
    initiator: str
    speaker: str
    thread: Thread


def write_month(connection: Connection, ids_by_name: Ids, now_ms: int) -> list[AnsweredTask]:
    """Write sessions and their events; return the answered tasks."""
    month = _Month(ids_by_name, now_ms, cycle(_STORY["failures"]), cycle(_STORY["incident_failures"]))
    for plan in sorted(_plans(now_ms), key=lambda plan: plan.started_ms):
        month.add(plan)
    insert(connection, tables.sessions, month.sessions)
    insert(connection, tables.events, [row._asdict() for row in month.events])
    return month.tasks


def office_moment(seeded: SeededIds, day_ms: int, hours: str = "office_hours") -> int:
    """A random moment of a day, by the weights of its hours."""
    weights = _STORY[hours]
    return day_ms + seeded.rng.choices(range(len(weights)), weights)[0] * HOUR_MS + seeded.rng.randrange(HOUR_MS)


def _plans(now_ms: int) -> Iterator[_Plan]:
    for stream in _STORY["streams"]:
        due = 0.5
        for day in reversed(range(_STORY["days"])):
            due += _expected(stream, day, midnight(now_ms, day))
            yield from (_plan(stream, day, number, midnight(now_ms, day)) for number in range(int(due)))
            due %= 1
    incident, alerts = _STORY["incident"], next(s for s in _STORY["streams"] if s["threads"] == "on-call alerts")
    for number in range(incident["alerts"]):
        # Most come in the first two hours.
        day, hours = midnight(now_ms, incident["day"]), incident["to_hour"] - incident["from_hour"]
        part = SeededIds(f"incident {number}").rng.betavariate(1.2, 2.6)
        at = day + int((incident["from_hour"] + part * hours) * HOUR_MS)
        yield _plan(alerts, incident["day"], 1_000 + number, day, at)


def _expected(stream: Mapping[str, Any], day: int, day_ms: int) -> float:
    """How many sessions of a stream a day should have, as a fraction."""
    if day < stream.get("until_day", 0):
        return 0.0
    weekday = datetime.fromtimestamp(day_ms / 1000, UTC).weekday()
    if stream.get("type") == "time":
        return float(weekday < 5)
    # In an incident, people work whatever the day of the week.
    share = 1.0 if stream.get("every_day") or day == _STORY["incident"]["day"] else _STORY["monday_to_sunday"][weekday]
    grown = 1 - (1 - _SHARE_AT_FIRST) * day / _STORY["days"]
    if day <= _STORY["busy"]["since_day"]:
        grown = _STORY["busy"]["more"]
    return float(stream["a_day"] * share * grown)


def _plan(stream: Mapping[str, Any], day: int, number: int, day_ms: int, at: int | None = None) -> _Plan:
    seeded = SeededIds(f"{stream['threads']} {day} {number}")
    rng = seeded.rng
    workspace, kind = stream["threads"].split()
    moment = office_moment(seeded, day_ms, stream.get("hours", "office_hours"))
    choices = threads(workspace, kind)
    initiator = rng.choices(list(stream["initiators"]), list(stream["initiators"].values()))[0]
    return _Plan(
        seeded,
        moment if at is None else at,
        workspace,
        rng.choices(list(stream["agents"]), list(stream["agents"].values()))[0],
        stream.get("type", "chat"),
        initiator,
        f"user {rng.choice(stream['speakers'])}" if "speakers" in stream else initiator,
        rng.choices(choices, stream.get("weights"))[0],
    )


@dataclass(frozen=True, slots=True)
class _Month:
    """Makes the events of one session after another.

    A session uses the same random numbers in each of the seven months. Only the kinds
    of failures differ: they are dealt in turn, so that each month has all of them.
    """

    ids: Ids
    now_ms: int
    failures: Iterator[str]
    incident_failures: Iterator[str]
    sessions: list[dict[str, Any]] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    tasks: list[AnsweredTask] = field(default_factory=list)

    def add(self, plan: _Plan) -> None:
        """Make a session; without an event before now, it has not begun."""
        seeded, rng = plan.seeded, plan.seeded.rng
        id_ = seeded.id(plan.started_ms)
        values = thread_values(plan.thread, rng)
        name = fill(plan.thread.name, values, rng)
        is_named = rng.random() >= _UNNAMED_RATE
        updated_at = None
        at, tokens = plan.started_ms + rng.randint(2, 40), 600
        for number, (exchange, slots) in enumerate(_dialogue(plan, values)):
            ask, reply = fill(exchange.ask, slots, rng), fill(exchange.reply, slots, rng)
            tokens += len(ask) // 4 + 180 * len(exchange.tools)
            author = self.author(plan.initiator if number == 0 else plan.speaker)
            turn = self.turn(plan, id_, author, Exchange(ask, reply, exchange.tools), slots, tokens, at)
            at = ids.milliseconds_of(turn[-1].id)
            if at > self.now_ms - MINUTE_MS:
                break
            tokens += len(reply) // 4
            self.events.extend(turn)
            updated_at = turn[-1].created_at
            goes_on = rng.random() < _GOES_ON_AFTER_FAILURE
            if turn[-1].task_id != turn[0].task_id or turn[-1].type == "message":
                break  # nobody answered
            if turn[-1].type == "runtime_done":
                self.tasks.append(AnsweredTask(plan.workspace, turn[-1].task_id, name, at))
            elif not goes_on:
                break
            at += _thinking_ms(plan)
        row = {
            "id": id_,
            "workspace_id": self.ids["workspaces"][plan.workspace],
            "agent_id": self.ids["agents"][plan.agent],
            "type": plan.type,
            "initiator_id": self.author(plan.initiator)["id"],
            "initiator_type": plan.initiator.split()[0],
            "name": name if is_named else None,
            "created_at": ids.instant_of_ms(plan.started_ms),
            "updated_at": updated_at,
        }
        if updated_at is not None:
            self.sessions.append(row)

    def author(self, who: str) -> dict[str, str]:
        kind, name = who.split()
        return {"type": kind, "id": self.ids["accounts" if kind == "user" else "api_keys"][name], "name": name}

    def turn(
        self, plan: _Plan, session_id: str, author: Author, said: Exchange, slots: Author, tokens: int, at: int
    ) -> list[EventRow]:
        """The events of one turn."""
        seeded, rng = plan.seeded, plan.seeded.rng
        agent = {"type": "agent", "id": self.ids["agents"][plan.agent], "name": plan.agent}
        speed = _STORY["agents"].get(plan.agent, _STORY["others"])
        in_incident, slowness = self.in_incident(at), self.slowness(plan.agent, at)
        task = seeded.id(at)
        events = [self._message(seeded, session_id, at, said.ask, task, author)]

        def end(kind: str, task_id: str, **fields: Any) -> None:
            events.append(event_row(seeded, session_id, at, kind, task_id, agent, **fields))

        chance = rng.random()
        rate = _STORY["incident"]["failures"] if in_incident else _FAILURE_RATE
        # Limits and errors are those of models: an agent without one answers.
        fails = "model" in speed and chance < rate
        is_answered = "model" not in speed or rate <= chance <= 1 - _UNANSWERED_RATE
        # Some answers take extra steps, so the same question does not always have the
        # same number of them.
        steps = len(said.tools) + rng.choices((0, 1, 2), (5, 3, 1))[0]
        names = list(islice(cycle(said.tools or ["think"]), steps if is_answered else rng.randint(0, steps)))
        runs = [(name, names[:number].count(name)) for number, name in enumerate(names)]
        loop = _STORY["loops"]
        if plan.agent == loop["agent"] and (midnight(self.now_ms) - midnight(at)) // DAY_MS in loop["days"]:
            runs += [run for run in runs if run == (loop["tool"], 0)] * loop["more"]
        for tool, number in runs:
            rate, reason = _STORY["failing_tools"].get(tool, (0.0, None))
            # A tool that failed is run again.
            for error in (reason, None) if rng.random() < rate else (None,):
                started = at + 2
                at += int(_lognormal(rng, speed["tool_s"] * slowness, 0.5) * SECOND_MS) + 5
                arguments, result = run_of(tool, slots, number)
                step: dict[str, Any] = {"kind": "tool", "name": tool, "started_at": ids.instant_of_ms(started)}
                step |= {"ended_at": ids.instant_of_ms(at), "arguments": arguments}
                step |= {"result": result} if error is None else {"error": error}
                step = {field: value for field, value in step.items() if value is not None}
                end("runtime_done", seeded.id(started), content={}, step=step)
        at += int(_lognormal(rng, speed["reply_s"] * slowness, 0.45) * SECOND_MS) + 5
        timeout_ms = rng.randint(570, 600) * SECOND_MS
        tokens *= 1 + steps + len(runs) - len(names)
        usage = _usage(speed, tokens, said.reply if is_answered else "", slowness)
        if fails:
            kind = next(self.incident_failures if in_incident else self.failures)
            at += timeout_ms if kind == "turn_timeout" else 0
            failed = _ERROR if kind == "error" else failure(kind, plan.workspace)
            end("runtime_error", task, content=asdict(failed), usage=usage)
        elif is_answered:
            end("runtime_done", task, content={"text": said.reply}, usage=usage)
        return events

    def _message(self, seeded: SeededIds, session_id: str, at: int, text: str, task: str, author: Author) -> EventRow:
        row = event_row(seeded, session_id, at, "message", task, author, content={"text": text})
        edited_ms = at + seeded.rng.randint(40, 9_000) * SECOND_MS
        if seeded.rng.random() < _EDITED_RATE and edited_ms < self.now_ms:
            # The author corrected the message later.
            edited = f'"updated_at":"{ids.instant_of_ms(edited_ms)}"'
            row = row._replace(wire=row.wire.replace(f'"updated_at":"{row.created_at}"', edited))
        return row

    def in_incident(self, at: int) -> bool:
        incident = _STORY["incident"]
        day = midnight(self.now_ms, incident["day"])
        return bool(day + incident["from_hour"] * HOUR_MS <= at < day + incident["to_hour"] * HOUR_MS)

    def slowness(self, agent: str, at: int) -> float:
        """By how much the agent is slower at this time than it used to be."""
        factor = _STORY["incident"]["slower"] if self.in_incident(at) else 1.0
        change = _STORY["slower"].get(agent)
        if change is not None and at >= released_ms(self.now_ms, change["since_day"]):
            factor *= change["times"]
        return float(factor)


def _dialogue(plan: _Plan, values: dict[str, str]) -> Dialogue:
    """The exchanges of a session.

    People often bring up a second thread, and sometimes a third.
    """
    rng = plan.seeded.rng
    dialogue = [(exchange, values) for exchange in plan.thread.exchanges]
    if plan.type in {"time", "api_trigger", "agent_test"}:
        return dialogue
    if plan.type == "webhook":
        return dialogue if rng.random() < 0.55 else dialogue[:1]
    count = len(dialogue)
    dialogue = dialogue[: max(1, round(rng.triangular(1, count + 0.4, count)))]
    dialogue += _follow_ups(rng, values)
    while rng.random() < _SECOND_THREAD_RATE:
        thread = rng.choice(threads(plan.workspace))
        fresh = thread_values(thread, rng)
        dialogue += [(exchange, fresh) for exchange in thread.exchanges] + _follow_ups(rng, fresh)
    return dialogue


def _follow_ups(rng: random.Random, values: dict[str, str]) -> Dialogue:
    count = min(len(follow_ups()), int(rng.expovariate(0.5)))
    return [(exchange, values) for exchange in rng.sample(follow_ups(), count)]


def _thinking_ms(plan: _Plan) -> int:
    """Milliseconds until the next message; occasionally it comes hours later."""
    rng = plan.seeded.rng
    if rng.random() < 0.03:
        return rng.randint(1, 20) * HOUR_MS
    return int(_lognormal(rng, 75 if plan.speaker.startswith("user") else 30, 0.8) * SECOND_MS) + 900


def _lognormal(rng: random.Random, median: float, sigma: float) -> float:
    return rng.lognormvariate(math.log(median), sigma)


def _usage(speed: Mapping[str, Any], input_tokens: int, reply: str, slowness: float) -> dict[str, Any] | None:
    """What a turn's model used; None for an agent without one."""
    if "model" not in speed:
        return None
    output_tokens = 25 + int(len(reply) / 4 * slowness)  # who thinks longer, writes more
    return {
        "total_tokens": input_tokens + output_tokens,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "model": speed["model"],
    }
