"""What a person can do in a panel, as the views of it know it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..html.protocols import ExchangeLike

# Receives what a page is told.
Answer = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Actions:
    """What happens when a person presses something; called on any thread.

    Attributes
    ----------
    send : callable
        Receives the text of a message, and what to call with whether it was taken.
    stop, reconnect, start, switch_pictures : callable
    open : callable
        Receives the id of a session; empty for a new one.
    retry : callable
        Receives the exchange.
    find : callable
        Receives the words to search for, and what to call with the sessions.
    export : callable
        Receives the suffix of the file, and what to call with it.
    collect : callable or None
        Receives an exchange, whether to add it to the test set or to show what would be
        added, and what to call with that. None without a test set.
    """

    send: Callable[[str, Callable[[bool], None]], object]
    stop: Callable[[], object]
    reconnect: Callable[[], object]
    start: Callable[[], object]
    open: Callable[[str], object]
    switch_pictures: Callable[[], object]
    retry: Callable[[ExchangeLike], object]
    find: Callable[[str, Answer], object]
    export: Callable[[str, Answer], object]
    collect: Callable[[Any, bool, Answer], object] | None = None
