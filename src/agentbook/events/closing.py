"""Ends everything that waits for events when its client is closed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from ..api.connection import AsyncConnection
from ..api.errors import StreamClosed


def client_closed(operation: str, session_id: str) -> StreamClosed:
    """The error of a stream whose client was closed."""
    return StreamClosed(
        f"{operation} {session_id}: ended. This client is closed. Make a new one with agentbook.connect(), and continue "
        "with from_id=error.last_id.",
        operation=operation,
        client_closed=True,
    )


@contextlib.asynccontextmanager
async def until_closed(connection: AsyncConnection, operation: str, session_id: str) -> AsyncIterator[None]:
    """Run the block, but end it when the client is closed, whatever it waits for.

    Raises
    ------
    StreamClosed
        Once the client is closed.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as scope:

            def end() -> None:
                with contextlib.suppress(RuntimeError):  # the block, or the loop, has ended
                    scope.reschedule(loop.time())

            def end_from_any_thread() -> None:
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(end)

            withdraw = connection.on_close(end_from_any_thread)
            try:
                yield
            finally:
                withdraw()
    except TimeoutError:
        if not scope.expired():
            raise
        raise client_closed(operation, session_id) from None
