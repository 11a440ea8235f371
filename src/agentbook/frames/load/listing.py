"""From one list to a frame: what `Listing.to_pandas` does.

Pages become Arrow columns as they arrive, so an interrupted or failed load keeps what
it has: it raises `PartialLoad` with that frame and a way to resume.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...api.calls import ListCall
from ...api.errors import AgentbookError, PartialLoad
from ...api.page import Page
from ...api.pagination import warn_incomplete
from ..parse.frame import FrameBuilder
from .loader import AsyncRun, ListLoad, Loader, Run, append, fetch_pages, fetch_pages_async, loaded_at, shielded
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
    """

    def __init__(
        self,
        list_call: ListCall,
        parameters: Mapping[str, Any],
        first_page: Page | None,
        progress: bool | None,
        reveal: bool,
    ) -> None:
        self._parameters = parameters
        self._progress = progress
        self._builder = FrameBuilder(list_call.resource, list_call.context, reveal=reveal)
        self._load = ListLoad(list_call.call.operation, list_call, strict=False, first_page=first_page)
        self._requests = 0

    @property
    def first_page(self) -> Page | None:
        """The first page of the latest pass."""
        return self._load.first_page

    def run(self, run: Run) -> pd.DataFrame:
        """Load what is missing; `run` runs the call of a page."""
        with self._loading(lambda: self.run(run)) as loader:
            fetch_pages(loader, run)
        return self._finish()

    async def run_async(self, run: AsyncRun) -> pd.DataFrame:
        """As `run`, awaited; so is the `resume()` of its `PartialLoad`."""
        with self._loading(lambda: self.run_async(run)) as loader:
            await fetch_pages_async(loader, run)
        return self._finish()

    @contextmanager
    def _loading(self, resume: Callable[[], Any]) -> Iterator[Loader]:
        """Turn a failure or an interrupt into a `PartialLoad`, if rows have arrived."""
        load = self._load
        try:
            with Progress(self._progress) as bar:
                loader = Loader([load], self._builder, on_rows=bar.add)
                try:
                    yield loader
                finally:
                    self._requests += loader.requests
            if load.error is not None:
                raise load.error
        except (AgentbookError, KeyboardInterrupt) as stopped:
            if not load.pages:
                load.first_page = None  # nothing is known about the list
            if not load.rows:
                raise
            reason = "interrupted" if isinstance(stopped, KeyboardInterrupt) else str(stopped)
            raise PartialLoad(
                f"{load.key}: stopped after {load.rows:,} rows ({reason}). error.partial_frame has them; "
                "error.resume() reads what is missing.",
                operation=load.key,
                partial_frame=self._frame(self._builder.copy(), complete=False),
                problems={load.key: reason},
                _resume=resume,
            ) from stopped

    def _finish(self) -> pd.DataFrame:
        if self._load.problems:
            warn_incomplete(self._load.key, self._load.problems[0])
        with shielded():
            return self._frame(self._builder, complete=not self._load.problems)

    def _frame(self, builder: FrameBuilder, *, complete: bool) -> pd.DataFrame:
        append(builder, self._load.pop_pieces() if complete else list(self._load.pieces))
        return builder.finish(
            {
                "operation": self._load.key,
                "parameters": self._parameters,
                "loaded_at": loaded_at(),
                # The first page is shared with len() and iteration, so it may have been
                # fetched before.
                "requests": max(self._requests, 1),
                "complete": complete,
            }
        )


__all__ = ["ListingLoad"]
