"""One pass over a list, without any I/O: which pages to ask for, and whether what came fits together.

Offset pages after the first may be fetched concurrently, at the greatest limit the operation takes, each sharing one item with
its neighbour; keyset pages (events) follow one another by ``from_id``, which nothing that is added meanwhile can shift.
Specification: "Pagination (list envelope)", "Limits".
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Set
from dataclasses import replace
from typing import Any

import msgspec

from .calls import Call, ListCall, Reply
from .errors import IncompleteWarning
from .record import Record

PASSES = 3  # how often a list that changes while it is read is read


class _PageInfo(msgspec.Struct):
    total_count: int | None = None
    has_more: bool | None = None


class _Id(msgspec.Struct):
    id: Any = None


class _Ids(msgspec.Struct):
    """The envelope, and of each item its id alone: one pass over the bytes, no object for anything else."""

    items: list[_Id]
    pagination: _PageInfo = msgspec.field(default_factory=_PageInfo)


class _Raw(msgspec.Struct):
    items: list[msgspec.Raw]
    pagination: Any = None


# A total beyond this is no count of anything; taken at its word, list() would make room for it.
_MOST_ITEMS = 10**8

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
        if self.total_count is not None and not 0 <= self.total_count <= _MOST_ITEMS:
            self.total_count = None
        self.ids: list[str | None] = [item_id if isinstance(item_id, str) else None for item_id in found]

    @classmethod
    def of(cls, reply: Reply) -> Page:
        return cls(reply.body)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def last_id(self) -> str | None:
        return self.ids[-1] if self.ids else None

    def denies_its_total(self, reached: int) -> bool:
        """Whether what it holds, up to and without the offset `reached`, is more than the total it names (a page's own, say)."""
        total = self.total_count
        return total is not None and (total < reached or (total == reached and self.has_more is True))

    def records(self, skip: Set[str] = frozenset()) -> Iterator[Record]:
        """The items, without those whose id is in `skip`."""
        for item_id, item in zip(self.ids, msgspec.json.decode(self.body)["items"], strict=True):
            if item_id not in skip:
                yield Record(item) if isinstance(item, dict) else Record({"value": item})

    def only(self, kept: list[bool]) -> Page:
        """The same page with some items left out."""
        raw = _read_raw(self.body)
        items = b",".join(item for item, keep in zip(raw.items, kept, strict=True) if keep)
        return Page(b'{"items":[%b],"pagination":%b}' % (items, msgspec.json.encode(raw.pagination or {})))


def _cursor(page: Page) -> str | None:
    """The id to go on from: the last one there is."""
    return next((item_id for item_id in reversed(page.ids) if item_id is not None), None)


def _id_of(item: msgspec.Raw) -> Any:
    value = msgspec.json.decode(item)
    return value.get("id") if isinstance(value, dict) else None


class Pagination:
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
        self.stalled = False  # the last page brought nothing new: the list ends there, whatever was announced
        self._totals: set[int] = set()
        self._untold = False  # a page said more than there was room for in its own total, which then counts for nothing
        self.seen: set[str] = set()  # ids taken

    @property
    def begun(self) -> bool:
        """Whether the first page has been taken."""
        return self._last is not None

    def first(self) -> Call[Page]:
        """The call of the first page."""
        return self._page(self.listing.offset, self._size)

    def rest(self) -> Iterator[Call[Page]]:
        """The calls of all pages still missing, where it is known how many there are; in order, to be made concurrently.

        One by one, and to be left off once the walk has `stalled`: a platform may announce any number of items.
        """
        if self._last is None or self.listing.keyset or self._end() is None:
            return
        covered, end, step, overlap = self._covered, self._end() or 0, self._step(), self._overlap()
        while covered < end and step:
            start = covered - overlap
            size = min(step, end - start)
            yield self._page(start, size)
            covered = start + size

    def following(self) -> Call[Page] | None:
        """The next call, where pages follow one by one; None at the end."""
        last = self._last
        left = None if self.listing.limit is None else self.listing.limit - self.items
        if last is None or self.stalled or (left is not None and left <= 0):
            return None
        if self.listing.keyset:
            cursor = _cursor(last)
            if last.has_more is False or cursor is None:
                return None
            return self._page(0, self._size if left is None else min(self._size, left)).with_query(from_id=cursor)
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
            reached = self._covered - expected_overlap + len(page)
            self._untold |= len(page) > 0 and page.denies_its_total(reached)
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
        if self.listing.keyset and ids and page.has_more is not False:
            if _cursor(page) is None:
                self.problems.append(f"none of the {len(ids)} items of a page has an id to go on from")
            else:  # what stands after the last id has none, and comes again with the next page
                after = next(n for n, item_id in enumerate(reversed(ids)) if item_id is not None)
                kept[len(kept) - after :] = [False] * after
        if self._last is not None and page.body == self._last.body:
            kept = [False] * len(page)  # items without ids can repeat unseen, where an offset is not heeded
        self.stalled = len(page) <= expected_overlap or not any(kept)
        self._covered += max(len(page) - expected_overlap, 0)
        if len(page) or self._last is None:
            self._last = page
        fresh = page if all(kept) else page.only(kept)
        self.items += len(fresh)
        return fresh

    @property
    def consistent(self) -> bool:
        """Whether the pages taken are one list: they meet, nothing came twice, and all that was announced came."""
        if self._untold:
            return not self.problems
        if len(self._totals) > 1:
            self.problems.append(f"the total changed between pages: {sorted(self._totals)}")
        elif self._totals and not self.problems and self.items != self._count():
            self.problems.append(f"{self._count()} items were announced, {self.items} came")
        return not self.problems

    def _count(self) -> int:
        return max((self._end() or 0) - self.listing.offset, 0)

    def _end(self) -> int | None:
        if not self._totals or self._untold:
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


def warn_incomplete(pagination: Pagination) -> None:
    """Warn that a list changed in every pass over it."""
    warnings.warn(
        f"{pagination.listing.call.operation}: the list changed while it was read, {PASSES} times in a row "
        f"({pagination.problems[0]}). Items may be missing; read it again when the platform is less busy.",
        IncompleteWarning,
        stacklevel=3,
    )
