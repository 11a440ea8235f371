"""Where faults happen: behind the rate limit and in front of everything that looks at a request.

ASGI does not show the connection under a request, so `Reachable` puts what cuts it into the scope.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import Refusal
from .administration import PREFIX
from .catalogue import Answer, Cut, Delay, Drop
from .switch import Switch

ABORT = "agentbook.abort"


class Reachable:
    """The outermost layer, right under uvicorn: puts what cuts the connection into the scope.

    uvicorn's `send` is a method of the object that owns the transport; there is no other way to it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            transport: Any = getattr(getattr(send, "__self__", None), "transport", None)
            scope[ABORT] = getattr(transport, "abort", None)
        await self.app(scope, receive, send)


async def cut(scope: Scope, receive: Receive) -> None:
    """Cut the connection, and wait until the server has seen that it is gone, so that it wants no answer any more."""
    abort = scope.get(ABORT)
    if abort is None:
        raise RuntimeError("the connection cannot be reached here")
    abort()
    while not (await receive())["type"].endswith(".disconnect"):
        pass


class Faults:
    """Does to each request what the switch says."""

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
                case Answer():
                    return await _answer(action, scope, send)
                case Drop("before"):
                    return await cut(scope, receive)
                case Drop():
                    with contextlib.suppress(Refusal):
                        await self.app(scope, receive, _nowhere)
                    return await cut(scope, receive)
                case Cut():
                    send = _Cutter(action, scope, send)
        await self.app(scope, receive, send)


async def _nowhere(_message: Message) -> None:
    """The answer that nobody gets."""


async def _answer(answer: Answer, scope: Scope, send: Send) -> None:
    if not answer.oauth or scope["type"] != "http":
        raise Refusal(answer.status, answer.error, answer.message, headers=answer.headers, challenge=answer.challenge)
    body = msgspec.json.encode({"error": answer.error, "error_description": answer.message})
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Cutter:
    """Counts the frames of a socket and closes it after so many; what is sent later goes nowhere."""

    def __init__(self, action: Cut, scope: Scope, send: Send) -> None:
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
