"""What every request passes before its route: host, address, credential, rate and body.

The credential is checked here, once. Whoever handles the request finds the outcome in
its scope, because a request without a valid credential may still be answered.

A request counts for its credential if that is valid, else for its IP address. So
guessing secrets is limited, and nobody can use up another key's limit by sending a
wrong secret with its id or from behind the same proxy.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .. import auth, errors
from ..faults.switch import PREFIX as FAULTS
from ..proxies import counted_address
from ..state import Platform
from ..web.endpoints import CALLER, KNOWN

MAX_BODY_BYTES = 1 << 20
MAX_BODY_S = 30.0
# Of all bodies that are being received, because a hundred slow ones of 1 MiB take
# 100 MiB; and of those without a valid credential among them.
MAX_BODIES_BYTES = 16 << 20
MAX_UNKNOWN_BODIES_BYTES = 4 << 20

# What operators ask is neither recorded nor limited.
OPERATOR_PATHS = frozenset({"/healthz", "/readyz", "/metrics", "/_proof"})

READER = "agentbook.reader"  # in the state of a request: the `Reader` of its connection

WINDOW_S = 60
_HOST = re.compile(r"\[(?P<v6>[0-9a-fA-F:.]+)\](:\d+)?|(?P<name>[^:\[\]]+)(:\d+)?")


class Window:
    """The rate limit: a number of requests per minute for each key or IP address.

    The window is fixed: all counts restart with every full minute, because a client
    that gets no ``Retry-After`` waits for the next minute of the ``Date`` header.
    Specification: "Errors", 429; "Limits", request count window.

    Parameters
    ----------
    limit
        Requests per minute; must be positive.
    now
        Seconds since the epoch.
    """

    def __init__(self, limit: int, now: Callable[[], float] = time.time) -> None:
        self._limit = limit
        self._now = now
        self._minute = -1
        self._counts: dict[str, int] = {}

    def admit(self, key: str) -> bool:
        """Count a request and return whether it is within the limit.

        `key` is the id of a valid key, or an address.
        """
        minute = int(self._now() // WINDOW_S)
        if minute != self._minute:
            self._minute, self._counts = minute, {}
        count = self._counts[key] = self._counts.get(key, 0) + 1
        return count <= self._limit


class Reader:
    """Who reads from a connection."""

    counted_as = ""


class Guard:
    """Rejects what the service does not handle, and notes who asks.

    Parameters
    ----------
    app
        What handles the requests.
    platform
        Has the hosts to accept, and the proxies that say where a request comes from.
    window
        Counts the requests of the minute; None for no limit.
    """

    def __init__(self, app: ASGIApp, platform: Platform, window: Window | None) -> None:
        self.app = app
        self.platform = platform
        self.window = window
        self.body_bytes = 0  # of the requests that are in progress

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (hosts := self.platform.hosts) is not None:
            _check_host(scope, hosts)
        address = (scope.get("client") or ("",))[0]
        if self.platform.proxies.networks:
            address = self.platform.proxies.client_address(address, scope["headers"])
            scope["client"] = (address, 0)
        if scope["path"] not in OPERATOR_PATHS and not scope["path"].startswith(FAULTS):
            caller = scope[CALLER] = await self._caller(scope)
            scope[KNOWN] = isinstance(caller, auth.Principal)
            counted = caller.counted_as if isinstance(caller, auth.Principal) else counted_address(address)
            if (reader := scope.get("state", {}).get(READER)) is not None:
                reader.counted_as = counted
            if self.window is not None and not self.window.admit(counted):
                raise errors.too_many_requests()
        if scope["type"] == "websocket":
            return await self.app(scope, receive, send)
        body = Body(self, scope, receive)
        try:
            await self.app(scope, body.receive, send)
        finally:
            self.body_bytes -= body.received

    async def _caller(self, scope: Scope) -> auth.Principal | errors.HTTPError | None:
        """Who sent a request, or the error for its credential; None without one."""
        try:
            credential = auth.parse_credential(scope["headers"])
            if credential is None:
                return None
            store = self.platform.store
            return await store.read(lambda db: auth.authenticate(credential, db, store.clock))
        except errors.HTTPError as error:
            return error


class Body:
    """The body of one request, whose size and duration are limited.

    By default Starlette accepted a body of 200 MB, and uvicorn kept a half-sent one
    open forever.

    Raises
    ------
    HTTPError
        The 413 if the request announces a body that is too large.
    """

    def __init__(self, guard: Guard, scope: Scope, receive: Receive) -> None:
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if length.isdigit() and (len(length) > 15 or int(length) > MAX_BODY_BYTES):
            raise errors.too_large(MAX_BODY_BYTES)
        self.received = 0
        self._guard = guard
        self._scope = scope
        self._receive = receive
        self._complete = False
        self._deadline: float | None = None

    async def receive(self) -> Message:
        if self._complete:  # the next message is the client's disconnect, which may take its time
            return await self._receive()
        if self._deadline is None:  # from the first read on: a fault may have delayed it
            self._deadline = asyncio.get_running_loop().time() + MAX_BODY_S
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise errors.too_slow(MAX_BODY_S) from None
        size = len(message.get("body", b""))
        self.received += size
        self._guard.body_bytes += size
        if self._guard.body_bytes > (MAX_BODIES_BYTES if self._scope.get(KNOWN) else MAX_UNKNOWN_BODIES_BYTES):
            raise errors.unavailable("The service is receiving too much at once.")
        if self.received > MAX_BODY_BYTES:
            raise errors.too_large(MAX_BODY_BYTES)
        self._complete = not message.get("more_body", False)
        return message


def _check_host(scope: Scope, allowed: frozenset[str]) -> None:
    """Raise the 400 for a Host header that is not served (DNS rebinding)."""
    hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    # Proxies would disagree on which of two to use (RFC 9112, 3.2 rejects this).
    if len(hosts) != 1 or host_name(hosts[0]) not in allowed:
        raise errors.bad_request("The Host header names a host that this service does not serve.")


def host_name(host: str) -> str:
    """Return the lower-case host of a Host header, without port and brackets.

    Empty if the header cannot be read.
    """
    match = _HOST.fullmatch(host.strip())
    return "" if match is None else (match["v6"] or match["name"]).lower()
