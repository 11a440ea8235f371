"""A call once a second while a reply is pending: the panel shows how long it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

INTERVAL_S = 1.0


class Ticker:
    """Calls a function once a second while there is a reason to.

    Parameters
    ----------
    is_needed : callable
        Returns whether to continue; called before each tick.
    on_tick : callable
    interval_s : float
    """

    def __init__(
        self, is_needed: Callable[[], bool], on_tick: Callable[[], None], interval_s: float = INTERVAL_S
    ) -> None:
        self._is_needed, self._on_tick, self._interval_s = is_needed, on_tick, interval_s
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start ticking; does nothing without a running loop, or if already ticking."""
        if self._timer is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # events are fed by hand: nothing is waiting
            return
        self._timer = loop.call_later(self._interval_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._is_needed():
            self._on_tick()
            self.start()
