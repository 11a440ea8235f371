"""How many requests to have in flight at once, based on their observed cost.

On a fast link, one connection beats sixteen, because more threads only wait for the
same processor. On a slow link, the processor waits for the network, and it pays to have
as many requests in flight as can be processed during one round trip.
"""

from __future__ import annotations

import bisect
import math
import statistics
from collections import deque

MAX_CONCURRENCY = 24  # the transport keeps at most 32 connections
_WAITS = 3  # how many of the shortest waits to use, because a single one may be an outlier
_COSTS = 7  # how many of the latest costs to use
_FIRST_COSTS = 3  # before this many are known, the imports of the first request dominate
_AHEAD = 2  # replies from a slow network also wait for the interpreter, for varying times
_SLOW_S = 0.015  # no connection within a machine or a rack waits this long


class ConcurrencyLimit:
    """Turns waits and costs into a number of requests.

    It uses the median of the shortest waits seen. Otherwise a platform that answers
    more slowly under load would be sent more and more requests. Costs are CPU time, and
    the median of the latest ones is used. A busy machine makes requests take longer,
    but waiting for several at once is still worthwhile. The first request also pays for
    imports and handshakes, so on a slow network its cost alone does not set a limit.

    Parameters
    ----------
    maximum : int

    Examples
    --------
    >>> limit = ConcurrencyLimit()
    >>> limit.target
    1
    >>> for _ in range(5):
    ...     limit.record(wait_s=0.080, cost_s=0.002)
    >>> limit.target
    24
    """

    def __init__(self, maximum: int = MAX_CONCURRENCY) -> None:
        self._maximum = maximum
        self._waits: list[float] = []
        self._costs: deque[float] = deque(maxlen=_COSTS)

    def record(self, wait_s: float, cost_s: float) -> None:
        """Record a request: seconds it waited for the network, and seconds of CPU time
        it took in this process, parsing included.
        """
        bisect.insort(self._waits, wait_s)
        del self._waits[_WAITS:]
        self._costs.append(cost_s)

    @property
    def target(self) -> int:
        """The number of requests to have in flight now."""
        if not self._waits:
            return 1
        wait_s = self._waits[(len(self._waits) - 1) // 2]
        if len(self._waits) < _WAITS and wait_s < _SLOW_S:
            return 1  # the first reply also waits for the connection
        cost_s = statistics.median(self._costs) if len(self._costs) >= _FIRST_COSTS else 0.0
        per_wait = wait_s / max(cost_s, 1e-4)
        # Two threads that compete for the interpreter are slower than one. A slow
        # network outweighs that, even if costs rise on a busy machine.
        if wait_s >= _SLOW_S:
            per_wait *= _AHEAD
        elif per_wait < 2.5:
            return 1
        return min(self._maximum, 1 + math.ceil(per_wait))
