"""Fetches pages: the one way for a loop over a list, and for loads of many lists.

A plan says which page to request next. The outcomes come as they arrive; the plan's
`Pagination` puts them in order.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator

from .calls import Call
from .errors import AgentbookError
from .pagination import Page, Request

Run = Callable[[Call[Page]], Page]
AsyncRun = Callable[[Call[Page]], Awaitable[Page]]


class Fetcher:
    """The requests of a plan with their outcomes, in the order of their arrival.

    Iterate it. The threads are daemons, so that a request that takes long does not
    delay the end of a script.

    Parameters
    ----------
    next_request : callable
        Returns the next page to request, or None if there is none now.
    run : callable
        Runs the call of a page.
    concurrency : int
        Maximum number of requests at the same time.
    queued : int
        How many further ones wait for a thread, so that none is idle while the caller
        works on a page.
    """

    def __init__(self, next_request: Callable[[], Request | None], run: Run, concurrency: int, queued: int = 0) -> None:
        self._next_request, self._run = next_request, run
        self._concurrency, self._most = concurrency, concurrency + queued
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._arrived: queue.SimpleQueue[tuple[Request, Page | BaseException | None] | None] = queue.SimpleQueue()
        self._stopped = False

    def __iter__(self) -> Generator[Request]:
        under_way = threads = 0
        try:
            while True:
                while under_way < self._most and (request := self._next_request()) is not None:
                    under_way += 1
                    self._requests.put(request)
                    if threads < min(under_way, self._concurrency):
                        threads += 1
                        threading.Thread(target=self._fetch, name="agentbook-pages", daemon=True).start()
                if not under_way or (news := self._arrived.get()) is None:
                    return
                under_way -= 1
                request, outcome = news
                if isinstance(outcome, (Page, AgentbookError)):
                    request.outcome = outcome
                    yield request
                elif outcome is not None:
                    raise outcome
        finally:
            self._stopped = True
            for _ in range(threads):
                self._requests.put(None)

    def stop(self) -> None:
        """End the iteration after what has arrived; call it from any thread."""
        self._stopped = True
        self._arrived.put(None)

    def _fetch(self) -> None:
        while (request := self._requests.get()) is not None:
            outcome: Page | BaseException | None
            try:
                outcome = self._run(request.call) if request.is_wanted and not self._stopped else None
            except BaseException as error:
                outcome, self._stopped = error, self._stopped or not isinstance(error, AgentbookError)
            self._arrived.put((request, outcome))


async def fetch_async(next_request: Callable[[], Request | None], run: AsyncRun) -> AsyncGenerator[Request]:
    """As `Fetcher`, awaited; the requests are tasks of the running loop."""
    tasks: dict[asyncio.Future[Page], Request] = {}
    try:
        while True:
            while (request := next_request()) is not None:
                tasks[asyncio.ensure_future(run(request.call))] = request
            if not tasks:
                return
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                request = tasks.pop(task)
                try:
                    request.outcome = task.result()
                except AgentbookError as refused:
                    request.outcome = refused
                yield request
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
