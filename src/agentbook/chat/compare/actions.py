"""What a person can do in a comparison, as the views of it know it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .comparison import Choice, Round


@dataclass(frozen=True)
class CompareActions:
    """What happens when a person presses something; called on any thread.

    Attributes
    ----------
    send : callable
        Receives the text of a message, and what to call with whether it was taken.
    stop, switch_pictures : callable
    retry : callable
        Receives the exchange.
    prefer : callable
        Receives a round and a choice; made a second time, it takes the first back.
    """

    send: Callable[[str, Callable[[bool], None]], object]
    stop: Callable[[], object]
    switch_pictures: Callable[[], object]
    retry: Callable[[Any], object]
    prefer: Callable[[Round, Choice], object]
