"""The WebSocket of session events.

A rejected handshake gets the HTTP status and body that the same request would get over
REST. Specification: "Endpoints", Session events WebSocket; "Events", rules 6 and 7.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from sqlalchemy import Connection
from starlette.datastructures import Headers, QueryParams
from starlette.types import Receive, Scope, Send

from .. import auth, errors, ids
from ..operations.sessions import readable_session
from ..state import Platform
from ..store import events
from ..store.engine import unavailable_reason
from ..turns.live import TYPES, Cursor
from ..web.endpoints import OPERATION, origin_host

Recheck = Callable[[], Awaitable[object]]  # raises the error for a caller who may not listen

log = logging.getLogger("agentbook.service")

# A key may be revoked, or a workspace closed to it, while its socket is open. What this
# process changes is checked at once; on PostgreSQL, what any process changes, and on
# SQLite, what the command line changes, within a second (`Platform`). A message may be
# lost, and tokens expire, so access is also checked before a delivery if the last check
# is older than this.
RECHECK_S = 5.0

# The limit for all sockets in one turn of the loop, in texts and characters; a single
# send may exceed it.
_TICK_TEXTS = 32
_TICK_CHARACTERS = 1 << 18

_RESTART = 1012  # the client reconnects: to this service later, or to another process right away
_INTERNAL_ERROR = 1011
_REFUSED = 4000  # plus the HTTP status: a close code of the application's own


class PerTickLimiter:
    """Limits what all sockets send in one turn of the loop.

    An event wakes every socket of its session. If all of them sent it in one turn, a
    thousand sockets would hold up everyone else for a second with a long event.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, int, asyncio.Future[None]]] = deque()

    async def wait(self, texts: Sequence[str]) -> None:
        """Wait until these texts may be sent."""
        loop = asyncio.get_running_loop()
        admitted = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._admit)
        self._waiting.append((len(texts), sum(map(len, texts)), admitted))
        await admitted

    def _admit(self) -> None:
        texts = characters = 0
        while self._waiting and texts < _TICK_TEXTS and characters < _TICK_CHARACTERS:
            count, size, admitted = self._waiting.popleft()
            if not admitted.done():  # its socket may have gone
                admitted.set_result(None)
                texts, characters = texts + count, characters + size
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._admit)


class EventSocket:
    """The ASGI application of the socket."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self._limiter = PerTickLimiter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        scope[OPERATION] = "eventSocket"
        hub = self.platform.hub
        session_id = scope["path_params"]["session_id"].lower()
        _check_origin(scope)
        credential = auth.parse_credential(scope["headers"])
        if credential is None:
            raise errors.not_authenticated()
        if credential.scheme != "basic":
            raise errors.wrong_credential()

        def check_access(db: Connection) -> tuple[str | None, frozenset[str] | None]:
            principal = auth.authenticate(credential, db, self.platform.store.clock)
            if principal.kind != "triggerApiKey":
                principal.require("workspaces:read")
            params = _parameters(scope["query_string"])
            readable_session(db, principal, session_id)
            return params

        access_changes = hub.access_changes
        from_id, types = await self.platform.store.read(check_access)
        recheck = partial(self.platform.store.read, check_access)
        # Listen first, then read the store: events committed in between are in the
        # ring.
        with hub.listening(session_id) as channel:
            newest = from_id or await self.platform.store.read(lambda db: events.newest_id(db, session_id))
            # Of the ring, ids up to `newest` are skipped.
            cursor = Cursor(channel, newest or "", types, needs_store=from_id is not None, position=channel.start)
            await send({"type": "websocket.accept"})
            feed = asyncio.create_task(self._feed(session_id, cursor, send, recheck, access_changes))
            try:
                while (await receive())["type"] != "websocket.disconnect":
                    pass  # the socket only delivers; incoming messages are ignored
            finally:
                feed.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await feed

    async def _feed(self, session_id: str, cursor: Cursor, send: Send, recheck: Recheck, access_changes: int) -> None:
        try:
            await self._deliver(session_id, cursor, send, recheck, access_changes)
            await send({"type": "websocket.close", "code": _RESTART, "reason": "The service is shutting down."})
        except errors.HTTPError as error:
            await send({"type": "websocket.close", "code": _REFUSED + error.status, "reason": error.message[:100]})
        except Exception as error:
            if type(error).__name__ == "ClientDisconnected":  # uvicorn's own; `receive` reports it too
                return
            reason = unavailable_reason(error)
            log.error(
                "delivery to a socket of session %s failed: %s", session_id, reason or error, exc_info=reason is None
            )
            with contextlib.suppress(Exception):
                await send({"type": "websocket.close", "code": _INTERNAL_ERROR, "reason": "Something went wrong"})

    async def _deliver(
        self, session_id: str, cursor: Cursor, send: Send, recheck: Recheck, access_changes: int
    ) -> None:
        """Send events after the cursor, until the service stops or access is lost.

        Access was checked after `access_changes` changes (`Hub.recheck_access`).
        """
        hub, checked_at = self.platform.hub, time.monotonic()
        while not hub.closed:
            changed = cursor.channel.changed  # read before the texts, so that no change is missed
            texts = cursor.next_texts()
            if texts:
                # Wait here, where all sockets share the texts: the texts of a page that
                # one socket has read for itself would stay in memory.
                await self._limiter.wait(texts)
            elif cursor.needs_store:
                read_page = partial(events.after, session_id=session_id, from_id=cursor.last_id)
                page, is_last = await self.platform.store.read(read_page)
                texts = cursor.replay(page, is_last=is_last)
            elif hub.access_changes == access_changes:
                await changed.wait()
            is_old = time.monotonic() - checked_at >= RECHECK_S
            if hub.access_changes != access_changes or (texts and is_old):
                access_changes, checked_at = hub.access_changes, time.monotonic()
                await recheck()
            for text in texts:
                await send({"type": "websocket.send", "text": text})


def _parameters(query_string: bytes) -> tuple[str | None, frozenset[str] | None]:
    """Parse ``from_id`` and ``types`` of the query, or raise the 400."""
    params, problems = QueryParams(query_string), []
    from_id = params.get("from_id")
    if from_id is not None and not ids.is_id(from_id.lower()):
        problems.append("query.from_id: Input should be the id of a persisted event; ids of drafts are not accepted")
    types = None
    if "types" in params:
        names = [part.strip() for part in params["types"].split(",")]
        unknown = ", ".join([repr(name[:40]) for name in names if name not in TYPES][:5])
        types = frozenset(names)
        if unknown:
            problems.append(f"query.types: unknown event type {unknown}; the valid types are {', '.join(TYPES)}")
    if problems:
        raise errors.invalid_input(problems)
    return (from_id.lower() if from_id is not None else None), types


def _check_origin(scope: Scope) -> None:
    """Raise the 403 if a browser opens the socket from another site's page."""
    headers = Headers(scope=scope)
    origin = headers.get("origin")
    if origin is not None and origin_host(origin) != headers.get("host", "").lower():
        raise errors.forbidden("This origin cannot open a socket here")
