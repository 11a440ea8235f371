"""The 429 gate: one for each credential and platform, shared by every client, thread, task and socket of the process.

The platform sends no ``Retry-After``; counts reset each minute ("Errors", retry rules). So the first refusal closes the gate,
nothing is sent while it is closed, it opens with the server's next minute, and then one request goes first as a probe. Refused
again, it waits a full minute from then. After a probe that passed, the others follow in a ramp instead of all at once.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from email.utils import parsedate_to_datetime

WINDOW_S = 60.0
PROBE_POLL_S = 0.1  # how often those who wait look whether the probe has come back
RAMP_S = 0.05  # between the requests that follow a probe, halved with each one that passes


class RateLimitGate:
    """Says of each request how long it has to wait. Thread-safe; keeps no thread or loop of its own.

    Parameters
    ----------
    monotonic
        The clock, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._lock = threading.Lock()
        self._opens_at: float | None = None  # None: open
        self._probing = False
        self._ramp_s = 0.0
        self._next_at = 0.0

    @property
    def closed(self) -> bool:
        """Whether requests wait at present."""
        return self._opens_at is not None

    def admit(self) -> float:
        """Ask to send: 0.0 to go ahead now, else the seconds after which to ask again."""
        with self._lock:
            now = self._now()
            if self._opens_at is None:
                wait = self._next_at - now
                if self._ramp_s == 0.0 or wait <= 0:
                    self._next_at = now + self._ramp_s
                    return 0.0
                return wait
            if now < self._opens_at:
                return self._opens_at - now
            if self._probing:
                return PROBE_POLL_S
            self._probing = True
            return 0.0

    def passed(self) -> None:
        """A request was answered by something other than the rate limit."""
        with self._lock:
            if self._probing:
                self._opens_at, self._probing, self._ramp_s = None, False, RAMP_S
                self._next_at = self._now() + RAMP_S
            elif self._opens_at is None and self._ramp_s:
                self._ramp_s = self._ramp_s / 2 if self._ramp_s > 0.001 else 0.0

    def lost(self) -> None:
        """A request ended without an answer: if it was the probe, another may go."""
        with self._lock:
            self._probing = False

    def refused(self, date: str | None) -> None:
        """A request was refused by the rate limit; `date` is the reply's ``Date`` header."""
        with self._lock:
            second = _second_of(date)
            # A probe that is refused saw the window's start: only a whole one from now is sure to be another.
            wait = WINDOW_S if self._probing or second is None else WINDOW_S - second
            opens_at = self._now() + wait
            # Requests already under way when the gate closed come back refused too; they must not move it.
            if self._opens_at is None or self._probing:
                self._opens_at = opens_at
            self._probing = False


def _second_of(date: str | None) -> int | None:
    try:
        return parsedate_to_datetime(date).second if date else None
    except (TypeError, ValueError):
        return None


_gates: weakref.WeakValueDictionary[tuple[str, str], RateLimitGate] = weakref.WeakValueDictionary()
_gates_lock = threading.Lock()


def gate_of(origin: str, identity: str, monotonic: Callable[[], float]) -> RateLimitGate:
    """The one gate of a credential on a platform."""
    with _gates_lock:
        gate = _gates.get((origin, identity))
        if gate is None:
            gate = _gates[origin, identity] = RateLimitGate(monotonic)
        return gate
