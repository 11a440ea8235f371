"""Adds turns to a test set, such as the inputs of a prompt lab."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from .html.sanitize import visible

if TYPE_CHECKING:
    import pandas as pd


class TestSet(Protocol):
    """An object that accepts turns as test inputs: a `PromptLab`."""

    @property
    def inputs(self) -> list[str]:
        """The current inputs."""

    def preview_inputs(self, turns: Any) -> pd.DataFrame:
        """What would be added: ``input`` and, in words, what was ``masked``."""

    def add_inputs(self, turns: Any) -> pd.DataFrame:
        """Add them."""


def collect(test_set: TestSet, turn: Any, *, confirm: bool) -> dict[str, Any]:
    """Add a turn, or show what would be added; returns what a page draws."""
    try:
        rows = test_set.add_inputs(turn) if confirm else test_set.preview_inputs(turn)
    except (ValueError, TypeError) as error:
        return {"error": visible(str(error))}
    row = rows.iloc[0]
    return {
        "text": visible(row["input"]),
        "masked": row["masked"],
        "added": confirm,
        "inputs": len(test_set.inputs),
    }
