"""Where an interrupt may strike: between two steps of a load, not in the middle of one.

Python raises `KeyboardInterrupt` between any two instructions of the main thread, such as between a page's rows being kept and
that being noted: going on from there would repeat them. What is done inside `held` is finished first. Nothing that waits
for the network belongs inside.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self


class Interrupts:
    """Decides, while it is entered, when interrupts strike: at once, or where a ``with`` of it that stands inside is left.

    Changing a signal's handler costs several microseconds, holding an interrupt back next to nothing. So the outermost
    ``with`` lets them through, for all of a load, and those inside hold them back, for its steps.

    Examples
    --------
    >>> with Interrupts() as held:
    ...     page = "wait for it"  # an interrupt strikes here
    ...     with held:
    ...         kept = "all of it, or nothing"
    """

    __slots__ = ("_before", "_depth", "_pending")

    def __init__(self) -> None:
        self._before: Any = None
        self._depth = -1
        self._pending: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> Self:
        # Interrupts reach the main thread alone, and only it may say what becomes of them.
        if self._depth < 0 and threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if callable(before):
                self._before = before
                signal.signal(signal.SIGINT, self._strike)
        self._depth += 1
        return self

    def _strike(self, number: int, frame: FrameType | None) -> None:
        if self._depth > 0:
            self._pending = number, frame
        else:
            self._before(number, frame)

    def __exit__(self, *_: object) -> None:
        if self._depth == 0 and self._before is not None:
            self._depth = 1  # nothing strikes between here and the handler that was there before
            signal.signal(signal.SIGINT, self._before)
            self._depth = 0
        self._depth -= 1
        if self._depth <= 0 and self._pending is not None:
            pending, self._pending = self._pending, None
            self._before(*pending)


class shielded:  # noqa: N801 (used as a statement, like contextlib.suppress)
    """Hold an interrupt back until the block is left.

    Examples
    --------
    >>> with shielded():
    ...     kept = "all of it, or nothing"
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = Interrupts()

    def __enter__(self) -> None:
        self._held.__enter__()
        self._held.__enter__()

    def __exit__(self, *_: object) -> None:
        try:
            self._held.__exit__()
        finally:
            self._held.__exit__()


__all__ = ["Interrupts", "shielded"]
