"""Applies faults to requests, after the rate limit and before anything else.

ASGI hides a request's connection, so `with_connection` puts a way to cut it into the
scope.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import HTTPError
from .administration import PREFIX
from .catalogue import Effect
from .switch import Switch

ABORT = "agentbook.abort"


def with_connection(app: ASGIApp) -> ASGIApp:
    """Put uvicorn's way to abort a connection into the scope; the outermost layer.

    uvicorn's `send` is a method of the object that owns the transport; there is no
    other way to reach it.
    """

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        transport: Any = getattr(getattr(send, "__self__", None), "transport", None)
        scope[ABORT] = getattr(transport, "abort", None)
        await app(scope, receive, send)

    return call


async def _cut_connection(scope: Scope, receive: Receive) -> None:
    """Cut the connection and wait until the server has noticed.

    After that, the server expects no response.
    """
    scope[ABORT]()
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
                case HTTPError():
                    raise action.with_traceback(None)  # it may be raised again
                case Effect(delay_s=float() as seconds):
                    await asyncio.sleep(seconds)
                case Effect(drop="before"):
                    return await _cut_connection(scope, receive)
                case Effect(drop="after"):
                    with contextlib.suppress(HTTPError):
                        await self.app(scope, receive, _discard)
                    return await _cut_connection(scope, receive)
                case Effect():
                    send = _cutting(action, scope, send)
        await self.app(scope, receive, send)


async def _discard(_message: Message) -> None:
    """Discard a response that is not to be delivered."""


def _cutting(effect: Effect, scope: Scope, send: Send) -> Send:
    """Send a number of frames, then close or cut the socket, and discard the rest."""
    frames, is_cut = 0, False

    async def send_until_cut(message: Message) -> None:
        nonlocal frames, is_cut
        if is_cut:
            return
        await send(message)
        frames += message["type"] == "websocket.send"
        is_cut = message["type"] in ("websocket.accept", "websocket.send") and frames >= effect.after_frames
        if is_cut and effect.socket_cut is None:
            scope[ABORT]()
        elif is_cut:
            await send({"type": "websocket.close", "code": effect.socket_cut, "reason": "A fault was asked for"})

    return send_until_cut
