"""The agents of the demo data, which answer without a network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...engines.base import Engine
from ...engines.run_limits import RUN_FAILURES, teaching_agent
from .analyst import Analyst
from .calculator import Calculator
from .guide import Guide
from .prompt_agent import PromptAgent
from .stand_in import StandIn
from .teaching import Echo, Flaky, LimitReached, Slow, Verbose

# Engine name -> factory.
AGENTS: dict[str, Callable[[], Engine]] = {
    "guide": Guide,
    "analyst": Analyst,
    "stand-in": StandIn,
    "scribe": PromptAgent,
    "echo": Echo,
    "calculator": Calculator,
    "verbose": Verbose,
    "slow": Slow,
    "flaky": Flaky,
    **{teaching_agent(kind): partial(LimitReached, kind) for kind in RUN_FAILURES},
}
