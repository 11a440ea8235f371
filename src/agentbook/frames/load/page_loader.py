"""Loads lists: which pages to request next, and how to process those that arrive.

`PageLoader` does no I/O: see `drivers`. `Listing.to_pandas`, `load_events` and
`Store.sync` all load through it.
"""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from ...api.calls import Call
from ...api.errors import AgentbookError, InvalidInput, NotFound
from ...api.event_ids import is_persisted, milliseconds_of
from ...api.json import UNREADABLE
from ...api.page import Page
from ...api.pagination import newest_call
from ..parse.frame import JOINED_ROWS, FrameBuilder
from ..parse.parsed_page import ParsedPage, keep_rows
from .arrivals import Arrival, Fetched, PageRequest, SmallPages
from .concurrency import MAX_CONCURRENCY, ConcurrencyLimit
from .id_ranges import IdRange, ListLoad
from .splitting import cut_off_part, is_worth_splitting

_AHEAD_BYTES = 8_000_000  # total size of pages that may arrive while others are parsed


class PageLoader:
    """One load of many lists.

    The pages of a list are requested one after another by id, or by offset. If it is
    worth making more requests than there are lists to start, the longest range is split
    by time.

    Parameters
    ----------
    loads : iterable of ListLoad
        The lists to load. Lists that have ranges continue; the others start.
    parser : FrameBuilder
        Parses the pages.
    on_complete : callable
        Called with a `ListLoad` once all of it has arrived.
    on_rows : callable
        Called with the number of rows in a page, and the list's total or None.
    on_part : callable
        Called with an unfinished `ListLoad` each time `part_rows` more of its rows have
        arrived. It may take the rows before the first gap (`ListLoad.pop_pieces`).
    is_unchanged : callable, optional
        Called for a list whose only page has arrived, with a function that returns its
        ids. If this returns True, the page is not parsed and the list is complete.
    join : bool
        Whether the pages of a range are joined as they arrive, for a frame.
    concurrency : int
        Maximum number of requests in flight; the actual number adapts to the latency.
        The default allows one more, for a list's newest item.

    Attributes
    ----------
    requests : int
        Number of requests that have been answered.
    under_way : int
        Number of requests in flight.
    """

    def __init__(
        self,
        loads: Iterable[ListLoad],
        parser: FrameBuilder,
        on_complete: Callable[[ListLoad], None],
        on_rows: Callable[[int, int | None], None] = lambda rows, total: None,
        *,
        on_part: Callable[[ListLoad], None] = lambda load: None,
        is_unchanged: Callable[[ListLoad, Callable[[], list[str | None]]], bool] | None = None,
        part_rows: int = 250_000,
        join: bool = True,
        concurrency: int = MAX_CONCURRENCY,
    ) -> None:
        self._parser = parser
        self._on_complete = on_complete
        self._on_rows = on_rows
        self._on_part = on_part
        self._is_unchanged = is_unchanged
        self._part_rows = part_rows
        self._join = join
        self.concurrency = concurrency
        self._limit = ConcurrencyLimit(concurrency)
        self._queue: deque[ListLoad] = deque()  # lists not yet started
        self._ranges: list[IdRange] = []  # unfinished ranges
        self._ready: deque[IdRange] = deque()  # ranges that may have a page to request
        self._small = SmallPages()
        self._bytes = 0  # total size of all pages received
        self._to_join: dict[IdRange, None] = {}  # ranges that have received pages
        self._parts: list[ListLoad] = []  # lists to report
        self._completed: list[ListLoad] = []
        self._newest = 0  # requests for a list's newest item under way
        self._announced = 0  # requests under way whose outcome has arrived
        self.requests = 0
        self.under_way = 0
        loads = list(loads)
        for load in loads:
            load.resume()
            self._ranges += [id_range for id_range in load.ranges if not id_range.done]
            if not load.ranges:
                self._queue.append(load)
        self._ready.extend(self._ranges)
        for load in loads:
            if load.ranges and all(id_range.done for id_range in load.ranges):
                self._finish(load)

    @property
    def finished(self) -> bool:
        """Whether every list is complete or has failed."""
        return not (self._queue or self._ranges or self._completed or self.under_way)

    @property
    def target(self) -> int:
        """The number of requests that are worth having in flight."""
        return self._limit.target + self._beside

    @property
    def _sent(self) -> int:
        """Requests under way, as far as they stand in the way of others.

        Those that were answered do not, up to as many as are worth having under way:
        otherwise pages would pile up where parsing takes longer than the network.
        """
        return self.under_way - min(self._announced, self._limit.target) - self._beside

    @property
    def _beside(self) -> int:
        """1 while a newest item is asked for beside the pages, 0 otherwise.

        In place of a page, it would delay a range by a round trip. A caller's own limit
        is kept all the same.
        """
        return min(self._newest, 1) if self.concurrency == MAX_CONCURRENCY else 0

    # -- what to request --------------------------------------------------------------

    def next_requests(self, *, ahead: bool = False) -> list[PageRequest]:
        """The requests to make now.

        With `ahead`, they include some of the next ones, for a caller that makes
        `target` of them at once and each of the others as soon as one is answered.
        """
        requests: list[PageRequest] = []
        target = self._limit.target
        waiting = _AHEAD_BYTES * self.requests // max(self._bytes, 1) if ahead and target > 1 else 0
        while (sent := self._sent) < target + waiting:
            request = self._next_request() if sent < target else self._next_ahead()
            if request is None:
                break
            self.under_way += 1
            if request.call.read == Page.read:  # the ids are not needed
                request.call = replace(request.call, read=Page.read_envelope)
            requests.append(request)
        if not self.under_way:
            self.parse_small()
        self._report()
        return requests

    def _next_request(self) -> PageRequest | None:
        return self._next_page() or self._next_newest() or self._next_part()

    def _next_ahead(self) -> PageRequest | None:
        """A request that will certainly be needed.

        If a page by offset comes short, the pages after it are requested again, so no
        more of these requests wait than are in flight.
        """
        by_offset = self._ready and not self._ready[0].load.list_call.keyset
        return None if by_offset and self.under_way >= 2 * self._limit.target else self._next_page()

    def _next_page(self) -> PageRequest | None:
        """The next page of a range, or else of a new list."""
        while self._ready:
            id_range = self._ready[0]
            if id_range in self._ranges and (page := id_range.next_call()) is not None:
                return PageRequest(page[1], id_range.load, id_range, page[0])
            self._ready.popleft()
        return self._start(self._queue.popleft()) if self._queue else None

    def _next_part(self) -> PageRequest | None:
        """The first page of a range that is cut off from the longest range."""
        part = cut_off_part(self._ranges, self._limit.target - self._sent)
        if part is None or (page := part.next_call()) is None:
            return None
        self._ranges.append(part)
        return PageRequest(page[1], part.load, part, page[0])

    def _start(self, load: ListLoad) -> PageRequest | None:
        """The first request of a list; its first page may have been fetched before."""
        id_range = load.open()
        self._ranges.append(id_range)
        number, call = id_range.next_call() or _never()
        request = PageRequest(call, load, id_range, number)
        if load.first_page is None:
            return request
        page, load.first_page = load.first_page, None
        self._arrive(id_range, Fetched(request, page, 0.0, 0.0))
        return self._next_page()

    def _next_newest(self) -> PageRequest | None:
        """The newest item of a list that could be split, to find out where it ends."""
        for load in [id_range.load for id_range in self._ranges]:
            if is_worth_splitting(load) and not load.newest_requested:
                load.newest_requested = True
                self._newest += 1
                return PageRequest(newest_call(load.list_call), load)
        return None

    # -- what arrived -----------------------------------------------------------------

    def announce(self, fetched: Fetched) -> None:
        """Note the outcome of a request that `receive` will process.

        The next page can then be requested before this one is parsed.
        """
        fetched.announced = True
        self._announced += 1
        id_range, page = fetched.request.id_range, fetched.outcome
        if id_range in self._ranges and isinstance(page, Page) and id_range.pagination.expect(page):
            self._ready.append(id_range)

    def receive(self, fetched: Fetched) -> None:
        """Process the outcome of a request."""
        self.under_way -= 1
        self._announced -= fetched.announced
        self.requests += 1
        request = fetched.request
        if isinstance(fetched.outcome, Page):
            self._bytes += len(fetched.outcome.body)
        if request.id_range is None:
            self._note_newest(request.load, fetched.outcome)
        elif request.id_range in self._ranges:  # otherwise its list has failed or restarted
            self._arrive(request.id_range, fetched)
        self._report()

    def _note_newest(self, load: ListLoad, outcome: Page | AgentbookError) -> None:
        self._newest -= 1
        newest = None if isinstance(outcome, AgentbookError) else next(reversed(_ids(outcome)), None)
        # Without a cursor's id, no range is split any more.
        load.newest_ms = milliseconds_of(newest) if newest is not None and is_persisted(newest) else None

    def _arrive(self, id_range: IdRange, fetched: Fetched) -> None:
        page, load = fetched.outcome, id_range.load
        if isinstance(page, AgentbookError):
            self._accept(id_range, fetched.request.number, page)
            return
        only_page = not load.pages and page.has_more is False and id_range.pagination.end is None
        if only_page and self._is_unchanged is not None and self._is_unchanged(load, functools.partial(_ids, page)):
            self._limit.record(fetched.wait_s, fetched.cost_s)
            self._ranges.remove(id_range)
            self._completed.append(load)
            return
        arrival = Arrival(id_range, fetched, page)
        # No request depends on the contents of these pages.
        independent = only_page or (load.pages and not load.list_call.keyset)
        if independent and self._small.add(arrival):
            if self._small.are_enough(self._limit.target):
                self.parse_small()
            return
        busy = time.thread_time()
        self._accept(id_range, arrival.number, (page, arrival.parse(self._parser)))
        self._record(fetched, time.thread_time() - busy)

    def parse_small(self) -> None:
        """Parse the small pages that have arrived."""
        busy = time.thread_time()
        parsed = self._small.parse(self._parser)
        for arrival, piece in parsed:
            if arrival.id_range.load.error is None:
                self._accept(arrival.id_range, arrival.number, (arrival.page, piece))
        parse_s = (time.thread_time() - busy) / max(len(parsed), 1)
        for arrival, _ in parsed:
            self._record(arrival.fetched, parse_s)
        self._report()

    def catch_up(self) -> bool:
        """Do some work for which no request waits; return whether there was any.

        Call this when waiting for the network anyway.
        """
        if self._small:
            self.parse_small()
            return True
        while self._to_join:
            id_range, _ = self._to_join.popitem()
            if self._join_pages(id_range, JOINED_ROWS // 2):
                return True
        return False

    def _join_pages(self, id_range: IdRange, rows: int) -> bool:
        """Join the latest pages of a range, if they have `rows` rows or are the end."""
        return self._parser.join_latest(id_range.pieces, 1 if id_range.done and id_range.split else rows)

    def _record(self, fetched: Fetched, parse_s: float) -> None:
        if fetched.wait_s or fetched.cost_s:  # not for a page that was already here
            self._limit.record(fetched.wait_s, fetched.cost_s + parse_s)

    def _accept(self, id_range: IdRange, number: int, outcome: tuple[Page, ParsedPage] | AgentbookError) -> None:
        """Add the pages of a range whose turn has come."""
        try:
            for arrived in id_range.in_order(number, outcome):
                if not isinstance(arrived, AgentbookError):
                    self._add(id_range, *arrived)
                elif not id_range.pagination.skip_failed():
                    raise arrived
            if not id_range.done and id_range not in self._ready:
                self._ready.append(id_range)
        except AgentbookError as error:
            self._fail(id_range, error)

    def _add(self, id_range: IdRange, page: Page, piece: ParsedPage) -> None:
        load, pagination = id_range.load, id_range.pagination
        if not piece.readable:
            raise _error(load, f"a page could not be read: {piece.problems[0].problem}")
        keep = pagination.add(page, piece.batch["id"].to_pylist() if piece.rows else [])
        if load.strict and not pagination.consistent:
            raise _error(load, pagination.problems[0])
        piece = keep_rows(piece, keep)
        id_range.pieces.append(piece)
        if self._join:
            self._to_join[id_range] = None
            self._join_pages(id_range, JOINED_ROWS)
        if id_range.total is None:
            id_range.total = page.total_count
        id_range.rows += piece.rows
        load.rows += piece.rows
        load.pages += 1
        load.page_rows = max(load.page_rows, piece.rows)
        if load.pages == 1:
            # Some platforms report the size of the page as the total.
            load.total = None if page.contradicts_total(piece.rows) else page.total_count
            if not id_range.done:
                load.estimate_newest(id_range)
        if id_range.done:
            self._ranges.remove(id_range)
            if all(each.done for each in load.ranges):
                self._finish(load)
        elif load.rows // self._part_rows > (load.rows - piece.rows) // self._part_rows:
            self._parts.append(load)
        self._on_rows(piece.rows, page.total_count)

    def _finish(self, load: ListLoad) -> None:
        """Complete a list whose ranges are all done, unless one was reopened."""
        reopened = load.reopen()
        self._ranges += reopened
        self._ready += reopened
        if not reopened:
            self._completed.append(load)

    def _fail(self, id_range: IdRange, error: AgentbookError) -> None:
        load = id_range.load
        self._ranges = [each for each in self._ranges if each.load is not load]
        if id_range.split and not id_range.pieces and isinstance(error, (InvalidInput, NotFound)):
            # This platform only accepts the ids of events as cursors.
            load.restart(splittable=False)
            self._queue.appendleft(load)
        else:
            load.error = error

    def _report(self) -> None:
        # Done outside the code that catches a list's errors: the caller's are not its.
        while self._parts:
            self._on_part(self._parts.pop(0))
        while self._completed:
            load = self._completed.pop(0)
            load.complete = True
            self._on_complete(load)


def _ids(page: Page) -> list[str | None]:
    """The ids of a page; empty if it cannot be read, which parsing reports."""
    try:
        return page.ids
    except UNREADABLE:
        return []


def _error(load: ListLoad, reason: str) -> AgentbookError:
    operation = load.list_call.call.operation
    name = "" if load.session_id is None else f"session {load.session_id}: "
    return AgentbookError(f"{operation}: {name}{reason}.", operation=operation)


def _never() -> tuple[int, Call[Page]]:
    raise AssertionError("a new range has a first page")


__all__ = ["PageLoader"]
