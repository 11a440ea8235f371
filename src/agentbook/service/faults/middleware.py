"""Applies faults to requests, after the rate limit and before anything else.

ASGI hides a request's connection, so `ConnectionAccess` puts a way to cut it into the
scope.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import HTTPError
from ..web.endpoints import json_response
from .administration import PREFIX
from .catalogue import CloseSocket, Delay, Drop, ErrorReply
from .switch import Switch

ABORT = "agentbook.abort"


class ConnectionAccess:
    """The outermost layer; puts uvicorn's way to abort a connection into the scope.

    uvicorn's `send` is a method of the object that owns the transport; there is no
    other way to reach it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            transport: Any = getattr(getattr(send, "__self__", None), "transport", None)
            scope[ABORT] = getattr(transport, "abort", None)
        await self.app(scope, receive, send)


async def _cut_connection(scope: Scope, receive: Receive) -> None:
    """CloseSocket the connection and wait until the server has noticed.

    After that, the server expects no response.
    """
    abort = scope.get(ABORT)
    if abort is None:
        raise RuntimeError("the connection cannot be reached here")
    abort()
    while not (await receive())["type"].endswith(".disconnect"):
        pass


class FaultInjection:
    """Applies the active faults to each request."""

    def __init__(self, app: ASGIApp, switch: Switch) -> None:
        self.app = app
        self.switch = switch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"].startswith(PREFIX):
            return await self.app(scope, receive, send)
        for action in self.switch.for_request(scope):
            match action:
                case Delay(seconds):
                    await asyncio.sleep(seconds)
                case ErrorReply():
                    return await _reply(action, scope, receive, send)
                case Drop("before"):
                    return await _cut_connection(scope, receive)
                case Drop():
                    with contextlib.suppress(HTTPError):
                        await self.app(scope, receive, _discard)
                    return await _cut_connection(scope, receive)
                case CloseSocket():
                    send = _Cutter(action, scope, send)
        await self.app(scope, receive, send)


async def _discard(_message: Message) -> None:
    """Discard a response that is not to be delivered."""


async def _reply(reply: ErrorReply, scope: Scope, receive: Receive, send: Send) -> None:
    if not reply.oauth or scope["type"] != "http":
        raise HTTPError(reply.status, reply.error, reply.message, headers=reply.headers, challenge=reply.challenge)
    fields = {"error": reply.error, "error_description": reply.message}
    await json_response(fields, reply.status, {"Cache-Control": "no-store"})(scope, receive, send)


class _Cutter:
    """Sends a number of frames, then closes the socket and discards the rest."""

    def __init__(self, action: CloseSocket, scope: Scope, send: Send) -> None:
        self._action = action
        self._abort = scope.get(ABORT)
        self._send = send
        self._frames = 0
        self._is_cut = False

    async def __call__(self, message: Message) -> None:
        if self._is_cut:
            return
        await self._send(message)
        self._frames += message["type"] == "websocket.send"
        if message["type"] in ("websocket.accept", "websocket.send") and self._frames >= self._action.after_frames:
            self._is_cut = True
            await self._cut()

    async def _cut(self) -> None:
        if self._action.code is not None:
            await self._send({"type": "websocket.close", "code": self._action.code, "reason": "A fault was asked for"})
        elif self._abort is None:
            raise RuntimeError("the connection cannot be reached here")
        else:
            self._abort()
