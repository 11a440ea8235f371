"""Decides when more of a connection is read, and when its next request is served.

Each handler that asks for its request's body makes uvicorn read on: without a limit, it
would read a megabyte of pipelined requests for every few that are answered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from uvicorn.protocols.http.flow_control import FlowControl


class Flow(FlowControl):
    """uvicorn's flow control, but it reads on only once all received data is parsed."""

    def __init__(self, transport: asyncio.Transport, unparsed: bytearray) -> None:
        super().__init__(transport)
        self._unparsed = unparsed

    def resume_reading(self) -> None:
        if not self._unparsed:
            super().resume_reading()


class LoopShare:
    """Lets a few of the waiting callers continue in each turn of the loop.

    Parameters
    ----------
    each_turn
        How many.
    """

    def __init__(self, each_turn: int) -> None:
        self._each_turn = each_turn
        self._waiting: deque[Callable[[], None]] = deque()

    def wait(self, resume: Callable[[], None]) -> None:
        """Call `resume` in one of the next turns, after those already waiting."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._serve)
        self._waiting.append(resume)

    def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(min(self._each_turn, len(self._waiting))):
            loop.call_soon(self._waiting.popleft())
        if self._waiting:
            loop.call_soon(self._serve)
