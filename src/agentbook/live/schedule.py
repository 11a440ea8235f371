"""When a watch updates next: regularly, later after errors, at once after a sleep."""

from __future__ import annotations

import asyncio
import contextlib
import time

MAX_BACKOFF_S = 60.0  # between two attempts while the platform cannot be reached


class Clock:
    """The clocks of this machine."""

    def monotonic(self) -> float:
        """Seconds by a clock that never jumps, but may stop during sleep."""
        return time.monotonic()

    def wall(self) -> float:
        """Seconds since 1970 by the wall clock, which may jump."""
        return time.time()

    async def sleep(self, seconds: float, event: asyncio.Event) -> None:
        """Wait this long, or until the event is set."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()


class Schedule:
    """When to look next.

    An update is due when either clock says so: on many machines the monotonic clock
    stops during sleep, and the wall clock can be set back.

    Parameters
    ----------
    every_s : float
        Seconds between two updates.
    clock : Clock

    Examples
    --------
    >>> schedule = Schedule(10.0, Clock())
    >>> schedule.looked(failures=0)
    >>> 9 < schedule.remaining_s() <= 10
    True
    """

    def __init__(self, every_s: float, clock: Clock) -> None:
        self.every_s = every_s
        self._clock = clock
        self.looked(failures=0)

    def looked(self, *, failures: int) -> None:
        """Record an update, and how many in a row have failed."""
        delay_s = self.every_s
        if failures > 1:
            delay_s = min(self.every_s * 2.0 ** min(failures - 1, 30), max(self.every_s, MAX_BACKOFF_S))
        self._due = self._clock.monotonic() + delay_s
        self._due_at = self._clock.wall() + delay_s

    def remaining_s(self) -> float:
        """Seconds until the next update is due; 0 if it is due now."""
        return max(min(self._due - self._clock.monotonic(), self._due_at - self._clock.wall()), 0.0)


__all__ = ["MAX_BACKOFF_S", "Clock", "Schedule"]
