"""Waiting, on whatever loop a cell runs, for work on the toolkit's own: the twin of `agentbook.events.loop.run` for `await`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from ...api.errors import DeadlineExceeded
from ...events import loop

T = TypeVar("T")

# An interrupt of a bare `await` wakes nothing in the kernel's loop; without a heartbeat it waits for the work itself.
HEARTBEAT_S = 0.1


async def awaited(work: Coroutine[Any, Any, T], timeout_s: float | None = None, *, operation: str | None = None) -> T:
    """What `work` returns, run on the toolkit's loop; whoever waits no longer cancels it.

    Raises
    ------
    DeadlineExceeded
        After `timeout_s` seconds; None waits without end.
    """
    future = loop.submit(work)
    until = None if timeout_s is None else time.monotonic() + timeout_s
    try:
        waiting = asyncio.wrap_future(future)
        while not waiting.done():
            if until is not None and time.monotonic() >= until:
                raise DeadlineExceeded(
                    f"{operation}: no reply within {timeout_s:g} s. The agent may still finish.", operation=operation
                )
            await asyncio.wait([waiting], timeout=HEARTBEAT_S)
        return waiting.result()
    finally:
        future.cancel()
