"""What a person can do in a comparison, as the views of it know it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..widgets.actions import ChatActions
from .comparison import Choice, Round


@dataclass(frozen=True)
class CompareActions:
    """What happens when a person presses something; called on any thread.

    Attributes
    ----------
    chat : ChatActions
    prefer : callable
        Receives a round and a choice; made a second time, it takes the first back.
    """

    chat: ChatActions
    prefer: Callable[[Round, Choice], object]
