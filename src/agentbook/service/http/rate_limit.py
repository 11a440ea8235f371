"""The rate limit: a number of requests per minute for each key or IP address.

The window is fixed: all counts restart with every full minute, because a client that
gets no ``Retry-After`` waits for the next minute of the ``Date`` header.

A credential has a count of its own once a request has shown that it is valid. Until
then, and from the minute after a 401, its requests count against their IP address.
So guessing secrets is limited; nobody can use up another key's limit by sending a wrong
secret with its id or from behind the same proxy; and there are never more counts than
addresses and valid credentials.

If several processes form one platform, they share the windows (see
`cluster.request_pieces`), and tell each other which credentials are valid.

Specification: "Errors", 429; "Limits", request count window.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .. import auth, errors
from ..proxies import counted_address

WINDOW_S = 60
MAX_KNOWN = 10_000  # credentials remembered from one minute to the next


class Pieces(Protocol):
    """What this process may admit of a window that it shares with others."""

    def begin(self, minute: int) -> None:
        """Begin a minute."""

    def granted(self, key: str) -> int:
        """How many requests of this minute it may admit, as far as it knows."""

    async def extend(self, key: str) -> bool:
        """Request a larger share; returns whether there was more."""

    def owe(self, key: str) -> None:
        """Note a request that was counted without being granted."""


class WholeWindow:
    """The pieces of the only process: the limit itself."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def begin(self, minute: int) -> None:
        """Begin a minute: nothing to do."""

    def granted(self, key: str) -> int:
        """Return the limit."""
        return self._limit

    async def extend(self, key: str) -> bool:
        """Whether there is more: there is not."""
        return False

    def owe(self, key: str) -> None:
        """Note a request that was counted without being granted: all are granted."""


class Window:
    """The counts of the current minute.

    Parameters
    ----------
    limit
        Requests per minute; must be positive.
    now
        Seconds since the epoch.
    pieces
        What this process may admit of the limit; None for all of it.

    Attributes
    ----------
    on_validity : callable
        Called with a credential whose validity has been found to change, and with
        whether it is now valid.

    Examples
    --------
    >>> window = Window(1, lambda: 0.0)
    >>> window.admit("ada", "::1"), window.admit("ada", "::1")
    (True, False)
    """

    def __init__(self, limit: int, now: Callable[[], float] = time.time, pieces: Pieces | None = None) -> None:
        self.on_validity: Callable[[str, bool], None] = lambda _identity, _is_valid: None
        self._pieces = pieces or WholeWindow(limit)
        self._now = now
        self._minute = -1
        self._by_address: dict[str, int] = {}
        self._by_credential: dict[str, int] = {}
        self._invalid: set[str] = set()

    def admit(self, identity: str | None, address: str) -> bool:
        """Count a request and return whether it is within the limit.

        `identity` stands for the credential; None without one.
        """
        minute = int(self._now() // WINDOW_S)
        if minute != self._minute:
            self._minute, self._by_address = minute, {}
            self._pieces.begin(minute)
            valid = [known for known in self._by_credential if known not in self._invalid]
            self._by_credential, self._invalid = dict.fromkeys(valid[-MAX_KNOWN:], 0), set()
        counts, key = self._count_of(identity, address)
        if counts.get(key, 0) >= self._pieces.granted(key):
            return False
        counts[key] = counts.get(key, 0) + 1
        return True

    async def extend(self, identity: str | None, address: str) -> bool:
        """Whether a request that was not admitted may now be admitted.

        Waits until other processes have been asked what they leave of the window.
        """
        return await self._pieces.extend(self._count_of(identity, address)[1])

    def mark_valid(self, identity: str, address: str) -> None:
        """Move a request from its address's count to its credential's."""
        if identity not in self._by_credential:
            self._by_credential[identity] = 0
            self._pieces.owe(identity)
            self.on_validity(identity, True)
        elif self._by_credential[identity] >= self._pieces.granted(identity):
            return  # further requests of this credential, sent meanwhile, still count for the address
        self._by_credential[identity] += 1
        if self._by_address.get(address, 0):
            self._by_address[address] -= 1

    def is_valid(self, identity: str) -> bool:
        """Whether the credential was valid when it was last used."""
        return identity in self._by_credential

    def mark_invalid(self, identity: str) -> None:
        """Count the credential's requests against addresses from the next minute on."""
        if identity not in self._invalid:
            self._invalid.add(identity)
            self.on_validity(identity, False)

    def note_validity(self, identity: str, is_valid: bool) -> None:
        """Note what another process has found out about a credential."""
        if is_valid:
            self._by_credential.setdefault(identity, 0)
        else:
            self._invalid.add(identity)

    def _count_of(self, identity: str | None, address: str) -> tuple[dict[str, int], str]:
        """The counts that a request belongs to, and its key there."""
        if identity is not None and identity in self._by_credential:
            return self._by_credential, identity
        return self._by_address, address


class RateLimit:
    """Counts requests in a `Window`, and rejects those above its limit."""

    def __init__(self, app: ASGIApp, window: Window) -> None:
        self.app = app
        self.window = window

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        identity, address = _identity(scope), counted_address((scope.get("client") or ("",))[0])
        while not self.window.admit(identity, address):
            if not await self.window.extend(identity, address):
                raise errors.too_many_requests()
        if identity is None:
            return await self.app(scope, receive, send)
        was_valid = self.window.is_valid(identity)

        def update_window(status: int) -> None:
            if was_valid and status == 401:
                self.window.mark_invalid(identity)
            elif not was_valid and status != 401:
                self.window.mark_valid(identity, address)

        async def send_watched(message: Message) -> None:
            if message["type"] == "websocket.accept" or "status" in message:
                update_window(message.get("status", 101))
            await send(message)

        try:
            await self.app(scope, receive, send_watched)
        except errors.HTTPError as error:
            update_window(error.status)
            raise


def _identity(scope: Scope) -> str | None:
    """Hash the credential of a request; both ways to send a key give the same hash."""
    try:
        credential = auth.parse_credential(scope["headers"])
    except errors.HTTPError:
        return None
    if credential is None:
        return None
    return hashlib.sha256(f"{credential.id}:{credential.secret}".encode()).hexdigest()
