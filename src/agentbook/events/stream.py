"""Streams as people use them: a plain iterator, or an async one, over a pump on the toolkit's own loop.

A consumer that pauses loses nothing and stalls nothing: the buffer between is bounded,
and when it stays full the socket is closed and opened again from the cursor once there
is room.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any, Self

from ..api.connection import AsyncConnection, Connection
from ..api.event_ids import first_id_at, is_persisted
from ..api.record import Record
from .buffer import Buffer, Closed
from .loop import submit
from .reader import start, subscribe

BUFFER_EVENTS = 1000
STALL_S = 5.0  # a socket is kept for a consumer that pauses this long; then it is closed and resumed later


class _Stream:
    def __init__(
        self,
        connection: AsyncConnection,
        session_id: str,
        *,
        from_id: str | None = None,
        since: datetime | str | None = None,
        types: Sequence[str] | None = None,
    ) -> None:
        if isinstance(types, str):
            types = [types]
        self.session_id = session_id
        self.last_id: str | None = from_id
        if since is not None and from_id is None:
            from_id = first_id_at(since)
        self._buffer: Buffer[Record] = Buffer(BUFFER_EVENTS)
        # The pump must not know the stream: one that is left behind by a `break` is
        # then collected, which ends its pump.
        self._pump: concurrent.futures.Future[None] = submit(
            _fill(self._buffer, connection, session_id, from_id, types)
        )

    def _delivered(self, event: Record) -> Record:
        if is_persisted(event.get("id")) and (self.last_id is None or event["id"] > self.last_id):
            self.last_id = event["id"]
        return event

    def _stop(self) -> None:
        self._pump.cancel()
        self._buffer.close()

    def __del__(self) -> None:
        if hasattr(self, "_pump"):
            self._stop()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of session {self.session_id}>"


class EventStream(_Stream):
    """A session's events as a plain iterator; close it, or use it in a ``with`` block.

    Attributes
    ----------
    last_id : str or None
        The greatest persisted id delivered: ``from_id`` of a stream that goes on from
        here.
    """

    def __init__(self, connection: Connection, session_id: str, **asked: Any) -> None:
        super().__init__(connection.asynchronous(), session_id, **asked)

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        try:
            return self._delivered(self._buffer.get())
        except Closed as closed:
            if closed.error is not None:
                raise closed.error from None
            raise StopIteration from None

    def get(self, timeout_s: float | None = None) -> Record | None:
        """The next event, or None if none came within `timeout_s` seconds or the stream was closed."""
        try:
            return self._delivered(self._buffer.get(timeout_s))
        except TimeoutError:
            return None
        except Closed as closed:
            if closed.error is not None:
                raise closed.error from None
            return None

    def close(self) -> None:
        """Stop listening. What was delivered stays delivered; `last_id` says where to go on."""
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncEventStream(_Stream):
    """A session's events for ``async for``; close it, or use it in an ``async with`` block."""

    def __init__(self, connection: AsyncConnection, session_id: str, **asked: Any) -> None:
        # The pump runs on the toolkit's loop, so it needs a client that may be used
        # there: this very one may.
        super().__init__(connection, session_id, **asked)

    def __aiter__(self) -> AsyncIterator[Record]:
        return self

    async def __anext__(self) -> Record:
        try:
            return self._delivered(await self._buffer.get_async())
        except Closed as closed:
            if closed.error is not None:
                raise closed.error from None
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """Stop listening."""
        self._stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def _fill(
    buffer: Buffer[Record],
    connection: AsyncConnection,
    session_id: str,
    from_id: str | None,
    types: Sequence[str] | None,
) -> None:
    """Runs on the toolkit's loop: from the pump into the buffer."""
    try:
        cursor = await start(connection, session_id, from_id=from_id)
        while True:
            held: Record | None = None
            async with aclosing(subscribe(connection, session_id, types=types, cursor=cursor)) as events:
                async for event in events:
                    if not buffer.try_put(event) and not await _put_soon(buffer, event):
                        held = event
                        break
            # The socket is closed now; it is opened again from the cursor once the
            # consumer has caught up.
            await buffer.room()
            if held is not None:
                buffer.try_put(held)
    except asyncio.CancelledError:
        buffer.close()
    except Exception as error:
        buffer.close(error)


async def _put_soon(buffer: Buffer[Record], event: Record) -> bool:
    """Hand `event` over if there is room for it soon enough to keep the socket."""
    try:
        await asyncio.wait_for(buffer.room(), STALL_S)
    except TimeoutError:
        return False
    return buffer.try_put(event)
