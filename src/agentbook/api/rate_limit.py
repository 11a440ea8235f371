"""The rate limit: one per credential and platform in this process.

All clients, threads, tasks and WebSockets of a credential share it. The platform sends
no ``Retry-After``; counts reset each minute ("Errors", retry rules). The first 429
closes it. It opens at the server's next minute, or after the ``Retry-After`` of a
gateway in front of the platform, but after at most five minutes. One request goes first
as a probe; if it is refused without such a header, requests wait another full minute.
After a successful probe, the others follow.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime

WINDOW_S = 60.0
PROBE_POLL_S = 0.1  # how often waiting requests check for the end of the probe
MIN_WAIT_S = 1.0  # after a refusal, even if a gateway names a shorter time
MAX_WAIT_S = 5 * WINDOW_S  # a wrong header must not stop requests for the rest of the process


class RateLimit:
    """Tells each request how long to wait. Thread-safe; starts no thread.

    Parameters
    ----------
    monotonic
        The clock, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._lock = threading.Lock()
        self._opens_at: float | None = None  # None: open
        self._refusal: Exception | None = None
        self._probing = False

    @property
    def closed(self) -> bool:
        """Whether requests have to wait now."""
        return self._opens_at is not None

    @property
    def opens_in_s(self) -> float:
        """Seconds until requests may be sent again; 0.0 if it is open."""
        return max(0.0, self._opens_at - self._now()) if self._opens_at is not None else 0.0

    @property
    def refusal(self) -> Exception | None:
        """The error of the 429 that closed it; None if it is open."""
        return self._refusal if self.closed else None

    def delay_s(self) -> float:
        """The seconds to wait before asking again; 0.0 to send now."""
        with self._lock:
            if self._opens_at is None:
                return 0.0
            if (wait := self._opens_at - self._now()) > 0:
                return wait
            if self._probing:
                return PROBE_POLL_S
            self._probing = True
            return 0.0

    def on_reply(self) -> None:
        """Record a reply other than a 429 of the rate limit."""
        with self._lock:
            if self._probing:
                self._opens_at, self._probing = None, False

    def on_no_reply(self) -> None:
        """Record that a request got no reply; if it was the probe, another may go."""
        with self._lock:
            self._probing = False

    def on_429(self, date: str | None, error: Exception | None = None, *, retry_after_s: float | None = None) -> None:
        """Record a 429 of the rate limit.

        Parameters
        ----------
        date
            The reply's ``Date`` header.
        error
            The reply as an error, for the requests that wait; it was not raised.
        retry_after_s
            The time in its ``Retry-After`` header; see `retry_after_s`.
        """
        with self._lock:
            second = _second_of(date)
            # A refused probe was sent at the start of a window: only a full minute is
            # certain to reach the next one.
            wait = WINDOW_S if self._probing or second is None else WINDOW_S - second
            if retry_after_s is not None:
                wait = min(max(retry_after_s, MIN_WAIT_S), MAX_WAIT_S)
            opens_at = self._now() + wait
            # Requests already sent when it closed are refused too; they must not
            # postpone it.
            if self._opens_at is None or self._probing:
                self._opens_at, self._refusal = opens_at, error
            self._probing = False


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The seconds that a reply's ``Retry-After`` names; None if it has none.

    A date counts from the reply's own ``Date``, so the clocks need not agree.

    Examples
    --------
    >>> retry_after_s({"retry-after": "2"})
    2.0
    >>> date, until = "Sat, 21 Nov 2026 10:00:04 GMT", "Sat, 21 Nov 2026 10:00:09 GMT"
    >>> retry_after_s({"retry-after": until, "date": date})
    5.0
    """
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal():
        return float(text)
    try:
        wait = parsedate_to_datetime(text) - parsedate_to_datetime(headers.get("date", ""))
    except (TypeError, ValueError):
        return None
    return max(0.0, wait.total_seconds())


def _second_of(date: str | None) -> int | None:
    try:
        return parsedate_to_datetime(date).second if date else None
    except (TypeError, ValueError):
        return None


_rate_limits: weakref.WeakValueDictionary[tuple[str, str], RateLimit] = weakref.WeakValueDictionary()
_rate_limits_lock = threading.Lock()


def _unlock_after_fork() -> None:
    """New locks for a forked child, where no thread releases the old ones."""
    global _rate_limits_lock
    _rate_limits_lock = threading.Lock()
    for rate_limit in _rate_limits.values():
        rate_limit._lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_unlock_after_fork)


def shared_rate_limit(origin: str, identity: str, monotonic: Callable[[], float]) -> RateLimit:
    """The rate limit of a credential on a platform."""
    with _rate_limits_lock:
        rate_limit = _rate_limits.get((origin, identity))
        if rate_limit is None:
            rate_limit = _rate_limits[origin, identity] = RateLimit(monotonic)
        return rate_limit
