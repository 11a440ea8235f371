"""One message for all panels that are drawn at the same time.

Jupyter Server sends a small message only once the one before it was acknowledged, and a
browser may take 40 ms for that. So panels that stream side by side would delay each
other's messages. Instead, what they draw together is one message, which also needs only
one envelope. It comes by the comm of another widget, the channel,
``{"patches": {key: patch, ...}}``, where a patch is what the panel's own comm would
have brought.

Only a page knows whether it has the channel's widget. So a panel that has something to
share invites its pages, ``{"kind": "join", "channel": model_id, "key": key}``, and they
answer ``{"do": "joined", "page": name, "channel": model_id}``. Until all pages that
show a panel have joined, its patches come by its own comm.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Protocol

import ipywidgets as widgets


class Sender(Protocol):
    """A widget: sends by its own comm."""

    def send(self, content: Any) -> None: ...


class _Channel:
    """The comm that all panels share; made with the first invitation."""

    def __init__(self) -> None:
        self._widget: Any = None

    def open(self) -> str:
        """The id of its widget, in every page."""
        if self._widget is None or self._widget.comm is None:  # Widget.close_all closes it, too
            self._widget = widgets.Layout()  # any widget whose module every page has
        return str(self._widget.model_id)

    def send(self, content: Any) -> None:
        self._widget.send(content)


_channel = _Channel()
_keys = count(1)


class Membership:
    """Which pages show a widget, and which of them hear the channel.

    Its methods may be called on any thread.
    """

    def __init__(self) -> None:
        self.key = str(next(_keys))
        self._lock = threading.Lock()
        self._pages: set[str] = set()
        self._invited: set[tuple[str, str]] = set()  # channel and page
        self._joined: set[tuple[str, str]] = set()

    def hello(self, page: str) -> None:
        """A page shows the widget."""
        with self._lock:
            self._pages.add(page)

    def joined(self, page: str, channel: str) -> None:
        """A page hears that channel."""
        with self._lock:
            self._joined.add((channel, page))

    @property
    def shown(self) -> bool:
        """Whether a page shows the widget."""
        with self._lock:
            return bool(self._pages)

    def hears(self, channel: str) -> bool:
        """Whether all pages of the widget hear the channel."""
        with self._lock:
            return all((channel, page) in self._joined for page in self._pages)

    def invitation(self, channel: str) -> dict[str, Any] | None:
        """The message to its pages; None if each has been invited."""
        with self._lock:
            pages = {(channel, page) for page in self._pages}
            if pages <= self._invited:
                return None
            self._invited |= pages
            return {"kind": "join", "channel": channel, "key": self.key}


class _Round:
    """The patches of one drawing."""

    def __init__(self) -> None:
        self.patches: list[tuple[Sender, Membership, dict[str, Any]]] = []

    def send(self) -> None:
        shown = [membership for _, membership, _ in self.patches if membership.shown]
        channel = _channel.open() if len(shown) > 1 else None
        shared: dict[str, dict[str, Any]] = {}
        for sender, membership, patch in self.patches:
            if channel is None or not membership.shown:
                sender.send(patch)
            elif membership.hears(channel):
                shared[membership.key] = patch
            else:
                sender.send(patch)
                if invitation := membership.invitation(channel):
                    sender.send(invitation)
        if shared:
            _channel.send({"patches": shared})


class _Current(threading.local):
    """The round of this thread; a panel may be made on another."""

    round: _Round | None = None


_current = _Current()


@contextmanager
def one_message() -> Iterator[None]:
    """Send what is drawn in here as one message, where that is possible."""
    if _current.round is not None:
        yield
        return
    drawn = _current.round = _Round()
    try:
        yield
    finally:
        _current.round = None
        drawn.send()


def send_patch(sender: Sender, membership: Membership, patch: dict[str, Any]) -> None:
    """Send a patch, or have `one_message` send it at its end."""
    if _current.round is None:
        sender.send(patch)
    else:
        _current.round.patches.append((sender, membership, patch))
