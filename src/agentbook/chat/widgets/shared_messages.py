"""One message for all panels that are drawn at the same time.

Jupyter Server sends a small message only after the previous one was acknowledged, and a
browser may take 40 ms for that. So panels that stream side by side would delay each
other's messages. Instead, what they draw together is one message, which also needs only
one envelope. It arrives through the comm of another widget, the channel:
``{"patches": {key: patch, ...}}``, where a patch is what the panel's own comm would
have carried.

Only a page knows whether it has the channel's widget. So a panel that has something to
share invites its pages, ``{"kind": "join", "channel": model_id, "key": key}``. They
answer ``{"do": "joining", "page": name, "channel": model_id}`` at once, and the same
with ``joined`` as soon as they receive the channel's messages. Until all pages that
show a panel have joined, its patches arrive through its own comm.

Nothing reports that a page was closed or reloaded. So a page that does not answer is no
longer counted. If it answers late, it is sent a snapshot.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

import ipywidgets as widgets

ANSWER_S = 5.0  # time within which a page answers an invitation if it still exists


class Sender(Protocol):
    """A widget: sends through its own comm."""

    def send(self, content: Any) -> None: ...


class _Channel:
    """The comm that all panels share; created with the first invitation."""

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


@dataclass
class _Page:
    channel: str = ""  # the channel it was last invited to
    leaves_at: float = math.inf  # unless it answers before
    joined: bool = False


class Membership:
    """The pages that show a widget, and which of them receive the channel's messages.

    Its methods may be called on any thread.

    Parameters
    ----------
    clock : callable
        The time in seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.key = str(next(_keys))
        self._clock = clock
        self._lock = threading.Lock()
        self._pages: dict[str, _Page] = {}

    def hello(self, page: str) -> None:
        """A page shows the widget."""
        with self._lock:
            if self._pages.get(page, _Page()).leaves_at < math.inf:
                del self._pages[page]  # to be invited again
            self._pages.setdefault(page, _Page())

    def answer(self, page: str, channel: str, *, joined: bool) -> bool:
        """A page answers its invitation to a channel; `joined` if it now receives it.

        Returns
        -------
        bool
            Whether it may have missed patches, because it was no longer counted.
        """
        with self._lock:
            before = self._pages.get(page)
            remains = before is not None and before.joined and before.channel == channel
            self._pages[page] = _Page(channel, joined=joined or remains)
            return before is None

    @property
    def shown(self) -> bool:
        """Whether a page shows the widget."""
        with self._lock:
            return bool(self._present())

    def hears(self, channel: str) -> bool:
        """Whether all pages of the widget receive the channel's messages."""
        with self._lock:
            return all(page.joined and page.channel == channel for page in self._present().values())

    def invitation(self, channel: str) -> dict[str, Any] | None:
        """The message to its pages; None if each has been invited."""
        with self._lock:
            invited = [name for name, page in self._present().items() if page.channel != channel]
            self._pages.update((name, _Page(channel, self._clock() + ANSWER_S)) for name in invited)
            return {"kind": "join", "channel": channel, "key": self.key} if invited else None

    def _present(self) -> dict[str, _Page]:
        """The pages, without those that have not answered in time."""
        now = self._clock()
        self._pages = {name: page for name, page in self._pages.items() if now < page.leaves_at}
        return self._pages


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
