"""Lists of the platform: iterate, count, load as a frame.

`agentbook.api.pagination` plans a pass over a list and `agentbook.api.connection`
fetches the pages. A listing is a question, not a copy: reading it again asks again.
Only counting, testing and the reading right after them share a first page.
Specification: "Pagination (list envelope)", "Limits".
"""

from __future__ import annotations

import operator
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn, overload
from urllib.parse import unquote

from ._text import clip, count_text
from .api.calls import ListCall
from .api.connection import AsyncConnection, Connection
from .api.pagination import Page, Pagination, Passes
from .api.record import Record, shown_field

if TYPE_CHECKING:
    import pandas as pd

    from .frames.parse.schemas import Column

MAX_ROWS = 10
MAX_COLUMNS = 7
MAX_CHARACTERS = 60
_LENGTH, _TRUTH, _ALL = "length", "truth", "all"  # questions to a first page; others are positions
_HIDDEN_KINDS = ("json", "masked")
_CELL = "text-align:left;white-space:nowrap"


class _LazyList:
    """The common part of both listings: the call, and the first page once fetched."""

    _awaited = False

    def __init__(self, connection: Any, list_call: ListCall) -> None:
        self.connection, self.list_call = connection, list_call
        self._first: Page | None = None  # the latest, which a notebook shows
        self._read_at = datetime.now(UTC)
        self._answered: set[object] = set()  # the questions that it has answered
        self._counted: int | None = None  # by reading all pages, if the platform gives no total

    def _note(self, first: Page | None) -> None:
        """Show this first page from now on."""
        if first is not self._first:
            self._first, self._read_at, self._counted = first, datetime.now(UTC), None

    def _kept(self, question: object) -> Page | None:
        """The first page, if it may answer this: a question once, and a pass last."""
        if self._first is None or not self._answered.isdisjoint((question, _ALL)):
            self._answered = {_ALL}
            return None
        self._answered.add(question)
        return self._first

    def _linked(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame of the whole list, of sessions with links to them."""
        if (url := self.connection.session_url) is not None:
            frame.attrs["agentbook"]["session_url"] = url
        if self.list_call.resource != "sessions":
            return frame
        from .frames.tabular import with_links

        return with_links(frame, frame, "id")

    def _known_total(self, first: Page) -> int | None:
        """The number of items that the first page reports; None if it reports none."""
        listed, total, rows, goes_on = self.list_call, first.total_count, len(first), first.has_more is True
        if listed.end is not None or (listed.begin is not None and len(self._own(first)) < rows):
            return self._counted  # the total counts what does not belong
        if total is None or ((rows or goes_on) and total < listed.offset + rows + goes_on):
            is_all = rows == listed.limit or first.has_more is False or not (rows or goes_on)
            return rows if is_all else self._counted
        count = max(total - listed.offset, 0)
        return count if listed.limit is None else min(count, listed.limit)

    def _own(self, first: Page) -> Page:
        """The first page without items that do not belong, although they are listed."""
        return next(Pagination(self.list_call).pages(first))

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the request, for a frame's provenance."""
        call = self.list_call.call
        query = {name: value for name, value in call.query.items() if value is not None}
        return {"path": call.path, **query, **self.list_call.context}

    def __repr__(self) -> str:
        total = None if self._first is None else self._known_total(self._first)
        size = "not fetched yet" if self._first is None else "not counted" if total is None else f"{total:,} items"
        return f"<{type(self).__name__} of {self._title()}: {size}>"

    # Showing a list never makes a request: a notebook must not wait for a rate limit,
    # or end in an error, because it shows a variable.
    def _repr_html_(self) -> str:
        awaited, title = "await " if self._awaited else "", escape(self._title())
        hint = f"Load all of it: <code>{awaited}listing.to_pandas()</code>"
        if self._first is None:
            count = "await listing.count()" if self._awaited else "len(listing)"
            return (
                f"<p><b>{title}</b>: nothing is fetched yet. {hint}. Count it: <code>{count}</code>. "
                f"First ten: <code>{awaited}listing[:10].to_pandas()</code></p>"
            )
        page, total = self._own(self._first), self._known_total(self._first)
        records = list(islice(page.records(), MAX_ROWS))
        size = f"{len(page):,} or more items" if total is None else count_text(total, "item")
        shown = f", the first {len(records)} of them here" if total is None or total > len(records) else ""
        table = _table(records, self.list_call.resource) if records else ""
        return f"<p><b>{title}</b>: {size}{shown}</p>{table}<p>{hint}</p>"

    def _title(self) -> str:
        arguments = [f"{name}={value!r}" for name, value in self.parameters.items() if name != "path"]
        segments = self.list_call.call.path.split("/")
        if len(segments) == 3 and not self.list_call.context:  # the owner of the items, as in accounts/acme/skills
            arguments.insert(0, repr(unquote(segments[1])))
        return f"{self.list_call.call.operation}({', '.join(arguments)})"

    def _part(self, positions: slice, count: Callable[[], int]) -> ListCall:
        """The list of a slice; `count` counts the items, for positions from the end."""
        if positions.step not in (None, 1):
            raise ValueError(
                f"A slice of {self._title()} cannot have a step ({positions.step!r}): load the list and slice the frame, "
                "as in frame.iloc[::2]."
            )
        ends = [None if end is None else self._index(end) for end in (positions.start, positions.stop)]
        start, stop = (end if end is None or end >= 0 else max(end + count(), 0) for end in ends)
        start, whole = start or 0, self.list_call.limit
        limit = None if stop is None else max(stop - start, 0)
        if whole is not None:
            limit = min(max(whole - start, 0), whole if limit is None else limit)
        # A list paged by id has no positions, but the platform accepts an offset for
        # it.
        keyset = self.list_call.keyset and start == 0
        return replace(self.list_call, offset=self.list_call.offset + start, limit=limit, keyset=keyset)

    def _index(self, value: Any) -> int:
        if not hasattr(value, "__index__"):
            raise TypeError(
                f"{self._title()} is indexed by position, as in listing[0] or listing[:10], not by {value!r}: for a "
                "column, write listing.to_pandas()[name]."
            )
        return operator.index(value)


class Listing(_LazyList):
    """A list of the platform, fetched whenever it is used.

    Iterate it for records, ``len()`` it for the count, `first()` for one record,
    `to_pandas()` for all of it as a DataFrame. Each of them asks the platform again, so
    a cell that is run again shows what is there now. Only ``len(x)``, ``bool(x)``,
    records by position and the reading right after them share a first page.

    ``x[3]`` and ``x[-1]`` are records, by position. ``x[:10]`` is a `Listing` of ten
    items at most, which requests only those. A notebook shows the first rows, once the
    first page has been fetched; showing a list requests nothing.

    A list that changes while it is read is read again, up to three times in all. If it
    still changes, or the platform goes on saying that more follows, the items read so
    far are returned, each once, with an `IncompleteWarning`.

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
    >>> [agent.id for agent in agents[:2]] == [agents[0].id, agents[1].id]
    True
    """

    connection: Connection

    def __init__(self, connection: Connection, list_call: ListCall) -> None:
        super().__init__(connection, list_call)
        self._is_waiting = False  # whether an iterator was made that has not begun
        self._read: list[Record] | None = None  # for that iterator

    def pages(self) -> Iterator[Page]:
        """The pages of one pass, in order, each item once.

        Later pages are fetched while the caller uses the earlier ones.

        Raises
        ------
        ApiError, ConnectionFailed, DeadlineExceeded
            When a page cannot be read.
        """
        return self.connection._pages(Pagination(self.list_call), self._kept(_ALL))

    def _first_page(self, question: object) -> Page:
        if (first := self._kept(question)) is None:
            pagination = Pagination(self.list_call)
            with closing(self.connection._pages(pagination)) as pages:
                next(pages)
            first, self.list_call, self._answered = pagination.first, pagination.list_call, {question}
            self._note(first)
        assert first is not None
        return first

    def __iter__(self) -> Generator[Record]:
        self._is_waiting = True
        return self._records()

    def _records(self) -> Generator[Record]:
        self._is_waiting = False
        records, self._read = self._read, None
        yield from self._pass(self._kept(_ALL)) if records is None else records

    def _pass(self, first: Page | None) -> Generator[Record]:
        return self.connection._records(Passes(self.list_call, self._note), first)

    def __len__(self) -> int:
        return self._count(self._first_page(_LENGTH))

    def _count(self, first: Page) -> int:
        total = self._known_total(first)
        if total is None and self._is_waiting:  # list() makes an iterator, then asks for the length
            self._read = list(self._pass(first))
            total = self._counted = len(self._read)
        elif total is None:
            total = self._counted = sum(1 for _ in self._pass(first))
        return total

    def __bool__(self) -> bool:
        return self._first_record(_TRUTH) is not None

    @overload
    def __getitem__(self, position: int) -> Record: ...
    @overload
    def __getitem__(self, position: slice) -> Listing: ...
    def __getitem__(self, position: Any) -> Record | Listing:
        if isinstance(position, slice):
            return Listing(self.connection, self._part(position, cache(self.__len__)))
        limit, index = self.list_call.limit, self._index(position)
        first = self._first_page(index)
        start = index if index >= 0 else index + self._count(first)
        record = self._record_at(start, first) if start >= 0 and (limit is None or start < limit) else None
        if record is None:
            held = count_text(self._count(first), "item")
            raise IndexError(f"{self._title()} has no item {position}: it has {held}, counted from 0.")
        return record

    def _record_at(self, position: int, first: Page) -> Record | None:
        if position < len(own := self._own(first)):
            return next(islice(own.records(), position, None))
        total = self._known_total(first)
        if total is not None and position >= total:
            return None
        return self[position : position + 1].first()

    def first(self) -> Record | None:
        """The first record, or None if the list is empty."""
        return self._first_record(0)

    def _first_record(self, question: object) -> Record | None:
        with closing(self._pass(self._first_page(question))) as records:
            return next(records, None)

    def to_pandas(self, progress: bool | None = None, *, reveal: bool = False) -> pd.DataFrame:
        """The whole list as a DataFrame, one row per item.

        Parameters
        ----------
        progress : bool, optional
            True shows a tqdm bar with rows and rate; None and False show nothing.
        reveal : bool
            True shows the secrets of credentials unmasked; a notebook then shows a
            warning.

        Returns
        -------
        pandas.DataFrame
            Columns and dtypes follow the resource's schema
            (``agentbook.frames.parse.schemas``); times are UTC, ids and texts Arrow
            strings, unknown fields JSON text in `extra`. An empty list has every
            column. ``attrs["agentbook"]`` holds operation, parameters, loaded_at,
            requests, complete.

        Raises
        ------
        ApiError
            If the platform refused; the class of the error says why.
        PartialLoad
            If the load stopped half-way. The error holds the rows read so far, and its
            `resume()` reads only what is missing.

        Warns
        -----
        IncompleteWarning
            If the list changed during each of three passes, or does not end where the
            platform says that more follows; ``complete`` is then False.
        """
        from .frames.load.loader import ListingLoad

        self._read = None
        first, read_at = self._kept(_ALL), self._read_at
        load = ListingLoad(self.list_call, self.parameters, first, read_at, progress, reveal)
        try:
            return self._linked(load.run(self.connection._run))
        finally:
            self._note(load.first_page)

    def to_arrow(self, progress: bool | None = None, *, reveal: bool = False) -> Any:
        """As `to_pandas`, but a `pyarrow.Table`."""
        from .frames.export import to_arrow

        return to_arrow(self.to_pandas(progress, reveal=reveal))

    def to_polars(self, progress: bool | None = None, *, reveal: bool = False) -> Any:
        """As `to_pandas`, but a `polars.DataFrame`; `ImportError` without Polars."""
        from .frames.export import to_polars

        return to_polars(self.to_pandas(progress, reveal=reveal))


class AsyncListing(_LazyList):
    """As `Listing`, for `AsyncClient`: ``async for`` it, or await its methods.

    ``x[5:10]`` is an `AsyncListing`; a position needs a request, so await
    ``x[5:6].first()``.

    Made by the list methods of an `AsyncClient`, which are not awaited themselves.

    Notes
    -----
    Specification: "Limits", and the list envelope of "Resources and their fields".
    """

    connection: AsyncConnection
    _awaited = True

    def pages(self) -> AsyncIterator[Page]:
        """As `Listing.pages`, with ``async for``."""
        return self.connection._pages(Pagination(self.list_call), self._kept(_ALL))

    async def _first_page(self, question: object) -> Page:
        if (first := self._kept(question)) is None:
            pagination = Pagination(self.list_call)
            async with aclosing(self.connection._pages(pagination)) as pages:
                await anext(pages)
            first, self.list_call, self._answered = pagination.first, pagination.list_call, {question}
            self._note(first)
        assert first is not None
        return first

    def __aiter__(self) -> AsyncGenerator[Record]:
        return self._pass(self._kept(_ALL))

    def _pass(self, first: Page | None) -> AsyncGenerator[Record]:
        return self.connection._records(Passes(self.list_call, self._note), first)

    def __getitem__(self, position: slice) -> AsyncListing:
        if isinstance(position, slice):
            return AsyncListing(self.connection, self._part(position, lambda: self._refuse_position(position)))
        return self._refuse_position(position)

    def _refuse_position(self, position: Any) -> NoReturn:
        raise TypeError(
            f"{self._title()} is not loaded, so it has no item {position!r} yet: await listing[3:4].first() for the item "
            "at position 3, or (await listing.to_pandas()).iloc[-1] for the last row."
        )

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self._title()} is read with `async for`, or loaded with `await listing.to_pandas()`.")

    def __len__(self) -> NoReturn:
        raise TypeError(f"{self._title()} is counted with `await listing.count()`.")

    def __bool__(self) -> bool:
        return True  # like any object of unknown length

    async def count(self) -> int:
        """The number of items."""
        first = await self._first_page(_LENGTH)
        total = self._known_total(first)
        if total is None:
            total = self._counted = sum([1 async for _ in self._pass(first)])
        return total

    async def first(self) -> Record | None:
        """The first record, or None if the list is empty."""
        async with aclosing(self._pass(await self._first_page(0))) as records:
            return await anext(records, None)

    async def to_pandas(self, progress: bool | None = None, *, reveal: bool = False) -> pd.DataFrame:
        """As `Listing.to_pandas`, awaited."""
        from .frames.load.loader import ListingLoad

        first, read_at = self._kept(_ALL), self._read_at
        load = ListingLoad(self.list_call, self.parameters, first, read_at, progress, reveal)
        try:
            return self._linked(await load.run_async(self.connection._run))
        finally:
            self._note(load.first_page)

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


def _table(records: Sequence[Record], resource: str) -> str:
    from .frames.parse.schemas import schema_of

    shown = [column for column in schema_of(resource).columns if _is_shown(column, records)]
    own_id = [column for column in shown if column.name == "id"]
    # Last, because a narrow page shows only the first columns.
    columns = [column for column in shown if column.name != "id"][: MAX_COLUMNS - 1] + own_id
    head = "".join(f'<th style="{_CELL}">{escape(column.name)}</th>' for column in columns)
    rows = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{escape(_cell(column, record))}</td>' for column in columns) + "</tr>"
        for record in records
    )
    # MathJax ignores these classes, as in pandas' tables: dollar signs stay text.
    table = f'<table class="tex2jax_ignore mathjax_ignore"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<div style="overflow-x:auto;max-width:100%">{table}</div>'


def _is_shown(column: Column, records: Sequence[Record]) -> bool:
    """Whether a column fits into a short table: no objects, and no other items' ids."""
    if column.wire is None or column.kind in _HIDDEN_KINDS or (column.kind == "id" and column.name != "id"):
        return False
    return any(_value(column, record) is not None for record in records)


def _value(column: Column, record: Record) -> Any:
    value: Any = record
    for name in (column.wire or "").split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _cell(column: Column, record: Record) -> str:
    value = _value(column, record)
    if value is None:
        return ""
    text = shown_field((column.wire or "").rpartition(".")[2], value)
    if isinstance(value, str) and text == repr(value):
        text = value[:16].replace("T", " ") if column.kind == "time" else value
    return clip(text, MAX_CHARACTERS)
