"""Callbacks that end what depends on a client when it is closed."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Closing:
    """Callbacks that run once, when a client is closed. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[object, Callable[[], object]] = {}
        self._is_closed = False

    def add(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Register a callback; returns a function that withdraws it.

        If the client is closed already, the callback runs at once.
        """
        key = object()
        with self._lock:
            is_closed = self._is_closed
            if not is_closed:
                self._callbacks[key] = callback
        if is_closed:
            callback()

        def withdraw() -> None:
            with self._lock:
                self._callbacks.pop(key, None)

        return withdraw

    def run(self) -> None:
        """Run the callbacks. Those added later run at once."""
        with self._lock:
            self._is_closed = True
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            callback()
