"""How often widgets are drawn: changes are noted as they come and drawn together, a bounded number of times a second.

Jupyter Server drops messages above a rate, for good, and a browser that is told everything falls behind what it is told.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

# A reader sees no difference to 20 a second, whose envelopes alone would cost a stream a third more.
FLUSH_S = 1 / 15
# Four times what the last drawing cost: drawing may take a fifth of the thread's time, never all of it.
REST = 4


class Pace:
    """Calls `draw` after changes, on the toolkit's loop: at most 15 times a second, and fewer when drawing is dear.

    Parameters
    ----------
    draw : callable
        Draws whatever has changed.
    pause_s : callable, optional
        The least pause before the next drawing, in seconds, as things stand now.
    """

    def __init__(self, draw: Callable[[], None], pause_s: Callable[[], float] = lambda: 0.0) -> None:
        self._draw = draw
        self._pause_s = pause_s
        self._due: asyncio.TimerHandle | None = None
        self._cost_s = 0.0
        self._drawn_at = 0.0
        self._ended = False

    def note(self) -> None:
        """Something has changed: draw soon."""
        if self._due is not None or self._ended:
            return
        pause_s = max(FLUSH_S, REST * self._cost_s, self._pause_s())
        wait_s = max(0.0, self._drawn_at + pause_s - time.monotonic())
        self._due = asyncio.get_running_loop().call_later(wait_s, self.flush)

    def flush(self) -> None:
        """Draw now."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if self._ended:
            return
        begin = time.monotonic()
        try:
            self._draw()
        finally:
            self._drawn_at = time.monotonic()
            self._cost_s = self._drawn_at - begin

    def end(self) -> None:
        """Draw no more."""
        self._ended = True
