"""Pure functions of frames: turns, activity, timing, failures, periods, credentials."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@functools.cache
def analyses() -> dict[str, Callable[..., pd.DataFrame]]:
    """The functions of `agentbook` that make a frame of a history alone, by name."""
    package = import_module("agentbook")
    # A reading list is a sample of a history, not a figure of it.
    homes = {name: home for name, home in package._HOMES.items() if name != "reading_list"}
    names = [name for name, home in homes.items() if home.startswith("frames.analysis.")]
    functions = {name: getattr(package, name) for name in names if inspect.isfunction(getattr(package, name))}
    return {name: function for name, function in functions.items() if _takes_a_history_alone(function)}


def _takes_a_history_alone(function: Callable[..., Any]) -> bool:
    signature = inspect.signature(function)
    _, *others = signature.parameters.values()
    return signature.return_annotation == "pd.DataFrame" and all(each.default is not each.empty for each in others)
