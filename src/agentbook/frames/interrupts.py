"""Where an interrupt may strike: between two steps of a load, not in the middle of one.

Python raises `KeyboardInterrupt` between any two instructions of the main thread, such as between a page's rows being kept and
that being noted: going on from there would repeat them. What is done inside `shielded` is finished first. Nothing that waits
for the network belongs inside.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class shielded:  # noqa: N801 (used as a statement, like contextlib.suppress)
    """Hold an interrupt back until the block is left.

    Examples
    --------
    >>> with shielded():
    ...     kept = "all of it, or nothing"
    """

    __slots__ = ("_before", "_held")

    def __init__(self) -> None:
        self._before: Any = None
        self._held: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> None:
        # Interrupts reach the main thread alone, and only it may say what becomes of them.
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if callable(before):
                signal.signal(signal.SIGINT, self._hold)
                self._before = before

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self._held = number, frame

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            if self._held is not None:
                self._before(*self._held)


__all__ = ["shielded"]
