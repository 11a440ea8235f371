"""The ASGI application: openapi.yaml's paths to handlers, each request authorised and validated on the way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from sqlalchemy import Connection
from starlette.routing import BaseRoute, Route, Router, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from .. import auth, contract, errors, oauth, pages
from ..auth import Credential, Principal
from ..contract import Operation
from ..faults import Administration, Faults, Reachable
from ..operations import HANDLERS, Call, Registered
from ..state import Platform
from ..store import Transaction
from .middleware import Bodies, Hosts, Refusals, RequestIds
from .rate_limit import Rates, Window
from .websocket import EventSocket

VERSION_PATH = "/v1"

# Where any scope will do, a key without one is told this one. Only GET /me is for such keys too ("Authentication", rule 2).
ANY_SCOPE = "workspaces:read"
_FOR_ALL_KEYS = "getMe"

_encode = msgspec.json.Encoder().encode
_NOTHING: Mapping[str, Any] = {}


def build(platform: Platform) -> ASGIApp:
    """The application for a platform.

    Raises
    ------
    RuntimeError
        openapi.yaml and the handlers do not name the same operations.
    """
    described = contract.load()
    apart = set(described.operations) ^ set(HANDLERS)
    if apart:
        raise RuntimeError(f"openapi.yaml and the handlers differ in: {', '.join(sorted(apart))}")

    @asynccontextmanager
    async def lifespan(_app: object) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await platform.aclose()

    router = Router(_routes(platform, described), redirect_slashes=False, default=_nothing_here, lifespan=lifespan)

    async def exactly(scope: Scope, receive: Receive, send: Send) -> None:
        # The router's patterns end before a line's end, so that they would take one more character.
        if scope["type"] != "lifespan" and scope["path"].endswith("\n"):
            raise errors.url_not_found()
        await router(scope, receive, send)

    app: ASGIApp = Bodies(exactly)
    if platform.faults is not None:
        app = Faults(app, platform.faults)
    if platform.requests_per_minute:
        app = Rates(app, Window(platform.requests_per_minute))
    if platform.faults is not None:
        app = Administration(app, platform.faults)
    app = Hosts(app, lambda: platform.hosts)
    app = Refusals(app, lambda: platform.root_url)
    app = RequestIds(app, platform.store.clock)
    return app if platform.faults is None else Reachable(app)


def _routes(platform: Platform, described: contract.Contract) -> list[BaseRoute]:
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in described.operations.values():
        by_path.setdefault(operation.path, {})[operation.method] = operation
    routes: list[BaseRoute] = [
        Route(VERSION_PATH + path, endpoint=Endpoint(platform, by_method)) for path, by_method in by_path.items()
    ]
    routes.append(Route(f"{VERSION_PATH}/openapi.yaml", endpoint=Document(described.text, b"application/yaml")))
    routes.append(WebSocketRoute(f"{VERSION_PATH}/sessions/{{session_id}}/events/ws", endpoint=EventSocket(platform)))
    return [*routes, *oauth.routes(platform), *pages.routes(platform)]


async def _nothing_here(scope: Scope, _receive: Receive, _send: Send) -> None:
    if scope["type"] == "http" and (b"upgrade", b"websocket") in ((n, v.lower()) for n, v in scope["headers"]):
        # A good handshake arrives as one (see `connection`).
        refusal = errors.bad_request(
            "This WebSocket handshake cannot be read; it takes GET, version 13, a key, and lines below 8 KiB."
        )
        refusal.headers["Sec-WebSocket-Version"] = "13"  # RFC 6455, 4.2.2: for clients of other versions
        raise refusal
    raise errors.url_not_found()


class Document:
    """Fixed bytes, for whoever asks."""

    def __init__(self, body: bytes, media_type: bytes) -> None:
        self.body = body
        self.media_type = media_type

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            raise errors.method_not_allowed(["GET", "HEAD"])
        await _answer(scope, send, 200, self.body, self.media_type)


class Endpoint:
    """One path of openapi.yaml: all its methods."""

    def __init__(self, platform: Platform, operations: Mapping[str, Operation]) -> None:
        self.platform = platform
        self.operations = {method: (op, HANDLERS[op.id]) for method, op in operations.items()}
        if "GET" in self.operations:
            self.operations["HEAD"] = self.operations["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self.operations.get(scope["method"])
        if found is None:
            raise errors.method_not_allowed(self.operations)
        operation, handler = found
        credential = auth.credential_in(scope["headers"])
        if credential is None and not operation.anonymous:
            if not operation.schemes & {"apiKey", "bearerApiKey", "oauth2"}:
                raise errors.wrong_credential()
            raise errors.not_authenticated()
        if handler.kind == "write":
            result = await self._write(operation, handler, credential, scope, receive)
        else:
            result = await self._read(operation, handler, credential, scope)
        body = result if isinstance(result, bytes) else _encode(result)
        await _answer(scope, send, operation.status, body, b"application/json")

    async def _read(
        self, operation: Operation, handler: Registered, credential: Credential | None, scope: Scope
    ) -> Mapping[str, Any] | bytes:
        def run(db: Connection) -> Mapping[str, Any] | bytes:
            principal = admitted(operation, credential, db, self.platform.store.clock.instant())
            query = operation.query(scope["query_string"])
            return handler.run(Call(self.platform, principal, scope["path_params"], query, _NOTHING, db))

        return await self.platform.store.read(run, brief=handler.kind == "brief")

    async def _write(
        self, operation: Operation, handler: Registered, credential: Credential | None, scope: Scope, receive: Receive
    ) -> Mapping[str, Any] | bytes:
        now = self.platform.store.clock.instant()
        principal = await self.platform.store.read(lambda db: admitted(operation, credential, db, now), brief=True)
        query = operation.query(scope["query_string"])
        body: Mapping[str, Any] = _NOTHING
        if operation.has_body:
            kind = next((value for name, value in scope["headers"] if name == b"content-type"), None)
            body = operation.body(await _whole_body(receive), kind)

        if self.platform.store.clock.repeats:
            # Whether a turn ended before or after this request must not be a matter of luck.
            await self.platform.turns.wait_until_idle()

        def run(tx: Transaction) -> Mapping[str, Any] | bytes:
            return handler.run(Call(self.platform, principal, scope["path_params"], query, body, tx.db, tx))

        return await self.platform.store.write(run)


def admitted(operation: Operation, credential: Credential | None, db: Connection, now: str) -> Principal | None:
    """Who asks, if that credential may use the operation at all; else the 401 or 403 of the error table.

    An operation that also answers without a credential checks scopes by itself: there, a missing scope only narrows what is
    seen. A credential that is no good is refused even so.
    """
    if credential is None:
        return None
    principal = auth.principal_of(credential, db, now)
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


async def _whole_body(receive: Receive) -> bytes:
    chunks = []
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise errors.bad_request("The request ended before its body did.")
        chunks.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(chunks)


async def _answer(scope: Scope, send: Send, status: int, body: bytes, media_type: bytes) -> None:
    headers = [(b"content-type", media_type), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
