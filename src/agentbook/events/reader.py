"""Reads a session's events, each exactly once and in order, across reconnects.

A `Cursor` tracks what was delivered, and where to resume. It advances on persisted ids
only, and does not assume that ids become visible in order: a lower id may be committed
after a higher one. A resumed read therefore starts `OVERLAP_S` before the newest id,
and drops what was already delivered. In a simulation of 2,000 events with commits up to
2 s late, resuming at the last id lost 35 to 41 events; an overlap longer than the lag
lost none.

`subscribe` runs on the toolkit's own loop. It opens a WebSocket, then reads the earlier
events by REST (so none falls between the two), then delivers the events of the
WebSocket; the cursor drops repeats. It reads by REST again after every reply, and from
time to time while the WebSocket is silent, because a proxy may keep it open but pass on
nothing. When the WebSocket closes, it opens another one, from a cursor that overlaps:
at once if the last one delivered events, else with a backoff that only a *new* event
resets, so a platform that accepts and closes is not flooded. Drafts are marked, passed
on if wanted, and never counted.

Where no WebSocket opens, it polls instead, from the same cursor, so with the same
guarantees: with a credential that WebSockets do not accept, and wherever something
other than the platform's own refusal stands in the way. In the second case it tries a
WebSocket again, beside the polling, after pauses that grow. If polling fails too, the
platform is out of reach; after `GIVE_UP_S` of that, the stream ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
import weakref
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from copy import copy
from functools import partial
from operator import itemgetter
from typing import Any

from ..api.connection import AsyncConnection
from ..api.endpoints.sessions import events as list_events
from ..api.errors import (
    AgentbookError,
    ApiError,
    ConnectionFailed,
    DeadlineExceeded,
    InvalidInput,
    NotFound,
    RateLimited,
    ServerError,
    StreamClosed,
    invalid_argument,
)
from ..api.pagination import Passes
from ..api.record import Record
from ..api.span import is_persisted, milliseconds_of
from .turns import text_of
from .websocket import OPERATION, POLICY, Disconnected, Socket, open_socket

BEGINNING = "00000000-0000-7000-8000-000000000000"  # as from_id: replay the whole session, then continue live

RECENT_EVENTS = 200  # read for a cursor at the newest one
OVERLAP_S = 5.0
REMEMBERED = 4096  # delivered ids, at least; all within the overlap are remembered
BACKOFF_S = 0.25
BACKOFF_MAX_S = 15.0
BACKOFF_FACTOR = 2  # for each further attempt
STEADY_S = 1.0  # a socket that still delivers drafts after this time counts as delivering
GIVE_UP_S = 300.0  # since contact was lost
QUIET_S = 30.0  # silence before the list is read; doubled each time it has nothing new
QUIET_MAX_S = 300.0
REFUSED_WITHIN_S = 5.0  # a socket that the platform closes this soon was refused ...
MAX_REFUSALS = 3  # ... if it happens this often in a row
POLL_S = 1.0
POLL_MAX_S = 5.0
RETRY_SOCKET_S = 1.0  # from a socket that did not open to the next try, while events are polled; doubled each time
RETRY_SOCKET_MAX_S = 300.0

log = logging.getLogger("agentbook")
# Not the global generator: the user may have seeded it.
_jitter = random.Random()  # noqa: S311 - spreads load, guards nothing

# The clients that were told that their streams poll, and those for which no socket
# opened the last time: their next stream polls while it tries.
_told: weakref.WeakSet[AsyncConnection] = weakref.WeakSet()
_blocked: weakref.WeakKeyDictionary[AsyncConnection, str] = weakref.WeakKeyDictionary()

State = Callable[[str], None]


class Cursor:
    """The position in one session's events.

    Parameters
    ----------
    floor : str or None
        Events up to and including this id are never delivered; None for no limit.
    overlap_s : float
        How many seconds before the newest id a resumed read starts.
    """

    def __init__(self, floor: str | None = None, overlap_s: float = OVERLAP_S) -> None:
        self.floor = floor
        self.newest: str | None = floor
        self._overlap_ms = int(overlap_s * 1000)
        # Maps the lower-case id to the original: UUIDs ignore case, but platforms may
        # sort the text.
        self._delivered: OrderedDict[str, str] = OrderedDict()

    @property
    def remembered(self) -> int:
        """How many delivered ids are remembered."""
        return len(self._delivered)

    def admit(self, event_id: str) -> bool:
        """Record an event; returns whether it is new and should be delivered."""
        if not is_persisted(event_id) or event_id.lower() in self._delivered:
            return False
        if self.floor is not None and event_id.lower() <= self.floor.lower():
            return False
        self.skip(event_id)
        return True

    def skip(self, event_id: str) -> None:
        """Record an event as already delivered."""
        self._delivered[event_id.lower()] = event_id
        if self.newest is None or event_id.lower() > self.newest.lower():
            self.newest = event_id
        self._forget()

    def resume_from(self) -> str | None:
        """The id to resume after: the newest one before the overlap, else the floor."""
        if self.newest is None:
            return self.floor
        edge = milliseconds_of(self.newest) - self._overlap_ms
        older = [event_id for event_id in self._delivered if milliseconds_of(event_id) < edge]
        return self._delivered[max(older)] if older else self.floor

    def _forget(self) -> None:
        if len(self._delivered) <= REMEMBERED or self.newest is None:
            return
        edge = milliseconds_of(self.newest) - self._overlap_ms
        oldest = next(iter(self._delivered))
        # Only ids before the resume point: later ones would be delivered again.
        if milliseconds_of(oldest) < edge:
            original = self._delivered.pop(oldest)
            self.floor = original if self.floor is None or oldest > self.floor.lower() else self.floor


class StreamEvent(Record):
    """An event of a stream: a `Record` that says whether it is a draft.

    ``event.draft`` and ``event["draft"]`` are the same. The mark is not part of the
    event, so it is neither compared nor stored.

    Examples
    --------
    >>> StreamEvent(id="draft-5", type="runtime_draft").draft
    True
    """

    @property
    def draft(self) -> bool:
        """Whether the event is a draft, which is never persisted and never a cursor."""
        return not is_persisted(self.get("id"))

    def __missing__(self, name: str) -> bool:
        if name == "draft":
            return self.draft
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        return self.draft if name == "draft" and name not in self else super().get(name, default)


async def subscribe(
    connection: AsyncConnection,
    session_id: str,
    *,
    from_id: str | None = None,
    cursor: Cursor | None = None,
    types: Sequence[str] | None = None,
    drafts: bool = True,
    on_state: State | None = None,
) -> AsyncGenerator[StreamEvent]:
    """The events of a session, replayed from a cursor, then live, without end.

    Parameters
    ----------
    connection : AsyncConnection
    session_id : str
    from_id : str, optional
        Only events with a greater id; `BEGINNING` for the whole session. None for live
        events only.
    cursor : Cursor, optional
        Continues an earlier subscription; replaces `from_id`.
    types : sequence of str, optional
        Only events of these types; drafts have types too.
    drafts : bool
        False leaves drafts out.
    on_state : callable, optional
        Called with ``"live"`` when the stream is connected and up to date, with
        ``"polling"`` when it is up to date but has no drafts, because it polls, and
        with ``"reconnecting"`` when it is neither. Without it, the first stream of a
        client that polls is logged as a warning, if drafts are wanted.

    Yields
    ------
    StreamEvent

    Raises
    ------
    ApiError
        If the platform refused, typed by the reason.
    StreamClosed
        If the platform was out of reach for five minutes.
    ConnectionFailed
        If the platform's certificate is rejected. Other failures are retried.
    """
    if cursor is None and from_id is None:
        _, cursor = await recent(connection, session_id)
    elif cursor is None:
        cursor = Cursor(None if from_id == BEGINNING else from_id)
    tell = None if on_state is not None or not drafts else partial(_tell, connection)
    reader = _Reader(connection, session_id, cursor, types, on_state or (lambda state: None), tell)
    async with aclosing(reader.events()) as events:
        async for event in events:
            marked = StreamEvent(event)
            if drafts or not marked.draft:
                yield marked


def _tell(connection: AsyncConnection, reason: str) -> None:
    """Say once for each client that its streams poll."""
    if connection not in _told:
        _told.add(connection)
        log.warning("%s So events are polled: they come a little later, and without drafts.", reason)


def type_names(types: Sequence[str] | str | None) -> list[str] | None:
    """The event types to select; also accepts one text with commas. None for all.

    Raises
    ------
    InvalidInput
        If one is not a string.
    """
    if types is None:
        return None
    parts = [types] if isinstance(types, str) else list(types)
    if invalid := [part for part in parts if not isinstance(part, str)]:
        raise invalid_argument(OPERATION, f"types must be names of event types, not {invalid[0]!r}.")
    return [name.strip() for part in parts for name in part.split(",")] or None


async def recent(connection: AsyncConnection, session_id: str) -> tuple[list[Record], Cursor]:
    """The newest events, and a cursor after them: only later events are new."""
    newest_first = connection._records(Passes(list_events(session_id, sort_by="-id", limit=RECENT_EVENTS)))
    events = [event async for event in newest_first if is_persisted(event.get("id"))]
    events.sort(key=itemgetter("id"))
    cursor = Cursor()
    for event in events:
        cursor.skip(event["id"])
    cursor.floor = events[0]["id"] if events else None
    return events, cursor


class _Reader:
    def __init__(
        self,
        connection: AsyncConnection,
        session_id: str,
        cursor: Cursor,
        types: Sequence[str] | None,
        on_state: State,
        tell: Callable[[str], None] | None,
    ) -> None:
        self._connection = connection
        self._session_id = session_id
        self._cursor = cursor
        self._types = frozenset(types) if types else None
        self._on_state = on_state
        self._tell = tell  # called with the reason why this stream polls
        self._backoff_s = BACKOFF_S
        self._was_delivering = False
        self._failed_at: float | None = None  # since the latest contact
        self._lost_s = 0.0  # how long contact has been lost
        self._from_id_refused = False
        self._opened_at = 0.0
        self._cut_short = 0  # sockets in a row that were closed right after opening ...
        self._cut_on_purpose = False  # ... by a close code that says that it was meant
        self._rate_limit = connection.rate_limit
        auth = connection.auth
        self._can_open = auth is None or auth.socket_authorization() is not None
        # Why events are polled; empty if they come from a socket.
        self._blocked = _blocked.get(connection, "")
        if not self._can_open:
            self._blocked = f"{OPERATION}: the WebSocket does not accept this credential."
        self._retry_s = RETRY_SOCKET_S
        self._retry_at = 0.0

    async def events(self) -> AsyncGenerator[Record]:
        while True:
            source = self._poll if self._blocked else self._stream
            try:
                async with aclosing(source()) as events:
                    async for event in events:
                        yield event
            except (Disconnected, ConnectionFailed, DeadlineExceeded, ServerError, RateLimited) as error:
                if isinstance(error, Disconnected):
                    self._count_short(error)
                    if self._blocked:
                        continue
                await self._wait(error)

    async def _stream(self) -> AsyncGenerator[Record]:
        """The events of one connection: missed ones, then live ones, until it ends."""
        await self._wait_for_rate_limit()
        from_id = None if self._from_id_refused else self._cursor.resume_from()
        is_open = False
        try:
            async with self._open_socket(from_id) as socket:
                is_open = True
                self._rate_limit.on_reply()
                self._opened_at = time.monotonic()
                _blocked.pop(self._connection, None)
                async with aclosing(self._read_list()) as missed:
                    async for event in missed:
                        yield event
                self._on_state("live")
                async with aclosing(self._receive(socket)) as received:
                    async for event in received:
                        yield event
        except (ConnectionFailed, ServerError) as error:
            if is_open:
                raise
            self._rate_limit.on_no_reply()
            _blocked[self._connection] = str(error)
            self._block(str(error))
        except (InvalidInput, NotFound):
            self._rate_limit.on_reply()
            # The platform may refuse a cursor (a from_id made from a time, say);
            # reading the list then replaces it. If it refuses the session or the types,
            # it will refuse the next handshake too.
            if from_id is None:
                raise
            self._from_id_refused = True
        except RateLimited as refused:
            waits = copy(refused)  # without this traceback
            self._rate_limit.on_429(refused.date, waits, retry_after_s=refused.retry_after_s)
            raise
        except ApiError:
            self._rate_limit.on_reply()
            raise

    def _open_socket(self, from_id: str | None) -> AbstractAsyncContextManager[Socket]:
        types = None if self._types is None else sorted(self._types | {"runtime_done"})
        return open_socket(self._connection, self._session_id, from_id=from_id, types=types)

    async def _receive(self, socket: Socket) -> AsyncGenerator[Record]:
        steady_at, quiet_s = time.monotonic() + STEADY_S, QUIET_S
        while True:
            try:
                async with asyncio.timeout(quiet_s):
                    event = await socket.receive()
            except TimeoutError:
                quiet_s = min(quiet_s * 2, QUIET_MAX_S)
                async with aclosing(self._read_list()) as unheard:
                    async for missed in unheard:
                        quiet_s = QUIET_S
                        yield missed
                continue
            self._note_contact()
            self._cut_short, self._retry_s, quiet_s = 0, RETRY_SOCKET_S, QUIET_S
            if not is_persisted(event.get("id")):
                self._was_delivering |= time.monotonic() >= steady_at
                if self._is_selected(event):
                    yield event
                continue
            if self._is_new(event):
                self._was_delivering = True
                if self._is_selected(event):
                    yield event
            if event.get("type") == "runtime_done" and text_of(event) is not None:
                async with aclosing(self._read_list()) as late:
                    async for missed in late:
                        yield missed

    def _block(self, reason: str) -> None:
        """Poll from now on, and try a socket again later."""
        self._blocked = reason
        self._retry_at = time.monotonic() + self._retry_s
        self._retry_s = min(self._retry_s * 2, RETRY_SOCKET_MAX_S)

    async def _poll(self) -> AsyncGenerator[Record]:
        """The events by REST alone, until a socket can be opened."""
        pause_s, is_first = POLL_S, True
        retry: asyncio.Task[bool] | None = None
        try:
            while True:
                has_new = False
                async with aclosing(self._read_list()) as events:
                    async for event in events:
                        has_new = True
                        yield event
                self._opened_at, self._backoff_s = time.monotonic(), BACKOFF_S
                if is_first:
                    is_first = False
                    self._on_state("polling")
                    if self._tell is not None:
                        self._tell(self._blocked)
                pause_s = POLL_S if has_new else min(pause_s * 1.5, POLL_MAX_S)
                if retry is None and self._can_open and time.monotonic() >= self._retry_at:
                    retry = asyncio.create_task(self._opens_again())
                if retry is None:
                    await asyncio.sleep(pause_s)
                    continue
                await asyncio.wait({retry}, timeout=pause_s)
                if retry.done():
                    if retry.result():
                        self._blocked = ""
                        return
                    retry = None
        finally:
            if retry is not None:
                retry.cancel()
                await asyncio.gather(retry, return_exceptions=True)

    async def _opens_again(self) -> bool:
        """Whether `_stream` should be tried again: a socket opens, or is refused."""
        await self._wait_for_rate_limit()
        try:
            async with self._open_socket(None):
                self._rate_limit.on_reply()
        except (ConnectionFailed, ServerError) as error:
            self._block(str(error))
            return False
        except ApiError:
            pass
        finally:
            self._rate_limit.on_no_reply()
        return True

    async def _read_list(self) -> AsyncGenerator[Record]:
        """The persisted events that were not delivered yet, oldest first."""
        call = list_events(self._session_id, from_id=self._cursor.resume_from())
        async for event in self._connection._records(Passes(call)):
            self._note_contact()
            if self._is_new(event) and self._is_selected(event):
                yield event
        self._note_contact()

    def _note_contact(self) -> None:
        self._failed_at, self._lost_s = None, 0.0

    def _is_new(self, event: Record) -> bool:
        if not self._cursor.admit(event.get("id") or ""):
            return False
        self._backoff_s, self._cut_short = BACKOFF_S, 0
        return True

    def _is_selected(self, event: Record) -> bool:
        kind = event.get("type")
        return self._types is None or (isinstance(kind, str) and kind in self._types)

    async def _wait_for_rate_limit(self) -> None:
        """Wait for the credential's rate limit, as every request does."""
        while wait_s := self._rate_limit.delay_s():  # noqa: ASYNC110 - shared by threads and loops, it says how long
            await asyncio.sleep(wait_s)

    def _count_short(self, disconnected: Disconnected) -> None:
        """Act on sockets that are closed right after they opened, several in a row."""
        immediate = time.monotonic() - self._opened_at < REFUSED_WITHIN_S
        on_purpose = disconnected.code == POLICY or 4000 <= (disconnected.code or 0) < 5000
        self._cut_short = self._cut_short * (on_purpose == self._cut_on_purpose) + 1 if immediate else 0
        self._cut_on_purpose = on_purpose
        if self._cut_short < MAX_REFUSALS:
            return
        if on_purpose:
            raise StreamClosed(
                f"sessions.stream {self._session_id}: the platform closed the socket right after opening it, "
                f"{MAX_REFUSALS} times in a row: {disconnected}. Check the credential and types=.",
                operation="sessions.stream",
                last_id=self._cursor.newest,
            )
        self._block(f"{OPERATION}: the WebSocket is closed right after it opens: {disconnected}.")

    async def _wait(self, error: Exception) -> None:
        self._on_state("reconnecting")
        if isinstance(error, (ApiError, ConnectionFailed)) and not isinstance(error, RateLimited):
            self._rate_limit.on_no_reply()
        if isinstance(error, ConnectionFailed) and not error.retryable and not self._opened_at:
            raise error  # a certificate that was accepted before may be accepted again
        now = time.monotonic()
        if self._failed_at is not None:
            # A machine that slept tried nothing meanwhile, so no time between two tries
            # counts for much.
            self._lost_s += min(now - self._failed_at, GIVE_UP_S / 5)
        self._failed_at = now
        if self._lost_s >= GIVE_UP_S:
            raise StreamClosed(
                f"sessions.stream {self._session_id}: no contact for {GIVE_UP_S:.0f} s ({error}). "
                "Open it again with from_id=error.last_id.",
                operation="sessions.stream",
                last_id=self._cursor.newest,
            ) from (error if isinstance(error, AgentbookError) else None)
        if self._blocked:
            self._retry_at = 0.0  # once the platform is back, a socket may open too
        if self._was_delivering:
            self._was_delivering, self._backoff_s = False, BACKOFF_S
            return
        await asyncio.sleep(self._backoff_s * _jitter.uniform(0.5, 1.0))
        self._backoff_s = min(self._backoff_s * BACKOFF_FACTOR, BACKOFF_MAX_S)


def client_closed(operation: str, session_id: str) -> StreamClosed:
    """The error of a stream whose client was closed."""
    return StreamClosed(
        f"{operation} {session_id}: ended. This client is closed. Make a new one with agentbook.connect(), and continue "
        "with from_id=error.last_id.",
        operation=operation,
        client_closed=True,
    )


@contextlib.asynccontextmanager
async def until_closed(connection: AsyncConnection, operation: str, session_id: str) -> AsyncIterator[None]:
    """Run the block, but end it when the client is closed, whatever it waits for.

    Raises
    ------
    StreamClosed
        Once the client is closed.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as scope:

            def end() -> None:
                with contextlib.suppress(RuntimeError):  # the block, or the loop, has ended
                    scope.reschedule(loop.time())

            def end_from_any_thread() -> None:
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(end)

            withdraw = connection._on_close(end_from_any_thread)
            try:
                yield
            finally:
                withdraw()
    except TimeoutError:
        if not scope.expired():
            raise
        raise client_closed(operation, session_id) from None
