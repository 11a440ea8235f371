"""What every request passes before any handler: pure ASGI, because three layers of Starlette's BaseHTTPMiddleware cost
323 microseconds a request and three of these 3.

From the outside in: `RequestIds`, `Refusals` (whatever is raised inside becomes an answer), `Hosts`, `rate.Rates`, `Bodies`.
With faults on demand, `faults.Administration` stands before `Rates` and `faults.Faults` behind.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .. import errors
from ..clock import Clock

log = logging.getLogger("agentbook.service")

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_HOST = re.compile(r"\[(?P<v6>[0-9a-fA-F:.]+)\](:\d+)?|(?P<name>[^:\[\]]+)(:\d+)?")


class RequestIds:
    """Gives every answer an ``X-Request-ID``, the ones to WebSocket handshakes included."""

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self.app = app
        self.clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        request_id = self.clock.request_id()
        scope["request_id"] = request_id
        header = (b"x-request-id", request_id.encode())

        async def send_with_id(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start", "websocket.accept"):
                message["headers"] = [*message.get("headers", ()), header]
            await send(message)

        await self.app(scope, receive, send_with_id)


class Refusals:
    """Turns a `Refusal` into its answer, and any other exception into a 500 whose cause is in the log alone."""

    def __init__(self, app: ASGIApp, root_url: Callable[[], str]) -> None:
        self.app = app
        self.root_url = root_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except errors.Refusal as refusal:
            await self._answer(refusal, scope, send)
        except Exception as error:
            if started and scope["type"] == "websocket" and type(error).__name__ == "ClientDisconnected":
                return  # uvicorn's way to say that the other side has gone
            # The path may hold names, never secrets; the query string is left out all the same.
            log.exception("request %s failed: %s %s", scope["request_id"], scope.get("method", "WS"), scope["path"])
            if not started:
                await self._answer(errors.server_error(), scope, send)

    async def _answer(self, refusal: errors.Refusal, scope: Scope, send: Send) -> None:
        asked: errors.Headers = scope["headers"]
        if scope["type"] == "websocket" and not any(name == b"accept" for name, _ in asked):
            asked = [*asked, (b"accept", b"*/*")]  # WebSocket clients name none, and show nobody a page
        oauth = scope["path"].endswith("/oauth/token")
        status, headers, body = errors.render(refusal, asked, self.root_url(), oauth=oauth)
        kind = "http" if scope["type"] == "http" else "websocket.http"
        if kind == "websocket.http" and "websocket.http.response" not in scope.get("extensions", {}):
            return await send({"type": "websocket.close", "code": 1008, "reason": refusal.message[:120]})
        if scope.get("method") == "HEAD":
            body = b""
        await send({"type": f"{kind}.response.start", "status": status, "headers": headers})
        await send({"type": f"{kind}.response.body", "body": body})


class Hosts:
    """Refuses a Host that is not ours while the service listens on the loopback interface (DNS rebinding).

    `allowed` is None where any host will do, because the service was bound to the outside on purpose.
    """

    def __init__(self, app: ASGIApp, allowed: Callable[[], frozenset[str] | None]) -> None:
        self.app = app
        self.allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = self.allowed()
        if scope["type"] != "lifespan" and allowed is not None:
            hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
            # Two that differ would be read differently by whatever stands between (RFC 9112, 3.2 refuses them).
            if len(hosts) != 1 or host_name(hosts[0]) not in allowed:
                raise errors.bad_request("The Host header names a host that this service does not serve.")
        await self.app(scope, receive, send)


def loopback_hosts(*others: str) -> frozenset[str]:
    """The names of this machine, for itself."""
    return _LOOPBACK | frozenset(others)


def host_name(host: str) -> str:
    """The host of a Host header, without port and brackets, in lower case; empty where it cannot be read."""
    match = _HOST.fullmatch(host.strip())
    return "" if match is None else (match["v6"] or match["name"]).lower()


class Bodies:
    """Bounds a request's body in size and in time, before anything parses it.

    By default Starlette took a body of 200 MB, and uvicorn held a half-sent one open for ever.
    """

    def __init__(self, app: ASGIApp, *, most_bytes: int = 1 << 20, most_s: float = 30.0) -> None:
        self.app = app
        self.most_bytes = most_bytes
        self.most_s = most_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if length.isdigit() and int(length) > self.most_bytes:
            raise errors.too_large(self.most_bytes)
        received, whole = 0, False

        async def bounded() -> Message:
            nonlocal received, whole
            if whole:  # what comes after the body is the news that the client has gone, and that may take its time
                return await receive()
            try:
                async with asyncio.timeout(self.most_s):
                    message = await receive()
            except TimeoutError:
                raise errors.too_slow(self.most_s) from None
            received += len(message.get("body", b""))
            if received > self.most_bytes:
                raise errors.too_large(self.most_bytes)
            whole = not message.get("more_body", False)
            return message

        await self.app(scope, bounded, send)
