"""Small agents whose behaviour can be predicted: to teach what a turn is, and to test everything that watches one.

Each turn is a function of the request alone (its message, its history and its seeded random numbers).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from ...engines.base import Draft, Failure, Step, TurnRequest
from ...engines.streaming import pause, say, work

_NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)(?![\w.])")


def _number(text: str, default: float, most: float) -> float:
    """The first number in `text`, at most `most`; `default` where there is none."""
    found = _NUMBER.search(text)
    return min(float(found[1]), most) if found else default


@dataclass(frozen=True, slots=True)
class Echo:
    """Says back what it was told."""

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        async for step in say(turn, turn.message.strip() or "(an empty message)"):
            yield step


@dataclass(frozen=True, slots=True)
class Verbose:
    """Runs many subtasks, each a ``runtime_done`` with ``{}``, before the one reply: "12" asks for twelve."""

    most: int = 200

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        count = int(_number(turn.message, turn.rng.randint(3, 8), self.most))
        for number in range(1, count + 1):
            async for step in work(turn, "subtask", turn.rng.uniform(0.05, 0.2), number=number, of=count):
                yield step
        plural = "subtask" if count == 1 else "subtasks"
        text = (
            f"I finished {count} {plural} for you. Each left a `runtime_done` event with `content` equal to `{{}}`; "
            "this reply is the one with `content.text`."
        )
        async for step in say(turn, text):
            yield step


@dataclass(frozen=True, slots=True)
class Slow:
    """Takes its time: "5" asks for five seconds (at pace 1) before it speaks, and it speaks slowly."""

    most_s: float = 300.0

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        seconds = _number(turn.message, turn.rng.uniform(4.0, 9.0), self.most_s)
        async for step in work(turn, "think", seconds, asked_s=round(seconds, 1)):
            yield step
        text = (
            f"That took {seconds:.1f} seconds of thought. A reply is persisted only when its turn completes, "
            "so a poll in between found nothing new."
        )
        async for step in say(turn, text):
            if isinstance(step, Draft):
                await pause(turn, 0.15)
            yield step


@dataclass(frozen=True, slots=True)
class Flaky:
    """Fails some of its turns, chosen by the turn's seeded random numbers."""

    probability: float = 0.3

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        fails = turn.rng.random() < self.probability
        async for step in work(turn, "try", turn.rng.uniform(0.1, 0.4), attempt=len(turn.history) // 2 + 1):
            yield step
        if fails:
            yield Draft("I was about to")
            yield Failure(500, "ServerError", "Something went wrong")
            return
        async for step in say(
            turn,
            f"It worked this time. About {self.probability:.0%} of my turns fail; a client should show that and go on.",
        ):
            yield step
