"""Functions to call after each change."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, ParamSpec

P = ParamSpec("P")
log = logging.getLogger("agentbook")


class Listeners(Generic[P]):
    """Listeners; each is called even if another one raises.

    Examples
    --------
    >>> listeners, statuses = Listeners[str](), []
    >>> end = listeners.add(statuses.append)
    >>> listeners.notify("answered")
    >>> end()
    >>> listeners.notify("failed")
    >>> statuses
    ['answered']
    """

    def __init__(self) -> None:
        self._listeners: list[Callable[P, object]] = []

    def add(self, listener: Callable[P, object]) -> Callable[[], None]:
        """Call `listener` from now on, until the result is called (once or more).

        Raises
        ------
        TypeError
            If it cannot be called.
        """
        if not callable(listener):
            raise TypeError(f"listen needs a function, not a {type(listener).__name__}.")
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    def notify(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call every listener; one that raises is logged with its traceback."""
        for listener in tuple(self._listeners):
            try:
                listener(*args, **kwargs)
            except Exception:
                log.exception(
                    "The listener %r failed; the other listeners were called, and it stays registered.", listener
                )
