"""The rate limit: a number of requests per minute for each key or IP address.

The window is fixed: all counts restart with every full minute, because a client that
gets no ``Retry-After`` waits for the next minute of the ``Date`` header.

A credential has a count of its own once a request has shown that it is valid. Until
then, and from the minute after a 401, its requests count against their IP address.
Guessing secrets is therefore limited, nobody can use up another key's limit by sending
a wrong secret with its id or from behind the same proxy, and there are never more
counts than addresses and valid credentials.

Specification: "Errors", 429; "Limits", request count window.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .. import auth, errors

WINDOW_S = 60
MAX_KNOWN = 10_000  # credentials remembered from one minute to the next


class Window:
    """The counts of the current minute.

    Parameters
    ----------
    limit
        Requests per minute; must be positive.
    now
        Seconds since the epoch.

    Examples
    --------
    >>> window = Window(1, lambda: 0.0)
    >>> window.admit("ada", "::1"), window.admit("ada", "::1")
    (True, False)
    """

    def __init__(self, limit: int, now: Callable[[], float] = time.time) -> None:
        self.limit = limit
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
            valid = [known for known in self._by_credential if known not in self._invalid]
            self._by_credential, self._invalid = dict.fromkeys(valid[-MAX_KNOWN:], 0), set()
        if identity is not None and identity in self._by_credential:
            counts, key = self._by_credential, identity
        else:
            counts, key = self._by_address, address
        if counts.get(key, 0) >= self.limit:
            return False
        counts[key] = counts.get(key, 0) + 1
        return True

    def mark_valid(self, identity: str, address: str) -> None:
        """Move a request from its address's count to its credential's."""
        if identity not in self._by_credential:
            self._by_credential[identity] = 0
        elif self._by_credential[identity] >= self.limit:
            return  # further requests of this credential, sent meanwhile, stay with the address
        self._by_credential[identity] += 1
        if self._by_address.get(address, 0):
            self._by_address[address] -= 1

    def is_valid(self, identity: str) -> bool:
        """Whether the credential was valid when it was last used."""
        return identity in self._by_credential

    def mark_invalid(self, identity: str) -> None:
        """Count the credential's requests against addresses from the next minute on."""
        self._invalid.add(identity)


class RateLimit:
    """Counts requests in a `Window`, and rejects those above its limit."""

    def __init__(self, app: ASGIApp, window: Window) -> None:
        self.app = app
        self.window = window

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        identity, address = _identity(scope), (scope.get("client") or ("",))[0]
        if not self.window.admit(identity, address):
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
    """Hash the credential of a request: the same for both ways to send a key."""
    try:
        credential = auth.parse_credential(scope["headers"])
    except errors.HTTPError:
        return None
    if credential is None:
        return None
    return hashlib.sha256(f"{credential.id}:{credential.secret}".encode()).hexdigest()
