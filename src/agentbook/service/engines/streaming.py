"""How every offline agent speaks: word by word, as drafts, and then the whole reply.

Drafts joined are the reply, so a reader who saw the stream and a reader who polls end with the same text.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

from .base import Draft, Reply, Step, ToolDone, ToolStarted, TurnRequest

_WORD = re.compile(r"\s*\S+\s*\Z|\s*\S+|\s+")
_SHORTEST_S, _LONGEST_S = 0.02, 0.05
# A long page is spoken in longer pieces: nobody waits two minutes for a table.
_MOST_PIECES = 220


def pieces(text: str, most: int = _MOST_PIECES) -> list[str]:
    """`text` cut at word boundaries into at most `most` pieces; joined they are `text`.

    Examples
    --------
    >>> pieces("one two  three")
    ['one', ' two', '  three']
    """
    words = _WORD.findall(text)
    size = max(1, -(-len(words) // most))
    return ["".join(words[start : start + size]) for start in range(0, len(words), size)]


async def pause(turn: TurnRequest, seconds: float) -> None:
    """Wait `seconds` scaled by the turn's pace. At pace 0 it still yields to the loop, so that a turn can be cancelled."""
    await asyncio.sleep(seconds * turn.pace)


async def say(turn: TurnRequest, text: str) -> AsyncIterator[Step]:
    """Drafts of `text`, then the `Reply`."""
    for piece in pieces(text):
        yield Draft(piece)
        await pause(turn, turn.rng.uniform(_SHORTEST_S, _LONGEST_S))
    yield Reply(text)


async def work(turn: TurnRequest, name: str, seconds: float, **arguments: object) -> AsyncIterator[Step]:
    """One subtask that takes a while: started, a pause, done."""
    yield ToolStarted(name, arguments)
    await pause(turn, seconds)
    yield ToolDone(name)
