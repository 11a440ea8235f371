"""A list while it is loading: its ranges, and the parsed pages that have arrived.

A list paged by id can be read in several ranges at once. A UUIDv7 contains a time, so
an id made from the midpoint in time between two ids is a valid cursor too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ...api.calls import Call, ListCall
from ...api.errors import AgentbookError
from ...api.event_ids import is_persisted, milliseconds_of
from ...api.page import Page
from ...api.pagination import Pagination
from ..parse.parsed_page import ParsedPage

Outcome = tuple[Page, ParsedPage] | AgentbookError
_MAX_MS = (1 << 48) - 1  # the greatest time that an id can hold


class IdRange:
    """A range of a list's items, read page by page.

    A list paged by offset is one range.

    Attributes
    ----------
    load : ListLoad
    pagination : Pagination
        Its `cursor` is the id up to which the range has been read.
    split : bool
        Whether it starts at a made-up id.
    start : str
        The id after which it starts; empty at the beginning of the list.
    pieces : list of ParsedPage
        The pieces that have arrived, in order.
    rows : int
        How many rows have arrived.
    total : int or None
        The total according to its first page; usually the number of items after
        `start`.
    reopened : bool
        Whether it follows a range in which the list had ended; see `ListLoad.reopen`.
    """

    def __init__(self, load: ListLoad, pagination: Pagination, *, split: bool = False) -> None:
        self.load = load
        self.pagination = pagination
        self.split = split
        self.start = pagination.cursor or ""
        self.pieces: list[ParsedPage] = []
        self.rows = 0
        self.total: int | None = None
        self.reopened = False
        self._early: dict[int, Outcome] = {}  # outcomes that arrived before their turn
        self._requested = self._arrived = 0

    @property
    def done(self) -> bool:
        """Whether the whole range has been read."""
        return self.pagination.done

    def next_call(self) -> tuple[int, Call[Page]] | None:
        """The next page's number and call; None if none can be requested now."""
        call = self.pagination.next_call()
        if call is None:
            return None
        self._requested += 1
        return self._requested - 1, call

    def in_order(self, number: int, outcome: Outcome) -> Iterator[Outcome]:
        """The outcomes whose turn has come, now that this one has arrived."""
        self._early[number] = outcome
        while not self.done and self._arrived in self._early:
            self._arrived += 1
            yield self._early.pop(self._arrived - 1)

    def resume(self) -> None:
        """Forget the calls in flight, so that they are made again."""
        self._early.clear()
        self._requested = self._arrived = 0
        self.pagination.resume()

    def span_ms(self) -> int:
        """Milliseconds between the next page and the end of the range."""
        cursor, end = self.pagination.position, self.pagination.end
        if cursor is None or not is_persisted(cursor):
            return 0
        return max((milliseconds_of(end) if end else self.load.newest_ms or 0) - milliseconds_of(cursor), 0)

    def cut_off(self, share: float) -> IdRange | None:
        """Cut off the last `share` of the time as a new range; None if too short."""
        cursor, span_ms = self.pagination.position, self.span_ms()
        if cursor is None or span_ms < 2:
            return None
        length_ms = min(max(int(share * span_ms), 1), span_ms - 1)
        start = _last_id_of(milliseconds_of(cursor) + span_ms - length_ms)
        later = IdRange(self.load, self.pagination.split(start), split=True)
        self.load.ranges.append(later)
        return later


@dataclass(slots=True, eq=False)
class ListLoad:
    """One list while it is loading: its ranges, and what has arrived of it.

    Attributes
    ----------
    key : str
        Identifies the list among those loaded together, such as a session id.
    list_call : ListCall
    strict : bool
        True, for lists paged by id, makes a page that does not fit an error; repeated
        items are kept and reported. False drops them and lists them in `problems`.
    splittable : bool
        Whether its ranges may be split.
    first_page : Page or None
        The first page, if it was fetched before.
    ranges : list of IdRange
    rows, pages, page_rows : int
        The rows and pages that have arrived, and the rows of the largest page.
    total : int or None
        Rows of the whole list, according to its first page.
    newest_ms : int or None
        The millisecond of its newest id; an estimate until the item has been requested.
    error : AgentbookError or None
        Why it could not be read.
    complete : bool
        Whether all of it has arrived.
    """

    key: str
    list_call: ListCall
    strict: bool = True
    splittable: bool = True
    first_page: Page | None = None
    ranges: list[IdRange] = field(default_factory=list)
    rows: int = 0
    pages: int = 0
    page_rows: int = 0
    total: int | None = None
    newest_ms: int | None = None
    newest_requested: bool = False
    error: AgentbookError | None = None
    complete: bool = False

    def __post_init__(self) -> None:
        self.splittable = self.splittable and self.list_call.keyset and self.list_call.limit is None

    @property
    def session_id(self) -> str | None:
        """The session whose events these are; None for other lists."""
        return self.list_call.context.get("session_id") if self.list_call.resource == "events" else None

    def estimate_newest(self, id_range: IdRange) -> None:
        """Estimate when the list ends, from its first page and its total.

        So it can be split at once, without waiting for the newest item.
        """
        if not self.rows or self.total is None or not self.splittable:
            return
        ids = id_range.pieces[0].batch["id"]
        first, last = ids[0].as_py(), ids[-1].as_py()
        if is_persisted(first) and is_persisted(last):
            begin, end = milliseconds_of(first), milliseconds_of(last)
            newest_ms = end + (end - begin) * max(self.total - self.rows, 0) // max(self.rows - 1, 1)
            self.newest_ms = min(newest_ms, _MAX_MS)

    def rows_to_come(self) -> dict[IdRange, float]:
        """How many rows each range probably still has; empty if none can be split.

        The totals of two ranges say how many rows there are between their starts.
        Between known totals, rows are assumed to be spread evenly over time.
        """
        if self.newest_ms is None or not self.splittable:
            return {}
        ranges = self.ordered_ranges
        if self.total is None or self.total <= self.page_rows:
            # No total, or only the page's: as if each millisecond had a row.
            return {id_range: float(id_range.span_ms()) for id_range in ranges if not id_range.done}
        first_total = self.total - self.rows + sum(id_range.rows for id_range in ranges)
        # A total that is not smaller than the list's does not depend on the cursor.
        starts = {n: each.total for n, each in enumerate(ranges) if each.total is not None and each.total < self.total}
        starts = {0: first_total, **starts, len(ranges): 0}
        rows: dict[IdRange, float] = {}
        for (start, total), (end, total_after) in itertools.pairwise(starts.items()):
            group = ranges[start:end]
            remaining = max(total - total_after - sum(id_range.rows for id_range in group), 0)
            spans = {id_range: id_range.span_ms() for id_range in group if not id_range.done}
            span_ms = max(sum(spans.values()), 1)
            rows |= {id_range: remaining * span / span_ms for id_range, span in spans.items()}
        return rows

    def open(self) -> IdRange:
        """Start to read the list, as one range."""
        self.ranges = [IdRange(self, Pagination(self.list_call, keep_repeats=self.strict))]
        return self.ranges[0]

    def resume(self) -> None:
        """Prepare a stopped list to continue, reading only what is missing."""
        self.error = None
        for id_range in self.ranges:
            if not id_range.done or (self.strict and not id_range.pagination.consistent):
                id_range.resume()

    def reopen(self) -> list[IdRange]:
        """New ranges after those in which the list ended, if later ones have rows.

        Those rows were added in between, and others may have been added before them.
        Each range is followed up once: some platforms end a list too early.
        """
        reopened: list[IdRange] = []
        has_later = False
        for id_range in reversed(self.ordered_ranges):
            pagination = id_range.pagination
            if has_later and pagination.at_list_end and not id_range.reopened:
                reopened.append(IdRange(self, pagination.split(pagination.cursor)))
                reopened[-1].reopened = True
            has_later |= id_range.rows > 0
        self.ranges += reopened
        return reopened

    def restart(self, *, splittable: bool = True) -> None:
        """Forget what has arrived, and read the list again from its beginning."""
        self.ranges, self.rows, self.pages, self.total = [], 0, 0, None
        self.newest_ms, self.newest_requested, self.error, self.complete = None, False, None, False
        self.splittable = self.splittable and splittable

    @property
    def ordered_ranges(self) -> list[IdRange]:
        """The ranges in the order of their ids."""
        return sorted(self.ranges, key=lambda id_range: id_range.start)

    def pieces(self) -> list[ParsedPage]:
        """What has arrived, in order; it may have gaps until the list is complete."""
        return [piece for id_range in self.ordered_ranges for piece in id_range.pieces]

    def pop_pieces(self) -> list[ParsedPage]:
        """Remove and return the pieces before the first gap.

        Unless it is complete, the list then starts after them.
        """
        pieces: list[ParsedPage] = []
        for id_range in self.ordered_ranges:
            pieces += id_range.pieces
            id_range.pieces = []
            if not id_range.done or (id_range.pagination.may_lack_items and not self.complete):
                break
            self.ranges.remove(id_range)
        if self.complete or not self.list_call.keyset:
            return pieces
        last = next((last for piece in reversed(pieces) if (last := _last_id(piece))), None)
        if last is not None:
            self.list_call = replace(self.list_call, call=self.list_call.call.with_query(from_id=last))
        return pieces

    @property
    def loaded_up_to(self) -> str | None:
        """The id up to which everything has arrived; None if nothing or all has."""
        ends = (each.pagination for each in self.ordered_ranges if not each.done or each.pagination.may_lack_items)
        return next((pagination.cursor for pagination in ends), None)

    @property
    def endless(self) -> bool:
        """Whether the platform says that more follows, but gives nothing more."""
        return any(id_range.pagination.endless for id_range in self.ranges)

    @property
    def problems(self) -> list[str]:
        """Why the pages that arrived do not form one list; empty if they do."""
        return [problem for id_range in self.ordered_ranges for problem in id_range.pagination.problems]


def _last_id(piece: ParsedPage) -> str | None:
    """The last id of a piece; None if it has none."""
    ids = piece.batch["id"] if piece.rows else []
    return next((ids[n].as_py() for n in range(len(ids) - 1, -1, -1) if ids[n].is_valid), None)


def _last_id_of(milliseconds: int) -> str:
    """The greatest UUIDv7 of a millisecond.

    All greater ids belong to later milliseconds, so no item falls between two ranges.
    """
    digits = f"{milliseconds:012x}"
    return f"{digits[:8]}-{digits[8:]}-7fff-bfff-ffffffffffff"


__all__ = ["IdRange", "ListLoad", "Outcome"]
