"""A session's events, each exactly once and in order, whatever happens to the connection.

`subscribe` runs on the toolkit's own loop. It opens a socket, and once that is open
reads by REST what came before (so nothing can fall between the two), then delivers what
the socket brings; the cursor drops what either has shown already. The same read is made
after every reply, and now and then while the socket is silent (what stands between may
keep it open and pass nothing on). When the socket goes it opens another, from a cursor
that overlaps: at once after one that had been delivering, else with a backoff that only
a *new* event resets, so a platform that accepts and closes is not hammered. A
credential that a socket does not take polls instead, with the same guarantees. Drafts
pass through as they come and are never counted.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import datetime

from ..api.calls import ListCall
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
)
from ..api.event_ids import first_id_at, is_persisted
from ..api.record import Record
from .cursor import OVERLAP_S, Cursor
from .turns import text_of
from .websocket import POLICY, TOO_BIG, Disconnected, Socket, opened

BEGINNING = "00000000-0000-7000-8000-000000000000"  # as from_id: replay the whole session, then go on live

BACKOFF_S = 0.25
BACKOFF_MAX_S = 15.0
STEADY_S = 1.0  # a socket that brings drafts after this long has been delivering, though it brought no event
GIVE_UP_S = 300.0  # without any contact
QUIET_S = 30.0  # of silence on a socket until the list is read; doubled each time it has nothing new either
QUIET_MAX_S = 300.0
SHUT_S = 5.0  # a socket that is closed on purpose within this time of opening was refused ...
SHUT_TIMES = 3  # ... if it happens this often in a row
POLL_S = 1.0
POLL_MAX_S = 5.0

# Its own: the global one belongs to the user, who may have seeded it.
_jitter = random.Random()  # noqa: S311 - spreads load, guards nothing

State = Callable[[str], None]


async def subscribe(
    connection: AsyncConnection,
    session_id: str,
    *,
    from_id: str | None = None,
    since: datetime | str | None = None,
    types: Sequence[str] | None = None,
    overlap_s: float = OVERLAP_S,
    cursor: Cursor | None = None,
    on_state: State | None = None,
) -> AsyncGenerator[Record]:
    """The events of a session, replayed from a cursor and then live, without end.

    Parameters
    ----------
    connection : AsyncConnection
    session_id : str
    from_id : str, optional
        Only events with a greater id; `BEGINNING` for the whole session. With neither
        this nor `since`, live events only.
    since : datetime or str, optional
    types : sequence of str, optional
        Only events of these types; drafts are a type too.
    overlap_s : float
        How far, in seconds, a resumed read goes back for events that were committed
        late.
    cursor : Cursor, optional
        Go on where an earlier subscription stopped; replaces `from_id` and `since`.
    on_state : callable, optional
        Told ``"live"`` when the stream is connected and caught up, ``"reconnecting"``
        when it is not.

    Yields
    ------
    Record

    Raises
    ------
    ApiError
        What the platform refused, typed.
    StreamClosed
        If there was no contact for five minutes.
    ConnectionFailed
        If the platform's certificate is not accepted. Other failures to reach it are
        waited out.
    """
    if since is not None and from_id is None:
        from_id = first_id_at(since)
    if cursor is None:
        cursor = await start(connection, session_id, from_id=from_id, overlap_s=overlap_s)
    pump = _Pump(connection, session_id, cursor, types, on_state or (lambda state: None))
    async with aclosing(pump.events()) as events:
        async for event in events:
            yield event


async def start(
    connection: AsyncConnection, session_id: str, *, from_id: str | None = None, overlap_s: float = OVERLAP_S
) -> Cursor:
    """The cursor a subscription begins with: after `from_id`, at the very beginning, or at the newest event there is."""
    if from_id == BEGINNING:
        return Cursor(None, overlap_s)
    return Cursor(from_id, overlap_s) if from_id is not None else await now(connection, session_id, overlap_s)


async def now(connection: AsyncConnection, session_id: str, overlap_s: float = OVERLAP_S) -> Cursor:
    """A cursor at the newest event there is: only what becomes visible from now on is new."""
    cursor = Cursor(None, overlap_s)
    newest_first = connection.records(list_events(session_id, sort_by="-id", limit=200))
    known = [event["id"] async for event in newest_first if is_persisted(event.get("id"))]
    for event_id in reversed(known):
        cursor.skip(event_id)
    cursor.floor = min(known, default=None)
    return cursor


class _Pump:
    def __init__(
        self, connection: AsyncConnection, session_id: str, cursor: Cursor, types: Sequence[str] | None, on_state: State
    ) -> None:
        self._connection = connection
        self._session_id = session_id
        self._cursor = cursor
        self._types = frozenset(types) if types else None
        self._on_state = on_state
        self._backoff_s = BACKOFF_S
        self._was_delivering = False
        self._contact_at = time.monotonic()
        self._from_id_refused = False
        self._opened_at = 0.0
        self._shut = 0  # sockets in a row that were closed on purpose as soon as they were open
        self._gate = connection.gate

    async def events(self) -> AsyncGenerator[Record]:
        auth = self._connection.auth
        source = self._polled if auth is not None and auth.socket_authorization() is None else self._connected
        while True:
            try:
                async with aclosing(source()) as events:
                    async for event in events:
                        yield event
            except (Disconnected, ConnectionFailed, DeadlineExceeded, ServerError, RateLimited) as trouble:
                if isinstance(trouble, Disconnected) and trouble.code == TOO_BIG:
                    # That event cannot come through the socket: take it, and all before
                    # it, by REST.
                    async with aclosing(self._listed()) as events:
                        async for event in events:
                            yield event
                if isinstance(trouble, Disconnected):
                    self._note_shut(trouble)
                await self._wait(trouble)

    async def _connected(self) -> AsyncGenerator[Record]:
        """One connection's worth: what was missed, then what comes, until it ends."""
        await self._admitted()
        from_id = None if self._from_id_refused else self._cursor.resume_from()
        types = None if self._types is None else sorted(self._types | {"runtime_done"})
        try:
            async with opened(self._connection, self._session_id, from_id=from_id, types=types) as socket:
                self._gate.passed()
                self._opened_at = time.monotonic()
                async with aclosing(self._listed()) as missed:
                    async for event in missed:
                        yield event
                self._on_state("live")
                async with aclosing(self._received(socket)) as received:
                    async for event in received:
                        yield event
        except (InvalidInput, NotFound):
            self._gate.passed()
            # A cursor the platform does not take (from_id made from an instant, say):
            # the list read replaces it. Were it the session or the types that are
            # refused, the next handshake would be refused as well.
            if from_id is None:
                raise
            self._from_id_refused = True
        except RateLimited as refused:
            self._gate.refused(refused.date)
            raise
        except ApiError:
            self._gate.passed()
            raise

    async def _received(self, socket: Socket) -> AsyncGenerator[Record]:
        steady_at, quiet_s = time.monotonic() + STEADY_S, QUIET_S
        while True:
            try:
                async with asyncio.timeout(quiet_s):
                    event = await socket.receive()
            except TimeoutError:
                quiet_s = min(quiet_s * 2, QUIET_MAX_S)
                async with aclosing(self._listed()) as unheard:
                    async for missed in unheard:
                        quiet_s = QUIET_S
                        yield missed
                continue
            self._contact_at, quiet_s = time.monotonic(), QUIET_S
            if not is_persisted(event.get("id")):
                self._was_delivering |= self._contact_at >= steady_at
                if self._wanted(event):
                    yield event
                continue
            if self._new(event):
                self._was_delivering = True
                if self._wanted(event):
                    yield event
            if event.get("type") == "runtime_done" and text_of(event) is not None:
                async with aclosing(self._listed()) as late:
                    async for missed in late:
                        yield missed

    async def _polled(self) -> AsyncGenerator[Record]:
        """For credentials that a socket does not take."""
        pause_s = POLL_S
        self._on_state("live")
        while True:
            found = False
            async with aclosing(self._listed()) as events:
                async for event in events:
                    found = True
                    yield event
            self._opened_at = time.monotonic()
            pause_s = POLL_S if found else min(pause_s * 1.5, POLL_MAX_S)
            await asyncio.sleep(pause_s)

    async def _listed(self) -> AsyncGenerator[Record]:
        """What the platform has persisted since the cursor and was not delivered, oldest first."""
        call: ListCall = list_events(self._session_id, from_id=self._cursor.resume_from())
        async for event in self._connection.records(call):
            self._contact_at = time.monotonic()
            if self._new(event) and self._wanted(event):
                yield event

    def _new(self, event: Record) -> bool:
        if not self._cursor.take(event.get("id") or ""):
            return False
        self._backoff_s, self._shut = BACKOFF_S, 0
        return True

    def _wanted(self, event: Record) -> bool:
        kind = event.get("type")
        return self._types is None or (isinstance(kind, str) and kind in self._types)

    async def _admitted(self) -> None:
        """A handshake is a request: it waits at the credential's gate like any other."""
        while wait_s := self._gate.admit():  # noqa: ASYNC110 - shared by threads and loops, it says how long
            await asyncio.sleep(wait_s)

    def _note_shut(self, trouble: Disconnected) -> None:
        """Raise where the platform lets sockets open only to close them on purpose, for reasons of its own."""
        on_purpose = trouble.code == POLICY or 4000 <= (trouble.code or 0) < 5000
        at_once = time.monotonic() - self._opened_at < SHUT_S
        self._shut = self._shut + 1 if on_purpose and at_once else 0
        if self._shut >= SHUT_TIMES:
            raise StreamClosed(
                f"sessions.stream {self._session_id}: the platform closed the socket as soon as it was open, {SHUT_TIMES} times "
                f"in a row: {trouble}. Check the credential and types=.",
                operation="sessions.stream",
                last_id=self._cursor.newest,
            )

    async def _wait(self, trouble: Exception) -> None:
        self._on_state("reconnecting")
        if isinstance(trouble, (ApiError, ConnectionFailed)) and not isinstance(trouble, RateLimited):
            self._gate.lost()
        if isinstance(trouble, ConnectionFailed) and not trouble.retryable and not self._opened_at:
            raise trouble  # a certificate that was accepted before may be so again, once this network lets us out
        if time.monotonic() - self._contact_at > GIVE_UP_S:
            raise StreamClosed(
                f"sessions.stream {self._session_id}: no contact for {GIVE_UP_S:.0f} s ({trouble}). "
                "Open it again with from_id=error.last_id.",
                operation="sessions.stream",
                last_id=self._cursor.newest,
            ) from (trouble if isinstance(trouble, AgentbookError) else None)
        if self._was_delivering:
            self._was_delivering, self._backoff_s = False, BACKOFF_S
            return
        await asyncio.sleep(self._backoff_s * _jitter.uniform(0.5, 1.0))
        self._backoff_s = min(self._backoff_s * 2, BACKOFF_MAX_S)
