"""Small agents with predictable behaviour, to teach what a turn is and to test clients.

Each turn depends only on the request: its message, its history and its seeded random
numbers.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from ...engines.base import Draft, Failure, Step, TurnRequest
from ...engines.llm.tools import BadArguments, calculate
from ...engines.meter import RUN_FAILURES, failure
from .streaming import MAX_MESSAGE, pause, run_subtask, stream_reply

_ARITHMETIC = re.compile(r"[\d(.-][\d\s()+\-*/%^.]*")
_NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)(?![\w.])")

# What happens before each run limit is exceeded: how many subtasks it finishes,
# and whether it begins a reply.
_BEFORE_LIMIT: dict[str, tuple[int, bool]] = {
    "state_size": (1, True),
    "llm_request_size": (0, False),
    "llm_calls": (4, True),
    "llm_tokens": (2, True),
    "agent_tasks": (6, False),
    "tool_fan_out": (8, False),
    "budget": (0, False),
    "synchronous_steps": (0, False),
    "turn_timeout": (2, True),
}


def _first_number(text: str, default: float, maximum: float) -> float:
    """The first number in `text`, at most `maximum`; `default` if there is none."""
    match = _NUMBER.search(text[:MAX_MESSAGE])
    return min(float(match[1]), maximum) if match else default


@dataclass(frozen=True, slots=True)
class Echo:
    """Replies with the message."""

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        async for step in stream_reply(turn, turn.message.strip() or "(an empty message)"):
            yield step


@dataclass(frozen=True, slots=True)
class Calculator:
    """Calculates the longest arithmetic expression of the message, as a tool run."""

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        found = max((each.strip(" .") for each in _ARITHMETIC.findall(turn.message[:MAX_MESSAGE])), key=len, default="")
        try:
            value = await asyncio.to_thread(calculate, found)
        except BadArguments:
            text = "I calculate expressions such as `(2 + 3) * 4` or `2^10 / 3`."
        else:
            text = f"**{found} = {value}**"
            async for step in run_subtask(turn, "calculate", turn.rng.uniform(0.03, 0.1), step=f"{found} = {value}"):
                yield step
        async for step in stream_reply(turn, text):
            yield step


@dataclass(frozen=True, slots=True)
class Verbose:
    """Runs many subtasks before its reply, each a ``runtime_done`` with ``{}``.

    For example, the message "12" asks for twelve.
    """

    max_subtasks: int = 200

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        count = int(_first_number(turn.message, turn.rng.randint(3, 8), self.max_subtasks))
        for number in range(1, count + 1):
            async for step in run_subtask(turn, "subtask", turn.rng.uniform(0.05, 0.2), number=number, of=count):
                yield step
        plural = "subtask" if count == 1 else "subtasks"
        text = (
            f"I finished {count} {plural} for you. Each left a `runtime_done` event with `content` equal to `{{}}`; "
            "this reply is the one with `content.text`."
        )
        async for step in stream_reply(turn, text):
            yield step


@dataclass(frozen=True, slots=True)
class Slow:
    """Waits before it replies, and writes slowly.

    For example, the message "5" asks for five seconds, with a delay factor of 1.
    """

    max_wait_s: float = 300.0

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        seconds = _first_number(turn.message, turn.rng.uniform(4.0, 9.0), self.max_wait_s)
        async for step in run_subtask(turn, "think", seconds, wait_s=round(seconds, 1)):
            yield step
        text = (
            f"That took {seconds:.1f} seconds of thought. A reply is persisted only when its turn completes, "
            "so a poll in between found nothing new."
        )
        async for step in stream_reply(turn, text):
            if isinstance(step, Draft):
                await pause(turn, 0.15)
            yield step


@dataclass(frozen=True, slots=True)
class Flaky:
    """Fails some of its turns, chosen by the turn's seeded random numbers."""

    probability: float = 0.3

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        fails = turn.rng.random() < self.probability
        async for step in run_subtask(turn, "try", turn.rng.uniform(0.1, 0.4), attempt=len(turn.history) // 2 + 1):
            yield step
        if fails:
            yield Draft("I was about to")
            yield Failure(500, "ServerError", "Something went wrong")
            return
        async for step in stream_reply(
            turn,
            f"It worked this time. About {self.probability:.0%} of my turns fail; a client should show that and go on.",
        ):
            yield step


@dataclass(frozen=True, slots=True)
class Limits:
    """Exceeds the run limit that the message names, or an earlier one of the session.

    Without a name, it lists them. The limit is not really exceeded: the agent shows how
    a client handles the failure.
    """

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        asked = [each.text for each in reversed(turn.history) if each.role == "user"]
        texts = [re.sub(r"[\s-]+", "_", text[:MAX_MESSAGE].lower()) for text in (turn.message, *asked)]
        kind = next((kind for text in texts for kind in RUN_FAILURES if kind in text), None)
        if kind is None:
            names = "\n".join(f"- `{kind}`: {failure(kind, turn.workspace_name).message}" for kind in RUN_FAILURES)
            async for step in stream_reply(turn, f"Name one of the run limits, and I run into it:\n\n{names}"):
                yield step
            return
        subtasks, begins_reply = _BEFORE_LIMIT[kind]
        for number in range(subtasks):
            async for step in run_subtask(turn, "subtask", turn.rng.uniform(0.05, 0.15), number=number + 1):
                yield step
        if begins_reply:
            for piece in ("Let", " me", " look", " into", " that"):
                yield Draft(piece)
                await pause(turn, 0.03)
        await pause(turn, 0.05)
        yield failure(kind, turn.workspace_name)
