"""The actions that a comparison's views offer to a person."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..widgets.actions import ChatActions
from .comparison import Choice, Round


@dataclass(frozen=True)
class CompareActions:
    """Callbacks for what a person presses; called on any thread.

    Attributes
    ----------
    chat : ChatActions
    prefer : callable
        Receives a round and a choice. Making the same choice again takes it back.
    """

    chat: ChatActions
    prefer: Callable[[Round, Choice], object]
