"""A bounded buffer between the toolkit's loop and the consumer of a stream."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")

_SLICE_S = 0.2  # length of one wait; Windows cannot interrupt waiting for a lock


class Closed(Exception):
    """The buffer is closed and empty. `error` is the reason, None for a normal end."""

    def __init__(self, error: BaseException | None) -> None:
        super().__init__()
        self.error = error


class Buffer(Generic[T]):
    """Up to `size` items, put on one loop and taken in any thread or on any loop."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._closed = False
        self._error: BaseException | None = None

    def try_put(self, item: T) -> bool:
        """Add an item; False if there is no room. A closed buffer drops it."""
        with self._changed:
            if self._closed:
                return True
            if len(self._items) >= self._size:
                return False
            self._items.append(item)
            self._wake()
            return True

    async def room(self) -> None:
        """Wait, on the producing loop, until the buffer is at most half full."""
        while True:
            with self._changed:
                if self._closed or len(self._items) <= self._size // 2:
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
        item = self._items.popleft()
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
