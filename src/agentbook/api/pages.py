"""Lists: lazy, complete, in order.

`Walk` plans one pass over a `ListCall`, takes the pages in and says whether they fit together, without any I/O; `Listing` and
`AsyncListing` fetch what it plans. Offset pages after the first are fetched concurrently, at the greatest limit the operation
takes, each sharing one item with its neighbour; keyset pages (events) follow one another by ``from_id``, which nothing that is
added meanwhile can shift. Specification: "Pagination (list envelope)", "Limits".
"""

from __future__ import annotations

import asyncio
import warnings
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from . import doors
from .calls import Call, ListCall, Reply
from .errors import IncompleteWarning
from .records import Record

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

CONCURRENCY = 8  # requests of one listing under way at once
PASSES = 3  # how often a list that changes while it is read is read


class _Pagination(msgspec.Struct):
    total_count: int | None = None
    has_more: bool | None = None


class _Id(msgspec.Struct):
    id: Any = None


class _Ids(msgspec.Struct):
    """The envelope, and of each item its id alone: one pass over the bytes, no object for anything else."""

    items: list[_Id]
    pagination: _Pagination = msgspec.field(default_factory=_Pagination)


class _Raw(msgspec.Struct):
    items: list[msgspec.Raw]
    pagination: Any = None


_read_ids = msgspec.json.Decoder(_Ids).decode
_read_raw = msgspec.json.Decoder(_Raw).decode


class Page:
    """One reply of a list operation: the body as it came, its envelope and the ids of its items."""

    __slots__ = ("body", "has_more", "ids", "total_count")

    def __init__(self, body: bytes) -> None:
        self.body = body
        try:
            envelope = _read_ids(body)
            found = [item.id for item in envelope.items]
            self.total_count, self.has_more = envelope.pagination.total_count, envelope.pagination.has_more
        except msgspec.ValidationError:
            # Something in it is not of the type the specification gives; what can be read still counts.
            odd = _read_raw(body)
            found = [_id_of(item) for item in odd.items]
            pagination = odd.pagination if isinstance(odd.pagination, dict) else {}
            total, more = pagination.get("total_count"), pagination.get("has_more")
            self.total_count = total if isinstance(total, int) and not isinstance(total, bool) else None
            self.has_more = more if isinstance(more, bool) else None
        self.ids: list[str | None] = [item_id if isinstance(item_id, str) else None for item_id in found]

    @classmethod
    def of(cls, reply: Reply) -> Page:
        return cls(reply.body)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def last_id(self) -> str | None:
        return self.ids[-1] if self.ids else None

    def records(self) -> Iterator[Record]:
        for item in msgspec.json.decode(self.body)["items"]:
            yield Record(item) if isinstance(item, dict) else Record({"value": item})

    def only(self, kept: list[bool]) -> Page:
        """The same page with some items left out."""
        raw = _read_raw(self.body)
        items = b",".join(item for item, keep in zip(raw.items, kept, strict=True) if keep)
        return Page(b'{"items":[%b],"pagination":%b}' % (items, msgspec.json.encode(raw.pagination or {})))


def _id_of(item: msgspec.Raw) -> Any:
    value = msgspec.json.decode(item)
    return value.get("id") if isinstance(value, dict) else None


class Walk:
    """One pass over a list: which calls to make, and whether what came fits together. Pure.

    Pages by offset overlap by one item. A list that shifts while it is read shows itself: the item shared by two neighbours is
    not the same, an id comes twice, or the total changes.
    """

    def __init__(self, listing: ListCall) -> None:
        self.listing = listing
        self.items = 0  # taken so far, each counted once
        self.problems: list[str] = []
        self._size = listing.max_page if listing.limit is None else min(listing.max_page, listing.limit)
        self._covered = listing.offset  # everything before this offset was asked for and came
        self._last: Page | None = None
        self._stalled = False
        self._totals: set[int] = set()
        self.seen: set[str] = set()  # ids taken

    @property
    def begun(self) -> bool:
        """Whether the first page has been taken."""
        return self._last is not None

    def first(self) -> Call[Page]:
        """The call of the first page."""
        return self._page(self.listing.offset, self._size)

    def rest(self) -> list[Call[Page]]:
        """The calls of all pages still missing, where it is known how many there are; in order, to be made concurrently."""
        calls: list[Call[Page]] = []
        if self._last is None or self.listing.keyset or self._end() is None:
            return calls
        covered, end = self._covered, self._end() or 0
        while covered < end and self._step():
            start = covered - self._overlap()
            size = min(self._step(), end - start)
            calls.append(self._page(start, size))
            covered = start + size
        return calls

    def following(self) -> Call[Page] | None:
        """The next call, where pages follow one by one; None at the end."""
        last = self._last
        left = None if self.listing.limit is None else self.listing.limit - self.items
        if last is None or self._stalled or (left is not None and left <= 0):
            return None
        if self.listing.keyset:
            if last.has_more is False or last.last_id is None:
                return None
            return self._page(0, self._size if left is None else min(self._size, left)).with_query(from_id=last.last_id)
        end = self._end()
        done = last.has_more is False if end is None else self._covered >= end
        # A pass that does not fit together is not worth finishing: the next one begins anew.
        if done or self.problems:
            return None
        start = self._covered - self._overlap()
        return self._page(start, self._step() if left is None else min(self._step(), left + self._overlap()))

    def take(self, page: Page) -> Page:
        """Take in the page that was asked for next; the same page without the items that came before."""
        expected_overlap = self._overlap() if self._last is not None and not self.listing.keyset else 0
        if page.total_count is not None and not self.listing.keyset:
            self._totals.add(page.total_count)
        ids = page.ids
        shared = ids[:expected_overlap]
        if expected_overlap and self._last is not None and shared != [self._last.last_id]:
            self.problems.append(f"neighbouring pages at offset {self._covered} do not meet")
        kept = []
        for at, item_id in enumerate(ids):
            repeated = item_id is not None and item_id in self.seen
            if repeated and at >= expected_overlap:
                self.problems.append(f"item {item_id} came twice")
            if item_id is not None:
                self.seen.add(item_id)
            kept.append(not repeated)
        self._stalled = len(page) <= expected_overlap  # nothing new: the list ends here, whatever was announced
        self._covered += max(len(page) - expected_overlap, 0)
        if len(page) or self._last is None:
            self._last = page
        fresh = page if all(kept) else page.only(kept)
        self.items += len(fresh)
        return fresh

    @property
    def consistent(self) -> bool:
        """Whether the pages taken are one list: they meet, nothing came twice, and all that was announced came."""
        if len(self._totals) > 1:
            self.problems.append(f"the total changed between pages: {sorted(self._totals)}")
        elif self._totals and not self.problems and self.items != self._count():
            self.problems.append(f"{self._count()} items were announced, {self.items} came")
        return not self.problems

    def _count(self) -> int:
        return max((self._end() or 0) - self.listing.offset, 0)

    def _end(self) -> int | None:
        if not self._totals:
            return None
        end = max(self._totals)
        return end if self.listing.limit is None else min(end, self.listing.offset + self.listing.limit)

    def _step(self) -> int:
        # A platform may cap the limit lower than the specification says: what came sets the step.
        return self._size if self._last is None or self._last.has_more is False else max(len(self._last), 1)

    def _overlap(self) -> int:
        return 1 if self._step() > 1 else 0

    def _page(self, offset: int, limit: int) -> Call[Page]:
        call = self.listing.call.with_query(limit=limit, offset=offset or None)
        call = replace(call, read=Page.of)
        return call if self.listing.refine is None else self.listing.refine(call)


class _Lazy:
    """What both kinds of listing share: the plan, and the first page once it is there."""

    def __init__(self, listing: ListCall) -> None:
        self.listing = listing
        self._first: Page | None = None
        self.requests = 0

    def walk(self) -> Walk:
        """A new pass over the list."""
        return Walk(self.listing)

    def _known_total(self, first: Page) -> int:
        """How many items there are, as far as the first page says."""
        if first.total_count is None:
            return len(first)
        known = max(first.total_count - self.listing.offset, 0)
        return known if self.listing.limit is None else min(known, self.listing.limit)

    @property
    def parameters(self) -> dict[str, Any]:
        """What was asked, for a frame's provenance."""
        query = {name: value for name, value in self.listing.call.query.items() if value is not None}
        return {"path": self.listing.call.path, **query, **self.listing.context}

    def __repr__(self) -> str:
        asked = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items() if name != "path")
        size = "not fetched yet" if self._first is None else f"{self._known_total(self._first):,} items"
        return f"<Listing of {self.listing.call.operation}({asked}): {size}>"


class Listing(_Lazy):
    """A list of the platform, fetched when it is looked at.

    Iterate it for records, ``len()`` it for the count, `first()` for one record, `to_pandas()` for all of it as a DataFrame.
    ``len(x)``, ``bool(x)`` and iterating share the first page. Each iteration fetches the further pages again.

    A list that changes while it is read is read again, up to three times in all; if it does not hold still, what came is given,
    each item once, with an `IncompleteWarning`.

    Notes
    -----
    Specification: "Pagination (list envelope)", "Limits".
    """

    def __init__(self, listing: ListCall, run: Callable[[Call[Page]], Page]) -> None:
        super().__init__(listing)
        self._run = run

    def pages(self, walk: Walk | None = None) -> Iterator[Page]:
        """The pages of one pass, in order, each item once; further ones are fetched while the first are being used.

        A `walk` that stopped half-way goes on where it stopped.
        """
        walk = walk or self.walk()
        if not walk.begun:
            yield walk.take(self._first_page(walk))
        for page in _ahead(self._fetch, walk.rest()):
            yield walk.take(page)
        while (call := walk.following()) is not None:
            yield walk.take(self._fetch(call))

    def _fetch(self, call: Call[Page]) -> Page:
        self.requests += 1
        return self._run(call)

    def _first_page(self, walk: Walk | None = None) -> Page:
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
        return self._known_total(self._first_page())

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
            Columns and dtypes by the resource's schema (``agentbook.frames.schemas``); times are UTC, ids and texts Arrow
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
        """The same as a `pyarrow.Table`; see `to_pandas`."""
        return doors.frame_to_arrow(self.to_pandas(progress, reveal=reveal))

    def to_polars(self, progress: bool | None = None, *, reveal: bool = False) -> Any:
        """The same as a `polars.DataFrame`, where Polars is installed; see `to_pandas`."""
        return doors.frame_to_polars(self.to_pandas(progress, reveal=reveal))


class AsyncListing(_Lazy):
    """A list of the platform on `AsyncClient`: ``async for`` it, or await `first`, `count`, `to_pandas`."""

    def __init__(self, listing: ListCall, run: Callable[[Call[Page]], Any]) -> None:
        super().__init__(listing)
        self._run = run

    async def pages(self, walk: Walk | None = None) -> AsyncIterator[Page]:
        """The pages of one pass, in order, each item once; see `Listing.pages`."""
        walk = walk or self.walk()
        if not walk.begun:
            yield walk.take(await self._first_page(walk))
        async for page in _ahead_async(self._fetch, walk.rest()):
            yield walk.take(page)
        while (call := walk.following()) is not None:
            yield walk.take(await self._fetch(call))

    async def _fetch(self, call: Call[Page]) -> Page:
        self.requests += 1
        page: Page = await self._run(call)
        return page

    async def _first_page(self, walk: Walk | None = None) -> Page:
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
        return self._known_total(await self._first_page())

    async def first(self) -> Record | None:
        """The first record, or None where there is none."""
        return next(iter((await self._first_page()).records()), None)

    async def to_pandas(self, progress: bool | None = None, *, reveal: bool = False) -> pd.DataFrame:
        """All of it as a DataFrame; see `Listing.to_pandas`."""
        return await doors.listing_to_pandas_async(self, progress, reveal)

    async def to_arrow(self, progress: bool | None = None, *, reveal: bool = False) -> Any:
        """The same as a `pyarrow.Table`; see `Listing.to_pandas`."""
        return doors.frame_to_arrow(await self.to_pandas(progress, reveal=reveal))

    async def to_polars(self, progress: bool | None = None, *, reveal: bool = False) -> Any:
        """The same as a `polars.DataFrame`, where Polars is installed; see `Listing.to_pandas`."""
        return doors.frame_to_polars(await self.to_pandas(progress, reveal=reveal))


def warn_incomplete(walk: Walk) -> None:
    """Say that a list did not hold still while it was read."""
    warnings.warn(
        f"{walk.listing.call.operation}: the list changed while it was read, {PASSES} times in a row ({walk.problems[0]}). "
        "Items may be missing; read it again when less is going on.",
        IncompleteWarning,
        stacklevel=3,
    )


def _ahead(fetch: Callable[[Call[Page]], Page], calls: Sequence[Call[Page]]) -> Iterator[Page]:
    """Fetch with up to `CONCURRENCY` requests under way, yield in order."""
    if len(calls) < 2:
        yield from map(fetch, calls)
        return
    todo = deque(calls)
    pool = ThreadPoolExecutor(min(CONCURRENCY, len(calls)), thread_name_prefix="agentbook-pages")
    try:
        waiting: deque[Future[Page]] = deque()
        while todo or waiting:
            while todo and len(waiting) < CONCURRENCY:
                waiting.append(pool.submit(fetch, todo.popleft()))
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


async def _ahead_async(fetch: Callable[[Call[Page]], Any], calls: Sequence[Call[Page]]) -> AsyncIterator[Page]:
    todo = deque(calls)
    waiting: deque[asyncio.Task[Page]] = deque()
    try:
        while todo or waiting:
            while todo and len(waiting) < CONCURRENCY:
                waiting.append(asyncio.ensure_future(fetch(todo.popleft())))
            yield await waiting.popleft()
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
