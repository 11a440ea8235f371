"""Loads with several steps, and loads of many lists at the same time.

A load whose later requests depend on earlier ones is a generator: it yields one
`PageLoader` after another and returns its result. `drive` runs it with threads,
`drive_async` on an event loop; the load itself does no I/O.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from ...api.calls import Call, ListCall
from ...api.errors import AgentbookError
from ...api.page import Page
from ...api.pagination import PASSES
from ..parse.frame import FrameBuilder
from .concurrency import MAX_CONCURRENCY
from .drivers import Run, fetch_pages, fetch_pages_async
from .id_ranges import ListLoad
from .page_loader import PageLoader
from .progress import Progress

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
Steps = Generator[PageLoader, None, T]


def drive(steps: Steps[T], run: Run) -> T:
    """Run a load of several steps with threads; returns its result."""
    try:
        loader = next(steps)
        while True:
            try:
                fetch_pages(loader, run)
            except BaseException as stopped:  # an interrupt too: the load keeps what has arrived
                loader = steps.throw(stopped)
            else:
                loader = next(steps)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def drive_async(steps: Steps[T], run: Callable[[Call[Page]], Awaitable[Page]]) -> T:
    """As `drive`, on the running event loop."""
    try:
        loader = next(steps)
        while True:
            try:
                await fetch_pages_async(loader, run)
            except BaseException as stopped:
                loader = steps.throw(stopped)
            else:
                loader = next(steps)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


class ListsLoad:
    """A load of many lists of one resource that can stop and resume.

    A list that changes while being read is read again, up to `PASSES` times in all.

    Parameters
    ----------
    resource : str
    calls : mapping of str to ListCall
        The lists, each by a key.
    concurrency : int
        As for `load_events`.

    Attributes
    ----------
    requests : int
        Requests that were answered.
    started_at : float or None
        When the first request was made, in seconds since 1970 by this machine's clock.
    """

    def __init__(self, resource: str, calls: Mapping[str, ListCall], concurrency: int = MAX_CONCURRENCY) -> None:
        self.requests = 0
        self.started_at: float | None = None
        self._resource = resource
        self._concurrency = concurrency
        self._loads = {key: ListLoad(key, call, strict=False) for key, call in calls.items()}
        self._passes = dict.fromkeys(self._loads, 1)

    def steps(self, bar: Progress, tolerate: tuple[type[AgentbookError], ...] = ()) -> Steps[None]:
        """Load what is missing.

        Raises the first error that is not in `tolerate`; `error_of` returns the others.
        """
        while remaining := [load for load in self._loads.values() if not self._is_done(load, tolerate)]:
            self.started_at = self.started_at or time.time()
            loader = PageLoader(
                remaining, FrameBuilder(self._resource), lambda load: None, lambda rows, total: bar.add(rows),
                concurrency=self._concurrency,
            )  # fmt: skip
            try:
                yield loader
            finally:
                self.requests += loader.requests
            for load in remaining:
                if load.error is not None and not isinstance(load.error, tolerate):
                    raise load.error

    def _is_done(self, load: ListLoad, tolerate: tuple[type[AgentbookError], ...]) -> bool:
        if load.error is not None:
            return isinstance(load.error, tolerate)
        if not load.complete:
            return False
        if load.problems and not load.endless and self._passes[load.key] < PASSES:
            self._passes[load.key] += 1
            load.restart()
            return False
        return True

    def error_of(self, key: str) -> AgentbookError | None:
        """Why a list could not be read; None if it could."""
        return self._loads[key].error

    def problem_of(self, key: str) -> str | None:
        """Why a list may lack items after all passes; None if it is whole."""
        return next(iter(self._loads[key].problems), None)

    def total_of(self, key: str) -> int | None:
        """The number of items that a list's first page reports; None if it does not."""
        return self._loads[key].total

    @property
    def rows(self) -> int:
        """Items that have arrived."""
        return sum(load.rows for load in self._loads.values())

    def frame(self, keys: Iterable[str] | None = None) -> pd.DataFrame:
        """The rows that have arrived from these lists, in order; default all lists."""
        builder = FrameBuilder(self._resource)
        loads = [self._loads[key] for key in (self._loads if keys is None else keys)]
        for load in loads:
            builder.extend(load.pieces())
        provenance: dict[str, Any] = {
            "operation": loads[0].list_call.call.operation if loads else None,
            "loaded_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "requests": self.requests,
            "complete": all(load.complete and not load.problems for load in loads),
        }
        return builder.finish(provenance)


__all__ = ["ListsLoad", "Steps", "drive", "drive_async"]
