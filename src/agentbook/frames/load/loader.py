"""Loads lists: which pages to request, what arrived, and how to stop it.

`Listing.to_pandas`, `load_events`, `load_history` and `Store.sync` all load through a
`Loader`.

Python may raise `KeyboardInterrupt` between any two instructions of the main thread,
for example after a page's rows have been stored but before that is recorded. Resuming
from there would repeat the rows. So a load runs in a thread of its own, for which the
caller's thread waits: an interrupt (Ctrl-C) takes effect only between two steps.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future, wait
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self, TypeVar

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ...api.calls import Call, ListCall
from ...api.connection import AsyncRun, Run, fetch
from ...api.errors import AgentbookError, PartialLoad
from ...api.pagination import PASSES, Ids, Page, Pagination, Request, warn_incomplete
from ...api.transport import fulfil, in_thread
from ..parse.frame import FrameBuilder
from ..parse.problems import Problem
from ..parse.reader import PageReader, ParsedPage
from ..parse.schemas import schema_of

MAX_CONCURRENCY = 24  # the transport keeps at most 32 connections
_SLICE_S = 0.2  # length of one wait; Windows cannot interrupt waiting for a lock

T = TypeVar("T")


class ListLoad:
    """One list while it is loading: what has arrived of it, in order.

    A list that changes while being read is read again, up to `PASSES` times in all.

    Parameters
    ----------
    key : str
        Identifies the list among those loaded together, such as a session id.
    list_call : ListCall
    strict : bool
        True makes a list that may lack items an error; otherwise, `problems` says so.
    first_page : Page, optional
        The first page, if it was fetched before.

    Attributes
    ----------
    pieces : list of ParsedPage
        The pages that have arrived.
    rows, pages : int
        The rows and pages that have arrived.
    total : int or None
        Rows of the whole list, according to its first page.
    error : AgentbookError or None
        Why it could not be read.
    complete : bool
        Whether all of it has arrived.
    """

    def __init__(self, key: str, list_call: ListCall, *, strict: bool = True, first_page: Page | None = None) -> None:
        self.key = key
        self.list_call = list_call
        self.strict = strict
        self.first_page = first_page
        self.pieces: list[ParsedPage] = []
        self.rows = self.pages = 0
        self.total: int | None = None
        self.error: AgentbookError | None = None
        self.complete = False
        self._passes = 0
        self._restart()

    def _restart(self) -> None:
        """Read the list from its beginning."""
        self._passes += 1
        self.pieces, self.rows, self.pages = [], 0, 0
        if self._passes > 1:
            self.first_page = None  # it is out of date too
        self.pagination = Pagination(self.list_call)

    def resume(self) -> None:
        """Prepare a stopped list to continue, reading only what is missing."""
        self.error = None
        if not self.complete:
            self.pagination.resume()

    def next_request(self) -> Request | None:
        """The next page to request; None if none can be requested now."""
        return self.pagination.next_request() if self.error is None else None

    def receive(self, reader: PageReader) -> int:
        """Add the outcomes whose turn it is; returns how many rows that were."""
        rows = self.rows
        try:
            while not self.pagination.done and (request := self.pagination.take()) is not None:
                self._add(request, reader)
        except AgentbookError as error:
            self.error = error
            self.pagination.requests.clear()
        return max(self.rows - rows, 0)

    def _add(self, request: Request, reader: PageReader) -> None:
        pagination, page = self.pagination, request.outcome
        if not isinstance(page, Page):
            pagination.add(request)
            return
        piece = reader.read(page.body, self.list_call.context)
        ids = piece.batch["id"].to_pylist() if piece.rows else []
        if piece.rows and self.session_id is not None:
            add_problems(piece, self.session_id, ids, ascending=self.list_call.keyset)
        piece = keep_rows(piece, pagination.add(request, ids))
        if self.pages == 0:
            self.total, self.first_page = page.total_count, pagination.first
        self.pages += 1
        self.rows += piece.rows
        self.pieces.append(piece)
        if not pagination.done:
            return
        if pagination.problems and not pagination.endless and not self.strict and self._passes < PASSES:
            self._restart()
        elif pagination.problems and self.strict:
            raise self._error(pagination.problems[0])

    def _error(self, reason: str) -> AgentbookError:
        operation = self.list_call.call.operation
        name = "" if self.session_id is None else f"session {self.session_id}: "
        return AgentbookError(f"{operation}: {name}{reason}.", operation=operation)

    @property
    def session_id(self) -> str | None:
        """The session whose events these are; None for other lists."""
        return self.list_call.context.get("session_id") if self.list_call.resource == "events" else None

    @property
    def problems(self) -> list[str]:
        """Why the list may lack items; empty if it does not."""
        return self.pagination.problems

    @property
    def loaded_up_to(self) -> str | None:
        """The id up to which all events have arrived; None if nothing or all has."""
        return None if self.complete else self.pagination.cursor

    def pop_pieces(self) -> list[ParsedPage]:
        """Remove and return what has arrived."""
        pieces, self.pieces = self.pieces, []
        return pieces


class Loader:
    """A load of lists of one resource that can stop and resume.

    Parameters
    ----------
    resource : str
    calls : mapping of str to ListCall
        The lists, each by a key.
    concurrency : int
        Maximum number of requests at the same time.
    strict : bool
        As for `ListLoad`.
    reveal : bool
        As for `FrameBuilder`.
    first_page : Page, optional
        The first page of an only list, if it was fetched before.
    on_complete : callable
        Called with a `ListLoad` once all of it has arrived.
    on_part : callable
        Called with an unfinished `ListLoad` each time `part_rows` more of its rows have
        arrived. It may take them (`ListLoad.pop_pieces`).

    Attributes
    ----------
    loads : dict of str to ListLoad
    requests : int
        Requests that were answered.
    """

    def __init__(
        self,
        resource: str,
        calls: Mapping[str, ListCall],
        concurrency: int = MAX_CONCURRENCY,
        *,
        strict: bool = False,
        reveal: bool = False,
        first_page: Page | None = None,
        on_complete: Callable[[ListLoad], None] = lambda load: None,
        on_part: Callable[[ListLoad], None] = lambda load: None,
        part_rows: int = 250_000,
    ) -> None:
        self.requests = 0
        self._concurrency = concurrency
        self._resource, self._reveal = resource, reveal
        self._reader = PageReader(schema_of(resource), reveal=reveal)
        self._on_complete, self._on_part, self._part_rows = on_complete, on_part, part_rows
        self.loads = {key: ListLoad(key, call, strict=strict, first_page=first_page) for key, call in calls.items()}
        self._waiting: deque[ListLoad] = deque()
        self._open: list[ListLoad] = []

    def load(self, run: Run, bar: Progress, tolerate: tuple[type[AgentbookError], ...] = ()) -> None:
        """Load what is missing; `run` runs the call of a page.

        Raises the first error that is not in `tolerate`; the others are in `loads`. One
        thread plans and parses, others wait for the network. An interrupt ends the plan
        between two of its steps.
        """
        loads = [each for each in self.loads.values() if not (each.complete or isinstance(each.error, tolerate))]
        self._waiting, self._open = deque(loads), []
        for load in loads:
            load.resume()
        stopped, planning = Future[None](), Future[None]()
        arriving = fetch(partial(self._next_request, bar), run, self._concurrency, stopped)
        thread = threading.Thread(
            target=fulfil, args=(planning, partial(self._receive, arriving, bar)), name="agentbook-load", daemon=True
        )
        try:
            thread.start()
            while not planning.done():
                wait([planning], _SLICE_S)
        except KeyboardInterrupt:
            stopped.set_result(None)  # after the pages that have arrived, which are kept
            while thread.is_alive():
                thread.join(_SLICE_S)
            raise
        planning.result()
        for load in loads:
            if load.error is not None and not isinstance(load.error, tolerate):
                raise load.error

    def _next_request(self, bar: Progress) -> Request | None:
        while True:
            for load in self._open:
                if (request := load.next_request()) is not None:
                    return request
            if not self._waiting:
                return None
            load = self._waiting.popleft()
            self._open.append(load)
            if load.first_page is not None and load.pages == 0 and (request := load.next_request()) is not None:
                request.outcome = load.first_page
                self._take(load, bar)

    def _receive(self, arriving: Iterable[Request], bar: Progress) -> None:
        for request in arriving:
            self.requests += 1
            for load in [each for each in self._open if each.pagination is request.pagination]:
                self._take(load, bar)

    def _take(self, load: ListLoad, bar: Progress) -> None:
        """Add the pages of a list whose turn it is."""
        rows_before = load.rows
        bar.add(load.receive(self._reader), load.total)
        if load.error is not None or load.pagination.done:
            self._open.remove(load)
        if load.error is None and load.pagination.done:
            load.complete = True
            self._on_complete(load)
        elif load.rows // self._part_rows > rows_before // self._part_rows:
            self._on_part(load)

    @property
    def unfinished(self) -> dict[str, str]:
        """Why lists are not complete, by key."""
        loads = [load for load in self.loads.values() if not load.complete]
        return {load.key: "interrupted" if load.error is None else str(load.error) for load in loads}

    def problem_of(self, key: str) -> str | None:
        """Why a list may lack items after all passes; None if it is whole."""
        return next(iter(self.loads[key].problems), None)

    @property
    def rows(self) -> int:
        """Items that have arrived."""
        return sum(load.rows for load in self.loads.values())

    def frame(self, keys: Iterable[str] | None = None, *, keep: bool = True, **provenance: Any) -> pd.DataFrame:
        """The rows that have arrived from these lists, in order; default all lists.

        Without `keep`, they are in the frame alone, so that no row is held twice.
        """
        builder = FrameBuilder(self._resource, reveal=self._reveal)
        loads = [self.loads[key] for key in (self.loads if keys is None else keys)]
        for load in loads:
            pieces = list(load.pieces) if keep else load.pieces
            while pieces:
                builder.append(pieces.pop(0))
        known: dict[str, Any] = {
            "operation": loads[0].list_call.call.operation if loads else None,
            "loaded_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "requests": self.requests,
            "complete": all(load.complete and not load.problems for load in loads),
        }
        return builder.finish(known | provenance)


async def in_daemon_thread(function: Callable[[], T]) -> T:
    """The result of a function that runs in a thread which ends with the process."""
    return await asyncio.wrap_future(in_thread(function, "agentbook-load"))


def keep_rows(piece: ParsedPage, keep: list[bool] | None) -> ParsedPage:
    """The rows of a piece flagged in `keep`, with their problems; None keeps all."""
    if keep is None:
        return piece
    numbers = {row: number for number, row in enumerate(row for row, flag in enumerate(keep) if flag)}
    problems = [
        problem if problem.row is None else replace(problem, row=numbers[problem.row])
        for problem in piece.problems
        if problem.row is None or problem.row in numbers
    ]
    rows = len(numbers)
    return replace(piece, rows=rows, batch=piece.batch.filter(pa.array(keep)) if rows else None, problems=problems)


def add_problems(page: ParsedPage, session_id: str, ids: Ids, *, ascending: bool) -> None:
    """Add a problem for each event of another session, and for ids out of order."""
    sessions = page.batch["session_id"]
    for row in pc.indices_nonzero(pc.not_equal(sessions, session_id)).to_pylist():
        problem = "an event of a session that was not asked for"
        page.problems.append(Problem(row, "session_id", problem, _json(sessions[row].as_py())))
    before: str | None = None
    for row, each in enumerate(ids) if ascending else ():
        if each is not None and before is not None and each <= before:
            problem = (
                "this id came twice" if each in ids[:row] else "out of order: the platform was asked for ascending ids"
            )
            page.problems.append(Problem(row, "id", problem, _json(each)))
        before = before if each is None else each


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


class Progress:
    """Counts rows as they arrive; shows a bar only if `shown` is true.

    Only the bar `of_one` list shows how many rows there will be.
    """

    def __init__(self, shown: bool | None, *, of_one: bool = False) -> None:
        self._bar: Any = None
        self._of_one = of_one
        if shown:
            from tqdm.auto import tqdm

            self._bar = tqdm(unit=" rows", unit_scale=True)

    def add(self, rows: int, total: int | None = None) -> None:
        """Count further rows of a list, which has `total` if that is known."""
        if self._bar is not None:
            if self._of_one and total is not None and self._bar.total is None:
                self._bar.total = total
            self._bar.update(rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


class ListingLoad:
    """A load of one list that can stop and resume.

    Parameters
    ----------
    list_call : ListCall
    parameters : mapping
        The request's parameters, for the frame's provenance.
    first_page : Page, optional
        The first page, if it was fetched before.
    read_at : datetime
        When that was.
    progress, reveal : bool
        As for `Listing.to_pandas`.
    """

    def __init__(
        self,
        list_call: ListCall,
        parameters: Mapping[str, Any],
        first_page: Page | None,
        read_at: datetime,
        progress: bool | None,
        reveal: bool,
    ) -> None:
        self._shared, self._read_at = first_page, read_at
        self._name = list_call.call.operation
        self._parameters = parameters
        self._progress = progress
        self._loader = Loader(list_call.resource, {self._name: list_call}, reveal=reveal, first_page=first_page)

    @property
    def first_page(self) -> Page | None:
        """The first page of the latest pass; None until it has been read."""
        load = self._loader.loads[self._name]
        return load.first_page if load.pages else None

    def run(self, run: Run) -> pd.DataFrame:
        """Load what is missing; `run` runs the call of a page."""
        self._load(run, lambda: self.run(run))
        return self._finish()

    async def run_async(self, run: AsyncRun) -> pd.DataFrame:
        """As `run`, awaited; so is the `resume()` of its `PartialLoad`.

        The requests are made on this loop. Pages are planned and parsed in a thread.
        """
        loop, under_way, is_over = asyncio.get_running_loop(), set[Future[Page]](), False

        def run_there(call: Call[Page]) -> Page:
            if is_over:
                raise CancelledError
            reply: Future[Page] = asyncio.run_coroutine_threadsafe(run(call), loop)  # type: ignore[arg-type]
            under_way.add(reply)
            if is_over:  # since the first look: what is cancelled below may not include it
                reply.cancel()
            try:
                return reply.result()
            finally:
                under_way.remove(reply)

        try:
            await in_daemon_thread(partial(self._load, run_there, lambda: self.run_async(run)))
        finally:
            is_over = True
            for reply in list(under_way):
                reply.cancel()
        return self._finish()

    def _load(self, run: Run, resume: Callable[[], Any]) -> None:
        """Load; a failure or an interrupt is a `PartialLoad` if rows have arrived."""
        try:
            with Progress(self._progress, of_one=True) as bar:
                self._loader.load(run, bar)
        except (AgentbookError, KeyboardInterrupt) as stopped:
            if not self._loader.rows:
                raise
            reason = "interrupted" if isinstance(stopped, KeyboardInterrupt) else str(stopped)
            raise PartialLoad(
                f"{self._name}: stopped after {self._loader.rows:,} rows ({reason}). error.partial_frame has them; "
                "error.resume() reads what is missing.",
                operation=self._name,
                partial_frame=self._frame(keep=True),
                problems={self._name: reason},
                _resume=resume,
            ) from stopped

    def _finish(self) -> pd.DataFrame:
        if problem := self._loader.problem_of(self._name):
            warn_incomplete(self._name, problem)
        return self._frame(keep=False)

    def _frame(self, *, keep: bool) -> pd.DataFrame:
        known: dict[str, Any] = {"parameters": self._parameters}
        if self._shared is not None:
            known["requests"] = self._loader.requests + 1
            if self.first_page in (None, self._shared):  # else the list was read again
                known["loaded_at"] = self._read_at.isoformat(timespec="seconds")
        return self._loader.frame(keep=keep, **known)
