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

Other messages of a module are documented with its widget.

A panel's state is a `PageState`. It knows nothing of widgets: it collects changes and
hands them out as the messages that `panel_view` documents.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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


@dataclass
class _Turn:
    html: dict[str, str] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    pieces: list[str] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)  # where the pieces end, in UTF-16 units
    final: int = 0

    def as_values(self) -> dict[str, Any]:
        values: dict[str, Any] = {"html": dict(self.html), "data": dict(self.data)}
        if self.pieces:
            values |= {"body": "".join(self.pieces), "cuts": list(self.cuts), "final": self.final}
        return values


class PageState:
    """The fields and turns of a panel as a page shows them.

    Code that changes it, or takes what it sends, holds `lock` from the first change
    until the patch is taken. So a snapshot never contains half of a patch.

    Attributes
    ----------
    version : int
        The number of the last patch.
    lock : RLock

    Examples
    --------
    >>> state = PageState()
    >>> state.arrange(["t1"])
    >>> state.set_body("t1", ["<p>Hello</p>"])
    >>> state.take_patch()["ops"]
    [['turns', 0, 0, ['t1']], ['body', 't1', 0, 0, '<p>Hello</p>']]
    >>> state.set_body("t1", ["<p>Hello you</p>"])
    >>> state.take_patch()
    {'version': 2, 'ops': [['body', 't1', 8, 0, ' you']]}
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.version = 0
        self._fields: dict[str, Any] = {}
        self._order: list[str] = []
        self._turns: dict[str, _Turn] = {}
        self._ops: list[list[Any]] = []

    def set_fields(self, **values: Any) -> None:
        """Set what surrounds the turns, by name, to values of JSON."""
        for name, value in values.items():
            if name not in self._fields or self._fields[name] != value:
                self._fields[name] = value
                self._ops.append(["field", name, value])

    def arrange(self, order: Sequence[str]) -> None:
        """Set the ids of the turns in order; turns that are left out are removed."""
        order = list(order)
        if order == self._order:
            return
        start = _common_length(self._order, order)
        end = _common_length(self._order[start:][::-1], order[start:][::-1])
        removed = len(self._order) - start - end
        self._ops.append(["turns", start, removed, order[start : len(order) - end]])
        self._order = order
        self._turns = {turn: self._turns.get(turn) or _Turn() for turn in order}

    def set_html(self, turn: str, part: str, html: str) -> None:
        """Set a part of a turn to safe HTML; only the changed part of it is sent."""
        values = self._turns[turn].html
        before = values.get(part, "")
        if html != before:
            values[part] = html
            self._ops.append(["html", turn, part, *_splice(before, html)])

    def set_data(self, turn: str, **values: Any) -> None:
        """Set what a turn has besides HTML, by name, to values of JSON."""
        data = self._turns[turn].data
        for name, value in values.items():
            if name not in data or data[name] != value:
                data[name] = value
                self._ops.append(["data", turn, name, value])

    def set_body(self, turn: str, pieces: Sequence[str], final: int = 0) -> None:
        """Set the reply of a turn to pieces of safe HTML.

        The first `final` of them will not change again. Only what changed is sent;
        pieces that are merely cut in another place are not sent again.
        """
        values = self._turns[turn]
        pieces = [piece for piece in pieces if piece]
        first = _common_length(values.pieces, pieces)
        before, after = "".join(values.pieces[first:]), "".join(pieces[first:])
        base = values.cuts[first - 1] if first else 0
        cuts = values.cuts[:first]
        for piece in pieces[first:]:
            cuts.append((cuts[-1] if cuts else 0) + _units(piece))
        if cuts == values.cuts and before == after and final == values.final:
            return
        grown = cuts[:-1] == values.cuts[:-1] and bool(cuts) and final == values.final
        values.pieces, values.cuts, values.final = pieces, cuts, final
        start, removed, text = _splice(before, after)
        self._ops.append(["body", turn, base + start, removed, text, *([] if grown else [first, cuts[first:], final])])

    def take_patch(self) -> dict[str, Any] | None:
        """The changes since the last patch as a message; None without any."""
        if not self._ops:
            return None
        self.version += 1
        ops, self._ops = self._ops, []
        return {"version": self.version, "ops": ops}

    def snapshot(self) -> dict[str, Any]:
        """The whole state as a message; waits until pending changes are complete."""
        with self.lock:
            turns = [[turn, self._turns[turn].as_values()] for turn in self._order]
            return {"kind": "snapshot", "version": self.version, "fields": dict(self._fields), "turns": turns}


def _splice(before: str, after: str) -> tuple[int, int, str]:
    """How `before` becomes `after`: the start, how many units go, and the new text."""
    start = _common_length(before, after)
    ended, begun = before[start:], after[start:]
    end = _common_length(ended[::-1], begun[::-1])
    return _units(after[:start]), _units(ended[: len(ended) - end]), begun[: len(begun) - end]


def _units(text: str) -> int:
    """The length of a text in a page, in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _common_length(before: Sequence[Any], after: Sequence[Any]) -> int:
    """How many of the first elements are equal."""
    # Comparing halves takes a few calls; comparing elements takes one for each.
    low, high = 0, min(len(before), len(after))
    if before[:high] == after[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
