"""How offline agents stream a reply: word by word as drafts, then the complete reply.

The drafts, joined, are the reply, so a reader who follows the stream and a reader who
polls end up with the same text.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

from ...engines.base import Draft, Reply, Step, ToolDone, ToolStarted, TurnRequest

_WORD = re.compile(r"\s*\S+\s*\Z|\s*\S+|\s+")
_MIN_PAUSE_S, _MAX_PAUSE_S = 0.02, 0.05
# A long reply is sent in larger pieces, so that a table does not take two minutes.
_MAX_PIECES = 220
# A text longer than this is not split word by word, which would hold up other turns.
_MAX_SPLIT_CHARACTERS = 20_000
_SPACE = re.compile(r"\s")


def split_words(text: str, max_pieces: int = _MAX_PIECES) -> list[str]:
    """Split `text` between words into at most `max_pieces` pieces.

    The pieces, joined, are `text`.

    Examples
    --------
    >>> split_words("one two  three")
    ['one', ' two', '  three']
    """
    if len(text) > _MAX_SPLIT_CHARACTERS:
        return _split_evenly(text, max_pieces)
    words = _WORD.findall(text)
    size = max(1, -(-len(words) // max_pieces))
    return ["".join(words[start : start + size]) for start in range(0, len(words), size)]


def _split_evenly(text: str, max_pieces: int) -> list[str]:
    size = -(-len(text) // max_pieces)
    pieces, start = [], 0
    while start < len(text):
        space = _SPACE.search(text, start + size)
        end = space.start() if space is not None else len(text)
        pieces.append(text[start:end])
        start = end
    return pieces


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
