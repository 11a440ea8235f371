"""Lists: lazy, complete, in order.

`agentbook.api.pagination` plans a pass over a list, `Listing` and `AsyncListing` fetch what it plans: further pages while the
first are being used, concurrently where it is known how many there are. Specification: "Pagination (list envelope)", "Limits".
"""

from __future__ import annotations

import asyncio
import warnings
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, closing
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from .api import doors
from .api.calls import Call, ListCall
from .api.errors import IncompleteWarning
from .api.pagination import Page, Pagination
from .api.record import Record

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

CONCURRENCY = 8  # requests of one listing under way at once
PASSES = 3  # how often a list that changes while it is read is read


class _Lazy:
    """What both kinds of listing share: the plan, and the first page once it is there."""

    def __init__(self, listing: ListCall) -> None:
        self.listing = listing
        self._first: Page | None = None
        self._counted: int | None = None  # by reading it all, where the platform does not say
        self.requests = 0

    def walk(self) -> Pagination:
        """A new pass over the list."""
        return Pagination(self.listing)

    def _known_total(self, first: Page) -> int | None:
        """How many items there are, by the first page; None where it does not say, or contradicts itself."""
        limit, offset, total = self.listing.limit, self.listing.offset, first.total_count
        if total is None or (len(first) and first.denies_its_total(offset + len(first))):
            whole = len(first) in (0, limit) or first.has_more is False
            return len(first) if whole else self._counted
        known = max(total - offset, 0)
        return known if limit is None else min(known, limit)

    @property
    def parameters(self) -> dict[str, Any]:
        """What was asked, for a frame's provenance."""
        query = {name: value for name, value in self.listing.call.query.items() if value is not None}
        return {"path": self.listing.call.path, **query, **self.listing.context}

    def __repr__(self) -> str:
        asked = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items() if name != "path")
        total = None if self._first is None else self._known_total(self._first)
        size = "not fetched yet" if self._first is None else "not counted" if total is None else f"{total:,} items"
        return f"<Listing of {self.listing.call.operation}({asked}): {size}>"


class Listing(_Lazy):
    """A list of the platform, fetched when it is looked at.

    Iterate it for records, ``len()`` it for the count, `first()` for one record, `to_pandas()` for all of it as a DataFrame.
    ``len(x)``, ``bool(x)`` and iterating share the first page. Each iteration fetches the further pages again.

    A list that changes while it is read is read again, up to three times in all; if it does not hold still, what came is given,
    each item once, with an `IncompleteWarning`.

    Made by the list methods of a client, such as ``client.agents.list``.

    Notes
    -----
    Specification: "Pagination (list envelope)", "Limits".

    Examples
    --------
    >>> agents = client.agents.list()
    >>> len(agents) == len(agents.to_pandas()) == agents.to_arrow().num_rows
    True
    >>> agents.first() == next(iter(agents))
    True
    >>> sum(len(page.ids) for page in agents.pages()) == len(agents)
    True
    """

    def __init__(self, listing: ListCall, run: Callable[[Call[Page]], Page]) -> None:
        super().__init__(listing)
        self._run = run

    def pages(self, walk: Pagination | None = None) -> Iterator[Page]:
        """The pages of one pass, in order, each item once; further ones are fetched while the first are being used.

        Parameters
        ----------
        walk : Pagination, optional
            One that stopped half-way goes on where it stopped; None begins.

        Raises
        ------
        ApiError, ConnectionFailed, DeadlineExceeded
            At the page that could not be read.
        """
        walk = walk or self.walk()
        if not walk.begun:
            yield walk.take(self._first_page(walk))
        with closing(_ahead(self._fetch, walk.rest())) as further:
            for page in further:
                yield walk.take(page)
                if walk.stalled:
                    break
        while (call := walk.following()) is not None:
            yield walk.take(self._fetch(call))

    def _fetch(self, call: Call[Page]) -> Page:
        self.requests += 1
        return self._run(call)

    def _first_page(self, walk: Pagination | None = None) -> Page:
        if self._first is None:
            self._first = self._fetch((walk or self.walk()).first())
        return self._first

    def __iter__(self) -> Iterator[Record]:
        walk = self.walk()
        for page in self.pages(walk):
            yield from page.records()
        seen = walk.seen
        for _ in range(PASSES - 1):
            if walk.consistent:
                return
            self._first, walk = None, self.walk()
            for page in self.pages(walk):
                yield from (record for record in page.records() if record.get("id") not in seen)
            seen |= walk.seen
        if not walk.consistent:
            warn_incomplete(walk)

    def __len__(self) -> int:
        total = self._known_total(self._first_page())
        if total is None:
            total = self._counted = sum(len(page) for page in self.pages())
        return total

    def __bool__(self) -> bool:
        return len(self._first_page()) > 0

    def first(self) -> Record | None:
        """The first record, or None where there is none."""
        return next(iter(self._first_page().records()), None)

    def to_pandas(self, progress: bool | None = None, *, reveal: bool = False) -> pd.DataFrame:
        """All of it as a DataFrame, one row per item.

        Parameters
        ----------
        progress : bool, optional
            True shows a tqdm bar with rows and rate; None and False show nothing.
        reveal : bool
            True leaves the secrets of credentials as they came; in a notebook that warns.

        Returns
        -------
        pandas.DataFrame
            Columns and dtypes by the resource's schema (``agentbook.frames.parse.schemas``); times are UTC, ids and texts Arrow
            strings, unknown fields JSON text in `extra`. An empty list has every column.
            ``attrs["agentbook"]`` holds operation, parameters, loaded_at, requests, complete.

        Raises
        ------
        ApiError
            What the platform refused, typed.
        PartialLoad
            If it stopped half-way; the error holds what had arrived, and its `resume()` reads only what is missing.

        Warns
        -----
        IncompleteWarning
            If the list changed while it was read, three times in a row; ``complete`` is False then.
        """
        return doors.listing_to_pandas(self, progress, reveal)

    def to_arrow(self, progress: bool | None = None, *, reveal: bool = False) -> Any:
        """As `to_pandas`, but a `pyarrow.Table`."""
        return doors.frame_to_arrow(self.to_pandas(progress, reveal=reveal))

    def to_polars(self, progress: bool | None = None, *, reveal: bool = False) -> Any:
        """As `to_pandas`, but a `polars.DataFrame`; raises `ImportError` where Polars is not installed."""
        return doors.frame_to_polars(self.to_pandas(progress, reveal=reveal))


class AsyncListing(_Lazy):
    """As `Listing`, on `AsyncClient`: ``async for`` it, or await `first`, `count`, `to_pandas`.

    Made by the list methods of an `AsyncClient`, which are not awaited themselves.

    Notes
    -----
    Specification: "Limits", and the list envelope of "Resources and their fields".
    """

    def __init__(self, listing: ListCall, run: Callable[[Call[Page]], Any]) -> None:
        super().__init__(listing)
        self._run = run

    async def pages(self, walk: Pagination | None = None) -> AsyncIterator[Page]:
        """As `Listing.pages`, with ``async for``."""
        walk = walk or self.walk()
        if not walk.begun:
            yield walk.take(await self._first_page(walk))
        async with aclosing(_ahead_async(self._fetch, walk.rest())) as further:
            async for page in further:
                yield walk.take(page)
                if walk.stalled:
                    break
        while (call := walk.following()) is not None:
            yield walk.take(await self._fetch(call))

    async def _fetch(self, call: Call[Page]) -> Page:
        self.requests += 1
        page: Page = await self._run(call)
        return page

    async def _first_page(self, walk: Pagination | None = None) -> Page:
        if self._first is None:
            self._first = await self._fetch((walk or self.walk()).first())
        return self._first

    async def __aiter__(self) -> AsyncIterator[Record]:
        walk = self.walk()
        async for page in self.pages(walk):
            for record in page.records():
                yield record
        seen = walk.seen
        for _ in range(PASSES - 1):
            if walk.consistent:
                return
            self._first, walk = None, self.walk()
            async for page in self.pages(walk):
                for record in page.records():
                    if record.get("id") not in seen:
                        yield record
            seen |= walk.seen
        if not walk.consistent:
            warn_incomplete(walk)

    async def count(self) -> int:
        """How many items there are."""
        total = self._known_total(await self._first_page())
        if total is None:
            total = self._counted = sum([len(page) async for page in self.pages()])
        return total

    async def first(self) -> Record | None:
        """The first record, or None where there is none."""
        return next(iter((await self._first_page()).records()), None)

    async def to_pandas(self, progress: bool | None = None, *, reveal: bool = False) -> pd.DataFrame:
        """As `Listing.to_pandas`, awaited."""
        return await doors.listing_to_pandas_async(self, progress, reveal)

    async def to_arrow(self, progress: bool | None = None, *, reveal: bool = False) -> Any:
        """As `Listing.to_pandas`, awaited, and a `pyarrow.Table`."""
        return doors.frame_to_arrow(await self.to_pandas(progress, reveal=reveal))

    async def to_polars(self, progress: bool | None = None, *, reveal: bool = False) -> Any:
        """As `Listing.to_pandas`, awaited, and a `polars.DataFrame`; raises `ImportError` where Polars is not installed."""
        return doors.frame_to_polars(await self.to_pandas(progress, reveal=reveal))


def warn_incomplete(walk: Pagination) -> None:
    """Say that a list did not hold still while it was read."""
    warnings.warn(
        f"{walk.listing.call.operation}: the list changed while it was read, {PASSES} times in a row ({walk.problems[0]}). "
        "Items may be missing; read it again when less is going on.",
        IncompleteWarning,
        stacklevel=3,
    )


def _ahead(fetch: Callable[[Call[Page]], Page], calls: Iterator[Call[Page]]) -> Generator[Page]:
    """Fetch with up to `CONCURRENCY` requests under way, yield in order."""
    ahead = list(islice(calls, CONCURRENCY))
    if len(ahead) < 2:
        yield from map(fetch, ahead)
        return
    pool = ThreadPoolExecutor(len(ahead), thread_name_prefix="agentbook-pages")
    try:
        waiting: deque[Future[Page]] = deque(pool.submit(fetch, call) for call in ahead)
        while waiting:
            page = waiting.popleft().result()
            waiting.extend(pool.submit(fetch, call) for call in islice(calls, 1))
            yield page
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


async def _ahead_async(fetch: Callable[[Call[Page]], Any], calls: Iterator[Call[Page]]) -> AsyncGenerator[Page]:
    waiting: deque[asyncio.Task[Page]] = deque()
    try:
        waiting.extend(asyncio.ensure_future(fetch(call)) for call in islice(calls, CONCURRENCY))
        while waiting:
            page = await waiting.popleft()
            waiting.extend(asyncio.ensure_future(fetch(call)) for call in islice(calls, 1))
            yield page
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
