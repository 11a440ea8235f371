"""Agents that call agents: the sub-agents of a turn.

An agent may call those installed in the workspace of its session. A sub-agent answers
one message and knows nothing else about the session, except what it saved itself. What
it uses counts towards the same execution tree; its tokens are charged to its own
budget. The depth is limited here; the number of calls is limited by the run limit for
agent tasks.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, or_, select

from ..engines.base import (
    CallableAgent,
    Draft,
    Engine,
    Failure,
    LlmCall,
    LlmUsage,
    Reply,
    StateSaved,
    Step,
    TurnRequest,
)
from ..engines.meter import Budget, RunLimits, failure
from ..store.tables import agents, memberships, workspace_agents, workspaces
from .execution import INTERNAL_ERROR, close_steps, without_contents

log = logging.getLogger("agentbook.service")

MAX_DEPTH = 3  # an agent, its sub-agents, theirs, and theirs

# Reads the engine's name, the request and the budget of an agent's turn.
_Called = tuple[str, TurnRequest, Budget | None]
ReadAgent = Callable[[Connection, str, str], _Called]


@dataclass(frozen=True, slots=True)
class InstalledAgent(CallableAgent):
    """An agent that a turn may call."""

    id: str


def installed_agents(db: Connection, workspace_id: str, *, besides: str) -> tuple[InstalledAgent, ...]:
    """The agents installed in a workspace that can run, without `besides`, by name.

    If several agents have the same name, the one installed first is chosen.
    """
    organizations = select(memberships.c.organization_id).where(memberships.c.user_id == workspaces.c.owner_id)
    query = (
        select(agents.c.id, agents.c.name, agents.c.description)
        .join(workspace_agents, workspace_agents.c.agent_id == agents.c.id)
        .join(workspaces, workspaces.c.id == workspace_agents.c.workspace_id)
        .where(
            workspace_agents.c.workspace_id == workspace_id,
            agents.c.id != besides,
            ~agents.c.is_archived,
            agents.c.setup_state == "READY",
            # An agent that was public when it was installed may have become private.
            or_(agents.c.is_public, agents.c.owner_id == workspaces.c.owner_id, agents.c.owner_id.in_(organizations)),
        )
        .order_by(agents.c.name, workspace_agents.c.id)
    )
    by_name: dict[str, InstalledAgent] = {}
    for row in db.execute(query):
        by_name.setdefault(row.name, InstalledAgent(row.name, row.description, row.id))
    return tuple(by_name.values())


@dataclass(frozen=True, slots=True)
class SubAgents:
    """The agents that one agent may call in its turn (an `AgentCalls`).

    Attributes
    ----------
    read, engines
        Reads from the store, and what runs agents.
    read_agent
        Reads what a sub-agent's turn needs.
    agents
        Those that may be called.
    limits
        What the execution tree may use.
    depth
        How many agents have called one another so far.
    """

    read: Callable[[Callable[[Connection], _Called]], Awaitable[_Called]]
    engines: Callable[[str], Engine]
    read_agent: ReadAgent
    agents: Sequence[InstalledAgent]
    limits: RunLimits
    depth: int = 0

    async def run(self, name: str, message: str) -> AsyncIterator[Step]:
        """Let an agent answer; its last step is a `Reply` or a `Failure`."""
        agent = next((agent for agent in self.agents if agent.name == name), None)
        if agent is None:
            yield Failure(404, "NotFound", f"Agent {name!r} not found")
            return
        try:
            engine, request, budget = await self.read(lambda db: self.read_agent(db, agent.id, message))
            steps = self.engines(engine).run(replace(request, calls=self._calls_of(agent)))
            try:
                async for step in self._metered(steps, agent, budget):
                    yield without_contents(step) if request.hides_steps else step
                    if isinstance(step, Reply | Failure):
                        return
            finally:
                await close_steps(steps)
        except Exception:
            log.exception("the sub-agent %r failed", name)
            yield INTERNAL_ERROR

    async def _metered(
        self, steps: AsyncIterator[Step], agent: InstalledAgent, budget: Budget | None
    ) -> AsyncIterator[Step]:
        """The steps to pass on, each use marked as the sub-agent's own."""
        saved: StateSaved | None = None
        async for step in steps:
            match step:
                case Draft():
                    continue
                case LlmCall(agent_id=None):
                    spent = budget.failure if budget is not None else None
                    if spent is not None:
                        yield spent
                        return
                    yield replace(step, agent_id=agent.id)
                case LlmUsage(tokens, agent_id=None):
                    if budget is not None:
                        budget.remaining_tokens -= tokens
                    yield replace(step, agent_id=agent.id)
                case StateSaved(size_bytes, agent_id=None):
                    if size_bytes > self.limits.state_bytes:
                        yield failure("state_size")
                        return
                    saved = replace(step, agent_id=agent.id)
                case Reply():
                    if saved is not None:
                        yield saved
                    yield step
                    return
                case _:
                    yield step
        yield INTERNAL_ERROR

    def _calls_of(self, caller: InstalledAgent) -> SubAgents:
        """The agents that a sub-agent may call in turn."""
        is_deepest = self.depth + 1 >= MAX_DEPTH
        others = [] if is_deepest else [agent for agent in self.agents if agent.id != caller.id]
        return replace(self, agents=others, depth=self.depth + 1)
