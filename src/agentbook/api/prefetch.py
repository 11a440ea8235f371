"""Fetching the pages of a list ahead of their use, in threads or in tasks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

from .calls import Call
from .page import Page

# Parallel requests for one list: half of a client's connections.
CONCURRENCY = 16


def prefetch(fetch: Callable[[Call[Page]], Page], calls: Iterator[Call[Page]]) -> Generator[Page]:
    """Fetch with up to `CONCURRENCY` requests at a time, and yield in order."""
    first_calls = list(islice(calls, CONCURRENCY))
    if len(first_calls) < 2:
        yield from map(fetch, first_calls)
        return
    pool = ThreadPoolExecutor(len(first_calls), thread_name_prefix="agentbook-pages")
    try:
        pending: deque[Future[Page]] = deque(pool.submit(fetch, call) for call in first_calls)
        while pending:
            page = pending.popleft().result()
            pending.extend(pool.submit(fetch, call) for call in islice(calls, 1))
            yield page
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


async def prefetch_async(
    fetch: Callable[[Call[Page]], Awaitable[Page]], calls: Iterator[Call[Page]]
) -> AsyncGenerator[Page]:
    """As `prefetch`, in tasks of the running loop."""
    pending: deque[asyncio.Future[Page]] = deque()
    try:
        pending.extend(asyncio.ensure_future(fetch(call)) for call in islice(calls, CONCURRENCY))
        while pending:
            page = await pending.popleft()
            pending.extend(asyncio.ensure_future(fetch(call)) for call in islice(calls, 1))
            yield page
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
