"""The ASGI application: routes openapi.yaml's paths to validated handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.routing import BaseRoute, Route, Router, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from .. import auth, contract, errors, oauth, pages
from ..auth import Credential, Principal
from ..cluster.request_pieces import SharedPieces, take_pieces
from ..contract import Operation
from ..faults import ConnectionAccess, FaultAdministration, FaultInjection
from ..operations import HANDLERS, OperationCall, RegisteredHandler, Result
from ..state import Platform
from ..store import Transaction
from ..web.endpoints import KNOWN, OPERATION, read_json
from .middleware import BodyLimits, ErrorResponses, ForwardedAddress, HostCheck, ResponseHeaders
from .monitoring import Measurement, Metrics, Monitoring, Probes
from .rate_limit import RateLimit, Window
from .tracing import Tracing
from .websocket import EventSocket

VERSION_PATH = "/v1"

# The scope named in the 403 for a key without scopes, if any scope would do. Only
# GET /me accepts such keys ("Authentication", rule 2).
ANY_SCOPE = "workspaces:read"
_FOR_ALL_KEYS = "getMe"

_encode = msgspec.json.Encoder().encode
_EMPTY: Mapping[str, Any] = {}


def build(platform: Platform, monitoring: Monitoring | None = None) -> ASGIApp:
    """Return the application of a platform.

    Raises
    ------
    RuntimeError
        openapi.yaml and the handlers do not name the same operations.
    """
    monitoring = monitoring or Monitoring()
    metrics = Metrics(platform, monitoring.numbers)
    api = contract.load()
    mismatched = set(api.operations) ^ set(HANDLERS)
    if mismatched:
        raise RuntimeError(f"openapi.yaml and the handlers differ in: {', '.join(sorted(mismatched))}")

    @asynccontextmanager
    async def lifespan(_app: object) -> AsyncIterator[None]:
        await platform.start()
        beside = [asyncio.create_task(platform.warm()), asyncio.create_task(metrics.keep_current())]
        try:
            yield
        finally:
            for task in beside:
                task.cancel()
            await platform.aclose()

    router = Router(_routes(platform, api), redirect_slashes=False, default=_reject_unrouted, lifespan=lifespan)

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        # The router's patterns end in `$`, which also matches before a final newline.
        if scope["type"] != "lifespan" and scope["path"].endswith("\n"):
            raise errors.url_not_found()
        await router(scope, receive, send)

    app: ASGIApp = BodyLimits(route)
    if platform.faults is not None:
        app = FaultInjection(app, platform.faults)
    if platform.requests_per_minute:
        app = RateLimit(app, _request_window(platform))
    if platform.faults is not None:
        app = FaultAdministration(app, platform.faults)
    app = Probes(app, platform, metrics, monitoring.token)
    app = HostCheck(app, lambda: platform.hosts)
    app = ForwardedAddress(app, lambda: platform.proxies)
    app = ErrorResponses(app, lambda: platform.root_url)
    app = ResponseHeaders(app, platform.store.clock, lambda: platform.draining)
    app = Measurement(app, metrics, monitoring.request_log, platform.store.clock.instant)
    if monitoring.spans is not None:
        app = Tracing(app, monitoring.spans)
    return app if platform.faults is None else ConnectionAccess(app)


def _request_window(platform: Platform) -> Window:
    """Return the count of requests; if there are several processes, they share it."""
    limit, store, bus = platform.requests_per_minute, platform.store, platform.bus
    if not bus.is_shared:
        return Window(limit)
    pieces = SharedPieces(limit, lambda minute, sizes: store.count(partial(take_pieces, minute=minute, pieces=sizes)))
    window = Window(limit, pieces=pieces)
    window.on_validity = lambda identity, is_valid: bus.publish("credential", [identity, is_valid])
    bus.subscribe("credential", lambda value: window.note_validity(*value))
    return window


def _routes(platform: Platform, api: contract.Contract) -> list[BaseRoute]:
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in api.operations.values():
        by_path.setdefault(operation.path, {})[operation.method] = operation
    routes: list[BaseRoute] = [
        Route(VERSION_PATH + path, endpoint=Endpoint(platform, by_method)) for path, by_method in by_path.items()
    ]
    routes.append(Route(f"{VERSION_PATH}/openapi.yaml", endpoint=Document(api.text, b"application/yaml")))
    routes.append(WebSocketRoute(f"{VERSION_PATH}/sessions/{{session_id}}/events/ws", endpoint=EventSocket(platform)))
    return [*routes, *oauth.routes(platform), *pages.routes(platform)]


async def _reject_unrouted(scope: Scope, _receive: Receive, _send: Send) -> None:
    if scope["type"] == "http" and (b"upgrade", b"websocket") in ((n, v.lower()) for n, v in scope["headers"]):
        # A valid handshake arrives as a websocket scope (see `connection`).
        error = errors.bad_request(
            "This WebSocket handshake cannot be read; it takes GET, version 13, a key, and lines below 8 KiB."
        )
        error.headers["Sec-WebSocket-Version"] = "13"  # RFC 6455, 4.2.2: for clients of other versions
        raise error
    raise errors.url_not_found()


class Document:
    """A fixed document that needs no credential."""

    def __init__(self, body: bytes, media_type: bytes) -> None:
        self.body = body
        self.media_type = media_type

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            raise errors.method_not_allowed(["GET", "HEAD"])
        await _send_response(scope, send, 200, self.body, self.media_type)


class Endpoint:
    """One path of openapi.yaml with all its methods."""

    def __init__(self, platform: Platform, operations: Mapping[str, Operation]) -> None:
        self.platform = platform
        self.operations = {method: (op, HANDLERS[op.id]) for method, op in operations.items()}
        if "GET" in self.operations:
            self.operations["HEAD"] = self.operations["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match = self.operations.get(scope["method"])
        if match is None:
            raise errors.method_not_allowed(self.operations)
        operation, handler = match
        scope[OPERATION] = operation.id
        credential = auth.parse_credential(scope["headers"])
        if credential is None and not operation.anonymous:
            if not operation.schemes & {"apiKey", "bearerApiKey", "oauth2"}:
                raise errors.wrong_credential()
            raise errors.not_authenticated()
        run = self._write if handler.kind == "write" else self._read
        result = await run(operation, handler, credential, Request(scope, receive))
        body = result if isinstance(result, bytes) else _encode(result)
        await _send_response(scope, send, operation.status, body, b"application/json")

    async def _read(
        self, operation: Operation, handler: RegisteredHandler, credential: Credential | None, request: Request
    ) -> Result:
        def run(db: Connection) -> bytes:
            principal = authorize(operation, credential, db, self.platform.store.clock.instant())
            query = operation.query(request.scope["query_string"])
            request.scope[KNOWN] = principal is not None
            result = handler.run(OperationCall(self.platform, principal, request.path_params, query, _EMPTY, db))
            return result if isinstance(result, bytes) else _encode(result)

        return await self.platform.store.read(run)

    async def _write(
        self, operation: Operation, handler: RegisteredHandler, credential: Credential | None, request: Request
    ) -> Result:
        principal = await self._authorize(operation, credential)
        request.scope[KNOWN] = principal is not None
        query = operation.query(request.scope["query_string"])
        body: Mapping[str, Any] = _EMPTY
        if operation.has_body:
            body = await read_json(request, operation)

        if self.platform.store.clock.repeats:
            # A turn that is about to end must have the same outcome every time.
            await self.platform.turns.wait_until_idle()

        def run(tx: Transaction) -> Result:
            path = request.path_params
            return handler.run(OperationCall(self.platform, principal, path, query, body, tx.db, tx))

        return await self.platform.store.write(run, sessions=handler.touched_sessions(request.path_params))

    async def _authorize(self, operation: Operation, credential: Credential | None) -> Principal | None:
        now = self.platform.store.clock.instant()
        return await self.platform.store.read(lambda db: authorize(operation, credential, db, now))


def authorize(operation: Operation, credential: Credential | None, db: Connection, now: str) -> Principal | None:
    """Return the principal if it may use the operation, or raise the 401 or 403.

    An operation that also answers without a credential checks scopes itself: there, a
    missing scope only narrows what is visible. An invalid credential is still an error.
    """
    if credential is None:
        return None
    principal = auth.authenticate(credential, db, now)
    scheme = principal.kind
    if credential.scheme == "bearer" and scheme != "oauth2":
        scheme = "bearer" + scheme[0].upper() + scheme[1:]
    if scheme not in operation.schemes:
        raise errors.wrong_credential()
    if not operation.anonymous and principal.kind != "triggerApiKey":
        for scope in operation.scopes:
            principal.require(scope)
        if principal.kind == "apiKey" and not principal.scopes and operation.id != _FOR_ALL_KEYS:
            principal.require(ANY_SCOPE)
    return principal


async def _send_response(scope: Scope, send: Send, status: int, body: bytes, media_type: bytes) -> None:
    headers = [(b"content-type", media_type), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
