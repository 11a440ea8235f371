"""Requests for pages, their outcomes, and small pages that wait to be parsed."""

from __future__ import annotations

from dataclasses import dataclass

from ...api.calls import Call
from ...api.errors import AgentbookError
from ...api.page import Page
from ..parse.frame import FrameBuilder
from ..parse.page_checks import all_in_order, check_page, check_session_ids
from ..parse.parsed_page import ParsedPage
from .id_ranges import IdRange, ListLoad

_SMALL_BYTES = 100_000  # pages up to this size are parsed together with others
_BATCH_BYTES = 400_000  # total size of small pages parsed at once: that of 1,000 events


@dataclass(slots=True)
class PageRequest:
    """A page to request: of a range or, without a range, a list's newest item."""

    call: Call[Page]
    load: ListLoad
    id_range: IdRange | None = None
    number: int = 0


@dataclass(slots=True)
class Fetched:
    """The outcome of a request, and how long it took."""

    request: PageRequest
    outcome: Page | AgentbookError
    wait_s: float
    cost_s: float
    announced: bool = False


@dataclass(slots=True)
class Arrival:
    """A page of a range that has arrived."""

    id_range: IdRange
    fetched: Fetched
    page: Page

    @property
    def number(self) -> int:
        """Its number among the pages of the range."""
        return self.fetched.request.number

    def parse(self, parser: FrameBuilder) -> ParsedPage:
        """Parse it on its own."""
        load = self.id_range.load
        piece = parser.parse(self.page.body, load.list_call.context)
        _check(load, piece)
        return piece


class SmallPages:
    """Small pages that have arrived, to be parsed together.

    The first is parsed alone, because its cost decides how many requests to make.
    """

    def __init__(self) -> None:
        self._arrivals: list[Arrival] = []
        self._bytes = 0
        self._count = 1  # how many are enough where pages arrive one by one

    def __len__(self) -> int:
        return len(self._arrivals)

    def add(self, arrival: Arrival) -> bool:
        """Add a page; False if it is too large."""
        size = len(arrival.page.body)
        if size > _SMALL_BYTES:
            return False
        self._arrivals.append(arrival)
        self._bytes += size
        return True

    def are_enough(self, concurrency: int) -> bool:
        """Whether to parse them now, with this number of requests in flight."""
        return self._bytes >= _BATCH_BYTES or (concurrency == 1 and len(self) >= self._count)

    def parse(self, parser: FrameBuilder) -> list[tuple[Arrival, ParsedPage]]:
        """Parse and remove all of them."""
        arrivals, self._arrivals, self._bytes = self._arrivals, [], 0
        if not arrivals:
            return []
        self._count *= 2
        loads = [arrival.id_range.load for arrival in arrivals]
        pieces = parser.parse_together(
            [arrival.page.body for arrival in arrivals], [load.list_call.context for load in loads]
        )
        if loads[0].session_id is None or not all_in_order(pieces):
            for load, piece in zip(loads, pieces, strict=True):
                _check(load, piece)
        return list(zip(arrivals, pieces, strict=True))


def _check(load: ListLoad, piece: ParsedPage) -> None:
    """Note events that do not belong to the session, and ids out of order."""
    if load.session_id is not None:
        (check_page if load.list_call.keyset else check_session_ids)(load.session_id, piece)


__all__ = ["Arrival", "Fetched", "PageRequest", "SmallPages"]
