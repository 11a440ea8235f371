"""A network and a clock for the policy, driven by hand."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec

from agentbook.api.auth import ApiKey
from agentbook.api.calls import Call, Reply
from agentbook.api.policy import NoReply, RateLimit, Send, Settings, Sleep, request_flow

OK = Reply(200, {}, b'{"id": "1"}')
DOWN = NoReply("ConnectError", sent=False)
CUT = NoReply("ReadTimeout", sent=True)
OUTAGE = Reply(503, {}, b'{"message": "Something went wrong"}')
RATE = Reply(
    429, {"date": "Sat, 21 Nov 2026 10:00:30 GMT"}, b'{"message": "This user has exceeded an allotted request count."}'
)
NOT_FOUND = Reply(404, {}, b'{"error": "NotFound", "message": "Agent not found"}')


class World:
    """The network and clock of one request; records requests and waits."""

    def __init__(self, *outcomes: Any, deadline_s: float = 180.0, key: str | None = None) -> None:
        self.now = 0.0
        self.outcomes = list(outcomes)
        self.sent: list[Send] = []
        self.slept: list[float] = []
        clock = lambda: self.now  # noqa: E731
        self.rate_limit = RateLimit(clock)
        self.settings = Settings(
            "https://h/v1",
            key and ApiKey(key),
            self.rate_limit,
            30.0,
            deadline_s,
            clock,
            lambda: 1_700_000_000.0 + self.now,
            random.Random(0),
        )

    @property
    def methods(self) -> list[str]:
        """The methods of the requests sent so far."""
        return [send.method for send in self.sent]

    def run(self, call: Call[Any], openapi: Callable[[], Any] | None = None) -> Any:
        steps = request_flow(call, self.settings, openapi or self.no_openapi)
        outcome = None
        try:
            while True:
                step = steps.send(outcome)
                if isinstance(step, Sleep):
                    self.slept.append(step.seconds)
                    self.now += step.seconds
                    outcome = None
                else:
                    self.sent.append(step)
                    self.now += 0.01
                    outcome = self.outcomes.pop(0)
        except StopIteration as stop:
            return stop.value

    @staticmethod
    def no_openapi() -> Any:
        raise AssertionError("openapi.yaml is read only where a call needs it")


def body(**fields: Any) -> Reply:
    """A reply with a JSON object."""
    return Reply(200, {}, msgspec.json.encode(fields))
