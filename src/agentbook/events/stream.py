"""Streams of events: an iterator, or an async one, over a reader on the toolkit's loop.

A consumer that pauses loses nothing and blocks nothing. The buffer in between is
bounded. While it is full, nothing is read from the socket; if the platform closes it
meanwhile, the reader opens another one from its cursor.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import math
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Generic, Self, TypeVar

from ..api.connection import AsyncConnection, Connection
from ..api.errors import StreamClosed
from ..api.span import check_cursor, id_span, is_persisted
from .loop import submit
from .reader import StreamEvent, client_closed, subscribe, type_names
from .websocket import OPERATION

BUFFER_EVENTS = 1000
_EVENT_LENGTH = 64 * 1024  # of its JSON; a longer event counts as several
_SLICE_S = 0.2  # length of one wait; Windows cannot interrupt waiting for a lock

T = TypeVar("T")


class Closed(Exception):
    """The buffer is closed and empty. `error` is the reason, None for a normal end."""

    def __init__(self, error: BaseException | None) -> None:
        super().__init__()
        self.error = error


class Buffer(Generic[T]):
    """Up to `size` items, put on one loop and taken in any thread or on any loop.

    An item may count as several. One that does is added if there is any room.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: deque[tuple[T, int]] = deque()  # with what each counts
        self._used = 0
        self._changed = threading.Condition()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._closed = False
        self._error: BaseException | None = None

    def try_put(self, item: T, count: int = 1) -> bool:
        """Add an item; False if there is no room. A closed buffer drops it."""
        with self._changed:
            if self._closed:
                return True
            if self._used >= self._size:
                return False
            self._items.append((item, count))
            self._used += count
            self._wake()
            return True

    async def room(self) -> None:
        """Wait, on the producing loop, until the buffer is at most half full."""
        while True:
            with self._changed:
                if self._closed or self._used <= self._size // 2:
                    return
                waiter = self._waiter()
            await waiter

    def close(self, error: BaseException | None = None, *, discard: bool = False) -> None:
        """Accept no more items. Consumers get the remaining ones, then `Closed`.

        With `discard`, the remaining ones are dropped.
        """
        with self._changed:
            if discard:
                self._items.clear()
                self._used = 0
            if not self._closed:
                self._closed, self._error = True, error
            self._wake()

    def get(self, timeout_s: float | None = None) -> T:
        """The next item, waiting for it in this thread.

        Raises
        ------
        Closed, TimeoutError
        """
        ends_at = math.inf if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while not self._items:
                if self._closed:
                    raise Closed(self._error)
                remaining_s = ends_at - time.monotonic()
                if remaining_s <= 0:
                    raise TimeoutError
                # It may be woken for an item that another thread then takes.
                self._changed.wait(min(_SLICE_S, remaining_s))
            return self._pop()

    async def get_async(self) -> T:
        """The next item, awaited on the running loop."""
        while True:
            with self._changed:
                if self._items:
                    return self._pop()
                if self._closed:
                    raise Closed(self._error)
                waiter = self._waiter()
            await waiter

    def _pop(self) -> T:
        item, count = self._items.popleft()
        self._used -= count
        self._wake()
        return item

    def _waiter(self) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiting.append((loop, waiter))
        return waiter

    def _wake(self) -> None:
        self._changed.notify_all()
        waiting, self._waiting = self._waiting, []
        for loop, waiter in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_release, waiter)


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class _Stream:
    def __init__(
        self,
        client: Connection | AsyncConnection,
        session_id: str,
        *,
        from_id: Any = None,
        since: Any = None,
        types: Sequence[str] | None = None,
        drafts: bool = True,
    ) -> None:
        connection = client.asynchronous()  # an async one may be used on any loop, so on the toolkit's
        self.session_id = session_id
        self.last_id = check_cursor(from_id, OPERATION)
        from_id, types = self.last_id or id_span(OPERATION, since)[0], type_names(types)
        self._buffer: Buffer[StreamEvent] = Buffer(BUFFER_EVENTS)
        # Registered before the task starts: otherwise a closed client would end the
        # task with another error.
        withdraw_end = connection._on_close(partial(_end, self._buffer, session_id))
        # The task has no reference to the stream, so a stream abandoned by a `break` is
        # collected, which ends its task.
        self._task: concurrent.futures.Future[None] = submit(
            _fill(self._buffer, connection, session_id, from_id, types, drafts)
        )
        withdraw_cancel = connection._on_close(self._task.cancel)
        self._task.add_done_callback(lambda _: (withdraw_end(), withdraw_cancel()))

    def _delivered(self, event: StreamEvent) -> StreamEvent:
        if is_persisted(event.get("id")) and (self.last_id is None or event["id"] > self.last_id):
            self.last_id = event["id"]
        return event

    def _error(self, closed: Closed) -> BaseException | None:
        """Why the stream ended; None if it was closed."""
        if isinstance(closed.error, StreamClosed) and closed.error.last_id is None:
            closed.error.last_id = self.last_id
        return closed.error

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
        The greatest persisted id delivered. Pass it as ``from_id`` to continue here.
    """

    def __iter__(self) -> Iterator[StreamEvent]:
        return self

    def __next__(self) -> StreamEvent:
        if (event := self.get()) is None:
            raise StopIteration
        return event

    def get(self, timeout_s: float | None = None) -> StreamEvent | None:
        """The next event; None after `timeout_s` seconds or if the stream is closed."""
        try:
            return self._delivered(self._buffer.get(timeout_s))
        except TimeoutError:
            return None
        except Closed as closed:
            if (error := self._error(closed)) is not None:
                raise error from None
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

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self

    async def __anext__(self) -> StreamEvent:
        try:
            return self._delivered(await self._buffer.get_async())
        except Closed as closed:
            if (error := self._error(closed)) is not None:
                raise error from None
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """Stop listening."""
        self._stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _end(buffer: Buffer[StreamEvent], session_id: str) -> None:
    """End a stream whose client is closed; called in the thread that closes it."""
    buffer.close(client_closed(OPERATION, session_id), discard=True)


async def _fill(
    buffer: Buffer[StreamEvent],
    connection: AsyncConnection,
    session_id: str,
    from_id: str | None,
    types: Sequence[str] | None,
    drafts: bool,
) -> None:
    """Move events from the reader into the buffer; runs on the toolkit's loop."""
    try:
        stream = subscribe(connection, session_id, from_id=from_id, types=types, drafts=drafts)
        async with aclosing(stream) as events:
            async for event in events:
                length = len(json.dumps(event, ensure_ascii=False))
                while not buffer.try_put(event, 1 + length // _EVENT_LENGTH):
                    await buffer.room()
    except asyncio.CancelledError:
        buffer.close()
    except Exception as error:
        buffer.close(error)
