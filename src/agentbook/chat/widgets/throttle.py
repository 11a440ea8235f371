"""How often widgets are drawn: changes are noted as they come and drawn together, a bounded number of times a second.

Jupyter Server drops messages above a rate, for good, and a browser that is told everything falls behind what it is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

FLUSH_S = 1 / 20
# What comes just after a drawing waits the longest of all. So the beat gives way, by less than anybody sees, to a change that
# comes about when it is due. The next counts from when this one was due, or was late, so that there are no more of them; and
# where changes come at a pace of their own, it gets later until the two go together.
SLACK_S = 0.004
# Four times what the last drawing cost: drawing may take a fifth of the thread's time, never all of it.
REST = 4


class Throttle:
    """Calls `draw` after changes, on the toolkit's loop: at most 20 times a second, and fewer when drawing is dear.

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
        self._beat = self._rested_at = self._next = 0.0
        self._ended = False

    def note(self) -> None:
        """Something has changed: draw soon."""
        if self._ended:
            return
        if self._due is None:
            self._next = max(self._beat + max(FLUSH_S, self._pause_s()), self._rested_at)
        now = asyncio.get_running_loop().time()
        if now >= self._next - SLACK_S:
            self._draw_at(now)
        elif self._due is None:
            self._draw_at(self._next + SLACK_S)

    def _draw_at(self, when: float) -> None:
        # Never in the call itself: what else has come with this change is drawn with it.
        if self._due is not None:
            if self._due.when() <= when:
                return
            self._due.cancel()
        self._due = asyncio.get_running_loop().call_at(when, self.flush)

    def flush(self) -> None:
        """Draw now."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if self._ended:
            return
        loop = asyncio.get_running_loop()
        begin = loop.time()
        due = self._beat + FLUSH_S
        self._beat = due if begin < due <= begin + 2 * SLACK_S else begin
        try:
            self._draw()
        finally:
            end = loop.time()
            self._rested_at = end + REST * (end - begin)

    def end(self) -> None:
        """Draw no more."""
        self._ended = True
