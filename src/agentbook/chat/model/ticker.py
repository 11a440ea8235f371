"""A call once a second while a reply is pending: the panel shows how long it takes.

Meanwhile, threads are switched more often, so that the reply is shown soon after it
arrives. Only one thread runs Python at a time, and a computing thread keeps the
interpreter for 5 milliseconds after another asks for it. Between a token and the
message that shows it, the interpreter changes hands about ten times, so while a cell
computes, a reply would be painted 40 ms later than with an idle kernel. Handing it over
after half a millisecond does not measurably slow down a computing cell: nothing changes
unless another thread asks.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from ...events.loop import on_loop_thread

INTERVAL_S = 1.0
SWITCH_S = 0.0005  # how soon the interpreter is handed over

_count = 0
_before_s = _ours_s = 0.0


class Ticker:
    """Calls a function once a second while there is a reason to.

    While it ticks on the toolkit's thread, whose loop never ends, threads are switched
    more often.

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
        switch_faster()

    def _tick(self) -> None:
        self._timer = None
        try:
            if self._is_needed():
                self._on_tick()
                self.start()
        finally:
            reset_switching()


def switch_faster() -> None:
    """Switch threads more often, until `reset_switching` was called as often."""
    global _count, _before_s, _ours_s
    if not on_loop_thread():
        return
    _count += 1
    current_s = sys.getswitchinterval()
    if _count == 1 and current_s > SWITCH_S:
        sys.setswitchinterval(SWITCH_S)
        _before_s, _ours_s = current_s, sys.getswitchinterval()


def reset_switching() -> None:
    """End a `switch_faster`; the last one restores the interval, if it is ours."""
    global _count, _ours_s
    if not on_loop_thread():
        return
    _count -= 1
    if _count == 0:
        if sys.getswitchinterval() == _ours_s:
            sys.setswitchinterval(_before_s)
        _ours_s = 0.0
