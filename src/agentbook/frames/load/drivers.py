"""Runs a load: pages are fetched by threads or on an event loop, and may be stopped.

Python may raise `KeyboardInterrupt` between any two instructions of the main thread,
for example after a page's rows have been stored but before that is recorded. Resuming
from there would repeat the rows. So an interrupt (Ctrl-C) takes effect only between two
steps of a load, not inside one.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any, Self, TypeVar

from ...api.calls import Call
from ...api.errors import AgentbookError
from ...api.page import Page
from .arrivals import Fetched, PageRequest
from .page_loader import PageLoader

_MAX_THREADS = 1_000  # a load takes at most MAX_CONCURRENCY, and any number may run at once

T = TypeVar("T")
Run = Callable[[Call[Page]], Page]


def fetch_pages(loader: PageLoader, run: Run) -> None:
    """Load everything: this thread plans and parses, others wait for the network.

    An interrupt takes effect only during these waits; pages that have arrived are kept.
    """
    fetchers = _Fetchers(run)
    arrived: deque[Fetched] = deque()
    with shielded() as shield:
        try:
            while not loader.finished:
                requests = loader.next_requests(ahead=True)
                if len(requests) == loader.under_way == loader.target == 1:
                    # For a single request, a second thread would only cost switches.
                    loader.receive(shield.interruptible(_fetch, run, requests[0]))
                    continue
                fetchers.submit(requests, loader.target)
                if not loader.under_way:
                    continue
                news = []
                if not arrived:
                    while fetchers.idle and loader.catch_up():  # only if idle, or this would delay the next requests
                        pass
                    news.append(shield.interruptible(fetchers.next_arrived))
                news += fetchers.others_arrived()
                for fetched in news:
                    loader.announce(fetched)
                arrived.extend(news)
                if not news:  # otherwise, send more requests first
                    loader.receive(arrived.popleft())
        except KeyboardInterrupt:
            for fetched in arrived:
                loader.receive(fetched)
            loader.parse_small()
            raise
        finally:
            fetchers.stop()


class _Fetchers:
    """Threads that fetch the pages of one load.

    Requests wait in a queue, so no thread is idle while the pages that have arrived are
    parsed.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._requests: queue.SimpleQueue[PageRequest | None] = queue.SimpleQueue()
        self._arrived: queue.SimpleQueue[Fetched | BaseException] = queue.SimpleQueue()
        self._threads = 0

    def submit(self, requests: Iterable[PageRequest], threads: int) -> None:
        """Queue requests, to be made by up to `threads` threads."""
        for request in requests:
            self._requests.put(request)
            if self._threads < threads:
                self._threads += 1
                _pool().submit(self._work)

    def _work(self) -> None:
        while (request := self._requests.get()) is not None:
            try:
                self._arrived.put(_fetch(self._run, request))
            except BaseException as error:
                self._arrived.put(error)

    @property
    def idle(self) -> bool:
        """Whether all requests have been started and all arrivals have been taken."""
        return self._arrived.empty() and self._requests.empty()

    def next_arrived(self) -> Fetched:
        """Wait for the outcome of a request."""
        outcome = self._arrived.get()
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def others_arrived(self) -> Iterator[Fetched]:
        """The other outcomes that have arrived, without waiting."""
        while not self._arrived.empty():
            yield self.next_arrived()

    def stop(self) -> None:
        """End the threads once their requests are answered; drop waiting requests."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._requests.get_nowait()
        for _ in range(self._threads):
            self._requests.put(None)


@functools.cache
def _pool() -> ThreadPoolExecutor:
    """The threads of all loads. They are kept: starting 24 threads takes 5 to 10 ms."""
    return ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="agentbook-pages")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child process has none of these threads


def _fetch(run: Run, request: PageRequest) -> Fetched:
    start, busy = time.perf_counter(), time.thread_time()
    outcome: Page | AgentbookError
    try:
        outcome = run(request.call)
    except AgentbookError as error:
        outcome = error
    cost_s = time.thread_time() - busy
    return Fetched(request, outcome, max(time.perf_counter() - start - cost_s, 0.0), cost_s)


async def fetch_pages_async(loader: PageLoader, run: Callable[[Call[Page]], Awaitable[Page]]) -> None:
    """As `fetch_pages`, but on the running event loop."""
    tasks: set[asyncio.Task[Fetched]] = set()
    try:
        while not loader.finished:
            with shielded():
                requests = loader.next_requests()
            tasks |= {asyncio.ensure_future(_fetch_async(run, request)) for request in requests}
            if not tasks:
                continue
            done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                with shielded():
                    loader.receive(task.result())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _fetch_async(run: Callable[[Call[Page]], Awaitable[Page]], request: PageRequest) -> Fetched:
    # The cost of one request cannot be separated from that of the others on the loop.
    start = time.perf_counter()
    outcome: Page | AgentbookError
    try:
        outcome = await run(request.call)
    except AgentbookError as error:
        outcome = error
    return Fetched(request, outcome, time.perf_counter() - start, 0.0)


class shielded:  # noqa: N801 (used as a statement, like contextlib.suppress)
    """Hold back an interrupt until the block ends.

    Code that waits for the network belongs in `interruptible`. Changing a signal
    handler costs several microseconds, `interruptible` almost nothing, so one block
    contains a whole load.

    Examples
    --------
    >>> with shielded() as shield:
    ...     page = shield.interruptible(str.upper, "an interrupt strikes here")
    ...     rows = "all or nothing"
    """

    __slots__ = ("_handler", "_open", "_pending")

    def __init__(self) -> None:
        self._handler: Any = None
        self._open = False
        self._pending: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> Self:
        # Only the main thread can be interrupted, and only it may set handlers.
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                self._handler = handler
                signal.signal(signal.SIGINT, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        if self._handler is not None:
            self._open = False
            signal.signal(signal.SIGINT, self._handler)
            self._strike()

    def interruptible(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function during which an interrupt takes effect at once."""
        self._open = True
        try:
            self._strike()
            return function(*args)
        finally:
            self._open = False

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._pending = number, frame
        if self._open:
            self._strike()

    def _strike(self) -> None:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self._handler(*pending)


__all__ = ["fetch_pages", "fetch_pages_async", "shielded"]
