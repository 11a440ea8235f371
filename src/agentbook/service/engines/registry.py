"""Which engine runs which agent: names to factories.

An agent's row names its engine. A name that is not known, or whose engine is not installed, still yields a `Runtime`: one that
ends the turn with a failure saying what is missing, because a turn must never hang.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial

from ..demo.agents.analyst import Analyst
from ..demo.agents.calculator import Calculator
from ..demo.agents.guide import Guide
from ..demo.agents.prompt_agent import Scribe
from ..demo.agents.stand_in import StandIn
from ..demo.agents.teaching import Echo, Flaky, Slow, Verbose
from .base import Failure, Runtime, Step, TurnRequest
from .llm.settings import configured, from_environment
from .run_limits import RUN_FAILURES, LimitReached


@dataclass(frozen=True, slots=True)
class Missing:
    """Stands where an engine is not installed: every turn fails at once and says why."""

    name: str
    advice: str

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """One `Failure`."""
        yield Failure(
            500, "EngineNotInstalled", f"Agent {turn.agent_name!r} runs on the engine {self.name!r}, {self.advice}"
        )


def _llm() -> Runtime:
    # Without an endpoint the stand-in answers, and says so in every reply.
    if not configured(os.environ):
        return StandIn()
    # Loaded here, because few services have a model and all of them load this module.
    from .llm import LlmEngine

    return LlmEngine(from_environment(os.environ))


def _not_installed(template: str) -> Callable[[], Runtime]:
    return lambda: Missing(
        template,
        "which this service does not include; choose the template LLM or PLATFORM_NATIVE, or run it on the platform.",
    )


def _unconfigured(template: str) -> Runtime:
    return Missing(template, "which has nothing to run yet; give it a system prompt with configure-llm first.")


# Engine name -> what makes its Runtime. Runtimes hold no state of a turn, so one may run many turns at once.
ENGINES: dict[str, Callable[[], Runtime]] = {
    "guide": Guide,
    "analyst": Analyst,
    "llm": _llm,
    "stand-in": StandIn,
    "scribe": Scribe,
    "echo": Echo,
    "calculator": Calculator,
    "verbose": Verbose,
    "slow": Slow,
    "flaky": Flaky,
    **{f"limit-{kind.replace('_', '-')}": partial(LimitReached, kind) for kind in RUN_FAILURES},
    **{name: partial(_unconfigured, name) for name in ("blank", "auto_managed_state")},
    **{name: _not_installed(name) for name in ("goose", "openclaw", "langgraph", "adk")},
}


def engine(name: str) -> Runtime:
    """The engine of that name, ready to run turns.

    Parameters
    ----------
    name
        A key of `ENGINES`; case is ignored, and ``_`` and ``-`` count the same.

    Returns
    -------
    Runtime
        For a name that is not known: one whose every turn ends with `Failure(500, "EngineNotInstalled", ...)`.

    Examples
    --------
    >>> type(engine("echo")).__name__
    'Echo'
    """
    wanted = name.strip().lower()
    for spelt in (wanted, wanted.replace("_", "-"), wanted.replace("-", "_")):
        if spelt in ENGINES:
            return ENGINES[spelt]()
    return Missing(name, f"which this service does not know; it knows {', '.join(sorted(ENGINES))}.")
