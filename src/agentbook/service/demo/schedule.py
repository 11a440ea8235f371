"""When things happen: office hours, quiet weekends, one bad day, growth towards the end."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime

from .seeded_ids import DAY_MS, HOUR_MS

DAYS = 35
# Chats by hour of the day (UTC): people come in at eight, have lunch at twelve, some write at night.
_OFFICE = (1, 1, 0, 0, 1, 2, 6, 18, 42, 62, 70, 60, 34, 52, 66, 58, 44, 26, 12, 8, 6, 5, 3, 2)
_MONDAY_TO_SUNDAY = (1.15, 1.05, 1.0, 1.05, 0.8, 0.12, 0.09)
_GROWTH_IN_LAST_WEEK = 1.5


def midnight(ms: int) -> int:
    """The UTC midnight before (or at) a millisecond."""
    return ms - ms % DAY_MS


def weekday(ms: int) -> int:
    """Monday is 0."""
    return datetime.fromtimestamp(ms / 1000, UTC).weekday()


def days(now_ms: int) -> list[int]:
    """The midnights of the history, oldest first; the last one is today's."""
    return [midnight(now_ms) - (DAYS - 1 - number) * DAY_MS for number in range(DAYS)]


def incident_day(now_ms: int) -> int:
    """The midnight of the bad day: the last Tuesday at least ten days ago, so always a working day inside the history."""
    day = midnight(now_ms) - 10 * DAY_MS
    while weekday(day) != 1:
        day -= DAY_MS
    return day


def in_incident(ms: int, now_ms: int) -> bool:
    """Whether something went wrong at that time: from 09:00 to 15:00 of the bad day."""
    start = incident_day(now_ms) + 9 * HOUR_MS
    return start <= ms < start + 6 * HOUR_MS


def moments(rng: random.Random, count: int, now_ms: int, until_ms: int | None = None) -> list[int]:
    """`count` moments with the rhythm of an office, sorted, none later than a few minutes ago."""
    last = (until_ms or now_ms) - 4 * 60_000
    midnights = days(now_ms)
    weights = [
        _MONDAY_TO_SUNDAY[weekday(day)] * (_GROWTH_IN_LAST_WEEK if number >= DAYS - 7 else 0.85 + 0.15 * number / DAYS)
        for number, day in enumerate(midnights)
    ]
    found: list[int] = []
    while len(found) < count:
        day = rng.choices(midnights, weights)[0]
        at = day + rng.choices(range(24), _OFFICE)[0] * HOUR_MS + rng.randrange(HOUR_MS)
        if at <= last:
            found.append(at)
    return sorted(found)


def every_day(rng: random.Random, now_ms: int, hour: int, *, weekdays: Sequence[int] = range(5)) -> list[int]:
    """A scheduled time, a few seconds late as schedulers are, on the given weekdays."""
    wanted = [day + hour * HOUR_MS + rng.randrange(200, 9_000) for day in days(now_ms) if weekday(day) in weekdays]
    return [at for at in wanted if at <= now_ms - 10 * 60_000]


def around_the_clock(rng: random.Random, count: int, now_ms: int) -> list[int]:
    """`count` moments without office hours: alerts do not sleep."""
    start = days(now_ms)[0]
    return sorted(rng.randrange(start, now_ms - 10 * 60_000) for _ in range(count))


def during_incident(rng: random.Random, count: int, now_ms: int) -> list[int]:
    """`count` moments of the incident, most of them in its first two hours."""
    start = incident_day(now_ms) + 9 * HOUR_MS
    return sorted(start + int(rng.betavariate(1.2, 2.6) * 6 * HOUR_MS) for _ in range(count))
