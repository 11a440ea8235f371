"""From one list to a frame: what `Listing.to_pandas` does.

Pages become Arrow columns as they arrive, so an interrupted or failed load keeps what
it has: it raises `PartialLoad` with that frame and a way to resume. A list that changed
while it was read is read again; only a pass whose pages fit together counts as
complete.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ...api.calls import Call, ListCall
from ...api.errors import AgentbookError, PartialLoad
from ...api.page import Page
from ...api.pagination import PASSES, warn_incomplete
from ..parse.frame import FrameBuilder
from ..parse.parsed_page import ParsedPage
from .drivers import fetch_pages, fetch_pages_async, shielded
from .id_ranges import ListLoad
from .page_loader import PageLoader
from .progress import Progress

if TYPE_CHECKING:
    import pandas as pd


class ListingLoad:
    """A load of one list that can stop and resume.

    Parameters
    ----------
    list_call : ListCall
    parameters : mapping
        The request's parameters, for the frame's provenance.
    first_page : Page, optional
        The first page, if it was fetched before.
    progress, reveal : bool
        As for `Listing.to_pandas`.

    Attributes
    ----------
    first_page : Page or None
        The first page of the latest pass.
    """

    def __init__(
        self,
        list_call: ListCall,
        parameters: Mapping[str, Any],
        first_page: Page | None,
        progress: bool | None,
        reveal: bool,
    ) -> None:
        self.first_page = first_page
        self._list_call = list_call
        self._parameters = parameters
        self._progress = progress
        self._reveal = reveal
        self._passes = 0
        self._drift: str | None = None  # why the last pass is not one consistent list
        self._loaders: list[PageLoader] = []
        self._load = ListLoad(list_call.call.operation, list_call, strict=False, first_page=first_page)
        self._start_pass()

    @property
    def requests(self) -> int:
        """Requests that were answered."""
        return sum(loader.requests for loader in self._loaders)

    def _start_pass(self) -> None:
        self._passes += 1
        self._drift = None
        self._builder = FrameBuilder(self._list_call.resource, self._list_call.context, reveal=self._reveal)

    def run(self, run: Callable[[Call[Page]], Page]) -> pd.DataFrame:
        """Load what is missing; `run` runs the call of a page."""

        def fetch(call: Call[Page]) -> Page:
            return self._remember_first(run(call))

        with self._keep_on_failure(lambda: self.run(run)), Progress(self._progress) as bar:
            while not self._finished():
                fetch_pages(self._loader(bar), fetch)
            return self._finish()

    async def run_async(self, run: Callable[[Call[Page]], Awaitable[Page]]) -> pd.DataFrame:
        """As `run`, awaited; so is the `resume()` of its `PartialLoad`."""

        async def fetch(call: Call[Page]) -> Page:
            return self._remember_first(await run(call))

        with self._keep_on_failure(lambda: self.run_async(run)), Progress(self._progress) as bar:
            while not self._finished():
                await fetch_pages_async(self._loader(bar), fetch)
            return self._finish()

    def _loader(self, bar: Progress) -> PageLoader:
        self._loaders.append(PageLoader([self._load], self._builder, lambda load: None, bar.add))
        return self._loaders[-1]

    def _remember_first(self, page: Page) -> Page:
        if self.first_page is None:  # nothing else is requested before it has arrived
            self.first_page = page
        return page

    def _finished(self) -> bool:
        """Whether the load is done; otherwise it is ready for (the rest of) a pass."""
        if self._load.error is not None:
            if not self._load.pages:  # the first page could not be read, so nothing is known about the list
                self.first_page = None
            raise self._load.error
        if not self._load.complete:
            return False
        self._drift = next(iter(self._load.problems), self._drift)
        if self._drift is None or self._passes >= PASSES or self._load.endless:
            return True
        self._load.restart()
        self.first_page = None  # it is out of date too
        self._start_pass()
        return False

    def _finish(self) -> pd.DataFrame:
        if self._drift is not None:
            warn_incomplete(self._load.key, self._drift)
        with shielded():
            return self._frame(self._builder, self._load.pop_pieces(), complete=self._drift is None)

    def _frame(self, builder: FrameBuilder, pieces: list[ParsedPage], *, complete: bool) -> pd.DataFrame:
        builder.extend(pieces)
        return builder.finish(
            {
                "operation": self._load.key,
                "parameters": self._parameters,
                "loaded_at": datetime.now(UTC).isoformat(timespec="seconds"),
                # The first page is shared with len() and iteration, so it may have been
                # fetched before.
                "requests": max(self.requests, 1),
                "complete": complete,
            }
        )

    @contextmanager
    def _keep_on_failure(self, resume: Callable[[], Any]) -> Iterator[None]:
        """Turn a failure or an interrupt into a `PartialLoad`, if rows have arrived."""
        try:
            yield
        except (AgentbookError, KeyboardInterrupt) as stopped:
            self._load.error = None
            if not self._load.rows:
                raise
            operation = self._load.key
            reason = "interrupted" if isinstance(stopped, KeyboardInterrupt) else str(stopped)
            raise PartialLoad(
                f"{operation}: stopped after {self._load.rows:,} rows ({reason}). error.partial_frame has them; "
                "error.resume() reads what is missing.",
                operation=operation,
                partial_frame=self._frame(self._builder.copy(), self._load.pieces(), complete=False),
                problems={operation: reason},
                _resume=resume,
            ) from stopped


__all__ = ["ListingLoad"]
