"""Reading the events of many sessions over as many connections as pay: what `load_events` and `Store.sync` share.

One thread plans, parses and keeps order; a pool of others only waits for the network. Pages follow by ``from_id``, which
nothing that is added can shift. Where a connection is free and no session is left to begin, the longest stretch under way
is halved by time: a UUIDv7 is a clock, so the middle of two ids is a cursor too.
"""

from __future__ import annotations

import functools
import queue
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from ...api.calls import MAX_PAGE
from ...api.connection import Connection
from ...api.endpoints import sessions as api
from ...api.errors import AgentbookError, InvalidInput, NotFound
from ...api.event_ids import is_persisted, milliseconds_of
from ...api.pagination import Page
from ..parse.frame import FrameBuilder, ParsedPage
from ..parse.page_checks import all_in_order, check_page
from .concurrency import MOST, ConcurrencyLimit
from .id_ranges import IdRange, Session, end_of, expected, last_id_of, last_of, until, with_the_last
from .interrupts import Interrupts
from .page_body import PageBody, ids_of, read

_WORTH = 2 * MAX_PAGE  # rows still expected in a stretch for it to be halved
_SMALL_BYTES = 100_000  # a page that is better read together with others
_TOGETHER_BYTES = 400_000  # of small pages that are read as one: a page of 1,000 events


class PageLoader:
    """One pass over many sessions.

    Parameters
    ----------
    client : Client
    wanted : mapping of str to str, None or Session
        Session id to the id after which to read (None for all), or what a pass that stopped has `left` of it.
    done : callable
        Called with a session's id and its pieces in order, once it is whole.
    rows : callable
        Called with the number of rows as they arrive.
    known : callable
        Told how to get the ids of a session's only page, whether it needs no look: then it is not read at all.
        None looks at all.
    begun : callable
        Offered a session under way each time `part_rows` more of its rows have come: it may take those before the first
        gap (`Session.take_beginning`), and `done` is given the rest.
    concurrency : int, optional
        Requests under way at most; they adapt to the latency seen, up to this.

    Attributes
    ----------
    problems : dict
        Session id to why it could not be read.
    left : dict
        Session id to what had arrived of those that were begun and did not become whole.
    requests : int
    """

    def __init__(
        self,
        client: Connection,
        wanted: Mapping[str, str | Session | None],
        done: Callable[[str, list[ParsedPage]], None],
        rows: Callable[[int], None] = lambda rows: None,
        *,
        known: Callable[[str, Callable[[], list[str | None]]], bool] | None = None,
        begun: Callable[[Session], None] = lambda session: None,
        part_rows: int = 250_000,
        concurrency: int = MOST,
    ) -> None:
        self._client = client
        self._todo = deque(
            Session(session, begin) for session, begin in wanted.items() if not isinstance(begin, Session)
        )
        self._done = done
        self._rows = rows
        self._known = known
        self._begun = begun
        self._part_rows = part_rows
        self._most = concurrency
        self._pace = ConcurrencyLimit(concurrency)
        self._reader = FrameBuilder("events")
        self._stretches: list[IdRange] = []  # not done
        self._arrived: queue.SimpleQueue[tuple[IdRange | Session, Future[PageBody]]] = queue.SimpleQueue()
        self._waiting = 0
        self._small: list[tuple[IdRange, PageBody]] = []  # sessions of a single page, to be read together
        self._small_bytes = 0
        self._small_most = 1
        self._whole: list[Session] = []  # to be handed over
        self.problems: dict[str, str] = {}
        self.left: dict[str, Session] = {}
        self.requests = 0
        for one in wanted.values():
            if isinstance(one, Session):
                self._go_on(one)

    def run(self) -> None:
        """Read it all. An interrupt strikes while the network is waited for; what has arrived until then is kept."""
        with Interrupts() as held:
            self._run(held)

    def _run(self, held: Interrupts) -> None:
        pool: ThreadPoolExecutor | None = None
        try:
            while self._todo or self._waiting or self._stretches:
                if self._pace.target == 1 and not self._waiting:
                    self._one_alone(held)
                    continue
                pool = pool or ThreadPoolExecutor(self._most, thread_name_prefix="agentbook-events")
                with held:
                    while self._waiting < self._pace.target and (stretch := self._next()) is not None:
                        self._submit(pool, stretch)
                    if not self._waiting:
                        self._read_small()
                        continue
                what, future = self._arrived.get()
                with held:
                    self._waiting -= 1
                    if isinstance(what, Session):
                        self._note_the_end(what, future)
                    else:
                        error = future.exception()
                        self._settle(what, error if isinstance(error, AgentbookError) else future.result())
                    self._look_for_ends(pool)
        except KeyboardInterrupt:
            with held:
                self._read_small()  # they have arrived
            raise
        finally:
            self.left.update({one.session.id: one.session for one in self._stretches})
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)

    def _one_alone(self, held: Interrupts) -> None:
        """Read a page in this thread: a second one would only cost switches."""
        with held:
            stretch = self._next()
            if stretch is None:
                self._read_small()
                return
        outcome: PageBody | AgentbookError
        try:
            outcome = self._get(stretch.session.id, stretch.cursor)
        except AgentbookError as error:
            outcome = error
        with held:
            self._settle(stretch, outcome)

    # -- what to ask for ------------------------------------------------------------------------------------------------

    def _next(self) -> IdRange | None:
        """A stretch to read a page of: one that waits, else a new session's, else half of another."""
        for stretch in self._stretches:
            if not stretch.busy:
                stretch.busy = True
                return stretch
        if self._todo:
            session = self._todo.popleft()
            return self._open(session, session.begin or "", session.begin)
        return self._halve()

    def _open(self, session: Session, start: str, cursor: str | None, end: str | None = None) -> IdRange:
        stretch = IdRange(session, start, cursor, end)
        session.stretches.append(stretch)
        self._stretches.append(stretch)
        return stretch

    def _go_on(self, session: Session) -> None:
        """Take up a session where an earlier pass stopped."""
        for stretch in session.stretches:
            if not stretch.done:
                stretch.busy = False
                self._stretches.append(stretch)

    def _halve(self) -> IdRange | None:
        """The later half of the stretch with most still to come, as a stretch of its own."""
        best, most = None, float(_WORTH)
        for stretch in self._stretches:
            rows = expected(stretch)
            if rows > most:
                best, most = stretch, rows
        if best is None or best.cursor is None:
            return None
        session = best.session
        low, high = milliseconds_of(best.cursor), end_of(best)
        middle = (low + high) // 2
        if not low < middle < high:
            return None
        at = last_id_of(middle)
        half = self._open(session, at, at, best.end)
        half.split, best.end = True, at
        return half

    def _submit(self, pool: ThreadPoolExecutor, stretch: IdRange) -> None:
        self._waiting += 1
        future = pool.submit(self._get, stretch.session.id, stretch.cursor)
        future.add_done_callback(functools.partial(self._arrive, stretch))

    def _arrive(self, what: IdRange | Session, done: Future[PageBody]) -> None:
        self._arrived.put((what, done))

    def _look_for_ends(self, pool: ThreadPoolExecutor) -> None:
        """Ask for the newest event of sessions that could be halved, once connections are free."""
        for session in [one.session for one in self._stretches]:
            if self._pace.target <= len(self._todo) + self._waiting:
                return
            left = None if session.total is None else session.total - session.rows
            if session.looked or not session.pages or not session.splittable or (left is not None and left <= _WORTH):
                continue
            session.looked = True
            self._waiting += 1
            future = pool.submit(self._get, session.id, None, "-id", 1)
            future.add_done_callback(functools.partial(self._arrive, session))

    def _note_the_end(self, session: Session, future: Future[PageBody]) -> None:
        self.requests += 1
        try:
            newest = Page(future.result().body).last_id
        except AgentbookError:
            return  # then it is read in one stretch
        if newest is not None and is_persisted(newest):
            session.newest_ms = milliseconds_of(newest)

    def _get(self, session: str, cursor: str | None, sort_by: str = "id", limit: int | None = None) -> PageBody:
        call = api.events(session, from_id=cursor, sort_by=sort_by).call.with_query(limit=limit or MAX_PAGE)
        began, busy = time.perf_counter(), time.thread_time()
        got: PageBody = self._client.run(replace(call, read=read))
        got.cost_s = time.thread_time() - busy
        got.wait_s = max(time.perf_counter() - began - got.cost_s, 0.0)
        return got

    # -- what came -----------------------------------------------------------------------------------------------------

    def _settle(self, stretch: IdRange, outcome: PageBody | AgentbookError) -> None:
        self.requests += 1
        if stretch in self._stretches:  # else it failed, or began again, while this was under way
            try:
                if isinstance(outcome, AgentbookError):
                    raise outcome
                self._take(stretch, outcome)
            except AgentbookError as error:
                self._fail(stretch, error)
        self._hand_over()

    def _fail(self, stretch: IdRange, error: AgentbookError) -> None:
        session = stretch.session
        self._stretches = [one for one in self._stretches if one.session is not session]
        if stretch.split and not stretch.pieces and isinstance(error, (InvalidInput, NotFound)):
            # This platform takes no cursor that is not an event's: once more, in one stretch.
            self._todo.appendleft(Session(session.id, session.begin, splittable=False))
        else:
            self.problems[session.id] = str(error)
            self.left[session.id] = session

    def _take(self, stretch: IdRange, got: PageBody) -> None:
        session, busy = stretch.session, time.thread_time()
        if not session.pages and got.pagination.has_more is False and stretch.end is None:
            if self._known is not None and self._known(session.id, functools.partial(ids_of, got.body)):
                self._pace.seen(got.wait_s, got.cost_s)
                self._close(stretch)
                return
            if len(got.body) <= _SMALL_BYTES:
                self._small.append((stretch, got))
                self._small_bytes += len(got.body)
                if len(self._small) >= self._small_most or self._small_bytes >= _TOGETHER_BYTES:
                    self._read_small()
                return
        piece = self._reader.parse(got.body, {"session_id": session.id})
        check_page(session.id, piece)
        self._keep(stretch, got, piece)
        self._pace.seen(got.wait_s, got.cost_s + time.thread_time() - busy)

    def _read_small(self) -> None:
        """Read the pages that wait to be read together."""
        small, self._small, self._small_bytes = self._small, [], 0
        self._small_most *= 2  # the first alone: what it costs says how many requests to make
        busy = time.thread_time()
        contexts = [{"session_id": stretch.session.id} for stretch, _ in small]
        pieces = self._reader.parse_together([got.body for _, got in small], contexts)
        clean = all_in_order(pieces)
        for (stretch, got), piece in zip(small, pieces, strict=True):
            if not clean:
                check_page(stretch.session.id, piece)
            try:
                self._keep(stretch, got, piece)
            except AgentbookError as error:
                self._fail(stretch, error)
        each = (time.thread_time() - busy) / max(len(small), 1)
        for _, got in small:
            self._pace.seen(got.wait_s, got.cost_s + each)
        self._hand_over()

    def _keep(self, stretch: IdRange, got: PageBody, piece: ParsedPage) -> None:
        session, has_more = stretch.session, got.pagination.has_more
        if not piece.readable:
            raise _ends_early(session, f"a page could not be read: {piece.problems[0].problem}")
        last = last_of(piece)
        if last is not None and stretch.cursor is not None and last.lower() <= stretch.cursor.lower():
            raise _ends_early(
                session, f"after {stretch.cursor} the platform gave events up to {last}: it does not go on by from_id"
            )
        more = piece.rows > 0 and has_more is not False
        if more and last is None:
            raise _ends_early(session, f"none of the {piece.rows:,} events of a page has an id to go on from")
        if not piece.rows and has_more and session.missing:
            raise _ends_early(session, f"{session.rows:,} of {session.total:,} events came, then an empty page")
        if more:
            piece = with_the_last(piece)
        if stretch.end is not None and last is not None and last.lower() >= stretch.end:
            piece, more = until(piece, stretch.end), False
        stretch.pieces.append(piece)
        stretch.cursor, stretch.busy = last or stretch.cursor, False
        session.rows += piece.rows
        session.pages += 1
        if session.pages == 1:
            session.total = got.pagination.total_count
        if not more:
            self._close(stretch)
        elif session.rows // self._part_rows > (session.rows - piece.rows) // self._part_rows:
            self._begun(session)
        self._rows(piece.rows)

    def _close(self, stretch: IdRange) -> None:
        stretch.done = True
        self._stretches.remove(stretch)
        if all(one.done for one in stretch.session.stretches):
            self._whole.append(stretch.session)

    def _hand_over(self) -> None:
        # Not where a platform's errors are caught: what goes wrong there is no fault of the session's.
        while self._whole:
            session = self._whole.pop(0)
            pieces, session.stretches = session.pieces(), []
            self._done(session.id, pieces)


def _ends_early(session: Session, why: str) -> AgentbookError:
    return AgentbookError(f"sessions.events: session {session.id}: {why}.", operation="sessions.events")
