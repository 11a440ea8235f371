"""How much of a turn the rule-based agents read, and where they run.

A message may have a million characters. An agent that matches rules against words reads
only the first thousands, in a thread. So it does not delay other turns, its work is
over within a second or so, and the turn's ceiling ends the wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import ParamSpec, TypeVar

from ...engines.base import Message, TurnRequest

MAX_MESSAGE = 20_000  # characters
MAX_PROMPT = 50_000
_MAX_HISTORY = 40  # messages

P = ParamSpec("P")
T = TypeVar("T")


def readable(turn: TurnRequest) -> TurnRequest:
    """The turn, reduced to what such an agent reads.

    Examples
    --------
    >>> readable.__name__
    'readable'
    """
    return replace(
        turn,
        message=turn.message[:MAX_MESSAGE],
        system_prompt=turn.system_prompt[:MAX_PROMPT] if turn.system_prompt else turn.system_prompt,
        history=[Message(message.role, message.text[:MAX_MESSAGE]) for message in turn.history[-_MAX_HISTORY:]],
    )


async def compute(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a thread."""
    return await asyncio.to_thread(function, *args, **kwargs)
