"""The layers that every request passes before its handler.

Pure ASGI: three layers of Starlette's BaseHTTPMiddleware cost 323 microseconds a
request, three of these cost 3. From the outside in: `ResponseHeaders`,
`ErrorResponses`, `ForwardedAddress`, `HostCheck`, `rate_limit.RateLimit`,
`BodyLimits`. With faults on demand, `faults.FaultAdministration` comes before
`RateLimit` and `faults.FaultInjection` after.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .. import errors
from ..clock import Clock
from ..proxies import TrustedProxies
from ..store.engine import unavailable_reason
from ..web.endpoints import KNOWN

log = logging.getLogger("agentbook.service")

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_HOST = re.compile(r"\[(?P<v6>[0-9a-fA-F:.]+)\](:\d+)?|(?P<name>[^:\[\]]+)(:\d+)?")


# Headers of every response, unless its handler sets others: the response depends on the
# caller and may hold a secret, and its type is as declared.
_DEFAULTS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class ResponseHeaders:
    """Adds an ``X-Request-ID`` to every response, WebSocket handshakes included.

    Responses are not stored by caches and not sniffed by browsers. While the service
    `is_draining`, each response is the last of its connection: a proxy then uses
    another connection for the next request, instead of one that is about to close.
    """

    def __init__(self, app: ASGIApp, clock: Clock, is_draining: Callable[[], bool] = lambda: False) -> None:
        self.app = app
        self.clock = clock
        self.is_draining = is_draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        request_id = self.clock.request_id()
        scope["request_id"] = request_id
        header = (b"x-request-id", request_id.encode())

        async def send_with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start", "websocket.accept"):
                headers = list(message.get("headers", ()))
                names = {name.lower() for name, _ in headers}
                message["headers"] = [*headers, *(item for item in _DEFAULTS if item[0] not in names), header]
                if message["type"] == "http.response.start" and self.is_draining():
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        await self.app(scope, receive, send_with_headers)


class ErrorResponses:
    """Turns an `HTTPError` into its response, and other exceptions into a 500.

    The cause of a 500 is only logged.
    """

    def __init__(self, app: ASGIApp, root_url: Callable[[], str]) -> None:
        self.app = app
        self.root_url = root_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        started = False

        async def send_watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, send_watched)
        except errors.HTTPError as error:
            await self._answer(error, scope, send)
        except Exception as error:
            if started and scope["type"] == "websocket" and type(error).__name__ == "ClientDisconnected":
                return  # uvicorn's way to say that the other side has gone
            if (reason := unavailable_reason(error)) is not None:
                log.error("request %s was answered 503: %s", scope["request_id"], reason)
                response = errors.unavailable(reason)
            else:
                # The path may contain names but no secrets; the query string is left
                # out all the same.
                log.exception("request %s failed: %s %s", scope["request_id"], scope.get("method", "WS"), scope["path"])
                response = errors.server_error()
            if not started:
                await self._answer(response, scope, send)

    async def _answer(self, error: errors.HTTPError, scope: Scope, send: Send) -> None:
        request_headers: errors.Headers = scope["headers"]
        if scope["type"] == "websocket" and not any(name == b"accept" for name, _ in request_headers):
            # WebSocket clients send no Accept header, and cannot show a page.
            request_headers = [*request_headers, (b"accept", b"*/*")]
        oauth = scope["path"].endswith("/oauth/token") and scope.get("method") == "POST"
        status, headers, body = errors.render(error, request_headers, self.root_url(), oauth=oauth)
        kind = "http" if scope["type"] == "http" else "websocket.http"
        if kind == "websocket.http" and "websocket.http.response" not in scope.get("extensions", {}):
            return await send({"type": "websocket.close", "code": 1008, "reason": error.message[:120]})
        if scope.get("method") == "HEAD":
            body = b""
        await send({"type": f"{kind}.response.start", "status": status, "headers": headers})
        await send({"type": f"{kind}.response.body", "body": body})


class HostCheck:
    """Rejects foreign Host headers on the loopback interface (DNS rebinding).

    `allowed` returns None to accept any host: the service is then meant to be reached
    from outside.
    """

    def __init__(self, app: ASGIApp, allowed: Callable[[], frozenset[str] | None]) -> None:
        self.app = app
        self.allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = self.allowed()
        if scope["type"] != "lifespan" and allowed is not None:
            hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
            # Proxies would disagree on which of two to use (RFC 9112, 3.2 rejects
            # this).
            if len(hosts) != 1 or host_name(hosts[0]) not in allowed:
                raise errors.bad_request("The Host header names a host that this service does not serve.")
        await self.app(scope, receive, send)


class ForwardedAddress:
    """Sets the client of each request behind a trusted proxy."""

    def __init__(self, app: ASGIApp, proxies: Callable[[], TrustedProxies]) -> None:
        self.app = app
        self.proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan" and (client := scope.get("client")) is not None:
            address = self.proxies().client_address(client[0], scope["headers"])
            if address != client[0]:
                scope["client"] = (address, 0)
        await self.app(scope, receive, send)


def loopback_hosts(*others: str) -> frozenset[str]:
    """Return this machine's names for itself, and `others`."""
    return _LOOPBACK | frozenset(others)


def host_name(host: str) -> str:
    """Return the lower-case host of a Host header, without port and brackets.

    Empty if the header cannot be read.
    """
    match = _HOST.fullmatch(host.strip())
    return "" if match is None else (match["v6"] or match["name"]).lower()


class BodyLimits:
    """Limits the size of a request's body and the time it may take to arrive.

    By default Starlette accepted a body of 200 MB, and uvicorn kept a half-sent one
    open forever. The bodies of all requests in progress also share a limit, because a
    hundred slow ones of 1 MiB take 100 MiB; requests without a valid credential may
    only use part of it. A short body, such as that of a sign-in or a refreshed token,
    may use more of it than a long one, so that a few slow long ones leave room for it.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        max_bytes: int = 1 << 20,
        timeout_s: float = 30.0,
        total_bytes: int = 16 << 20,
        unknown_bytes: int = 4 << 20,
        short_bytes: int = 16 << 10,
    ) -> None:
        self.app = app
        self.max_bytes = max_bytes
        self.timeout_s = timeout_s
        self.total_bytes = total_bytes
        self.unknown_bytes = unknown_bytes
        self.short_bytes = short_bytes
        self._in_progress = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if length.isdigit() and (len(length) > 15 or int(length) > self.max_bytes):
            raise errors.too_large(self.max_bytes)
        body = _Body(self, scope, receive)
        try:
            await self.app(scope, body.receive, send)
        finally:
            self._in_progress -= body.received

    def reserve(self, size: int, received: int, *, is_known: bool) -> None:
        """Count bytes that arrived; raises the 503 if requests hold too many bytes.

        `received` is how many bytes of this request have arrived.
        """
        self._in_progress += size
        limit = self.total_bytes if is_known else self.unknown_bytes
        if not is_known and received <= self.short_bytes:
            limit = max(limit, self.total_bytes // 2)
        if self._in_progress > limit:
            raise errors.too_busy()


class _Body:
    """The body of one request while it arrives."""

    def __init__(self, limits: BodyLimits, scope: Scope, receive: Receive) -> None:
        self.received = 0
        self._limits = limits
        self._scope = scope
        self._receive = receive
        self._complete = False
        self._deadline: float | None = None

    async def receive(self) -> Message:
        if self._complete:  # the next message is the client's disconnect, which may take its time
            return await self._receive()
        limits = self._limits
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + limits.timeout_s
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise errors.too_slow(limits.timeout_s) from None
        size = len(message.get("body", b""))
        self.received += size
        limits.reserve(size, self.received, is_known=self._scope.get(KNOWN, False))
        if self.received > limits.max_bytes:
            raise errors.too_large(limits.max_bytes)
        self._complete = not message.get("more_body", False)
        return message
