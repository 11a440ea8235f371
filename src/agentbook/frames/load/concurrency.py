"""How many requests to have under way at once, from what they are seen to cost.

On a fast link one connection beats sixteen: every further thread only waits for the same processor. On a slow one the
processor waits for the network, and as many requests fit into one round trip as their handling takes a part of it.
"""

from __future__ import annotations

import bisect
import math

MOST = 24  # requests under way; the transport keeps at most 32 connections
_KEPT = 3  # of the shortest waits: the least alone may be a freak
_SURELY_SLOW_S = 0.015  # no connection within a machine or a rack waits so long


class ConcurrencyLimit:
    """Turns waits and costs into a number of requests.

    The wait counted is among the shortest seen. A platform that answers more slowly the more it is asked would else be
    asked ever more.

    Examples
    --------
    >>> pace = ConcurrencyLimit()
    >>> pace.target
    1
    >>> for _ in range(5):
    ...     pace.seen(wait_s=0.080, cost_s=0.002)
    >>> pace.target
    24
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._waits: list[float] = []
        self._cost_s = 0.0

    def seen(self, wait_s: float, cost_s: float) -> None:
        """One request waited `wait_s` for the network and took `cost_s` of this process's time, its parsing included."""
        bisect.insort(self._waits, wait_s)
        del self._waits[_KEPT:]
        self._cost_s = cost_s if not self._cost_s else 0.8 * self._cost_s + 0.2 * cost_s

    @property
    def target(self) -> int:
        """Requests to have under way now."""
        if not self._waits:
            return 1
        wait_s = self._waits[(len(self._waits) - 1) // 2]
        if len(self._waits) < _KEPT and wait_s < _SURELY_SLOW_S:
            return 1  # the first reply waits for its connection too
        fitting = wait_s / max(self._cost_s, 1e-4)
        # Two threads that compete for the interpreter are slower than one that waits a little.
        return 1 if fitting < 2.5 else min(self._most, 1 + math.ceil(fitting))
