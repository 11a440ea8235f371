"""Reading the events of many sessions over as many connections as pay: what `load_events` and `Store.sync` share.

One thread plans, parses and keeps order; a pool of others only waits for the network. Pages follow by ``from_id``, which
nothing that is added can shift. Where a connection is free and no session is left to begin, the longest stretch under way
is halved by time: a UUIDv7 is a clock, so the middle of two ids is a cursor too.
"""

from __future__ import annotations

import functools
import queue
import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ..api import sessions as api
from ..api.calls import MAX_PAGE, Reply
from ..api.client import Client
from ..api.errors import AgentbookError, InvalidInput, NotFound
from ..api.ids import is_persisted, milliseconds_of
from ..api.pages import Page
from .load import FrameBuilder, Piece
from .pace import MOST, Pace
from .wire import Problem

# What ends an envelope: `pagination` last, after which nothing but its own brace can come.
_TAIL = re.compile(rb'"pagination"\s*:\s*(\{[^{}]*\})\s*\}\s*\Z')
_WORTH = 2 * MAX_PAGE  # rows still expected in a stretch for it to be halved


class _Pagination(msgspec.Struct):
    total_count: int | None = None
    has_more: bool | None = None


class _Item(msgspec.Struct):
    id: str | None = None


class _Items(msgspec.Struct):
    items: list[_Item]


@dataclass(slots=True)
class _Got:
    """One reply: its body, its pagination, and how long it took."""

    body: bytes
    pagination: Any
    wait_s: float = 0.0
    cost_s: float = 0.0


@dataclass(slots=True)
class _Stretch:
    """A part of a session's events: those with ids above `cursor`, up to and with `end`; None is open on that side."""

    session: _Session
    start: str
    cursor: str | None
    end: str | None = None
    busy: bool = True
    split: bool = False  # it began at a made-up id
    pieces: list[Piece] = field(default_factory=list)


@dataclass(slots=True)
class _Session:
    """What is known of a session: where reading begins, how much there is, and its stretches."""

    id: str
    begin: str | None
    splittable: bool = True
    total: int | None = None
    rows: int = 0
    newest_ms: int | None = None
    stretches: list[_Stretch] = field(default_factory=list)
    open: int = 0
    pages: int = 0
    looked: bool = False  # for its newest event


class Fetch:
    """One pass over many sessions.

    Parameters
    ----------
    client : Client
    wanted : mapping of str to str or None
        Session id to the id after which to read; None for all.
    done : callable
        Called with a session's id and its pieces in order, once it is whole.
    rows : callable
        Called with the number of rows as they arrive.
    known : callable
        Told the ids of a session's only page, whether it needs no look: then it is not read at all.
    concurrency : int, optional
        Requests under way at most; they adapt to the latency seen, up to this.

    Attributes
    ----------
    problems : dict
        Session id to why it could not be read.
    requests : int
    """

    def __init__(
        self,
        client: Client,
        wanted: Mapping[str, str | None],
        done: Callable[[str, list[Piece]], None],
        rows: Callable[[int], None] = lambda rows: None,
        *,
        known: Callable[[str, list[str | None]], bool] = lambda session, ids: False,
        concurrency: int = MOST,
    ) -> None:
        self._client = client
        self._todo = deque(_Session(session, begin) for session, begin in wanted.items())
        self._done = done
        self._rows = rows
        self._known = known
        self._most = concurrency
        self._pace = Pace(concurrency)
        self._reader = FrameBuilder("events")
        self._stretches: list[_Stretch] = []
        self._arrived: queue.SimpleQueue[tuple[_Stretch | _Session, Future[_Got]]] = queue.SimpleQueue()
        self._waiting = 0
        self.problems: dict[str, str] = {}
        self.requests = 0

    def run(self) -> None:
        """Read it all. An interrupt leaves at once; sessions handed to `done` are whole."""
        pool: ThreadPoolExecutor | None = None
        try:
            while self._todo or self._waiting or self._stretches:
                if self._pace.target == 1 and not self._waiting:
                    # Alone: a second thread would only cost switches.
                    if (alone := self._next()) is not None:
                        self._settle(alone, functools.partial(self._get, alone.session.id, alone.cursor))
                    continue
                pool = pool or ThreadPoolExecutor(self._most, thread_name_prefix="agentbook-events")
                while self._waiting < self._pace.target and (stretch := self._next()) is not None:
                    self._submit(pool, stretch)
                if self._waiting:
                    what, future = self._arrived.get()
                    self._waiting -= 1
                    if isinstance(what, _Session):
                        self._note_the_end(what, future)
                    else:
                        self._settle(what, future.result)
                    self._look_for_ends(pool)
        finally:
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)

    # -- what to ask for ------------------------------------------------------------------------------------------------

    def _next(self) -> _Stretch | None:
        """A stretch to read a page of: one that waits, else a new session's, else half of another."""
        for stretch in self._stretches:
            if not stretch.busy:
                stretch.busy = True
                return stretch
        if self._todo:
            session = self._todo.popleft()
            return self._open(session, session.begin or "", session.begin)
        return self._halve()

    def _open(self, session: _Session, start: str, cursor: str | None, end: str | None = None) -> _Stretch:
        stretch = _Stretch(session, start, cursor, end)
        session.stretches.append(stretch)
        session.open += 1
        self._stretches.append(stretch)
        return stretch

    def _halve(self) -> _Stretch | None:
        """The later half of the stretch with most still to come, as a stretch of its own."""
        best, most = None, float(_WORTH)
        for stretch in self._stretches:
            expected = _expected(stretch)
            if expected > most:
                best, most = stretch, expected
        if best is None or best.cursor is None:
            return None
        session = best.session
        low, high = milliseconds_of(best.cursor), _end_ms(best)
        middle = (low + high) // 2
        if not low < middle < high:
            return None
        at = _last_id_of(middle)
        half = self._open(session, at, at, best.end)
        half.split, best.end = True, at
        return half

    def _submit(self, pool: ThreadPoolExecutor, stretch: _Stretch) -> None:
        self._waiting += 1
        future = pool.submit(self._get, stretch.session.id, stretch.cursor)
        future.add_done_callback(functools.partial(self._arrive, stretch))

    def _arrive(self, what: _Stretch | _Session, done: Future[_Got]) -> None:
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

    def _note_the_end(self, session: _Session, future: Future[_Got]) -> None:
        self.requests += 1
        try:
            newest = Page(future.result().body).last_id
        except AgentbookError:
            return  # then it is read in one stretch
        if newest is not None and is_persisted(newest):
            session.newest_ms = milliseconds_of(newest)

    def _get(self, session: str, cursor: str | None, sort_by: str = "id", limit: int | None = None) -> _Got:
        call = api.events(session, from_id=cursor, sort_by=sort_by).call.with_query(limit=limit or MAX_PAGE)
        began, busy = time.perf_counter(), time.thread_time()
        got: _Got = self._client.run(replace(call, read=_read))
        got.cost_s = time.thread_time() - busy
        got.wait_s = max(time.perf_counter() - began - got.cost_s, 0.0)
        return got

    # -- what came -----------------------------------------------------------------------------------------------------

    def _settle(self, stretch: _Stretch, result: Callable[[], _Got]) -> None:
        session = stretch.session
        self.requests += 1
        try:
            got = result()
            if stretch in session.stretches:  # else it failed, or began again, while this was under way
                self._take(stretch, got)
        except AgentbookError as error:
            if stretch not in session.stretches:
                return
            self._drop(session)
            if stretch.split and not stretch.pieces and isinstance(error, (InvalidInput, NotFound)):
                # This platform takes no cursor that is not an event's: once more, in one stretch.
                self._todo.appendleft(_Session(session.id, session.begin, splittable=False))
            else:
                self.problems[session.id] = str(error)

    def _take(self, stretch: _Stretch, got: _Got) -> None:
        session, busy = stretch.session, time.thread_time()
        if not session.pages and got.pagination.has_more is False and self._known(session.id, _ids(got.body)):
            self._pace.seen(got.wait_s, got.cost_s)
            self._close(stretch)
            return
        piece = self._reader.read(got.body, {"session_id": session.id})
        last = piece.batch["id"][-1].as_py() if piece.rows else None
        if last is not None and stretch.cursor is not None and last.lower() <= stretch.cursor.lower():
            raise AgentbookError(
                f"sessions.events: after {stretch.cursor} the platform gave events up to {last}: it does not go on by from_id.",
                operation="sessions.events",
            )
        more = piece.rows > 0 and got.pagination.has_more is not False and last is not None
        if stretch.end is not None and last is not None and last.lower() >= stretch.end:
            piece, more = _until(piece, stretch.end), False
        self._check(session, stretch, piece)
        stretch.pieces.append(piece)
        session.rows += piece.rows
        session.pages += 1
        if session.pages == 1:
            session.total = got.pagination.total_count
        self._rows(piece.rows)
        self._pace.seen(got.wait_s, got.cost_s + time.thread_time() - busy)
        if not more:
            self._close(stretch)
            return
        stretch.cursor, stretch.busy = last, False

    def _check(self, session: _Session, stretch: _Stretch, piece: Piece) -> None:
        """Note what a page of this session may not hold: an id twice or out of order, an event of another session."""
        if not piece.rows:
            return
        ids, named = piece.batch["id"], piece.batch["session_id"]
        other = pc.not_equal(named, session.id)
        if pc.any(other).as_py():
            for row in pc.indices_nonzero(other).to_pylist():
                raw = msgspec.json.encode(named[row].as_py()).decode()
                piece.problems.append(Problem(row, "session_id", "an event of a session that was not asked for", raw))
        if (backwards := not_ascending(ids)) is not None:
            for row in pc.indices_nonzero(backwards).to_pylist():
                one = ids[row].as_py()
                said = "out of order: the platform was asked for ascending ids"
                if pc.any(pc.equal(ids[:row], one)).as_py():
                    said = "this id came twice"
                piece.problems.append(Problem(row, "id", said, msgspec.json.encode(one).decode()))

    def _close(self, stretch: _Stretch) -> None:
        session = stretch.session
        self._stretches.remove(stretch)
        session.open -= 1
        if session.open == 0:
            stretches: Sequence[_Stretch] = sorted(session.stretches, key=lambda one: one.start)
            self._done(session.id, [piece for one in stretches for piece in one.pieces])
            session.stretches = []

    def _drop(self, session: _Session) -> None:
        self._stretches = [one for one in self._stretches if one.session is not session]
        session.stretches, session.open = [], 0


def _expected(stretch: _Stretch) -> float:
    """Rows still to come in a stretch, by the session's density so far; 0 where it cannot be halved."""
    session = stretch.session
    if (
        session.newest_ms is None
        or not session.splittable
        or stretch.cursor is None
        or not is_persisted(stretch.cursor)
    ):
        return 0.0
    span = _end_ms(stretch) - milliseconds_of(stretch.cursor)
    if session.total is not None and session.total > session.rows:
        left_ms = sum(
            max(_end_ms(one) - milliseconds_of(one.cursor), 0)
            for one in session.stretches
            if one.cursor is not None and is_persisted(one.cursor)
        )
        return span * (session.total - session.rows) / max(left_ms, 1)
    return float(span)  # nothing says how many: the longest is halved, down to two seconds


def _end_ms(stretch: _Stretch) -> int:
    return milliseconds_of(stretch.end) if stretch.end is not None else stretch.session.newest_ms or 0


def _last_id_of(milliseconds: int) -> str:
    """The greatest UUIDv7 of a millisecond: all ids above it are of later ones, so nothing falls between two stretches."""
    digits = f"{milliseconds:012x}"
    return f"{digits[:8]}-{digits[8:]}-7fff-bfff-ffffffffffff"


def _until(piece: Piece, end: str) -> Piece:
    """The rows of a piece up to and with the id `end`; they ascend."""
    count = pc.sum(pc.less_equal(pc.utf8_lower(piece.batch["id"]), end)).as_py() or 0
    problems = [problem for problem in piece.problems if problem.row is None or problem.row < count]
    return replace(piece, rows=count, batch=piece.batch.slice(0, count) if count else None, problems=problems)


def _read(reply: Reply) -> _Got:
    found = _TAIL.search(reply.body, max(len(reply.body) - 400, 0))
    if found is not None:
        try:
            return _Got(reply.body, msgspec.json.decode(found[1], type=_Pagination))
        except msgspec.DecodeError:
            pass
    page = Page(reply.body)
    return _Got(reply.body, _Pagination(page.total_count, page.has_more))


def not_ascending(ids: Any) -> Any:
    """Which ids are not greater than the one before, as flags; None if all are. Missing ids are passed over."""
    filled = pc.fill_null_forward(ids) if ids.null_count else ids
    backwards = pc.less_equal(filled[1:], filled[:-1])
    if ids.null_count:
        backwards = pc.and_(pc.fill_null(backwards, False), pc.is_valid(ids)[1:])
    if not pc.any(backwards).as_py():
        return None
    return pa.concat_arrays([pa.array([False]), *getattr(backwards, "chunks", [backwards])])


def _ids(body: bytes) -> list[str | None]:
    """The ids of a page; none where it is not as it should be, so that it is read with care."""
    try:
        return [item.id for item in msgspec.json.decode(body, type=_Items).items]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []


__all__ = ["Fetch", "not_ascending"]
