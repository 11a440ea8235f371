# ruff: noqa: E501 - a row of a table is one line
"""When the demo's sessions start, and what each of them is about.

The times follow office hours, with quiet weekends, one bad day, and growth towards the
end.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from .seeded_rows import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from .texts import Thread, threads

DAYS = 35
# Weight of each hour of the day (UTC): people start at eight, have lunch at twelve, and
# some write at night.
_OFFICE_HOURS = (1, 1, 0, 0, 1, 2, 6, 18, 42, 62, 70, 60, 34, 52, 66, 58, 44, 26, 12, 8, 6, 5, 3, 2)
_MONDAY_TO_SUNDAY = (1.15, 1.05, 1.0, 1.05, 0.8, 0.12, 0.09)
_GROWTH_IN_LAST_WEEK = 1.5

_BUILD_SERVER, _ALERT_RELAY = ("trigger", "build-server"), ("trigger", "alert-relay")
_DIGEST, _NOTEBOOKS = ("trigger", "weekday-digest"), ("api_key", "notebooks")
# workspace -> (share of the chats, weight of each agent, weight of each initiator)
_CHATS: dict[str, tuple[int, dict[str, int], dict[tuple[str, str], int]]] = {
    "support": (34, {"helpdesk": 9, "guide": 0}, {("api_key", "support-desk"): 11, ("user", "ada"): 5, ("user", "tim"): 2, ("user", "grace"): 1}),
    "data": (24, {"data-desk": 1}, {("user", "alan"): 6, ("user", "katherine"): 6, ("user", "ada"): 2, _NOTEBOOKS: 3}),
    "release": (9, {"release-notes": 1}, {("user", "barbara"): 6, ("user", "edsger"): 3}),
    "on-call": (9, {"incident-helper": 1}, {("user", "margaret"): 5, ("user", "edsger"): 4, ("user", "grace"): 1}),
    "sales": (9, {"contract-reader": 4, "helpdesk": 1}, {("user", "tim"): 7, ("user", "grace"): 1}),
    "finance": (5, {"data-desk": 1}, {("user", "grace"): 1}),
    "playground": (12, {"guide": 5, "analyst": 4, "echo": 1}, {_NOTEBOOKS: 8, ("user", "edsger"): 2, ("user", "katherine"): 2}),
    "onboarding": (7, {"onboarding-buddy": 1}, {("user", "tim"): 1, ("user", "katherine"): 1, ("user", "margaret"): 1}),
    "shop": (4, {"shop-assistant": 1}, {("api_key", "shop-front"): 4, ("user", "radia"): 1}),
    "notes": (3, {"diary": 1}, {("user", "ada"): 1}),
}  # fmt: skip
_CHAT_COUNT, _ALERT_COUNT, _INCIDENT_COUNT, _BUILD_COUNT, _TRIAL_COUNT = 400, 52, 34, 58, 30
_ARCHIVED_DAYS_AGO = {"onboarding": 12}


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """A session before its events are made.

    `initiator` and `speaker` are (kind, name); the speaker writes the follow-ups.
    """

    started_ms: int
    workspace: str
    agent: str
    type: str
    initiator: tuple[str, str]
    speaker: tuple[str, str]
    thread: Thread


def plan_sessions(rng: random.Random, now_ms: int) -> list[SessionPlan]:
    """Plan every session of the demo, in the order in which they start."""
    plans = [*_chats(rng, now_ms), *_webhooks(rng, now_ms), *_digests(rng, now_ms), *_builds(rng, now_ms)]
    plans += _trials(rng, now_ms)
    return sorted(plans, key=lambda plan: plan.started_ms)


def _chats(rng: random.Random, now_ms: int) -> Iterator[SessionPlan]:
    total = sum(share for share, _, _ in _CHATS.values())
    for workspace, (share, agents, initiators) in _CHATS.items():
        until = now_ms - _ARCHIVED_DAYS_AGO.get(workspace, 0) * DAY_MS
        for at in office_moments(rng, round(_CHAT_COUNT * share / total), now_ms, until):
            agent = rng.choices(list(agents), list(agents.values()))[0]
            initiator = rng.choices(list(initiators), list(initiators.values()))[0]
            thread = rng.choice(threads(workspace))
            yield SessionPlan(at, workspace, agent, "chat", initiator, initiator, thread)


def _webhooks(rng: random.Random, now_ms: int) -> Iterator[SessionPlan]:
    alerts = threads("on-call", "alerts")
    moments = _any_moments(rng, _ALERT_COUNT, now_ms) + _incident_moments(rng, _INCIDENT_COUNT, now_ms)
    for at in moments:
        person = ("user", rng.choice(("margaret", "edsger")))
        yield SessionPlan(at, "on-call", "incident-helper", "webhook", _ALERT_RELAY, person, rng.choice(alerts))


def _digests(rng: random.Random, now_ms: int) -> Iterator[SessionPlan]:
    digests = threads("release", "digests")
    for at in _daily_moments(rng, now_ms, 7):
        yield SessionPlan(at, "release", "release-notes", "time", _DIGEST, _DIGEST, rng.choice(digests))


def _builds(rng: random.Random, now_ms: int) -> Iterator[SessionPlan]:
    builds = threads("release", "builds")
    for at in office_moments(rng, _BUILD_COUNT, now_ms):
        thread = rng.choices(builds, (4, 1))[0]
        yield SessionPlan(at, "release", "release-notes", "api_trigger", _BUILD_SERVER, _BUILD_SERVER, thread)


def _trials(rng: random.Random, now_ms: int) -> Iterator[SessionPlan]:
    trials = threads("playground", "trials")
    for at in office_moments(rng, _TRIAL_COUNT, now_ms):
        user = ("user", rng.choice(("ada", "edsger")))
        yield SessionPlan(at, "playground", "helpdesk", "agent_test", user, user, rng.choice(trials))


def in_incident(ms: int, now_ms: int) -> bool:
    """Whether a moment is in the incident: from 09:00 to 15:00 on the bad day."""
    start = _incident_start(now_ms)
    return start <= ms < start + 6 * HOUR_MS


def _incident_start(now_ms: int) -> int:
    """09:00 on the last Tuesday at least ten days ago, always within the history."""
    day = _midnight(now_ms) - 10 * DAY_MS
    while _weekday(day) != 1:
        day -= DAY_MS
    return day + 9 * HOUR_MS


def _midnight(ms: int) -> int:
    """The UTC midnight at or before a millisecond."""
    return ms - ms % DAY_MS


def _weekday(ms: int) -> int:
    """The day of the week; Monday is 0."""
    return datetime.fromtimestamp(ms / 1000, UTC).weekday()


def _midnights(now_ms: int) -> list[int]:
    """The midnights of the history, oldest first; the last one is today's."""
    return [_midnight(now_ms) - (DAYS - 1 - number) * DAY_MS for number in range(DAYS)]


def office_moments(rng: random.Random, count: int, now_ms: int, until_ms: int | None = None) -> list[int]:
    """`count` moments that follow office hours, sorted, at least four minutes ago."""
    last = (until_ms or now_ms) - 4 * MINUTE_MS
    midnights = _midnights(now_ms)
    weights = [
        _MONDAY_TO_SUNDAY[_weekday(day)] * (_GROWTH_IN_LAST_WEEK if number >= DAYS - 7 else 0.85 + 0.15 * number / DAYS)
        for number, day in enumerate(midnights)
    ]
    moments: list[int] = []
    while len(moments) < count:
        day = rng.choices(midnights, weights)[0]
        at = day + rng.choices(range(24), _OFFICE_HOURS)[0] * HOUR_MS + rng.randrange(HOUR_MS)
        if at <= last:
            moments.append(at)
    return sorted(moments)


def _daily_moments(rng: random.Random, now_ms: int, hour: int, *, weekdays: Sequence[int] = range(5)) -> list[int]:
    """A scheduled hour on the given weekdays, a few seconds late as schedulers are."""
    days = [day for day in _midnights(now_ms) if _weekday(day) in weekdays]
    moments = [day + hour * HOUR_MS + rng.randrange(200, 9 * SECOND_MS) for day in days]
    return [at for at in moments if at <= now_ms - 10 * MINUTE_MS]


def _any_moments(rng: random.Random, count: int, now_ms: int) -> list[int]:
    """`count` moments at any hour, for alerts."""
    start = _midnights(now_ms)[0]
    return sorted(rng.randrange(start, now_ms - 10 * MINUTE_MS) for _ in range(count))


def _incident_moments(rng: random.Random, count: int, now_ms: int) -> list[int]:
    """`count` moments of the incident, most of them in its first two hours."""
    start = _incident_start(now_ms)
    return sorted(start + int(rng.betavariate(1.2, 2.6) * 6 * HOUR_MS) for _ in range(count))
