# ruff: noqa: E501 - prose and tables of facts: a sentence or a row is one line
"""What is to happen: which sessions there are, of which type, who begins them, where, with which agent."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from . import schedule, topics
from .seeded_ids import DAY_MS
from .topics import Thread


@dataclass(frozen=True, slots=True)
class Plan:
    """One session before it is told. `initiator` is (kind, name); `speaker` writes the follow-ups."""

    begins_ms: int
    workspace: str
    agent: str
    type: str
    initiator: tuple[str, str]
    speaker: tuple[str, str]
    thread: Thread


# workspace -> (share of the chats, (agent, weight)..., (who, weight)...)
_CHATS: dict[str, tuple[int, dict[str, int], dict[tuple[str, str], int]]] = {
    "support": (34, {"helpdesk": 9, "guide": 0}, {("api_key", "support-desk"): 11, ("user", "ada"): 5, ("user", "tim"): 2, ("user", "grace"): 1}),
    "data": (24, {"data-desk": 1}, {("user", "alan"): 6, ("user", "katherine"): 6, ("user", "ada"): 2, ("api_key", "notebooks"): 3}),
    "release": (9, {"release-notes": 1}, {("user", "barbara"): 6, ("user", "edsger"): 3}),
    "on-call": (9, {"incident-helper": 1}, {("user", "margaret"): 5, ("user", "edsger"): 4, ("user", "grace"): 1}),
    "sales": (9, {"contract-reader": 4, "helpdesk": 1}, {("user", "tim"): 7, ("user", "grace"): 1}),
    "finance": (5, {"data-desk": 1}, {("user", "grace"): 1}),
    "playground": (12, {"guide": 5, "analyst": 4, "echo": 1}, {("api_key", "notebooks"): 8, ("user", "edsger"): 2, ("user", "katherine"): 2}),
    "onboarding": (7, {"onboarding-buddy": 1}, {("user", "tim"): 1, ("user", "katherine"): 1, ("user", "margaret"): 1}),
    "shop": (4, {"shop-assistant": 1}, {("api_key", "shop-front"): 4, ("user", "radia"): 1}),
    "notes": (3, {"diary": 1}, {("user", "ada"): 1}),
}  # fmt: skip
_CHAT_COUNT, _ALERT_COUNT, _INCIDENT_COUNT, _BUILD_COUNT, _TRIAL_COUNT = 400, 52, 34, 58, 30
_ARCHIVED_DAYS_AGO = {"onboarding": 12}


def plans(rng: random.Random, now_ms: int) -> list[Plan]:
    """Every session of the demo, in the order in which they begin."""
    found = [*_chats(rng, now_ms), *_webhooks(rng, now_ms), *_scheduled(rng, now_ms), *_builds(rng, now_ms)]
    found += _trials(rng, now_ms)
    return sorted(found, key=lambda plan: plan.begins_ms)


def _chats(rng: random.Random, now_ms: int) -> Iterator[Plan]:
    shares = {name: facts[0] for name, facts in _CHATS.items()}
    whole = sum(shares.values())
    for workspace, (share, agents, people) in _CHATS.items():
        until = now_ms - _ARCHIVED_DAYS_AGO.get(workspace, 0) * DAY_MS
        for at in schedule.moments(rng, round(_CHAT_COUNT * share / whole), now_ms, until):
            agent = rng.choices(list(agents), list(agents.values()))[0]
            who = rng.choices(list(people), list(people.values()))[0]
            thread = rng.choice(topics.CHATS[workspace])
            yield Plan(at, workspace, agent, "chat", who, who, thread)


def _webhooks(rng: random.Random, now_ms: int) -> Iterator[Plan]:
    moments = schedule.around_the_clock(rng, _ALERT_COUNT, now_ms) + schedule.during_incident(
        rng, _INCIDENT_COUNT, now_ms
    )
    for at in moments:
        relay, person = ("trigger", "alert-relay"), ("user", rng.choice(("margaret", "edsger")))
        yield Plan(at, "on-call", "incident-helper", "webhook", relay, person, rng.choice(topics.ALERTS))


def _scheduled(rng: random.Random, now_ms: int) -> Iterator[Plan]:
    digest = ("trigger", "weekday-digest")
    for at in schedule.every_day(rng, now_ms, 7):
        yield Plan(at, "release", "release-notes", "time", digest, digest, rng.choice(topics.DIGESTS))


def _builds(rng: random.Random, now_ms: int) -> Iterator[Plan]:
    server = ("trigger", "build-server")
    for at in schedule.moments(rng, _BUILD_COUNT, now_ms):
        thread = rng.choices(topics.BUILDS, (4, 1))[0]
        yield Plan(at, "release", "release-notes", "api_trigger", server, server, thread)


def _trials(rng: random.Random, now_ms: int) -> Iterator[Plan]:
    for at in schedule.moments(rng, _TRIAL_COUNT, now_ms):
        who = ("user", rng.choice(("ada", "edsger")))
        yield Plan(at, "playground", "helpdesk", "agent_test", who, who, rng.choice(topics.TRIALS))
