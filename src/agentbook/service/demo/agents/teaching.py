"""Small agents with predictable behaviour, to teach what a turn is and to test clients.

Each turn depends only on the request: its message, its history and its seeded random
numbers.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from ...engines.base import Draft, Failure, Step, TurnRequest
from ...engines.llm.tools import BadArguments, calculate
from ...engines.meter import RUN_FAILURES, failure
from .streaming import MAX_MESSAGE, pause, run_subtask, stream_reply

_ARITHMETIC = re.compile(r"[\d(.-][\d\s()+\-*/%^.]*")
_MAX_SUBTASKS, _MAX_WAIT_S, _FAILS = 200, 300.0, 0.3
_NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)(?![\w.])")


def _first_number(text: str, default: float, maximum: float) -> float:
    """The first number in `text`, at most `maximum`; `default` if there is none."""
    match = _NUMBER.search(text[:MAX_MESSAGE])
    return min(float(match[1]), maximum) if match else default


Play = AsyncIterator[Step | AsyncIterator[Step]]


@dataclass(frozen=True, slots=True)
class Teaching:
    """An agent that plays its part: steps, and series of steps."""

    play: Callable[[TurnRequest], Play]

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        async for part in self.play(turn):
            if isinstance(part, AsyncIterator):
                async for step in part:
                    yield step
            else:
                yield part


async def echo(turn: TurnRequest) -> Play:
    """Replies with the message."""
    yield stream_reply(turn, turn.message.strip() or "(an empty message)")


async def calculator(turn: TurnRequest) -> Play:
    """Calculates the longest arithmetic expression of the message, as a tool run."""
    found = max((each.strip(" .") for each in _ARITHMETIC.findall(turn.message[:MAX_MESSAGE])), key=len, default="")
    try:
        value = await asyncio.to_thread(calculate, found)
    except BadArguments:
        yield stream_reply(turn, "I calculate expressions such as `(2 + 3) * 4` or `2^10 / 3`.")
        return
    yield run_subtask(turn, "calculate", turn.rng.uniform(0.03, 0.1), step=f"{found} = {value}")
    yield stream_reply(turn, f"**{found} = {value}**")


async def verbose(turn: TurnRequest) -> Play:
    """Runs many subtasks before its reply, each a ``runtime_done`` with ``{}``.

    For example, the message "12" asks for twelve.
    """
    count = int(_first_number(turn.message, turn.rng.randint(3, 8), _MAX_SUBTASKS))
    for number in range(1, count + 1):
        yield run_subtask(turn, "subtask", turn.rng.uniform(0.05, 0.2), number=number, of=count)
    text = (
        f"I finished {count} subtask{'s' * (count != 1)} for you. Each left a `runtime_done` event with `content` "
        "equal to `{}`; this reply is the one with `content.text`."
    )
    yield stream_reply(turn, text)


async def slow(turn: TurnRequest) -> Play:
    """Waits before it replies, and writes slowly.

    For example, the message "5" asks for five seconds, with a delay factor of 1.
    """
    seconds = _first_number(turn.message, turn.rng.uniform(4.0, 9.0), _MAX_WAIT_S)
    yield run_subtask(turn, "think", seconds, wait_s=round(seconds, 1))
    text = (
        f"That took {seconds:.1f} seconds of thought. A reply is persisted only when its turn completes, "
        "so a poll in between found nothing new."
    )
    async for step in stream_reply(turn, text):
        if isinstance(step, Draft):
            await pause(turn, 0.15)
        yield step


async def flaky(turn: TurnRequest) -> Play:
    """Fails some of its turns, chosen by the turn's seeded random numbers."""
    fails = turn.rng.random() < _FAILS
    yield run_subtask(turn, "try", turn.rng.uniform(0.1, 0.4), attempt=len(turn.history) // 2 + 1)
    if fails:
        yield Draft("I was about to")
        yield Failure(500, "ServerError", "Something went wrong")
        return
    text = f"It worked this time. About {_FAILS:.0%} of my turns fail; a client should show that and go on."
    yield stream_reply(turn, text)


async def limits(turn: TurnRequest) -> Play:
    """Exceeds the run limit that the message names, or an earlier one of the session.

    Without a name, it lists them. The limit is not really exceeded: the agent shows how
    a client handles the failure.
    """
    asked = [each.text for each in reversed(turn.history) if each.role == "user"]
    texts = [re.sub(r"[\s-]+", "_", text[:MAX_MESSAGE].lower()) for text in (turn.message, *asked)]
    kind = next((kind for text in texts for kind in RUN_FAILURES if kind in text), None)
    if kind is None:
        names = "\n".join(f"- `{kind}`: {failure(kind, turn.workspace_name).message}" for kind in RUN_FAILURES)
        yield stream_reply(turn, f"Name one of the run limits, and I run into it:\n\n{names}")
        return
    for number in range(2):
        yield run_subtask(turn, "subtask", turn.rng.uniform(0.05, 0.15), number=number + 1)
    yield Draft("Let me look into that")
    yield failure(kind, turn.workspace_name)


# Engine name -> what the agent plays
PLAYS = {each.__name__: each for each in (echo, calculator, verbose, slow, flaky, limits)}
