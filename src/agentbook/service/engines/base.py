"""The interface between the platform and the agents that run on it.

An `Engine` receives a `TurnRequest` and yields steps. It never touches the store or a
socket: the platform turns steps into events (drafts live, everything else stored when
the turn completes), enforces the run limits, and assigns ids and times. So a test of an
agent only needs to collect the steps.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...agents import LlmUsage as LlmUsage
from ...agents import ToolDone as ToolDone
from ...agents import ToolStarted as ToolStarted


@dataclass(frozen=True, slots=True)
class Draft:
    """The next piece of the reply as it is written; shown live, never stored."""

    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """The complete answer; the last step of a turn.

    Becomes the ``runtime_done`` event that carries ``content.text``: what the agent
    wrote, and nothing else. `finish_reason` is why its language model stopped before
    the end, as its endpoint names it: ``length``, ``content_filter``. None otherwise.
    """

    text: str
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """The turn ended without an answer; the last step of a turn.

    Becomes a ``runtime_error`` event. If the cause is a run limit, `message` is the
    specification's.
    """

    status: int
    error: str
    message: str


@dataclass(frozen=True, slots=True)
class SubtaskStarted:
    """A sub-agent's task started; a `SubtaskDone` of the same name ends it.

    Tool runs until then count as the subtask's own. A subtask is shown and stored like
    a tool run, and counts against the run limit of agent tasks.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SubtaskDone(ToolDone):
    """The newest `SubtaskStarted` of this name finished, and what it left running."""


@dataclass(frozen=True, slots=True)
class LlmCall:
    """An LLM request whose body has `request_bytes` bytes is about to be sent.

    Yield it before sending. If the request exceeds a run limit, the turn ends here and
    the request is never sent. `agent_id` is set by the platform for a sub-agent's call.
    """

    request_bytes: int
    agent_id: str | None = None


@dataclass(frozen=True, slots=True)
class StateSaved:
    """The state that the agent keeps from turn to turn is now `size_bytes` long.

    The next turn of the session gets `state` as `TurnRequest.state`, if this turn ends
    with a reply. An agent without state never yields this.
    """

    size_bytes: int
    state: str | None = None
    agent_id: str | None = None


# `SubtaskStarted`, `LlmCall`, `LlmUsage` and `StateSaved` report what a turn uses. The
# platform charges them to the run limits (`engines.meter`); once a limit is exceeded,
# it closes the engine's generator at that step and ends the turn with the limit's
# failure.
Step = Draft | ToolStarted | ToolDone | Reply | Failure | SubtaskStarted | LlmCall | LlmUsage | StateSaved


@dataclass(frozen=True, slots=True)
class Message:
    """An earlier message of the session. `role` is ``user`` or ``assistant``."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class CallableAgent:
    """An agent that another agent may call by name."""

    name: str
    description: str | None


class AgentCalls(Protocol):
    """Runs other agents on behalf of the agent whose turn it is."""

    @property
    def agents(self) -> Sequence[CallableAgent]:
        """The agents that may be called."""
        ...

    def run(self, name: str, message: str) -> AsyncIterator[Step]:
        """Have one of `agents` answer a message.

        Yields the steps to pass on, so that the platform can meter them, and finally a
        `Reply` or a `Failure`, which is for the caller only. Drafts are left out.
        """
        ...


class NoAgentCalls:
    """Offers no agents."""

    agents: Sequence[CallableAgent] = ()

    async def run(self, name: str, message: str) -> AsyncIterator[Step]:
        yield Failure(404, "NotFound", f"Agent {name!r} not found")


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """Everything a turn may depend on.

    The reply must be a function of the request, so that a seeded service always gives
    the same replies.

    Attributes
    ----------
    message : str
        The message to answer.
    history : sequence of Message
        The earlier messages and replies of the session, oldest first.
    system_prompt, mode, tools, platform_tools
        The configuration of the agent's committed version.
    prompt_is_visible : bool
        Whether the account that owns the workspace may read the system prompt. If not,
        no reply and no failure quotes it.
    state : str or None
        The state that the agent saved in earlier turns of the session (`StateSaved`).
    calls : AgentCalls
        Runs the agents that this one may call.
    model : str or None
        The language model that the version names; None for the service's default.
    sampling : mapping of str to number
        Whichever of temperature, max_tokens and top_p the version sets.
    rng : random.Random
        Seeded from the service's seed, the agent's version and the history.
    delay_factor : float
        The factor by which every pause is multiplied; 0 means as fast as possible.
    """

    session_id: str
    task_id: str
    workspace_name: str
    agent_name: str
    message: str
    history: Sequence[Message]
    system_prompt: str | None
    mode: str
    tools: Sequence[Mapping[str, Any]]
    platform_tools: Sequence[str]
    unlimited_power_mode: bool
    rng: random.Random
    delay_factor: float
    state: str | None = None
    calls: AgentCalls = field(default_factory=NoAgentCalls, repr=False)
    prompt_is_visible: bool = False
    model: str | None = None
    sampling: Mapping[str, float] = field(default_factory=dict)

    @property
    def hides_steps(self) -> bool:
        """Whether the contents of tool runs might quote a prompt to strangers."""
        return self.system_prompt is not None and not self.prompt_is_visible


class Engine(Protocol):
    """Runs the turns of agents. An engine keeps no state about a turn."""

    def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """Answer one turn.

        Yields steps; the last is a `Reply` or a `Failure`. It can be cancelled at any
        await.
        """
        ...
