"""One pass over a list, without I/O: what to request, and whether the pages fit.

The pages of a list paged by offset may be fetched concurrently after the first page, at
the maximum limit of the operation; neighbouring pages share one item. The pages of a
list paged by id (events) follow one another by ``from_id``, so items added in the
meantime cannot shift a page.
Specification: "Pagination (list envelope)", "Limits".
"""

from __future__ import annotations

import operator
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from .calls import Call, ListCall
from .errors import IncompleteWarning
from .event_ids import is_persisted
from .page import Page
from .record import Record

PASSES = 3  # how many times to read a list that changes while it is being read
PAGES_WITHOUT_NEWS = 20  # in a row; a platform that then still says `has_more` is not followed any further


class Pagination:
    """One pass over a list, or over a range of its ids.

    Call `next_call` for the pages to request and `add` with each page, in the order of
    the calls, until `done`.

    Parameters
    ----------
    list_call : ListCall
    end : str, optional
        For lists paged by id, the id of the last item to include.
    keep_repeats : bool
        True keeps items whose id has appeared before. By default they are dropped, and
        the pass is inconsistent.

    Attributes
    ----------
    items : int
        Items added so far, each counted once.
    cursor : str or None
        In a list paged by id, the id up to which all items have been added.
    done : bool
        Whether there is nothing more to request: the list ends here, or the pages do
        not fit together.
    at_list_end : bool
        In a list paged by id, whether the list ended here, before `end` was reached.
    endless : bool
        Whether the pass ended although the platform says that more items follow.

    Notes
    -----
    A page that says ``has_more`` is not the last one, whatever its items: a platform
    may leave out what the caller cannot see. The pass goes on after it, up to
    `PAGES_WITHOUT_NEWS`.

    A list that shifts while it is being read can be detected: the item shared by two
    neighbouring pages differs, an id appears twice, or the total changes. See
    `problems`.
    """

    def __init__(self, list_call: ListCall, *, end: str | None = None, keep_repeats: bool = False) -> None:
        self.list_call = list_call
        self.end = list_call.end if end is None else end
        self.items = 0
        self.done = False
        self.at_list_end = False
        self.endless = False
        self.cursor: str | None = list_call.call.query.get("from_id") if list_call.keyset else None
        self._keep_repeats = keep_repeats
        self._from_start = self.cursor is None
        self._size = list_call.max_page if list_call.limit is None else min(list_call.max_page, list_call.limit)
        self._step = self._size  # items per page; a platform may cap it below the documented limit
        self._started = False
        self._pending: deque[int] = deque()  # the sizes requested by calls whose pages have not been added
        self._skip = 0  # how many of them start after a gap, because a page before them came short
        self._one_by_one = False  # a page came short, so the start of the next one is not known in advance
        self._added = self._planned = list_call.offset  # offsets up to which everything was added, or requested
        self._total: int | None = None  # from the first page
        self._totals: set[int] = set()
        self._ignore_totals = False  # a page held more items than its total
        self._without_news = 0  # pages in a row that had no new item, but said that more follow
        self._has_gaps = False  # such a page came, so the number of items does not tell the offset
        self._passed_over = 0  # in a list paged by id, the places after the cursor that had no item
        self._ids: set[str] = set()
        self._expected: str | None = None  # the last id that `expect` read from the page under way
        self._last_id: str | None = None
        self._last_body = b""
        self._problems: list[str] = []

    def next_call(self) -> Call[Page] | None:
        """The next page to request.

        None at the end, or if nothing can be requested until further pages are added.
        """
        is_planned = self._started and not self.list_call.keyset and not self._one_by_one
        concurrent = is_planned and self._last_offset() is not None
        expected = len(self._pending) == 1 and self._expected is not None
        if self.done or (self._pending and not concurrent and not expected):
            return None
        limit = self.list_call.limit
        size, remaining = self._step, None if limit is None else limit - self.items
        if self.list_call.keyset:
            size = size if remaining is None else min(size, remaining)
            self._pending.append(size)
            return self._page(self._passed_over if self._expected is None else 0, size, from_id=self.position)
        start, last = self._planned - self._overlap, self._last_offset()
        if last is not None:
            if self._planned >= last:
                return None
            size = min(size, last - start)
        elif remaining is not None:
            size = min(size, remaining + self._overlap)
        self._pending.append(size)
        self._planned = start + size
        return self._page(start, size)

    @property
    def position(self) -> str | None:
        """In a list paged by id, the id after which the next page starts."""
        return self.cursor if self._expected is None else self._expected

    def expect(self, page: Page) -> bool:
        """Note a page that has arrived but is not added yet.

        Returns whether the next page can be requested. In a list paged by id,
        `next_call` then returns the call that starts after the page's last item, before
        its ids are known. If that was not its last item, the reply to that call is
        ignored.
        """
        if not self.list_call.keyset or self.list_call.limit is not None or len(self._pending) != 1 or self._skip:
            return False
        last = page.last_id() if page.has_more else None
        if last is None or not is_persisted(last) or not (self.cursor or "").lower() < last.lower() < (self.end or "g"):
            return False
        self._expected = last
        return True

    def _page(self, offset: int, limit: int, **query: str | None) -> Call[Page]:
        call = self.list_call.call
        query_of_page = {**call.query, "limit": limit, "offset": offset or None, **query}
        call = replace(call, query=query_of_page, read=Page.read)
        return call if self.list_call.refine is None else self.list_call.refine(call)

    def add(self, page: Page, ids: list[str | None] | None = None) -> list[bool] | None:
        """Add the page of the earliest call whose page has not been added.

        Parameters
        ----------
        page : Page
        ids : list, optional
            The ids of its items, if known; by default the page parses them.

        Returns
        -------
        list of bool or None
            Whether each item is new and belongs to this pass; None if all do.
        """
        size = self._pending.popleft()
        ids = page.ids if ids is None else ids
        if "" in ids:
            ids = [item_id or None for item_id in ids]
        if self._skip:
            self._skip -= 1
            return [False] * len(ids)
        if not self._started:
            self._total = page.total_count
        keep = self._add_by_id(page, ids, size) if self.list_call.keyset else self._add_by_offset(page, ids, size)
        if self.list_call.keyset and self._pending and self._expected != self.cursor:
            self._skip = len(self._pending)
        self._expected = None
        self._started = True
        self.items += len(ids) if keep is None else sum(keep)
        limit = self.list_call.limit
        if not self._pending and limit is not None and self.items >= limit:
            self.done = True
        return keep

    def skip_failed(self) -> bool:
        """Drop the earliest call if its page is ignored anyway; whether it was."""
        if not self._skip:
            return False
        self._skip -= 1
        self._pending.popleft()
        return True

    def _add_by_offset(self, page: Page, ids: list[str | None], size: int) -> list[bool] | None:
        overlap = self._overlap
        # A platform may limit a page's bytes. The pages after it are requested again.
        came_short = self._started and 0 < len(ids) < size and page.has_more is True
        if page.total_count is not None:
            self._totals.add(page.total_count)
            self._ignore_totals |= bool(ids) and page.contradicts_total(self._added - overlap + len(ids))
        goes_on = page.has_more is True
        if overlap and ids[:overlap] != [self._last_id] and (ids or not goes_on):
            self._problems.append(f"neighbouring pages at offset {self._added} do not meet")
        keep = []
        for position, item_id in enumerate(ids):
            if position < overlap:  # the item shared with the previous page, even without an id
                repeated = item_id == self._last_id if item_id is None else item_id in self._ids
            else:
                repeated = item_id is not None and item_id in self._ids
            if repeated and position >= overlap and not self._has_gaps:
                self._problems.append(f"item {item_id} came twice")
            if item_id is not None:
                self._ids.add(item_id)
            keep.append(not repeated)
        ignores_offset = bool(ids) and page.body == self._last_body
        if ignores_offset:
            keep = [False] * len(ids)  # otherwise items without ids would repeat unnoticed
        start = self._added - overlap
        self._added += max(len(ids) - overlap, 0)
        if ids:
            self._last_id, self._last_body = ids[-1], page.body
        if goes_on and not any(keep) and not (came_short and overlap):
            self._has_gaps = self._one_by_one = True
            self._skip = len(self._pending)
            self._added = self._planned = start + (len(ids) or page.places(size))
            self._step = self._size
            self._note_without_news(ignores_offset)
            return keep
        self._without_news = 0
        if self.end is not None and (inside := _count_up_to(ids, self.end)) < len(ids):
            self.done, self._skip = True, len(self._pending)
            return [flag and n < inside for n, flag in enumerate(keep)]
        if came_short:
            self._one_by_one, self._skip = True, len(self._pending)
            self._planned, self._step = self._added, self._size if self._has_gaps else len(ids)
        elif len(ids) <= overlap or not any(keep):
            self.done = True  # nothing new: the list ends here, whatever the total says
        elif not self._pending:
            last = self._last_offset()
            at_end = page.has_more is False if last is None else self._added >= last
            planned = last is None or self._planned >= last
            # A pass that does not fit together is not extended; another one follows.
            self.done = at_end or (planned and bool(self._problems))
            self._planned = self._added
            self._step = self._size if page.has_more is False else len(ids)
        return None if all(keep) else keep

    @property
    def _overlap(self) -> int:
        """The number of items that a page shares with the previous one."""
        return 1 if self._started and self._step > 1 and not self._has_gaps else 0

    def _last_offset(self) -> int | None:
        """The offset at which the list ends; None if the pages do not say."""
        if not self._totals or self._ignore_totals or self._has_gaps:
            return None
        total, limit = max(self._totals), self.list_call.limit
        return total if limit is None else min(total, self.list_call.offset + limit)

    def _add_by_id(self, page: Page, ids: list[str | None], size: int) -> list[bool] | None:
        last = next((item_id for item_id in reversed(ids) if item_id is not None), None)
        more = bool(ids) and page.has_more is not False
        if self._starts_at_cursor(ids) and (len(ids) > 1 or not more):
            keep = self._add_by_id(page, ids[1:], size)
            return [False, *([True] * (len(ids) - 1) if keep is None else keep)]
        if last is not None and self.cursor is not None and last.lower() <= self.cursor.lower():
            self._stop(f"after {self.cursor} the platform returned items up to {last}: it ignores from_id")
            return [False] * len(ids)
        if more and last is None:
            self._stop(f"none of the {len(ids):,} {self.list_call.resource} of a page has an id to continue from")
            return None
        if not ids and page.has_more:
            if self._missing():
                self._stop(f"{self.items:,} of {self._total:,} {self.list_call.resource} came, then an empty page")
            else:
                self._passed_over += page.places(size)
                self._note_without_news()
            return None
        self._passed_over = self._without_news = 0
        keep = None if self._keep_repeats or _ascend(ids, self.cursor) else self._without_repeats(ids)
        length = len(ids)
        if more and ids[-1] is None:
            # Items after the last id are repeated in the next page.
            length -= next(n for n, item_id in enumerate(reversed(ids)) if item_id is not None)
        if self.end is not None and last is not None and last.lower() >= self.end:
            length, more = min(length, _count_up_to(ids, self.end)), False
        else:
            self.at_list_end = not more and ids[-1:] != [None]
        self.cursor, self.done = last or self.cursor, not more
        if length < len(ids):
            keep = [flag and n < length for n, flag in enumerate(keep or [True] * len(ids))]
        return keep

    def _starts_at_cursor(self, ids: list[str | None]) -> bool:
        """Whether the item of the cursor came again: some platforms include it."""
        first = ids[0] if ids else None
        return first is not None and self.cursor is not None and first.lower() == self.cursor.lower()

    def _note_without_news(self, is_repeated: bool = False) -> None:
        """Count a page that had no new item but said that more follow."""
        self._without_news += 1
        if is_repeated or self._without_news >= PAGES_WITHOUT_NEWS:
            self._stop(f"the platform says that more {self.list_call.resource} follow, but none came")
            self.endless = True

    def _stop(self, problem: str) -> None:
        self._problems.append(problem)
        self.done = True

    def _missing(self) -> bool:
        """Whether there were fewer items than the first page announced, if it did."""
        whole = self._from_start and self.end is None and self.list_call.limit is None
        return whole and self._total is not None and self.items < self._total

    def _without_repeats(self, ids: list[str | None]) -> list[bool]:
        start, unique, keep = (self.cursor or "").lower(), set[str](), []
        for item_id in ids:
            repeated = item_id is not None and (item_id in unique or item_id.lower() <= start)
            if repeated:
                self._problems.append(f"item {item_id} came twice")
            if item_id is not None:
                unique.add(item_id)
            keep.append(not repeated)
        return keep

    def split(self, at: str | None) -> Pagination:
        """End this pass at the id `at`, and return a pass over the items after it."""
        self.at_list_end = False
        call = self.list_call.call.with_query(from_id=at)
        later = Pagination(replace(self.list_call, call=call), end=self.end, keep_repeats=self._keep_repeats)
        self.end = at
        return later

    def resume(self) -> None:
        """Continue a stopped pass: the calls in flight are made again."""
        self._skip, self._planned, self._expected = 0, self._added, None
        self._pending.clear()
        self._without_news = 0
        if self.done:
            self.done = self.at_list_end = self.endless = False
            self._problems.clear()

    @property
    def problems(self) -> list[str]:
        """Why the pages added do not form one list; empty if they do."""
        if self._problems or self.end is not None or (self._ignore_totals and not self._has_gaps):
            return list(self._problems)
        if self._has_gaps:  # a total may also be that of a page, or of what the caller can see
            limit, announced = self.list_call.limit, max(self._totals, default=0) - self.list_call.offset
            announced = announced if limit is None else min(announced, limit)
            return [f"{announced} items were announced, {self.items} came"] if self.items < announced else []
        if len(self._totals) > 1:
            return [f"the total changed between pages: {sorted(self._totals)}"]
        if self._totals:
            expected = max((self._last_offset() or 0) - self.list_call.offset, 0)
            if self.items != expected:
                return [f"{expected} items were announced, {self.items} came"]
        return []

    @property
    def may_lack_items(self) -> bool:
        """In a list paged by id, whether items may be missing before `end`."""
        return self.at_list_end or bool(self._problems)

    @property
    def consistent(self) -> bool:
        """Whether the pages added form one list; see `problems`."""
        return not self.problems


def _ascend(ids: list[str | None], start: str | None) -> bool:
    """Whether all ids ascend from `start`, so that none can be repeated."""
    texts = cast(list[str], ids)
    if None in ids or (start is not None and texts and texts[0].lower() <= start.lower()):
        return False
    return all(map(operator.lt, texts, texts[1:]))


def _count_up_to(ids: list[str | None], end: str) -> int:
    """How many leading items have ids up to and including `end`. The ids ascend."""
    return next((n for n, item_id in enumerate(ids) if item_id is not None and item_id.lower() > end), len(ids))


def newest_call(list_call: ListCall) -> Call[Page]:
    """The call for the newest item of a list paged by id."""
    call = list_call.call.with_query(from_id=None, sort_by="-id", limit=1)
    return replace(call, read=Page.read)


class Passes:
    """Passes over a list until the pages of one pass fit together, at most `PASSES`.

    Iterate it for the `Pagination` of each pass. If the list changed in every pass, or
    does not end, the iteration ends with an `IncompleteWarning`.

    Attributes
    ----------
    number : int
        The number of the current pass, from 1.
    """

    def __init__(self, list_call: ListCall) -> None:
        self.list_call = list_call
        self.number = 0
        self._ids: set[str] = set()

    def __iter__(self) -> Iterator[Pagination]:
        for number in range(1, PASSES + 1):
            self.number = number
            pagination = Pagination(self.list_call)
            yield pagination
            if pagination.consistent:
                return
            if pagination.endless:
                break
        warn_incomplete(self.list_call.call.operation, pagination.problems[0])

    def records(self, page: Page) -> Iterator[Record]:
        """The items of a page that no earlier page or pass had."""
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


__all__ = ["PASSES", "Pagination", "Passes", "newest_call", "warn_incomplete"]
