"""The ASGI application: routes openapi.yaml's paths to validated handlers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from .. import contract, errors, oauth
from ..auth import Principal
from ..contract import Operation
from ..faults import administration
from ..faults.switch import inject_faults
from ..operations import HANDLERS, OperationCall
from ..pages import routes as pages
from ..state import Platform
from ..store import Transaction
from ..web.endpoints import CALLER, OPERATION, MethodEndpoint, read_json
from .guard import Guard, Window
from .monitoring import Metrics, Monitoring, turn_span_writer
from .monitoring import routes as monitoring_routes
from .respond import Respond
from .websocket import EventSocket

VERSION_PATH = "/v1"

# The scope that the 403 for a key without scopes names, if any scope would do. Only
# GET /me accepts such keys ("Authentication", rule 2).
SCOPE_TO_NAME = "workspaces:read"
_NO_SCOPE_NEEDED = "getMe"
_NONCE = re.compile(rb"nonce=([A-Za-z0-9_-]{16,128})")

_encode = msgspec.json.Encoder().encode


def build(
    platform: Platform,
    monitoring: Monitoring | None = None,
    *,
    window: Window | None = None,
    prove: Callable[[str], str] | None = None,
) -> ASGIApp:
    """Return the application of a platform, which whoever serves it starts and closes.

    Parameters
    ----------
    platform
        What it serves.
    monitoring
        The operator's choices; None for the defaults.
    window
        Counts the requests of each minute; None counts them for the platform's limit.
    prove
        Answers a nonce as only the service in ``service.json`` can (see
        `discovery_file.proof`).
    """
    monitoring = monitoring or Monitoring()
    metrics = Metrics(platform)
    if monitoring.spans is not None:
        platform.turns.on_end.append(turn_span_writer(monitoring.spans, os.environ))
    routes = [*_routes(platform), *monitoring_routes(platform, metrics, monitoring.token)]
    if prove is not None:
        routes.append(Route("/_proof", endpoint=MethodEndpoint(GET=partial(_answer_nonce, prove))))
    if platform.faults is not None:
        routes += administration.routes(platform.faults)
    app: ASGIApp = Router(routes, redirect_slashes=False, default=_reject_unrouted)
    if platform.faults is not None:
        app = partial(inject_faults, platform.faults, app)
    if window is None and platform.requests_per_minute:
        window = Window(platform.requests_per_minute)
    return Respond(Guard(app, platform, window), platform, metrics, monitoring)


async def _answer_nonce(prove: Callable[[str], str], request: Request) -> Response:
    """Prove that this service is the one in ``service.json``.

    This is an extension for the processes of this user that find the service by that
    file. It needs no credential and reveals nothing: anyone who cannot read the file
    can neither make nor check the answer.
    """
    match = _NONCE.fullmatch(request.scope["query_string"])
    if match is None:
        raise errors.url_not_found()
    return Response(prove(match[1].decode()), media_type="text/plain")


def _routes(platform: Platform) -> list[BaseRoute]:
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in contract.load().operations.values():
        by_path.setdefault(operation.path, {})[operation.method] = operation
    routes: list[BaseRoute] = [
        Route(VERSION_PATH + path, endpoint=Endpoint(platform, by_method)) for path, by_method in by_path.items()
    ]
    routes.append(Route(f"{VERSION_PATH}/openapi.yaml", endpoint=MethodEndpoint(GET=_show_contract)))
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


async def _show_contract(_request: Request) -> Response:
    return Response(contract.load().text, media_type="application/yaml")


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
        principal = authorize(operation, scope[CALLER])
        query = operation.query(scope["query_string"])
        body: Mapping[str, Any] = {}
        if operation.has_body:
            body = await read_json(Request(scope, receive), operation)

        def run(db: Connection, tx: Transaction | None = None) -> bytes:
            result = handler.run(OperationCall(self.platform, principal, scope["path_params"], query, body, db, tx))
            return result if isinstance(result, bytes) else _encode(result)

        if handler.kind == "read":
            reply = await self.platform.store.read(run)
        else:
            if self.platform.store.clock.seed is not None:
                # A turn that is about to end must have the same outcome every time.
                await self.platform.turns.wait_until_idle()
            reply = await self.platform.store.write(lambda tx: run(tx.db, tx))
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(reply)).encode())]
        await send({"type": "http.response.start", "status": operation.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply})


def authorize(operation: Operation, caller: Principal | errors.HTTPError | None) -> Principal | None:
    """Return the principal if it may use the operation, or raise the 401 or 403.

    An operation that also answers without a credential checks scopes itself: there, a
    missing scope only narrows what is visible. An invalid credential is still an error.
    """
    if isinstance(caller, errors.HTTPError):
        raise caller
    if caller is None:
        if operation.anonymous:
            return None
        raise errors.not_authenticated()
    if caller.scheme not in operation.schemes:
        raise errors.wrong_credential()
    if not operation.anonymous and caller.kind != "triggerApiKey":
        for scope in operation.scopes:
            caller.require(scope)
        if caller.kind == "apiKey" and not caller.scopes and operation.id != _NO_SCOPE_NEEDED:
            caller.require(SCOPE_TO_NAME)
    return caller
