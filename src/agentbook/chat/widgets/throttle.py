"""Collects changes and draws them together, a limited number of times a second.

Jupyter Server permanently drops messages above a certain rate, and a browser that
receives every change falls behind.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from time import thread_time

from ..html.protocols import ExchangeLike
from .shared_messages import one_message

FLUSH_S = 1 / 20
# Two or more views that are drawn together share a message (`shared_messages`), which
# costs less than a message for each at the pace of one.
SHARED_FLUSH_S = 1 / 25
# A change that arrives just after a drawing waits the longest. So a drawing may be
# early or late by this much, which nobody notices, to include a change that arrives
# about when it is due. The next drawing is timed from when this one was due, or from
# when it ran if that was later, so the rate does not rise. If changes have their own
# rhythm, the drawings drift until the two coincide.
SLACK_S = 0.004
# Four times the processor time of the last drawing: drawing may take a fifth of the
# thread's time, but never all of it. While a cell computes, a drawing mostly waits for
# the interpreter, and waiting longer afterwards would help nobody.
REST = 4
# What only a saved notebook shows is sent shortly after what a reader is waiting for: a
# page takes tens of milliseconds to show it, during which it paints nothing else.
SAVE_S = 0.1

_throttles: weakref.WeakSet[Throttle] = weakref.WeakSet()


class Throttle:
    """Calls `draw` after changes, on the toolkit's loop, at most 20 times a second.

    At most 25 times while another one draws at the same moments.

    Parameters
    ----------
    draw : callable
        Draws whatever has changed.
    pause_s : callable, optional
        Returns the shortest pause before the next drawing, in seconds.
    save : callable, optional
        Writes what a saved notebook shows; called a tenth of a second after a drawing.
    """

    def __init__(
        self,
        draw: Callable[[], None],
        pause_s: Callable[[], float] = lambda: 0.0,
        save: Callable[[], None] = lambda: None,
    ) -> None:
        self._draw = draw
        self._pause_s = pause_s
        self._save = save
        self._scheduled: asyncio.TimerHandle | None = None
        self._saving: asyncio.TimerHandle | None = None
        self._last = self._rested_at = self._next = self._hurried = 0.0
        self._ended = False
        self._interval_s = FLUSH_S
        _throttles.add(self)

    def note(self, *, hurry: bool = False) -> None:
        """Note that something has changed, to draw it soon; with `hurry`, immediately.

        That, too, happens at most 20 times a second.
        """
        if self._ended:
            return
        now = asyncio.get_running_loop().time()
        if hurry:
            when = max(now, self._rested_at, self._hurried + FLUSH_S)
            if self._scheduled is None or when < self._scheduled.when():
                self._hurried = when
                self._schedule(when)
            return
        if self._scheduled is None:
            self._next = max(self._last + max(self._interval_s, self._pause_s()), self._rested_at)
        if now >= self._next - SLACK_S:
            self._schedule(now)
        elif self._scheduled is None:
            self._schedule(self._next + SLACK_S)

    def note_exchange(self, exchange: ExchangeLike | None) -> None:
        """Note a change of a conversation: of an exchange, or, with None, of the rest.

        The end of a reply that was requested here is drawn at once, because nothing
        follows that could be drawn together with it.
        """
        self.note(hurry=exchange is not None and exchange.ours and not exchange.pending)

    def _schedule(self, when: float) -> None:
        # Never draw within the call itself: other changes may arrive together with this
        # one.
        if self._scheduled is not None:
            if self._scheduled.when() <= when:
                return
            self._scheduled.cancel()
        self._scheduled = asyncio.get_running_loop().call_at(when, self._draw_together)

    def flush(self) -> None:
        """Draw and save now."""
        if not self._ended:
            self._draw_together()
            self._save_now()

    def _draw_together(self) -> None:
        """Draw, together with others that are due within half of their pause.

        What is drawn together is sent together.
        """
        with one_message():
            self._draw_now()
            now = asyncio.get_running_loop().time()
            others = [each for each in _throttles if each._is_soon_due(now)]
            for other in others:
                other._draw_now()
        for each in (self, *others):
            each._interval_s = SHARED_FLUSH_S if others else FLUSH_S

    def _is_soon_due(self, now: float) -> bool:
        return self._scheduled is not None and now >= max(self._next - self._interval_s / 2, self._rested_at)

    def _draw_now(self) -> None:
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None
        if self._ended:
            return
        loop = asyncio.get_running_loop()
        begin, busy = loop.time(), thread_time()
        due = self._last + self._interval_s
        self._last = due if begin < due <= begin + 2 * SLACK_S else begin
        try:
            self._draw()
        finally:
            self._rested_at = loop.time() + REST * (thread_time() - busy)
        if self._saving is None:
            self._saving = loop.call_later(SAVE_S, self._save_now)

    def _save_now(self) -> None:
        if self._saving is not None:
            self._saving.cancel()
            self._saving = None
        self._save()

    def end(self) -> None:
        """Stop drawing. What was drawn is still saved."""
        self._ended = True
