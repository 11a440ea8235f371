"""The outermost layer: every request gets a response with an id, and is recorded."""

from __future__ import annotations

import json
import logging
import time

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .. import errors
from ..state import Platform
from ..store.engine import unavailable_reason
from ..web.endpoints import OPERATION
from ..web.error_responses import render_error
from .guard import OPERATOR_PATHS
from .monitoring import Metrics, Monitoring, span_writer

log = logging.getLogger("agentbook.service")

# The methods that are counted by name: a client may make up any number of others.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_STARTS = ("http.response.start", "websocket.http.response.start", "websocket.accept")
# Headers of every response, unless its handler sets others: the response depends on the
# caller and may hold a secret, and its type is as declared.
_DEFAULTS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class Respond:
    """Adds the headers of every response, turns exceptions into errors, and records.

    An `HTTPError` becomes its response, and any other exception a 500, whose cause is
    only logged. WebSocket handshakes get the same headers and errors. While the service
    is about to stop, each response is the last of its connection: a proxy then uses
    another connection for the next request.

    Each request is counted, and gets a line and a span if the operator asked for them.
    """

    def __init__(self, app: ASGIApp, platform: Platform, metrics: Metrics, monitoring: Monitoring) -> None:
        self._app = app
        self._platform = platform
        self._metrics = metrics
        self._log = monitoring.request_log
        self._write_span = None if monitoring.spans is None else span_writer(monitoring.spans)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        request_id = scope["request_id"] = self._platform.store.clock.request_id()
        status = 0

        async def send_response(message: Message) -> None:
            nonlocal status
            if message["type"] in _STARTS:
                status = message.get("status", 101)
                headers = list(message.get("headers", ()))
                names = {name for name, _ in headers}
                headers += [field for field in _DEFAULTS if field[0] not in names]
                headers.append((b"x-request-id", request_id.encode()))
                if self._platform.draining and message["type"] == "http.response.start":
                    headers.append((b"connection", b"close"))
                message["headers"] = headers
            await send(message)
            if message["type"] == "websocket.accept":
                self._record(scope, status, time.perf_counter() - began)

        try:
            await self._app(scope, receive, send_response)
        except Exception as error:
            if status and type(error).__name__ == "ClientDisconnected":
                return  # uvicorn's way to say that the other side of a socket has gone
            answer = _as_response(error, scope)
            error.__traceback__ = None  # its frames hold the body, in a circle that only the garbage collector opens
            if not status:
                await self._answer(answer, scope, send_response)
        finally:
            if status != 101:
                self._record(scope, status, time.perf_counter() - began)

    def _record(self, scope: Scope, status: int, duration_s: float) -> None:
        """Record a response that is complete, or the handshake of a socket.

        Paths, queries and bodies are left out: they name people and hold what they say.
        """
        if scope["path"] in OPERATOR_PATHS:
            return
        operation = scope.get(OPERATION, "other")
        method = scope.get("method", "GET")
        method = method if method in _METHODS else "other"
        self._metrics.requests.labels(operation, method, status).inc()
        if scope["type"] == "http":
            self._metrics.seconds.labels(operation).observe(duration_s)
        if self._log is not None:
            fields = {
                "time": self._platform.store.clock.instant(),
                "request_id": scope["request_id"],
                "method": method,
                "operation": operation,
                "status": status,
                "ms": round(1000 * duration_s, 1),
            }
            if trace := Headers(scope=scope).get("traceparent"):
                fields["traceparent"] = trace[:64]
            print(json.dumps(fields), file=self._log, flush=True)
        if self._write_span is not None:
            self._write_span(scope, method, operation, status, duration_s)

    async def _answer(self, error: errors.HTTPError, scope: Scope, send: Send) -> None:
        request_headers: errors.Headers = scope["headers"]
        if scope["type"] == "websocket" and not any(name == b"accept" for name, _ in request_headers):
            # WebSocket clients send no Accept header, and cannot show a page.
            request_headers = [*request_headers, (b"accept", b"*/*")]
        oauth = scope["path"].endswith("/oauth/token") and scope.get("method") == "POST"
        status, headers, body = render_error(error, request_headers, self._platform.root_url, oauth=oauth)
        kind = "http" if scope["type"] == "http" else "websocket.http"
        await send({"type": f"{kind}.response.start", "status": status, "headers": headers})
        await send({"type": f"{kind}.response.body", "body": body})


def _as_response(error: Exception, scope: Scope) -> errors.HTTPError:
    if isinstance(error, errors.HTTPError):
        return error
    if isinstance(error, ClientDisconnect):
        return errors.bad_request("The request ended before its body did.")
    if (reason := unavailable_reason(error)) is not None:
        log.error("request %s was answered 503: %s", scope["request_id"], reason)
        return errors.unavailable(reason)
    # The path may contain names but no secrets; the query string is left out all the
    # same.
    log.error("request %s failed: %s %r", scope["request_id"], scope.get("method", "WS"), scope["path"], exc_info=error)
    return errors.server_error()
