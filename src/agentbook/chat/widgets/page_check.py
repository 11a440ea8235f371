"""Whether a page that shows a panel runs its module.

A page says `hello` as soon as the module runs. If it cannot run, because the page's
security policy forbids it or the front end does not fit, the page says nothing; but
neither does a notebook that is executed without a page. So after a while, a plain
widget that counts in the page is put next to the panel: if it counts, there is a page
without the module. A module can also run but receive nothing (`page_view.Deafness`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from ...events import loop
from .page_view import MAX_REPLACED, Deafness
from .parts import answer_while_busy

PATIENCE_S = 8.0
SETTLE_S = 2.0  # until the page shows the plain widget
log = logging.getLogger("agentbook.chat")


class PageCheck:
    """Finds pages that do not run the module, or do not receive messages.

    The callbacks are called on the toolkit's thread.

    Parameters
    ----------
    show_probe : callable
        Shows a widget next to the panel, or removes it if called with None.
    replace : callable
        Makes a new widget, because a page does not receive messages from this one.
    fall_back : callable
        Shows the plain view.
    recover : callable
        Shows the module's view again, because it runs after all.
    """

    def __init__(
        self,
        show_probe: Callable[[Any], None],
        replace: Callable[[], None],
        fall_back: Callable[[], None],
        recover: Callable[[], None],
    ) -> None:
        self._show_probe, self._replace, self._fall_back, self._recover = show_probe, replace, fall_back, recover
        self._timer: asyncio.TimerHandle | None = None
        self._probe: Any = None
        self._deafness = Deafness()
        self._runs = self._fell_back = self._ended = False

    def begin(self) -> None:
        """The panel was displayed; called on any thread."""
        loop.get_loop().call_soon_threadsafe(self._wait)

    def hello(self, page: str, count: int) -> None:
        """A page said hello for the `count`-th time; called on any thread."""
        loop.get_loop().call_soon_threadsafe(self._heard, page, count, time.monotonic())

    def end(self) -> None:
        """Stop checking; called on any thread, also when Python exits."""
        self._ended = True

    def _wait(self) -> None:
        if not (self._runs or self._ended or self._timer or self._fell_back):
            self._timer = loop.get_loop().call_later(PATIENCE_S, self._ask_page)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._probe is not None:
            self._show_probe(None)
            self._probe.close()
            self._probe = None

    def _ask_page(self) -> None:
        if self._ended:
            return
        self._probe = probe = widgets.Play(min=0, max=1, interval=100, layout=widgets.Layout(display="none"))
        answer_while_busy(probe)
        probe.observe(lambda change: loop.get_loop().call_soon_threadsafe(self._counted), "value")
        self._show_probe(probe)
        self._timer = loop.get_loop().call_later(SETTLE_S, self._start_probe)

    def _start_probe(self) -> None:
        if self._probe is not None and not self._ended:
            self._probe.playing = True

    def _counted(self) -> None:
        if self._runs or self._ended or self._fell_back:
            return
        self._give_up("The page does not run the panel's module: `agentbook doctor` says what may be missing.")

    def _give_up(self, reason: str) -> None:
        log.warning("%s The panel is shown with plain widgets.", reason)
        self._fell_back = True
        self._stop()
        self._fall_back()

    def _heard(self, page: str, count: int, now: float) -> None:
        if self._ended:
            return
        if self._deafness.needs_another(page, count, now):
            if self._deafness.replaced > MAX_REPLACED:
                self._give_up("A page does not hear the panel.")
            else:
                self._replace()
            return
        self._runs = True
        self._stop()
        if self._fell_back:
            self._fell_back = False
            self._recover()
