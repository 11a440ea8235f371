"""From a listing to a frame: what `Listing.to_pandas` does.

Pages become Arrow columns as they arrive, so an interrupted or failed load still has what came: it raises `PartialLoad` with that
frame and a way to go on. A list that changed while it was read is read again, and only a pass that fits together counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ...api.errors import AgentbookError, PartialLoad
from ...api.pagination import PASSES, Page, Pagination, warn_incomplete
from ..parse.frame import FrameBuilder
from ..parse.page_checks import check_session_ids
from .interrupts import shielded
from .progress import Progress

if TYPE_CHECKING:
    import pandas as pd


class _Load:
    """A load that can stop and go on: one pass, and the rows it has so far."""

    def __init__(self, listing: Any, progress: bool | None, reveal: bool) -> None:
        self.listing = listing
        self.progress = progress
        self.reveal = reveal
        self._before = listing.requests
        self._session = listing.list_call.context.get("session_id") if listing.list_call.resource == "events" else None
        self.passes = 0
        self.again()

    def again(self) -> None:
        """Begin another pass."""
        if self.passes:
            self.listing.forget()  # the page that len() and iteration share is out of date too
        self.passes += 1
        self.walk: Pagination = self.listing.walk()
        self.builder = FrameBuilder(self.listing.list_call.resource, self.listing.list_call.context, reveal=self.reveal)

    def take(self, page: Page, bar: Progress) -> None:
        """Take in a page of this pass."""
        with shielded():
            piece = self.builder.parse(page.body)
            if self._session is not None and piece.rows:
                check_session_ids(self._session, piece)
            self.builder.append(piece)
        bar.add(piece.rows, page.total_count)

    def go_on(self) -> None:
        """Make ready to resume. An interrupt may have struck while the walk took in a page, or before its rows were kept:
        then they do not count the same, and the pass begins anew.
        """
        asked = self.walk._covered - self.walk.listing.offset
        if not asked == self.walk.items == self.builder.rows:
            self.passes -= 1
            self.again()

    @property
    def settled(self) -> bool:
        """Whether the pass fits together, or was the last one there is."""
        return self.walk.consistent or self.passes >= PASSES

    def frame(self, *, complete: bool = True) -> pd.DataFrame:
        return self.builder.finish(
            {
                "operation": self.listing.list_call.call.operation,
                "parameters": self.listing.parameters,
                "loaded_at": datetime.now(UTC).isoformat(timespec="seconds"),
                # The first page is shared with len() and iteration, so it may have been fetched before.
                "requests": max(self.listing.requests - self._before, 1),
                "complete": complete and self.walk.consistent,
            }
        )

    def finished(self) -> pd.DataFrame:
        if not self.walk.consistent:
            warn_incomplete(self.walk)
        return self.frame()

    @contextmanager
    def kept(self, resume: Callable[[], Any]) -> Iterator[None]:
        """Turn a failure or an interrupt after the first page into a `PartialLoad`; before it, nothing is lost."""
        try:
            yield
        except (AgentbookError, KeyboardInterrupt) as stopped:
            if not self.builder.rows:
                raise
            operation = self.listing.list_call.call.operation
            reason = "interrupted" if isinstance(stopped, KeyboardInterrupt) else str(stopped)
            raise PartialLoad(
                f"{operation}: stopped after {self.builder.rows:,} rows ({reason}). error.partial_frame has them; "
                "error.resume() reads what is missing.",
                operation=operation,
                partial_frame=self.frame(complete=False),
                problems={operation: reason},
                _resume=resume,
            ) from stopped


def load_listing(listing: Any, progress: bool | None = None, *, reveal: bool = False) -> pd.DataFrame:
    """All items of a listing as a DataFrame; see `agentbook.listing.Listing.to_pandas`."""
    return _run(_Load(listing, progress, reveal))


def _run(load: _Load) -> pd.DataFrame:
    with load.kept(resume=lambda: _run(load)), Progress(load.progress) as bar:
        load.go_on()
        while True:
            for page in load.listing.pages(load.walk):
                load.take(page, bar)
            if load.settled:
                return load.finished()
            load.again()


async def load_listing_async(listing: Any, progress: bool | None = None, *, reveal: bool = False) -> pd.DataFrame:
    """The same for `AsyncListing`; ``await`` what the `PartialLoad`'s `resume()` gives."""
    return await _run_async(_Load(listing, progress, reveal))


async def _run_async(load: _Load) -> pd.DataFrame:
    with load.kept(resume=lambda: _run_async(load)), Progress(load.progress) as bar:
        load.go_on()
        while True:
            async for page in load.listing.pages(load.walk):
                load.take(page, bar)
            if load.settled:
                return load.finished()
            load.again()
