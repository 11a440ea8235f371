"""The rate limit: a number of requests per minute for each key or IP address.

The window is fixed: all counts restart with every full minute, because a client that
gets no ``Retry-After`` waits for the next minute of the ``Date`` header.

A request counts for its credential if that is valid, else for its IP address. So
guessing secrets is limited, and nobody can use up another key's limit by sending a
wrong secret with its id or from behind the same proxy.

If several processes form one platform, they share the windows (see
`cluster.request_pieces`).

Specification: "Errors", 429; "Limits", request count window.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ..cluster.request_pieces import SharedPieces

WINDOW_S = 60


class Window:
    """The counts of the current minute.

    Parameters
    ----------
    limit
        Requests per minute; must be positive.
    now
        Seconds since the epoch.
    pieces
        What this process may admit of the limit; None for all of it.
    """

    def __init__(self, limit: int, now: Callable[[], float] = time.time, pieces: SharedPieces | None = None) -> None:
        self._limit = limit
        self._now = now
        self._pieces = pieces
        self._minute = -1
        self._counts: dict[str, int] = {}

    async def admit(self, key: str) -> bool:
        """Count a request and return whether it is within the limit.

        `key` is the id of a valid key, or an address.
        """
        while True:
            minute = int(self._now() // WINDOW_S)
            if minute != self._minute:
                self._minute, self._counts = minute, {}
                if self._pieces is not None:
                    self._pieces.begin(minute)
            granted = self._limit if self._pieces is None else self._pieces.granted(key)
            count = self._counts.get(key, 0)
            if count < granted:
                self._counts[key] = count + 1
                return True
            if self._pieces is None or not await self._pieces.extend(key):
                return False
