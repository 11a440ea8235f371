"""The actions that a chat's views offer to a person."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Receives the message that goes to a page.
Answer = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class ChatActions:
    """What a person can do in a panel and in a comparison; called on any thread.

    Attributes
    ----------
    send : callable
        Receives the text of a message, and a callback that is told whether it was
        accepted.
    stop, switch_pictures : callable
    retry : callable
        Receives the exchange.
    """

    send: Callable[[str, Callable[[bool], None]], object]
    stop: Callable[[], object]
    switch_pictures: Callable[[], object]
    retry: Callable[[Any], object]


@dataclass(frozen=True)
class PanelActions:
    """Callbacks for what a person presses; called on any thread.

    Attributes
    ----------
    chat : ChatActions
    reconnect, start : callable
    open : callable
        Receives the id of a session; empty for a new one.
    find : callable
        Receives the words to search for, and a callback for the sessions.
    export : callable
        Receives the suffix of the file, and a callback for the file.
    collect : callable or None
        Receives an exchange, whether to add it to the test set or only show what would
        be added, and a callback for the result. None without a test set.
    """

    chat: ChatActions
    reconnect: Callable[[], object]
    start: Callable[[], object]
    open: Callable[[str], object]
    find: Callable[[str, Answer], object]
    export: Callable[[str, Answer], object]
    collect: Callable[[Any, bool, Answer], object] | None = None
