"""Streams of events: an iterator, or an async one, over a reader on the toolkit's loop.

A consumer that pauses loses nothing and blocks nothing. The buffer between is bounded;
if it stays full, the socket is closed, and opened again from the cursor once there is
room.
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
STALL_S = 5.0  # how long a consumer may pause before the socket is closed


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
        # The task has no reference to the stream, so a stream abandoned by a `break` is
        # collected, which ends its task.
        self._task: concurrent.futures.Future[None] = submit(
            _fill(self._buffer, connection, session_id, from_id, types)
        )

    def _delivered(self, event: Record) -> Record:
        if is_persisted(event.get("id")) and (self.last_id is None or event["id"] > self.last_id):
            self.last_id = event["id"]
        return event

    def _stop(self) -> None:
        self._task.cancel()
        self._buffer.close()

    def __del__(self) -> None:
        if hasattr(self, "_task"):
            self._stop()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of session {self.session_id}>"


class EventStream(_Stream):
    """A session's events as a plain iterator; close it, or use it in a ``with`` block.

    Attributes
    ----------
    last_id : str or None
        The greatest persisted id delivered: ``from_id`` of a stream that continues
        here.
    """

    def __init__(self, connection: Connection, session_id: str, **options: Any) -> None:
        super().__init__(connection.asynchronous(), session_id, **options)

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
        """The next event; None after `timeout_s` seconds or if the stream is closed."""
        try:
            return self._delivered(self._buffer.get(timeout_s))
        except TimeoutError:
            return None
        except Closed as closed:
            if closed.error is not None:
                raise closed.error from None
            return None

    def close(self) -> None:
        """Stop listening. `last_id` says where to continue."""
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncEventStream(_Stream):
    """A session's events for ``async for``; close it, or use ``async with``."""

    def __init__(self, connection: AsyncConnection, session_id: str, **options: Any) -> None:
        # An async connection may be used on any loop, so the toolkit's loop uses this
        # one.
        super().__init__(connection, session_id, **options)

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
    """Move events from the reader into the buffer; runs on the toolkit's loop."""
    try:
        cursor = await start(connection, session_id, from_id=from_id)
        while True:
            pending: Record | None = None
            async with aclosing(subscribe(connection, session_id, types=types, cursor=cursor)) as events:
                async for event in events:
                    if not buffer.try_put(event) and not await _put_soon(buffer, event):
                        pending = event
                        break
            # The socket is closed now. It is opened again from the cursor once there is
            # room.
            await buffer.room()
            if pending is not None:
                buffer.try_put(pending)
    except asyncio.CancelledError:
        buffer.close()
    except Exception as error:
        buffer.close(error)


async def _put_soon(buffer: Buffer[Record], event: Record) -> bool:
    """Put `event` into the buffer if there is room soon enough to keep the socket."""
    try:
        await asyncio.wait_for(buffer.room(), STALL_S)
    except TimeoutError:
        return False
    return buffer.try_put(event)
