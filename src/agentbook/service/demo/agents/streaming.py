"""What the agents without a model share: how much they read, and how they reply.

They read the first thousands of characters alone, and match rules in a thread: a
message may have a million, and must not delay other turns. They reply word by word in
drafts, and then as a whole. The drafts, joined, are the reply, so a reader who follows
the stream and a reader who polls end up with the same text.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace

from ...engines.base import Draft, Message, Reply, Step, ToolDone, ToolStarted, TurnRequest

MAX_MESSAGE = 20_000  # characters
MAX_PROMPT = 50_000
_MAX_HISTORY = 40  # messages

_MIN_PAUSE_S, _MAX_PAUSE_S = 0.02, 0.05
# A long reply is sent in larger pieces, so that a table does not take two minutes.
_MAX_PIECES = 220


def readable(turn: TurnRequest) -> TurnRequest:
    """The turn, reduced to what such an agent reads."""
    return replace(
        turn,
        message=turn.message[:MAX_MESSAGE],
        system_prompt=turn.system_prompt[:MAX_PROMPT] if turn.system_prompt else turn.system_prompt,
        history=[Message(message.role, message.text[:MAX_MESSAGE]) for message in turn.history[-_MAX_HISTORY:]],
    )


def split_words(text: str) -> list[str]:
    """Split `text` between words into a limited number of pieces.

    The pieces, joined, are `text`.

    Examples
    --------
    >>> split_words("one two  three")
    ['one', ' two', '  three']
    """
    size = max(1, -(-len(text) // _MAX_PIECES))
    return re.findall(rf"\s*.{{{size}}}\S*|.+", text, re.DOTALL)


async def pause(turn: TurnRequest, seconds: float) -> None:
    """Wait `seconds` times the turn's delay factor.

    With a factor of 0 it still yields to the event loop, so that a turn can be
    cancelled.
    """
    await asyncio.sleep(seconds * turn.delay_factor)


async def stream_reply(turn: TurnRequest, text: str) -> AsyncIterator[Step]:
    """Drafts of `text`, then the `Reply`."""
    for piece in split_words(text):
        yield Draft(piece)
        await pause(turn, turn.rng.uniform(_MIN_PAUSE_S, _MAX_PAUSE_S))
    yield Reply(text)


async def run_subtask(turn: TurnRequest, name: str, seconds: float, **arguments: object) -> AsyncIterator[Step]:
    """A subtask that takes `seconds`: start, pause, end."""
    yield ToolStarted(name, arguments)
    await pause(turn, seconds)
    yield ToolDone(name)
