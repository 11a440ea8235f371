"""The seam between the platform and the agents that run on it: one small interface.

A `Runtime` gets a `TurnRequest` and yields steps. It never touches the store or a socket: the platform turns steps into
events (drafts live, everything else persisted when the turn completes), enforces the run limits, and decides ids and
times. So an agent can be tested by collecting what it yields.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Draft:
    """A further piece of the reply while it is being written; shown live, never persisted."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool run or subtask began. `name` is shown live; `arguments` are JSON values."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolDone:
    """The last `ToolStarted` finished; it becomes a ``runtime_done`` event with ``content`` equal to ``{}``."""

    name: str


@dataclass(frozen=True, slots=True)
class Reply:
    """The turn's answer, whole; it becomes the ``runtime_done`` event that carries ``content.text``. The last step."""

    text: str


@dataclass(frozen=True, slots=True)
class Failure:
    """The turn ended without an answer; it becomes a ``runtime_error`` event. The last step.

    `message` is the specification's where the cause is one of its run limits.
    """

    status: int
    error: str
    message: str


@dataclass(frozen=True, slots=True)
class SubtaskStarted:
    """A sub-agent's task began; a `ToolDone` of the same name ends it, and tool runs until then are counted as its own.

    Shown and persisted as a tool run is. Counted against the run limit of agent tasks.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LlmCall:
    """An LLM request of `request_bytes` bytes (its whole body) is about to be sent.

    Yield it before sending. Where it passes a run limit the turn ends here, and the request is never sent.
    """

    request_bytes: int


@dataclass(frozen=True, slots=True)
class LlmUsage:
    """What the last `LlmCall` used, as the endpoint counts it: tokens of the prompt and of the answer together."""

    tokens: int


@dataclass(frozen=True, slots=True)
class StateSaved:
    """The agent's state as it is kept from turn to turn is now `size_bytes` long. An agent without state yields none."""

    size_bytes: int


# The last four say what a turn uses. Nobody sees them; the platform holds them against the run limits (`runtime.meter`)
# and, where one is passed, closes the engine's generator at that very step and ends the turn with the limit's failure.
Step = Draft | ToolStarted | ToolDone | Reply | Failure | SubtaskStarted | LlmCall | LlmUsage | StateSaved


@dataclass(frozen=True, slots=True)
class Message:
    """One earlier message of the session. `role` is ``user`` or ``assistant``."""

    role: str
    text: str


class ActivityReader(Protocol):
    """What an agent may read of the platform: the sessions that the account it runs for can see, by real queries."""

    def rows(self, sql: str, parameters: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Run one SELECT. Every query is restricted to the account: it can name ``:account_id``."""
        ...


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """All that a turn may depend on. Its reply must be a function of this, so that a seeded service repeats itself."""

    session_id: str
    task_id: str
    account_id: str
    workspace_name: str
    agent_name: str
    message: str
    history: Sequence[Message]
    system_prompt: str | None
    mode: str
    tools: Sequence[Mapping[str, Any]]
    platform_tools: Sequence[str]
    unlimited_power_mode: bool
    activity: ActivityReader
    rng: random.Random  # seeded by the service from (seed, agent version, history)
    pace: float  # multiply every pause by this; 0 means as fast as possible


class Runtime(Protocol):
    """An engine that agents run on."""

    def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """Answer one turn. Yields steps; the last is a `Reply` or a `Failure`. Cancellation ends it at any await."""
        ...
