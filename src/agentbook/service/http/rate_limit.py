"""The rate limit: so many requests a minute for each key and, without a key, for each IP address.

A fixed window: all counts start again with every full minute, as the client expects who is told no ``Retry-After`` and
waits for the next minute of the ``Date`` header. A credential has a count of its own once it was found to be good; until
then, and from the minute after it was refused, its requests count against its address. So guessing secrets is not free,
whoever sends nonsense under the id of somebody else's key, or from behind the same proxy, takes nothing from it, and there are
never more counts than addresses and good credentials.
Specification: "Errors", 429; "Limits", request count window.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .. import auth, errors

WINDOW_S = 60
MOST_KNOWN = 10_000  # credentials that are remembered from one minute to the next


class Window:
    """The counts of the present minute.

    Parameters
    ----------
    allotment
        Requests a minute; must be positive.
    now
        Seconds since the epoch.

    Examples
    --------
    >>> window = Window(1, lambda: 0.0)
    >>> window.admit("ada", "::1"), window.admit("ada", "::1")
    (True, False)
    """

    def __init__(self, allotment: int, now: Callable[[], float] = time.time) -> None:
        self.allotment = allotment
        self._now = now
        self._minute = -1
        self._counts: dict[str, int] = {}
        self._good: dict[str, int] = {}
        self._ended: set[str] = set()

    def admit(self, identity: str | None, address: str) -> bool:
        """Count one request; whether it may go on. `identity` stands for its credential, None where it has none."""
        minute = int(self._now() // WINDOW_S)
        if minute != self._minute:
            self._minute, self._counts = minute, {}
            kept = [identity for identity in self._good if identity not in self._ended]
            self._good, self._ended = dict.fromkeys(kept[-MOST_KNOWN:], 0), set()
        counts, counted = self._whose(identity, address)
        if counts.get(counted, 0) >= self.allotment:
            return False
        counts[counted] = counts.get(counted, 0) + 1
        return True

    def proved(self, identity: str, address: str) -> None:
        """A request was admitted against its address, and its credential was good: it moves to the credential's count."""
        if identity not in self._good:
            self._good[identity] = 0
        elif self._good[identity] >= self.allotment:
            return  # others of this credential were under way too; what they took stays with the address
        self._good[identity] += 1
        if self._counts.get(address, 0):
            self._counts[address] -= 1

    def knows(self, identity: str) -> bool:
        """Whether the credential was good when it was looked at last."""
        return identity in self._good

    def forget(self, identity: str) -> None:
        """The credential is good no longer: from the next minute on it counts against the addresses it comes from."""
        self._ended.add(identity)

    def _whose(self, identity: str | None, address: str) -> tuple[dict[str, int], str]:
        if identity is not None and identity in self._good:
            return self._good, identity
        return self._counts, address


class Rates:
    """The middleware.

    Parameters
    ----------
    app
        What comes next.
    window
        The counts.
    """

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
        known = self.window.knows(identity)

        def answered(status: int) -> None:
            if known and status == 401:
                self.window.forget(identity)
            elif not known and status != 401:
                self.window.proved(identity, address)

        async def watched(message: Message) -> None:
            if message["type"] == "websocket.accept" or "status" in message:
                answered(message.get("status", 101))
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except errors.Refusal as refusal:
            answered(refusal.status)
            raise


def _identity(scope: Scope) -> str | None:
    """What stands for the credential of a request: the same for both ways to send a key, and no secret in memory."""
    try:
        credential = auth.credential_in(scope["headers"])
    except errors.Refusal:
        return None
    if credential is None:
        return None
    return hashlib.sha256(f"{credential.id}:{credential.secret}".encode()).hexdigest()
