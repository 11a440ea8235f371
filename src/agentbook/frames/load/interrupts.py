"""When an interrupt (Ctrl-C) may strike: between two steps of a load, not inside one.

Python raises `KeyboardInterrupt` between any two instructions of the main thread, for
example after a page's rows were kept and before that was recorded. Resuming from there
would repeat the rows.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class shielded:  # noqa: N801 (used as a statement, like contextlib.suppress)
    """Hold an interrupt back until the block ends.

    What waits for the network belongs into `interruptible`. Changing the handler of a
    signal costs several microseconds, `interruptible` almost nothing: so one block
    holds a whole load.

    Examples
    --------
    >>> with shielded() as shield:
    ...     page = shield.interruptible(str.upper, "an interrupt strikes here")
    ...     rows = "all or nothing"
    """

    __slots__ = ("_handler", "_open", "_pending")

    def __init__(self) -> None:
        self._handler: Any = None
        self._open = False
        self._pending: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> Self:
        # Only the main thread is interrupted, and only it may set handlers.
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                self._handler = handler
                signal.signal(signal.SIGINT, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        if self._handler is not None:
            self._open = False
            signal.signal(signal.SIGINT, self._handler)
            self._strike()

    def interruptible(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function during which an interrupt strikes at once."""
        self._open = True
        try:
            self._strike()
            return function(*args)
        finally:
            self._open = False

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._pending = number, frame
        if self._open:
            self._strike()

    def _strike(self) -> None:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self._handler(*pending)


__all__ = ["shielded"]
