"""The connection under a request, which ASGI does not show: what cuts it without an answer."""

from __future__ import annotations

from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

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
