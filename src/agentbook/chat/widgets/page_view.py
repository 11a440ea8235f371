"""Widgets whose module shows what the kernel sends, and the messages they share.

All traffic goes through messages, because traits and messages overtake each other. The
only trait is the snapshot: it is computed when a page asks for the widget, so a second
view, a late one, and one after a reload all show everything. Messages sent while the
module was loading are lost, and all later ones too if that took longer than two seconds
(see `StalePages`). So everything that changes a page's state has a number, its version;
the module's part is in ``assets/core/connection.js``.

From the kernel
---------------
``{"kind": "snapshot", "version": 7, ...}``
    Everything as it is.
``{"kind": ..., "version": 8, ...}``
    The changes since version 7. A page ignores what it already knows.
``{"kind": "welcome"}``
    The answer to ``ping``, and to ``hello`` if the page has missed nothing.

From the page
-------------
``{"do": "hello", "page": name, "count": 1, "version": 7}``
    The module runs, and shows that version (-1: none). Sent first, and again after a
    gap; repeated until it is answered.

``{"do": "ping"}``
    Asks for a ``welcome``, because nothing was heard for a while.
``{"do": "nudge"}``
    Has no content, and is sent after anything a person does: it makes the kernel's
    answer arrive sooner.

Other messages of a module are documented with its widget.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import anywidget
import ipywidgets as widgets
import traitlets

from ...events import loop
from .parts import answer_while_busy

STALE_S = 7.0  # between the first hello and one that says that no answer arrived
MAX_REPLACED = 2

OnHello = Callable[[str, int], object]


class PageView(anywidget.AnyWidget):
    """Shows a state that has snapshots; subclasses name the module.

    Parameters
    ----------
    snapshot : callable
        Returns the message with everything a page needs to draw. Called on any thread.
    on_message : callable
        Receives each message from a page except ``hello``, on any thread.
    on_hello : callable, optional
        Receives what a page says when its module runs: its name, and how many times it
        has said so. Called on any thread.
    text : str
        Shown where no widget can be.
    """

    _snapshot = traitlets.Any().tag(sync=True, to_json=lambda _, view: view.snapshot())

    def __init__(
        self,
        snapshot: Callable[[], dict[str, Any]],
        on_message: Callable[[dict[str, Any]], object],
        on_hello: OnHello = lambda page, count: None,
        text: str = "",
    ) -> None:
        self.snapshot, self._on_message, self._on_hello, self._text = snapshot, on_message, on_hello, text
        super().__init__()
        self.on_msg(lambda _, message, __: self._receive(message))
        if self.comm is not None:
            answer_while_busy(self)

    def _receive(self, message: Any) -> None:
        match message:
            case {"do": "hello", "page": str(page), "count": int(count), "version": int(version)}:
                self._on_hello(page, count)
                snapshot = self.snapshot()
                self.send({"kind": "welcome"} if version == snapshot["version"] else snapshot)
            case {"do": "ping"}:
                self.send({"kind": "welcome"})
            case dict():
                self._on_message(message)

    def __repr__(self) -> str:
        return self._text or f"{type(self).__name__}()"


class StalePages:
    """Finds pages whose module runs but receives nothing.

    anywidget permanently drops all messages of a widget that took more than two seconds
    to load. Such a page repeats its hello.
    """

    def __init__(self) -> None:
        self._first_hello: dict[str, float] = {}  # of each page
        self.replaced = 0

    def should_replace(self, page: str, count: int, now: float) -> bool:
        """Whether a page that says its `count`-th hello at `now` needs a new widget."""
        first = self._first_hello.setdefault(page, now)
        if count <= 2 or now - first <= STALE_S or self.replaced >= MAX_REPLACED:
            return False
        del self._first_hello[page]
        self.replaced += 1
        return True


class PageViewBox(widgets.VBox):  # type: ignore[misc]
    """Shows a `PageView`, and replaces it if a page does not receive its messages.

    Parameters
    ----------
    make : callable
        Makes the view; receives its `on_hello`.
    layout : str
        CSS properties of the box, by name.
    """

    def __init__(self, make: Callable[[OnHello], PageView], **layout: str) -> None:
        self._make_view = make
        self._stale = StalePages()
        super().__init__([make(self._on_hello)], layout=widgets.Layout(overflow="visible", **layout))
        self.add_class("ab-frame")  # the module itself shows that its kernel is gone, instead of an icon

    @property
    def _view(self) -> PageView:
        """The view that is shown now."""
        view: PageView = self.children[0]
        return view

    def send(self, content: Any, buffers: Any = None) -> None:
        """Send a message of JSON to the view in the pages."""
        self._view.send(content)

    def _on_hello(self, page: str, count: int) -> None:
        loop.get_loop().call_soon_threadsafe(self._heard, page, count, time.monotonic())

    def _heard(self, page: str, count: int, now: float) -> None:
        if self.comm is None:
            return
        if self._stale.should_replace(page, count, now):
            before = self._view
            self.set_trait("children", [self._make_view(self._on_hello)])
            before.close()
        else:
            self._page_opened()

    def _page_opened(self) -> None:
        """A page shows the widget; called on the toolkit's thread."""

    def _display_(self) -> PageView:
        """What marimo shows, which knows anywidgets and no boxes."""
        return self._view

    def close(self) -> None:
        """Also close the view."""
        self._view.close()
        super().close()

    def __repr__(self) -> str:
        return repr(self._view)
