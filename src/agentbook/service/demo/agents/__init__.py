"""The agents of the demo data, which answer without a network.

Those that have a system prompt use the language model, if one is configured.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...engines.base import Engine
from ...engines.registry import with_model
from .guide import Guide
from .recorded import Recorded
from .scribe import Scribe
from .teaching import PLAYS, Teaching

# Engine name -> factory. `llm` is every other agent with a system prompt.
AGENTS: dict[str, Callable[[], Engine]] = {
    "guide": with_model(Guide, lambda model: Guide(model=model)),
    "scribe": with_model(Scribe),
    "recorded": with_model(Recorded),
    "llm": with_model(partial(Scribe, stands_in=True)),
    **{name: partial(Teaching, play) for name, play in PLAYS.items()},
}
