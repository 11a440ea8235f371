"""Collects changes and draws them together, a limited number of times a second.

Jupyter Server permanently drops messages above a certain rate, and a browser that
receives every change falls behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import thread_time

from ..model.exchange import Exchange

FLUSH_S = 1 / 20
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


class Throttle:
    """Calls `draw` after changes, on the toolkit's loop, at most 20 times a second.

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
        self._scheduled: asyncio.Handle | None = None
        self._scheduled_at = 0.0  # the handles of some loops do not say it
        self._saving: asyncio.TimerHandle | None = None
        self._last = self._rested_at = self._next = self._last_urgent = 0.0
        self._ended = False

    def request_draw(self, *, now: bool = False) -> None:
        """Draw soon, together with other changes; with `now`, as soon as possible.

        That, too, happens at most 20 times a second.
        """
        if self._ended:
            return
        time_s = asyncio.get_running_loop().time()
        if now:
            when = max(time_s, self._rested_at, self._last_urgent + FLUSH_S)
            if self._scheduled is None or when < self._scheduled_at:
                self._last_urgent = when
                self._schedule(when)
            return
        if self._scheduled is None:
            self._next = max(self._last + max(FLUSH_S, self._pause_s()), self._rested_at)
        if time_s >= self._next - SLACK_S:
            self._schedule(time_s)
        elif self._scheduled is None:
            self._schedule(self._next + SLACK_S)

    def request_draw_of(self, exchange: Exchange | None) -> None:
        """Draw a change of a conversation: of an exchange, or, with None, of the rest.

        The end of a reply that was requested here is drawn at once, because nothing
        follows that could be drawn together with it.
        """
        self.request_draw(now=exchange is not None and exchange.ours and not exchange.pending)

    def _schedule(self, when: float) -> None:
        # Never draw within the call itself: other changes may arrive together with this
        # one.
        if self._scheduled is not None:
            if self._scheduled_at <= when:
                return
            self._scheduled.cancel()
        self._scheduled, self._scheduled_at = asyncio.get_running_loop().call_at(when, self._draw_now), when

    def flush(self) -> None:
        """Draw and save now."""
        if not self._ended:
            self._draw_now()
            self._save_now()

    def _draw_now(self) -> None:
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None
        if self._ended:
            return
        loop = asyncio.get_running_loop()
        begin, busy = loop.time(), thread_time()
        due = self._last + FLUSH_S
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
