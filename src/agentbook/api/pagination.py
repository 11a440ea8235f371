"""Pages of a list, and one pass over it: what to request, and whether the pages fit.

The first page tells the total and how many items a page has. The other pages are then
requested by offset, at the same time; neighbouring pages share one item, so that an
item that came or went shows. Totals only plan these requests. Where pages do not fit,
events are read on after the last id (``from_id``), one page after another; another list
that changed is read again. Specification: "Pagination (list envelope)", "Limits".
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, compress
from typing import Any, cast

import msgspec

from .calls import Call, ListCall, Reply
from .errors import AgentbookError, IncompleteWarning, InvalidInput, NotFound
from .record import AROUND, ItemRecord, Record, read, read_value

PASSES = 3  # how many times to read a list that changes while it is being read
AHEAD = 16  # most pages of a list that are fetched while the caller uses the earlier ones
PAGES_WITHOUT_NEWS = 20  # in a row; a platform that then still says `has_more` is not followed any further

# Larger totals are not credible, and list() would allocate memory for them.
_MAX_TOTAL = 10**8

Ids = list[str | None]


class _Envelope(msgspec.Struct):
    items: list[msgspec.Raw]
    pagination: msgspec.Raw = msgspec.Raw(b"null")


_read_envelope = msgspec.json.Decoder(_Envelope).decode


class Page:
    """One reply of a list operation: its body, its envelope and its items.

    The items are read when they are used.

    Attributes
    ----------
    body : bytes
        The JSON as it arrived.
    total_count : int or None
        Items in the whole list; None if the reply has no credible total.
    has_more : bool or None
        Whether items follow; None if the reply does not say.
    limit : int or None
        The most items that the page could have; None if the reply does not say.
    """

    def __init__(self, reply: Reply) -> None:
        envelope = read(_read_envelope, reply.body, AROUND)
        pagination = read_value(bytes(envelope.pagination))
        fields = pagination if isinstance(pagination, dict) else {}
        total, more, limit = (fields.get(name) for name in ("total_count", "has_more", "limit"))
        self.body = reply.body
        self.total_count = total if type(total) is int and 0 <= total <= _MAX_TOTAL else None
        self.has_more = more if isinstance(more, bool) else None
        self.limit = limit if type(limit) is int and limit > 0 else None
        self._envelope = envelope

    @cached_property
    def _items(self) -> list[Any]:
        return cast(list[Any], read_value(b"[%b]" % b",".join(self._envelope.items), AROUND - 1))

    @cached_property
    def ids(self) -> Ids:
        """The ids of the items; None for an item without one, or with an empty one."""
        ids = [item.get("id") if isinstance(item, dict) else None for item in self._items]
        return [each if isinstance(each, str) and each else None for each in ids]

    def __len__(self) -> int:
        return len(self._envelope.items)

    def records(self, skip: Set[str] = frozenset()) -> Iterator[Record]:
        """The items as records, without those whose id is in `skip`."""
        for item_id, item in zip(self.ids, self._items, strict=True):
            if item_id not in skip:
                yield ItemRecord(item if isinstance(item, dict) else {"value": item})

    def only(self, keep: Sequence[bool] | None) -> Page:
        """The page with only the items flagged in `keep`; None keeps all."""
        if keep is None:
            return self
        items = b",".join(compress(self._envelope.items, keep))
        body = b'{"items":[%b],"pagination":%b}' % (items, bytes(self._envelope.pagination))
        return Page(Reply(200, {}, body))


@dataclass(slots=True, eq=False)
class Request:
    """A page to request: `size` items from an offset, or from so many after a cursor.

    `outcome` is what came of it, once that is known.
    """

    pagination: Pagination
    call: Call[Page]
    start: int
    size: int
    outcome: Page | AgentbookError | None = None

    def settle(self, result: Callable[[], Page]) -> None:
        """Set the outcome: what `result` returns, or how the platform refused."""
        try:
            self.outcome = result()
        except AgentbookError as refused:
            self.outcome = refused


class Pagination:
    """One pass over a list.

    Request what `next_request` says and set the outcomes, in any order. `take` gives
    them in the order of the list: `add` each. `pages` does both.

    Parameters
    ----------
    list_call : ListCall

    Attributes
    ----------
    list_call : ListCall
        Without its ``from_id`` if the platform refused that.
    items : int
        Items added so far, each counted once.
    cursor : str or None
        In a list sorted by id, the id up to which all items have been added.
    done : bool
        Whether there is nothing more to request.
    endless : bool
        Whether the pass ended although the platform says that more items follow.
    problems : list of str
        Why what was added may not be the whole list.
    first : Page or None
        The first page.
    requests : deque of Request
        Those that were not taken yet, in order.

    Notes
    -----
    A page that says ``has_more`` is not the last one, whatever its items: a platform
    may leave out what the caller cannot see. An empty one is requested again once, and
    then passed over.
    """

    def __init__(self, list_call: ListCall) -> None:
        self.list_call = list_call
        self.items = 0
        self.done = self.endless = False
        self.problems: list[str] = []
        self.first: Page | None = None
        from_id: str | None = list_call.call.query.get("from_id")
        self.cursor = from_id if list_call.keyset else None
        self.requests: deque[Request] = deque()
        self._first_id = (from_id or list_call.begin or "").lower()  # after which the list starts
        self._by_id = False  # offsets count from the cursor, not from where the list starts
        self._most = list_call.max_page if list_call.limit is None else min(list_call.max_page, list_call.limit)
        self._size = self._most  # items per page
        self._last: int | None = None  # the offset up to which pages are requested at the same time
        self._skip, self._added = _offsets(list_call)  # items to leave out, the offset up to which all was added
        self._planned = self._added  # ... or requested
        self._taken = 0
        self._short = False  # a page had fewer items than places, so the next one may start with old items
        self._shared: Ids = []  # what the next page starts with: the last id
        self._ids: set[str] = set()
        self._total: int | None = None  # of the pages before
        self._again = False  # whether an empty page was requested again
        self._without_news = 0  # pages in a row that had nothing new, but said that more follow

    def next_request(self) -> Request | None:
        """The next page to request.

        None at the end, or if nothing can be requested until further pages are added.
        """
        if self.done or (self.requests if self._last is None else self._planned >= self._last):
            return None
        start, size, limit = self._planned - len(self._shared), self._size, self._limit
        if limit is not None:
            size = min(size, limit - self.items + len(self._shared))
        self._planned = start + size
        after = {"from_id": self.cursor} if self._by_id else {}
        call = self.list_call.page(Page, limit=size, offset=start or None, **after)
        self.requests.append(Request(self, call, start, size))
        return self.requests[-1]

    def next_ahead(self) -> Request | None:
        """As `next_request`, but few at first: who stops early has requested little."""
        depth = min(1 << max(self._taken - 1, 0), AHEAD)
        return self.next_request() if len(self.requests) < depth else None

    @property
    def _limit(self) -> int | None:
        """At most so many items need to be requested; None if some may not belong."""
        return None if self.list_call.begin or self.list_call.end else self.list_call.limit

    def pages(self, first: Page | None = None) -> Iterator[Page]:
        """The pages that can be added now, each item once; `first` is the next one."""
        if first is not None and (request := self.next_request()) is not None:
            request.outcome = first
        while (request := self.take()) is not None:
            keep = self.add(request)
            if isinstance(request.outcome, Page):
                yield request.outcome.only(keep)

    def take(self) -> Request | None:
        """The earliest request, if it has its outcome: `add` it."""
        if not self.requests or self.requests[0].outcome is None:
            return None
        self._taken += 1
        return self.requests.popleft()

    def add(self, request: Request, ids: Ids | None = None) -> list[bool] | None:
        """Add the outcome of the request that was taken.

        Parameters
        ----------
        request : Request
            Its error is raised, unless the list can be read otherwise.
        ids : list, optional
            The ids of the page's items, if known; by default the page reads them.

        Returns
        -------
        list of bool or None
            Whether each item is new and belongs to this pass; None if all do.
        """
        page = request.outcome
        if not isinstance(page, Page):
            assert page is not None
            self._read_otherwise(page)
            return None
        ids = [each or None for each in (page.ids if ids is None else ids)]
        is_first = self.first is None
        self.first = page if self.first is None else self.first
        if not ids and page.has_more and self.list_call.limit != 0:
            self._pass_over(page, request)
            return None
        keep = self._within_ends(ids, self._add_page(page, ids, request, is_first=is_first))
        self.items += sum(keep)
        if self.done:
            self.requests.clear()  # the pages on their way
        elif self.list_call.keyset and None in compress(ids, keep):
            self._note("an item has no id, after which the list could be continued")
        return None if all(keep) else keep

    def _read_otherwise(self, error: AgentbookError) -> None:
        """Go on without what the platform refused, or raise its error."""
        from_id = self.list_call.call.query.get("from_id")
        is_refusal = isinstance(error, (InvalidInput, NotFound))
        if is_refusal and self.first is None and from_id is not None:
            whole = self.list_call.page(Page, from_id=None)
            self.list_call, self.cursor = replace(self.list_call, call=whole, begin=from_id), None
            self._skip, self._added = _offsets(self.list_call)
        elif not (is_refusal and self._last is not None and self._can_go_by_id):
            raise error
        self._go_on()

    def _pass_over(self, page: Page, request: Request) -> None:
        """An empty page is not the last: request it again, then what follows it."""
        if self._again:
            self._note_without_news()
            self._added, self._shared, self._short = request.start + min(page.limit or 1, request.size), [], True
        self._again = not self._again
        self._go_on()

    def _add_page(self, page: Page, ids: Ids, request: Request, *, is_first: bool) -> list[bool]:
        """Whether each item is new; decides how to go on."""
        more, end = page.has_more is True, request.start + len(ids)
        first = self._first_new(ids)
        if first is None and self._can_go_by_id:
            self._go_on()
            return [False] * len(ids)
        if first is None:
            self._note(f"neighbouring pages at offset {self._added} do not meet")
        keep = [False] * (first or 0) + self._new(ids[first or 0 :])
        has_news = any(compress(ids, keep))
        # Some platforms count only the items of the page, or only up to a limit.
        total = page.total_count if page.total_count is not None and page.total_count >= end + more else None
        came_short = more and len(ids) < min(request.size, page.limit or (0 if is_first else request.size))
        self._short |= came_short
        self._without_news = 0 if has_news else self._without_news
        self._again = False
        self._added = 0 if self._by_id else end
        self._shared = ids[-1:] if len(ids) > 1 and not self._by_id else self._shared[: not ids]
        if None not in (total, self._total) and total != self._total and not self.list_call.keyset:
            self._note(f"the total changed between pages: {self._total:,}, then {total:,}")
        self._total = total or self._total
        if page.has_more is False or (not more and (not has_news or end == total)):
            self.done = True
            if total is not None and total > end and not (self.list_call.keyset or self._short):
                self._note(f"{total:,} items were announced, {end:,} came")
        elif not has_news:
            self._note_without_news()
            self._shared, self._short = [], True
            self._go_on()
        elif is_first and not came_short:
            self._size = len(ids)
            self._plan(total, end)
        elif came_short or self._last is None or end >= self._last:
            # A pass that does not fit together is not extended: another one follows.
            self.done = bool(self.problems) and not came_short
            self._go_on()
        return keep

    def _plan(self, total: int | None, end: int) -> None:
        """Request the other pages at the same time, if their number is known."""
        limit = self._limit
        last = (total or 0) if limit is None else min(total or 0, self.list_call.offset + limit)
        if last > end and self._size > 1:
            self._last, self._planned = last, end
        else:
            self._go_on()

    @property
    def _can_go_by_id(self) -> bool:
        return self.list_call.keyset and self.cursor not in (None, self.list_call.call.query.get("from_id"))

    def _go_on(self) -> None:
        """Request one page after another from here on, by id where that is possible."""
        self.requests.clear()
        if self._can_go_by_id and not self._by_id:
            self._by_id, self._added, self._shared = True, 0, []
        self._last, self._planned = None, self._added
        if self._by_id or self._short:
            self._size = self._most

    def _first_new(self, ids: Ids) -> int | None:
        """How many items a page shares with the one before; None if it does not fit."""
        if ids[:1] == self._shared or not self._shared:
            return len(self._shared)
        return ids.index(self._shared[0]) + 1 if self._short and self._shared[0] in ids else None

    # -- the items ---------------------------------------------------------------------

    def _new(self, ids: Ids) -> list[bool]:
        """Whether each item has not been added before."""
        keyset, floor = self.list_call.keyset, (self.cursor or "").lower()
        keep, seen = list[bool](), set[str]()
        for each in ids:
            if each is None:
                keep.append(True)
                continue
            old = each.lower() <= floor if keyset else each in self._ids
            twice = each in seen and not keyset  # which parsing reports, of events
            if twice or (old and not self._short and each.lower() > self._first_id):
                self._note(f"item {each} came twice")
            keep.append(not (old or twice))
            seen.add(each)
        if keyset:
            self.cursor = max([self.cursor or "", *seen], key=str.lower) or None
        else:
            self._ids |= seen
        return keep

    def _within_ends(self, ids: Ids, keep: list[bool]) -> list[bool]:
        """Leave out what is outside the span of time, or more than the limit."""
        begin, end, limit = self._first_id, self.list_call.end or "g", self.list_call.limit
        if begin or self.list_call.end:
            texts = [(each or "").lower() for each in ids]
            keep = [flag and (not each or begin < each <= end) for flag, each in zip(keep, texts, strict=True)]
            self.done |= max(texts, default="") > end  # only a list in the order of its ids has an end
        if self._skip or limit is not None:
            last = len(ids) if limit is None else self._skip + limit - self.items
            count = sum(keep)
            keep = [flag and self._skip < n <= last for flag, n in zip(keep, accumulate(keep), strict=True)]
            self._skip -= min(self._skip, count)
            self.done |= limit is not None and self.items + sum(keep) >= limit
        return keep

    # -- the end -----------------------------------------------------------------------

    def _note_without_news(self) -> None:
        """Count a page that had nothing new but said that more follows."""
        self._without_news += 1
        if self._without_news >= PAGES_WITHOUT_NEWS:
            self._note(f"the platform says that more {self.list_call.resource} follow, but none came")
            self.done = self.endless = True

    def _note(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def resume(self) -> None:
        """Continue a stopped pass: the pages on their way are requested again."""
        self.requests.clear()
        self._planned, self._without_news, self._again = self._added, 0, False
        if self.done and self.problems:
            self.done = self.endless = False
            self.problems.clear()


def _offsets(list_call: ListCall) -> tuple[int, int]:
    """How many of a list's items to leave out, and the offset of the first page."""
    return (0, list_call.offset) if list_call.begin is None else (list_call.offset, 0)


class Passes:
    """Passes over a list until the pages of one pass fit together, at most `PASSES`.

    Iterate it for the `Pagination` of each pass. If the list changed in every pass, or
    does not end, the iteration ends with an `IncompleteWarning`.

    Parameters
    ----------
    list_call : ListCall
    note : callable
        Gets the first page of each pass.
    """

    def __init__(self, list_call: ListCall, note: Callable[[Page | None], object] = lambda first: None) -> None:
        self.list_call = list_call
        self._note = note
        self._pagination = Pagination(list_call)
        self._ids: set[str] = set()

    def __iter__(self) -> Iterator[Pagination]:
        for _ in range(PASSES):
            self._pagination = pagination = Pagination(self.list_call)
            yield pagination
            if not pagination.problems:
                return
            if pagination.endless:
                break
        warn_incomplete(self.list_call.call.operation, pagination.problems[0])

    def records(self, page: Page) -> Iterator[Record]:
        """The items of a page that no earlier page or pass had."""
        self._note(self._pagination.first)
        yield from page.records(skip=self._ids)
        self._ids.update(item_id for item_id in page.ids if item_id is not None)


def warn_incomplete(operation: str, problem: str) -> None:
    """Warn that a list could not be read as a whole."""
    warnings.warn(
        f"{operation}: items may be missing ({problem}). If the list changed while it was read, {PASSES} times in a "
        "row, read it again when the platform is less busy.",
        IncompleteWarning,
        stacklevel=3,
    )
