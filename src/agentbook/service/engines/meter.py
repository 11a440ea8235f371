"""Run limits, held against what a turn really does.

An engine reports what it uses as steps (`LlmCall`, `LlmUsage`, `SubtaskStarted`, `ToolStarted`, `StateSaved`); the platform
shows each to the turn's `Meter`, which answers with the specification's failure once a limit is passed. A turn and all that it
starts are one execution tree. Specification: "Errors", runtime limit failures; "Limits". The numbers that the specification
leaves open are choices, generous enough that only a runaway agent meets them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from .base import Failure, LlmCall, LlmUsage, StateSaved, Step, SubtaskStarted, ToolDone, ToolStarted
from .run_limits import failure

MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What one turn may use.

    Attributes
    ----------
    state_bytes, llm_request_bytes : int
        Of the saved state and of one LLM request, in bytes. The specification's 8 MiB.
    llm_calls, llm_tokens, agent_tasks : int
        In one execution tree.
    tool_fan_out : int
        Tool runs started by one task.
    synchronous_steps : int
        Steps in a row without giving way to the event loop.
    workspace_budget, agent_budget, user_budget : int or None
        Tokens in a calendar month (UTC), the one currency that every endpoint counts in; None for no budget.
    power_factor : int
        By how much ``unlimited_power_mode`` raises the four limits of an execution tree. Raised, not removed.
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
    power_factor: int = 20

    def raised(self) -> RunLimits:
        """The ceilings that hold in a workspace with ``unlimited_power_mode``.

        Examples
        --------
        >>> RunLimits(llm_calls=10, power_factor=3).raised().llm_calls
        30
        """
        factor = self.power_factor
        return replace(
            self,
            llm_calls=self.llm_calls * factor,
            llm_tokens=self.llm_tokens * factor,
            agent_tasks=self.agent_tasks * factor,
            tool_fan_out=self.tool_fan_out * factor,
        )


@dataclass(frozen=True, slots=True)
class Budget:
    """What may still be spent this month: by whom (`scope` is ``WORKSPACE``, ``AGENT`` or ``USER``), and how many tokens."""

    scope: str
    name: str
    tokens_left: int


class Meter:
    """Counts what one turn uses.

    Parameters
    ----------
    limits
        What it may use.
    budgets
        What was left of the month's budgets when it began.

    Examples
    --------
    >>> meter = Meter(RunLimits(llm_calls=1))
    >>> meter.passed(LlmCall(100)) is None
    True
    >>> meter.passed(LlmCall(100)).message
    'exceeded LLM call limit for this execution tree'
    """

    def __init__(self, limits: RunLimits, budgets: tuple[Budget, ...] = ()) -> None:
        self.limits = limits
        self.budgets = budgets
        self.tokens = 0
        self._calls = 0
        self._tasks = 0
        # What runs, the turn itself first, a tool run's count None, a task's the number of tool runs that it has started.
        self._open: list[tuple[str | None, int | None]] = [(None, 0)]
        self._straight = 0

    def passed(self, step: Step, *, yielded: bool = True) -> Failure | None:
        """The failure of the limit that this step passes, None where it passes none.

        `yielded` says whether the event loop has had its turn since the step before.
        """
        self._straight = 0 if yielded else self._straight + 1
        kind = self._kind(step) if self._straight <= self.limits.synchronous_steps else "synchronous_steps"
        if kind is not None:
            return failure(kind, "")
        return self._overspent() if isinstance(step, LlmCall) else None

    def _kind(self, step: Step) -> str | None:
        """The key in `limits.RUN_FAILURES` of the limit that `step` passes."""
        limits = self.limits
        match step:
            case LlmCall(request_bytes):
                self._calls += 1
                return _first(
                    {
                        "llm_request_size": request_bytes > limits.llm_request_bytes,
                        "llm_calls": self._calls > limits.llm_calls,
                    }
                )
            case LlmUsage(tokens):
                self.tokens += tokens
                return _first({"llm_tokens": self.tokens > limits.llm_tokens})
            case SubtaskStarted(name):
                self._tasks += 1
                self._open.append((name, 0))
                return _first({"agent_tasks": self._tasks > limits.agent_tasks})
            case ToolStarted(name):
                return _first({"tool_fan_out": self._start_tool(name) > limits.tool_fan_out})
            case ToolDone(name):
                self._close(name)
            case StateSaved(size_bytes):
                return _first({"state_size": size_bytes > limits.state_bytes})
        return None

    def _start_tool(self, name: str) -> int:
        """Charge a tool run to the innermost task that runs; how many that task has started by now."""
        index, started = next((i, runs) for i, (_, runs) in reversed(list(enumerate(self._open))) if runs is not None)
        self._open[index] = (self._open[index][0], started + 1)
        self._open.append((name, None))
        return started + 1

    def _close(self, name: str) -> None:
        """End the newest run of this name; one that was never announced is nobody's."""
        for index in range(len(self._open) - 1, 0, -1):
            if self._open[index][0] == name:
                del self._open[index]
                return

    def _overspent(self) -> Failure | None:
        """A budget that is used up stops the next LLM call, never the answer that used it up."""
        for budget in self.budgets:
            if self.tokens >= budget.tokens_left:
                spent = failure("budget", budget.name)
                return replace(spent, message=spent.message.replace("WORKSPACE", budget.scope, 1))
        return None


def _first(passed: Mapping[str, bool]) -> str | None:
    return next((kind for kind, is_passed in passed.items() if is_passed), None)
