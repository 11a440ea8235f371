"""Thousands of lost writes, and a shared rate limit, on a simulated clock."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from agentbook.api.endpoints import me, sessions
from agentbook.api.policy import RateLimit, Settings, Sleep, request_flow

# -- the rate limit, shared ------------------------------------------------------------


class Simulation:
    """Many calls with one rate limit: `allotment` requests a minute."""

    def __init__(self, allotment: int, latency_s: float = 0.05) -> None:
        self.now = 17.0  # somewhere within a minute
        self.rate_limit = RateLimit(lambda: self.now)
        self.allotment = allotment
        self.latency_s = latency_s
        self.counts: dict[int, int] = {}
        self.sent: list[float] = []
        self.refused: list[float] = []
        self.settings = Settings(
            "https://h/v1", None, self.rate_limit, 30.0, 100_000.0, lambda: self.now, lambda: self.now, random.Random(0)
        )

    def answer(self, at: float) -> Any:
        from agentbook.api.calls import Reply

        minute = int(at // 60)
        self.counts[minute] = self.counts.get(minute, 0) + 1
        date = datetime.fromtimestamp(at, UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        if self.counts[minute] <= self.allotment:
            return Reply(200, {"date": date}, b"{}")
        self.refused.append(at)
        return Reply(
            429, {"date": date}, b'{"message": "This user has exceeded an allotted request count. Try again later."}'
        )

    def run(self, calls: list[Any], workers: int, observe: Callable[[float], None] = lambda at: None) -> None:
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
                observe(self.now)
                self.sent.append(self.now)
                reply = self.answer(self.now)
                heapq.heappush(queue, (self.now + self.latency_s, next(order), steps, reply))


def test_nothing_leaves_through_a_closed_gate() -> None:
    world = Simulation(allotment=100)
    closed_sends = []

    def observe(at: float) -> None:
        if world.rate_limit.closed:
            closed_sends.append(at)

    world.run([me.get() for _ in range(450)], workers=16, observe=observe)
    assert len(world.sent) - len(world.refused) == 450
    # While the rate limit is closed, only probes are sent: one after each minute that
    # was used up.
    assert len(closed_sends) <= len({int(at // 60) for at in world.sent})


def test_a_shared_window_costs_little_more_than_it_must() -> None:
    world = Simulation(allotment=300)
    began = world.now
    world.run([me.get() for _ in range(2000)], workers=16)
    ideal_s = (2000 / 300 - 1) * 60  # the first window's worth goes out at once
    assert (world.now - began) <= 1.1 * ideal_s
    assert len(world.refused) <= 0.06 * 2000


def test_writes_wait_too_and_are_sent_once() -> None:
    world = Simulation(allotment=5)
    world.run([sessions.send("s", str(n)) for n in range(12)], workers=4)
    assert len(world.sent) - len(world.refused) == 12
