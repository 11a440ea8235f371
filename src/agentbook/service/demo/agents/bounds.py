"""How much of a turn the rule-based agents read.

A message may have a million characters. An agent that matches rules against words reads
only the first thousands, in a thread. So it does not delay other turns, and its work is
over within a second or so.
"""

from __future__ import annotations

from dataclasses import replace

from ...engines.base import Message, TurnRequest

MAX_MESSAGE = 20_000  # characters
MAX_PROMPT = 50_000
_MAX_HISTORY = 40  # messages


def readable(turn: TurnRequest) -> TurnRequest:
    """The turn, reduced to what such an agent reads."""
    return replace(
        turn,
        message=turn.message[:MAX_MESSAGE],
        system_prompt=turn.system_prompt[:MAX_PROMPT] if turn.system_prompt else turn.system_prompt,
        history=[Message(message.role, message.text[:MAX_MESSAGE]) for message in turn.history[-_MAX_HISTORY:]],
    )
