"""Run limits, checked against what a turn uses.

An engine reports what it uses as steps (`LlmCall`, `LlmUsage`, `SubtaskStarted`,
`ToolStarted`, `StateSaved`). The platform charges each step to the turn's `Meter`,
which returns the specification's failure once a limit is exceeded. A turn and
everything it starts form one execution tree. Specification: "Errors", runtime limit
failures; "Limits". The specification leaves most numbers open. The defaults here are
our choice, high enough that only a runaway agent reaches them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .base import Failure, LlmCall, LlmUsage, StateSaved, Step, SubtaskStarted, ToolStarted

MEBIBYTE = 1 << 20
# Factor by which `unlimited_power_mode` raises what one turn may use.
POWER_FACTOR = 20
_TOO_MANY = "TooManyRequests"

# Kind -> failure, in the order of the specification's table ("Errors", runtime limit
# failures). `{name}` is the workspace, agent or user whose budget is spent.
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


def failure(kind: str, name: str = "", scope: str = "WORKSPACE") -> Failure:
    """The failure of one run limit, a key of `RUN_FAILURES`.

    Only ``budget`` uses `name` and `scope`: whose budget is spent.

    Examples
    --------
    >>> failure("budget", "helper", "AGENT").message
    "AGENT budget exceeded for 'helper'"
    """
    spent = RUN_FAILURES[kind]
    return replace(spent, message=spent.message.replace("{name}", name).replace("WORKSPACE", scope, 1))


@dataclass(frozen=True, slots=True)
class RunLimits:
    """How much one turn may use.

    Attributes
    ----------
    state_bytes, llm_request_bytes : int
        Size of the saved state and of one LLM request, in bytes. By default 8 MiB, as
        in the specification.
    llm_calls, llm_tokens, agent_tasks : int
        Per execution tree.
    tool_fan_out : int
        Tool runs started by one task.
    synchronous_steps : int
        Consecutive steps without yielding to the event loop.
    workspace_budget, agent_budget, user_budget : int or None
        Tokens per calendar month (UTC), the unit that every endpoint counts in. None
        means no budget.
    """

    state_bytes: int = 8 * MEBIBYTE
    llm_request_bytes: int = 8 * MEBIBYTE
    llm_calls: int = 250
    llm_tokens: int = 5_000_000
    agent_tasks: int = 250
    tool_fan_out: int = 250
    synchronous_steps: int = 5_000
    workspace_budget: int | None = None
    agent_budget: int | None = None
    user_budget: int | None = None

    def for_unlimited_power(self) -> RunLimits:
        """The limits in a workspace with ``unlimited_power_mode``.

        Those of an execution tree are raised, not removed.

        Examples
        --------
        >>> RunLimits(llm_calls=10).for_unlimited_power().llm_calls
        200
        """
        raised = ("llm_calls", "llm_tokens", "agent_tasks", "tool_fan_out")
        return replace(self, **{name: getattr(self, name) * POWER_FACTOR for name in raised})


@dataclass(slots=True)
class Budget:
    """The tokens that a spender may still use this month.

    All concurrent turns of the spender share one budget, so each can exceed it by at
    most one answer. `scope` is ``WORKSPACE``, ``AGENT`` or ``USER``; `name` is the
    spender's. `remaining_tokens` may become negative.
    """

    scope: str
    name: str
    remaining_tokens: int

    @property
    def failure(self) -> Failure | None:
        """The failure of the next LLM call if the budget is used up, else None."""
        return failure("budget", self.name, self.scope) if self.remaining_tokens <= 0 else None


class Meter:
    """Counts what one turn uses.

    Parameters
    ----------
    limits
        How much the turn may use.
    budgets
        The month's budgets, shared with the other turns of the same spenders.

    Attributes
    ----------
    tokens_by_agent : Counter
        By the id of the sub-agent that used them; None is the turn's own agent.

    Examples
    --------
    >>> meter = Meter(RunLimits(llm_calls=1))
    >>> meter.charge(LlmCall(100)) is None
    True
    >>> meter.charge(LlmCall(100)).message
    'exceeded LLM call limit for this execution tree'
    """

    def __init__(self, limits: RunLimits, budgets: tuple[Budget, ...] = ()) -> None:
        self.limits = limits
        self.budgets = budgets
        self.tokens_by_agent: Counter[str | None] = Counter()
        self._usages: list[LlmUsage] = []
        self._calls = 0
        self._subtasks = 0
        self._tool_runs: Counter[str | None] = Counter()  # by the task that started them
        self._synchronous_steps = 0

    @property
    def tokens(self) -> int:
        """The tokens of the execution tree."""
        return self.tokens_by_agent.total()

    @property
    def usage(self) -> Mapping[str, Any] | None:
        """The tokens of the execution tree, as an event shows them; None without any.

        A sum is left out if the endpoint did not count one of its parts. Where several
        models were used, each has its own sums too.
        """
        if not self._usages:
            return None
        usage: dict[str, Any] = _sums(self._usages)
        by_model: dict[str, list[LlmUsage]] = {}
        for step in self._usages:
            by_model.setdefault(step.model or "", []).append(step)
        models = [step.model for step in self._usages if step.model is not None]
        if models:
            usage["model"] = models[-1]
        if len(by_model) > 1:
            usage["usage_by_model"] = {model: _sums(steps) for model, steps in by_model.items()}
        if any(step.is_estimate for step in self._usages):
            usage["estimated"] = True
        return usage

    def charge(self, step: Step, *, yielded: bool = True, task_id: str | None = None) -> Failure | None:
        """Count a step; return the failure of the limit that it exceeds, or None.

        `yielded` says whether the event loop has run anything else since the last step.
        `task_id` is the sub-agent's task that the step belongs to; None is the turn
        itself.
        """
        self._synchronous_steps = 0 if yielded else self._synchronous_steps + 1
        if self._synchronous_steps > self.limits.synchronous_steps:
            return failure("synchronous_steps")
        limits = self.limits
        match step:
            case LlmCall(request_bytes, agent_id):
                self._calls += 1
                if request_bytes > limits.llm_request_bytes:
                    return failure("llm_request_size")
                if self._calls > limits.llm_calls:
                    return failure("llm_calls")
                # A spent budget stops the next call, but not the answer that spent it.
                spent = (budget.failure for budget in self._budgets_of(agent_id))
                return next(filter(None, spent), None)
            case LlmUsage(tokens, agent_id):
                self._usages.append(step)
                self.tokens_by_agent[agent_id] += tokens
                for budget in self._budgets_of(agent_id):
                    budget.remaining_tokens -= tokens
                return failure("llm_tokens") if self.tokens > limits.llm_tokens else None
            case SubtaskStarted():
                self._subtasks += 1
                return failure("agent_tasks") if self._subtasks > limits.agent_tasks else None
            case ToolStarted():
                self._tool_runs[task_id] += 1
                return failure("tool_fan_out") if self._tool_runs[task_id] > limits.tool_fan_out else None
            case StateSaved(size_bytes):
                return failure("state_size") if size_bytes > limits.state_bytes else None
        return None

    def _budgets_of(self, agent_id: str | None) -> list[Budget]:
        """The budgets that a call of an agent spends.

        Each agent spends its own budget: a sub-agent's is the same whoever runs it.
        """
        return [budget for budget in self.budgets if agent_id is None or budget.scope != "AGENT"]


def _sums(steps: Sequence[LlmUsage]) -> dict[str, int]:
    sums = {"total_tokens": sum(step.tokens for step in steps)}
    for name in ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens"):
        counts = [getattr(step, name) for step in steps]
        if None not in counts:
            sums[name] = sum(counts)
    return sums
