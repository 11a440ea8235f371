"""The rate limit of a credential: its rules, and many calls on a simulated clock."""

from __future__ import annotations

import heapq
import itertools
import random
from datetime import UTC, datetime
from typing import Any

import pytest

import agentbook as ab
from agentbook.api.calls import Reply
from agentbook.api.endpoints import me
from agentbook.api.error_replies import from_reply, retry_after_s
from agentbook.api.policy import (
    MAX_WAIT_S,
    MIN_WAIT_S,
    PROBE_POLL_S,
    WINDOW_S,
    RateLimit,
    Settings,
    Sleep,
    request_flow,
    shared_rate_limit,
)

DATE = "Sat, 21 Nov 2026 10:00:{:02d} GMT"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_refusal_closes_it_until_the_servers_next_minute() -> None:
    clock = Clock()
    rate_limit = RateLimit(clock)
    assert rate_limit.delay_s() == 0.0
    rate_limit.on_429(DATE.format(42))
    assert rate_limit.closed
    assert rate_limit.delay_s() == 18.0
    clock.now += 17.9
    assert 0 < rate_limit.delay_s() < 0.2


def test_one_probe_goes_first_and_the_others_follow_when_it_passed() -> None:
    clock = Clock()
    rate_limit = RateLimit(clock)
    rate_limit.on_429(DATE.format(59))
    clock.now += 1.0
    assert rate_limit.delay_s() == 0.0  # the probe
    assert rate_limit.delay_s() == PROBE_POLL_S
    rate_limit.on_reply()
    assert not rate_limit.closed
    assert [rate_limit.delay_s() for _ in range(3)] == [0.0] * 3


def test_a_refused_probe_waits_a_whole_minute_from_then() -> None:
    clock = Clock()
    rate_limit = RateLimit(clock)
    rate_limit.on_429(DATE.format(50))
    clock.now += 10
    assert rate_limit.delay_s() == 0.0
    rate_limit.on_429(DATE.format(50))
    assert rate_limit.delay_s() == WINDOW_S


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("7", 7.0), ("0", MIN_WAIT_S), ("soon", 18.0), ("", 18.0), ("²", 18.0), ("99999999999", 300.0),
        ("9" * 400, MAX_WAIT_S), ("Fri, 31 Dec 9999 23:59:59 GMT", MAX_WAIT_S),
    ],
)  # fmt: skip
def test_a_gateways_retry_after_counts_instead_of_the_minute(header: str, wait: float) -> None:
    headers = {"retry-after": header, "date": DATE.format(42)}
    refused = from_reply(Reply(429, headers, b"<html>slow down</html>"), me.get())
    assert isinstance(refused, ab.RateLimited)
    rate_limit = RateLimit(Clock())
    rate_limit.on_429(refused.date, refused, retry_after_s=refused.retry_after_s)
    assert rate_limit.delay_s() == wait


def test_a_retry_after_with_a_date_needs_no_common_clock() -> None:
    assert retry_after_s({"retry-after": DATE.format(50), "date": DATE.format(42)}) == 8.0
    assert retry_after_s({"retry-after": DATE.format(40), "date": DATE.format(42)}) == 0.0
    assert retry_after_s({"retry-after": DATE.format(50)}) is None


def test_a_lost_probe_makes_room_for_another() -> None:
    clock = Clock()
    rate_limit = RateLimit(clock)
    rate_limit.on_429(None)
    clock.now += WINDOW_S
    assert rate_limit.delay_s() == 0.0
    rate_limit.on_no_reply()
    assert rate_limit.delay_s() == 0.0


def test_refusals_of_requests_under_way_do_not_move_it() -> None:
    clock = Clock()
    rate_limit = RateLimit(clock)
    for second in (50, 51, 52):
        assert rate_limit.delay_s() == (0.0 if second == 50 else 10.0)
        rate_limit.on_429(DATE.format(second))
    assert rate_limit.delay_s() == 10.0


def test_a_credential_has_one_gate_in_the_process() -> None:
    clock = Clock()
    rate_limit = shared_rate_limit("https://h/v1", "key:a", clock)
    assert shared_rate_limit("https://h/v1", "key:a", clock) is rate_limit
    assert shared_rate_limit("https://h/v1", "key:b", clock) is not rate_limit
    assert shared_rate_limit("http://other/v1", "key:a", clock) is not rate_limit


# -- many calls ------------------------------------------------------------------------


class Simulation:
    """Many calls with one rate limit: `allotment` requests a minute."""

    def __init__(self, allotment: int, latency_s: float = 0.05) -> None:
        self.now = 17.0  # somewhere within a minute
        self.rate_limit = RateLimit(lambda: self.now)
        self.allotment = allotment
        self.latency_s = latency_s
        self.counts: dict[int, int] = {}
        self.sent: list[float] = []
        self.closed_sends = 0
        self.refused: list[float] = []
        self.settings = Settings(
            "https://h/v1", None, self.rate_limit, 30.0, 100_000.0, lambda: self.now, lambda: self.now, random.Random(0)
        )

    def answer(self, at: float) -> Any:
        minute = int(at // 60)
        self.counts[minute] = self.counts.get(minute, 0) + 1
        date = datetime.fromtimestamp(at, UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        if self.counts[minute] <= self.allotment:
            return Reply(200, {"date": date}, b"{}")
        self.refused.append(at)
        return Reply(
            429, {"date": date}, b'{"message": "This user has exceeded an allotted request count. Try again later."}'
        )

    def run(self, calls: list[Any], workers: int) -> None:
        todo, order = iter(calls), itertools.count()
        queue: list[tuple[float, int, Any, Any]] = []

        def begin(at: float) -> None:
            call = next(todo, None)
            if call is not None:
                steps = request_flow(call, self.settings, lambda: iter(()))  # type: ignore[arg-type,return-value]
                heapq.heappush(queue, (at, next(order), steps, None))

        for _ in range(workers):
            begin(self.now)
        while queue:
            self.now, _, steps, outcome = heapq.heappop(queue)
            if callable(outcome):
                outcome = outcome()
            try:
                step = steps.send(outcome)
            except StopIteration:
                begin(self.now)
                continue
            if isinstance(step, Sleep):
                heapq.heappush(queue, (self.now + step.seconds, next(order), steps, None))
            else:
                self.sent.append(self.now)
                self.closed_sends += self.rate_limit.closed
                reply = self.answer(self.now)
                heapq.heappush(queue, (self.now + self.latency_s, next(order), steps, reply))


def test_while_it_is_closed_only_probes_are_sent() -> None:
    world = Simulation(allotment=100)
    world.run([me.get() for _ in range(450)], workers=16)
    assert len(world.sent) - len(world.refused) == 450
    # One after each minute that was used up.
    assert world.closed_sends <= len({int(at // 60) for at in world.sent})


def test_a_shared_window_costs_little_more_than_it_must() -> None:
    world = Simulation(allotment=300)
    began = world.now
    world.run([me.get() for _ in range(2000)], workers=16)
    ideal_s = (2000 / 300 - 1) * 60  # the first window's worth goes out at once
    assert (world.now - began) <= 1.1 * ideal_s
    assert len(world.refused) <= 0.06 * 2000
