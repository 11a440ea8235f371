"""Pauses of a run while the platform's rate limit is reached."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from ..api.errors import RateLimited
from .configurator import Notify

if TYPE_CHECKING:
    from ..client import AsyncClient

WINDOW_S = 60.0  # "Limits": counts reset each minute
# If a platform refuses for longer than this, the rate limit is not the reason.
MAX_PAUSES = 10
POLL_S = 0.5


class Pauses:
    """Holds back the questions of a run while none would be accepted.

    Parameters
    ----------
    notify : callable
        Gets a sentence that says until when, and an empty one when the pause ends.
    """

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self._open = asyncio.Event()
        self._open.set()
        self._count = 0
        self._timers: set[asyncio.Task[None]] = set()

    async def passed(self) -> bool:
        """Wait for the end of a pause; returns True."""
        await self._open.wait()
        return True

    def pause(self, refusal: RateLimited) -> bool:
        """Hold questions back until the next minute; False if that does not help."""
        if not self._open.is_set():
            return True
        self._count += 1
        if self._count > MAX_PAUSES:
            return False
        self._open.clear()
        timer = asyncio.create_task(self._reopen(_remaining_s(refusal.date)))
        self._timers.add(timer)
        timer.add_done_callback(self._timers.discard)
        return True

    async def _reopen(self, seconds: float) -> None:
        self._say(seconds)
        await asyncio.sleep(seconds)
        self._open.set()
        self._notify("")

    def _say(self, seconds: float) -> None:
        until = datetime.now().astimezone() + timedelta(seconds=seconds)
        self._notify(f"paused until {until:%H:%M:%S}: this key has used up its requests of the minute")

    @contextlib.asynccontextmanager
    async def watching(self, client: AsyncClient) -> AsyncGenerator[None]:
        """Also report until when the client waits, which retries by itself."""
        watcher = asyncio.create_task(self._watch(getattr(client, "rate_limit", None)))
        try:
            yield
        finally:
            for task in (watcher, *self._timers):
                task.cancel()

    async def _watch(self, rate_limit: Any) -> None:
        paused = False
        while rate_limit is not None:
            if rate_limit.closed != paused:
                paused = rate_limit.closed
                if paused:
                    self._say(rate_limit.opens_in_s)
                else:
                    self._notify("")
            await asyncio.sleep(POLL_S)


def _remaining_s(date: str | None) -> float:
    """Seconds until the platform's next minute, by the date of its reply."""
    try:
        second = parsedate_to_datetime(date).second if date else 0
    except (TypeError, ValueError):
        second = 0
    return WINDOW_S - second
