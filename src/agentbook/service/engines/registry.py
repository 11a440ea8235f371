"""The engines by name.

An agent's row in the store names its engine. If the name is unknown, or the engine is
not included, there is still an `Engine`: its turns end with a failure that says what is
missing, because a turn must never hang.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from .base import Engine, Failure, Step, TurnRequest
from .llm.models import is_configured, models_from_environment


@dataclass(frozen=True, slots=True)
class MissingEngine:
    """Ends every turn at once, with a failure that says why there is no engine."""

    name: str
    advice: str

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        """Yield one `Failure`."""
        yield Failure(
            500, "EngineNotInstalled", f"Agent {turn.agent_name!r} runs on the engine {self.name!r}, {self.advice}"
        )


def _make_llm_engine() -> Engine:
    # Loaded here because every service loads this module, and few have a model.
    from .llm.engine import LlmEngine

    return LlmEngine(models_from_environment(os.environ))


def with_model(
    offline: Callable[[], Engine], online: Callable[[Engine], Engine] = lambda model: model
) -> Callable[[], Engine]:
    """The factory of an agent that uses a language model where one is configured."""
    return lambda: online(_make_llm_engine()) if is_configured(os.environ) else offline()


_NOT_INCLUDED = (
    "which this service does not include; choose the template LLM or PLATFORM_NATIVE, or run it on the platform."
)
_NOT_RUNNING = "a function that this service does not have; start it with --agent OWNER~NAME=MODULE:FUNCTION."
_UNCONFIGURED = "which has nothing to run yet; give it a system prompt with configure-llm first."

# Before the full name of an agent that is a function: its engine.
FUNCTION = "function:"

# Engine name -> factory. An engine keeps no state about a turn, so one object may run
# many turns at once.
ENGINES: dict[str, Callable[[], Engine]] = {
    "llm": _make_llm_engine,
    **{name: partial(MissingEngine, name, _UNCONFIGURED) for name in ("blank", "auto_managed_state")},
    **{name: partial(MissingEngine, name, _NOT_INCLUDED) for name in ("goose", "openclaw", "langgraph", "adk")},
}


def load_engine(name: str, registered: Mapping[str, Callable[[], Engine]]) -> Engine:
    """The engine with that name, ready to run turns.

    Parameters
    ----------
    name
        A key of `registered` or `ENGINES`.
    registered
        Further engines, which come before those of the same name.

    Returns
    -------
    Engine
        If the name is unknown, an engine whose every turn ends with
        ``Failure(500, "EngineNotInstalled", ...)``.

    Examples
    --------
    >>> type(load_engine("blank", {})).__name__
    'MissingEngine'
    """
    engines = {**ENGINES, **registered}
    if name in engines:
        return engines[name]()
    if name.startswith(FUNCTION):
        return MissingEngine(name, _NOT_RUNNING)
    return MissingEngine(name, f"which this service does not know; it knows {', '.join(sorted(engines))}.")
