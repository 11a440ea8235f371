"""Run limits: the exact failures of the specification's last error table, and one agent for each, to teach and to test with.

The platform ends a turn with these when a limit is really passed; the agents below end every turn with theirs, so that what a
client does with a failure can be shown at will.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from .base import Draft, Failure, Step, TurnRequest
from .streaming import pause, work

_TOO_MANY = "TooManyRequests"

# kind -> the failure as the specification words it ("Errors", runtime limit failures). The order is the table's.
# `{name}` stands for the workspace, agent or user whose budget is spent.
RUN_FAILURES: dict[str, Failure] = {
    "state_size": Failure(413, "RequestEntityTooLarge", "413 Request Entity Too Large"),
    "llm_request_size": Failure(429, _TOO_MANY, "exceeded LLM request size limit for this task"),
    "llm_calls": Failure(429, _TOO_MANY, "exceeded LLM call limit for this execution tree"),
    "llm_tokens": Failure(429, _TOO_MANY, "exceeded LLM token limit for this execution tree"),
    "agent_tasks": Failure(429, _TOO_MANY, "exceeded agent task limit for this execution tree"),
    "tool_fan_out": Failure(429, _TOO_MANY, "exceeded tool fan-out limit for this task"),
    "budget": Failure(429, _TOO_MANY, "WORKSPACE budget exceeded for '{name}'"),
    "synchronous_steps": Failure(429, _TOO_MANY, "Agent ran too many synchronous steps without yielding"),
    "turn_timeout": Failure(429, _TOO_MANY, "TURN_TIMEOUT: the turn ran past the wall-clock ceiling"),
}

# What is seen of each limit before it strikes: how many subtasks finish, and whether a reply had begun.
_BEFORE: dict[str, tuple[int, bool]] = {
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


def failure(kind: str, name: str) -> Failure:
    """The failure of one run limit, `name` being whose budget is spent (used by ``budget`` alone).

    Raises `KeyError` for a kind that is not in `RUN_FAILURES`.

    Examples
    --------
    >>> failure("budget", "support").message
    "WORKSPACE budget exceeded for 'support'"
    """
    known = RUN_FAILURES[kind]
    return Failure(known.status, known.error, known.message.replace("{name}", name))


@dataclass(frozen=True, slots=True)
class LimitReached:
    """An agent that runs into one run limit on every turn; `kind` is a key of `RUN_FAILURES`."""

    kind: str

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """Some work, perhaps the beginning of a reply, then the limit's failure."""
        subtasks, began = _BEFORE[self.kind]
        for number in range(subtasks):
            async for step in work(turn, "subtask", turn.rng.uniform(0.05, 0.15), number=number + 1):
                yield step
        if began:
            for piece in ("Let", " me", " look", " into", " that"):
                yield Draft(piece)
                await pause(turn, 0.03)
        await pause(turn, 0.05)
        yield failure(self.kind, turn.workspace_name)
