"""The rate limit: a number of requests per minute for each key or IP address.

The window is fixed: all counts restart with every full minute, because a client that
gets no ``Retry-After`` waits for the next minute of the ``Date`` header.

A request counts for its credential if that is valid, else for its IP address. So
guessing secrets is limited, and nobody can use up another key's limit by sending a
wrong secret with its id or from behind the same proxy.

If several processes form one platform, they share the limit (see `cluster.quota`).

Specification: "Errors", 429; "Limits", request count window.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ..cluster import Reserve, reserve_all

WINDOW_S = 60


class Window:
    """The counts of the current minute.

    Parameters
    ----------
    limit
        Requests per minute; must be positive.
    now
        Seconds since the epoch.
    reserve
        How many requests this process may admit.
    """

    def __init__(self, limit: int, now: Callable[[], float] = time.time, reserve: Reserve = reserve_all) -> None:
        self._limit = limit
        self._now = now
        self._reserve = reserve
        self._minute = -1
        self._counts: dict[str, int] = {}
        self._reserved: dict[str, int] = {}

    async def admit(self, key: str) -> bool:
        """Count a request and return whether it is within the limit.

        `key` is the id of a valid key, or an address.
        """
        minute = int(self._now() // WINDOW_S)
        if minute != self._minute:
            self._minute, self._counts, self._reserved = minute, {}, {}
        counts, reserved = self._counts, self._reserved
        while (count := counts.get(key, 0)) >= reserved.get(key, 0):
            reserved[key] = await self._reserve(minute, key, self._limit, count)
            if reserved[key] <= count:
                return False
        counts[key] = count + 1
        return True
