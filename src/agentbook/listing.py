"""Lists of the platform: iterate, count, load as a frame.

`agentbook.api.pagination` plans a pass over a list and `agentbook.api.connection` fetches
the pages. `Listing` and `AsyncListing` keep the first page, so that counting, testing and
iterating share it. Specification: "Pagination (list envelope)", "Limits".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from .api.calls import Call, ListCall
from .api.connection import AsyncConnection, Connection
from .api.pagination import PASSES, Page, Pagination, warn_incomplete
from .api.record import Record

if TYPE_CHECKING:
    import pandas as pd


class _LazyList:
    """What both kinds of listing share: the call, and the first page once fetched."""

    def __init__(self, list_call: ListCall) -> None:
        self.list_call = list_call
        self.requests = 0
        self._first: Page | None = None
        self._counted: int | None = None  # by reading all pages, if the platform names no total

    def walk(self) -> Pagination:
        """A new pass over the list."""
        return Pagination(self.list_call)

    def forget(self) -> None:
        """Drop the first page, so that the next use fetches it again."""
        self._first = None

    def _known_total(self, first: Page) -> int | None:
        """The number of items according to the first page; None if unknown or contradictory."""
        limit, offset, total = self.list_call.limit, self.list_call.offset, first.total_count
        if total is None or (len(first) and first.denies_its_total(offset + len(first))):
            is_all = len(first) in (0, limit) or first.has_more is False
            return len(first) if is_all else self._counted
        count = max(total - offset, 0)
        return count if limit is None else min(count, limit)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the request, for a frame's provenance."""
        call = self.list_call.call
        query = {name: value for name, value in call.query.items() if value is not None}
        return {"path": call.path, **query, **self.list_call.context}

    def __repr__(self) -> str:
        params = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items() if name != "path")
        total = None if self._first is None else self._known_total(self._first)
        size = "not fetched yet" if self._first is None else "not counted" if total is None else f"{total:,} items"
        return f"<Listing of {self.list_call.call.operation}({params}): {size}>"


class Listing(_LazyList):
    """A list of the platform, fetched when it is first used.

    Iterate it for records, ``len()`` it for the count, `first()` for one record,
    `to_pandas()` for all of it as a DataFrame. ``len(x)``, ``bool(x)`` and iterating share
    the first page. Each iteration fetches the further pages again.

    A list that changes while it is read is read again, up to three times in all. If it
    still changes, the items read so far are returned, each once, with an
    `IncompleteWarning`.

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

    def __init__(self, connection: Connection, list_call: ListCall) -> None:
        super().__init__(list_call)
        self.connection = connection

    def pages(self, walk: Pagination | None = None) -> Iterator[Page]:
        """The pages of one pass, in order, each item once.

        Later pages are fetched while the caller uses the earlier ones.

        Parameters
        ----------
        walk : Pagination, optional
            A pass that stopped half-way and is to continue; None starts one.

        Raises
        ------
        ApiError, ConnectionFailed, DeadlineExceeded
            At the page that could not be read.
        """
        walk = walk or self.walk()
        if not walk.begun:
            yield walk.take(self._first_page(walk))
        yield from self.connection.pages(walk, self._fetch)

    def _fetch(self, call: Call[Page]) -> Page:
        self.requests += 1
        return self.connection.run(call)

    def _first_page(self, walk: Pagination | None = None) -> Page:
        if self._first is None:
            self._first = self._fetch((walk or self.walk()).first())
        return self._first

    def __iter__(self) -> Iterator[Record]:
        seen: set[str] = set()
        for attempt in range(PASSES):
            if attempt:
                self.forget()
            walk = self.walk()
            for page in self.pages(walk):
                yield from page.records(skip=seen)
            seen |= walk.seen
            if walk.consistent:
                return
        warn_incomplete(walk)

    def __len__(self) -> int:
        total = self._known_total(self._first_page())
        if total is None:
            total = self._counted = sum(len(page) for page in self.pages())
        return total

    def __bool__(self) -> bool:
        return len(self._first_page()) > 0

    def first(self) -> Record | None:
        """The first record, or None if the list is empty."""
        return next(iter(self._first_page().records()), None)

    def to_pandas(self, progress: bool | None = None, *, reveal: bool = False) -> pd.DataFrame:
        """The whole list as a DataFrame, one row per item.

        Parameters
        ----------
        progress : bool, optional
            True shows a tqdm bar with rows and rate; None and False show nothing.
        reveal : bool
            True does not mask the secrets of credentials; in a notebook that warns.

        Returns
        -------
        pandas.DataFrame
            Columns and dtypes by the resource's schema
            (``agentbook.frames.parse.schemas``); times are UTC, ids and texts Arrow
            strings, unknown fields JSON text in `extra`. An empty list has every column.
            ``attrs["agentbook"]`` holds operation, parameters, loaded_at, requests,
            complete.

        Raises
        ------
        ApiError
            If the platform refused, typed by the reason.
        PartialLoad
            If the load stopped half-way. The error holds the rows read so far, and its
            `resume()` reads only what is missing.

        Warns
        -----
        IncompleteWarning
            If the list changed in each of three passes; ``complete`` is False then.
        """
        from .frames.load.listing import load_listing

        return load_listing(self, progress, reveal=reveal)

    def to_arrow(self, progress: bool | None = None, *, reveal: bool = False) -> Any:
        """As `to_pandas`, but a `pyarrow.Table`."""
        from .frames.export import to_arrow

        return to_arrow(self.to_pandas(progress, reveal=reveal))

    def to_polars(self, progress: bool | None = None, *, reveal: bool = False) -> Any:
        """As `to_pandas`, but a `polars.DataFrame`; `ImportError` if Polars is not installed."""
        from .frames.export import to_polars

        return to_polars(self.to_pandas(progress, reveal=reveal))


class AsyncListing(_LazyList):
    """As `Listing`, on `AsyncClient`: ``async for`` it, or await its methods.

    Made by the list methods of an `AsyncClient`, which are not awaited themselves.

    Notes
    -----
    Specification: "Limits", and the list envelope of "Resources and their fields".
    """

    def __init__(self, connection: AsyncConnection, list_call: ListCall) -> None:
        super().__init__(list_call)
        self.connection = connection

    async def pages(self, walk: Pagination | None = None) -> AsyncIterator[Page]:
        """As `Listing.pages`, with ``async for``."""
        walk = walk or self.walk()
        if not walk.begun:
            yield walk.take(await self._first_page(walk))
        async with aclosing(self.connection.pages(walk, self._fetch)) as pages:
            async for page in pages:
                yield page

    async def _fetch(self, call: Call[Page]) -> Page:
        self.requests += 1
        return await self.connection.run(call)

    async def _first_page(self, walk: Pagination | None = None) -> Page:
        if self._first is None:
            self._first = await self._fetch((walk or self.walk()).first())
        return self._first

    async def __aiter__(self) -> AsyncIterator[Record]:
        seen: set[str] = set()
        for attempt in range(PASSES):
            if attempt:
                self.forget()
            walk = self.walk()
            async for page in self.pages(walk):
                for record in page.records(skip=seen):
                    yield record
            seen |= walk.seen
            if walk.consistent:
                return
        warn_incomplete(walk)

    async def count(self) -> int:
        """The number of items."""
        total = self._known_total(await self._first_page())
        if total is None:
            total = self._counted = sum([len(page) async for page in self.pages()])
        return total

    async def first(self) -> Record | None:
        """The first record, or None if the list is empty."""
        return next(iter((await self._first_page()).records()), None)

    async def to_pandas(self, progress: bool | None = None, *, reveal: bool = False) -> pd.DataFrame:
        """As `Listing.to_pandas`, awaited."""
        from .frames.load.listing import load_listing_async

        return await load_listing_async(self, progress, reveal=reveal)

    async def to_arrow(self, progress: bool | None = None, *, reveal: bool = False) -> Any:
        """As `Listing.to_pandas`, awaited, and a `pyarrow.Table`."""
        from .frames.export import to_arrow

        return to_arrow(await self.to_pandas(progress, reveal=reveal))

    async def to_polars(self, progress: bool | None = None, *, reveal: bool = False) -> Any:
        """As `Listing.to_pandas`, awaited, and a `polars.DataFrame`.

        Raises `ImportError` if Polars is not installed.
        """
        from .frames.export import to_polars

        return to_polars(await self.to_pandas(progress, reveal=reveal))
