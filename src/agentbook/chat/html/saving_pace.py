"""How often a static transcript is updated while a reply is being written.

Each update sends the whole transcript. With this pace, a kernel that dies leaves at
least a third of the reply in the notebook, and the updates stay a fraction of what the
panel sends.
"""

from __future__ import annotations

import time
from collections.abc import Callable

FIRST = 1_000  # characters of a reply before an update is worthwhile
GROWTH = 3.0  # factor by which a reply must have grown for the next update
PAUSE_S = 3.0
CHARACTERS_PER_S = 50_000  # allowed for a long history, which is part of each update


class SavingPace:
    """Says when an update is due.

    Parameters
    ----------
    clock : callable
        The time in seconds, monotonic.

    Examples
    --------
    A question is saved at once, a reply as it triples, and a finished turn at once:

    >>> times = iter([0.0, 1.0, 9.0])
    >>> pace = SavingPace(lambda: next(times))
    >>> pace.is_due(0), pace.note(0, 5_000)
    (True, None)
    >>> pace.is_due(1_500), pace.is_due(900), pace.is_due(1_500), pace.is_due(None)
    (False, False, True, True)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._saved: int | None = None  # characters of the reply; None before its question was saved
        self._next_s = 0.0

    def is_due(self, text: int | None) -> bool:
        """Whether to update at this many characters; None while nothing is pending."""
        if text is None or self._saved is None:
            return True
        return text >= max(FIRST, GROWTH * self._saved) and self._clock() >= self._next_s

    def note(self, text: int | None, size: int) -> None:
        """Note that this much of the reply was saved, in `size` characters of HTML."""
        self._saved = text
        self._next_s = self._clock() + max(PAUSE_S, size / CHARACTERS_PER_S)
