"""The session-events WebSocket (specification: "Endpoints", Session events WebSocket; "Events", rules 6 and 7).

A refused handshake is answered with the HTTP status and body that the same request over REST would get.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from urllib.parse import parse_qsl, urlsplit

from sqlalchemy import Connection
from starlette.types import Receive, Scope, Send

from .. import auth, errors, ids
from ..operations.sessions import readable_session
from ..state import Platform
from ..store import events
from ..turns.live import TYPES, Cursor

Admitted = Callable[[Connection], object]  # raises the refusal of a caller who may not listen

log = logging.getLogger("agentbook.service")

# A key may be revoked, or a workspace closed to it, while a socket is open: what is delivered later than this is looked at again.
RECHECK_S = 5.0

_GOING_AWAY = 1001
_INTERNAL_ERROR = 1011
_REFUSED = 4000  # and the HTTP status, as a close code of the application's own


class EventSocket:
    """The ASGI application of the socket."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        hub = self.platform.hub
        session_id = scope["path_params"]["session_id"].lower()
        _check_origin(scope)
        credential = auth.credential_in(scope["headers"])
        if credential is None:
            raise errors.not_authenticated()
        if credential.scheme != "basic":
            raise errors.wrong_credential()

        def admitted(db: Connection) -> tuple[str | None, frozenset[str] | None]:
            principal = auth.principal_of(credential, db)
            if principal.kind != "triggerApiKey":
                principal.require("workspaces:read")
            wanted = _parameters(scope["query_string"])
            readable_session(db, principal, session_id)
            return wanted

        from_id, types = await self.platform.store.read(admitted, brief=True)
        # Listen first, look at the store afterwards: what is committed in between is in the ring.
        with hub.listening(session_id) as channel:
            newest = from_id
            if from_id is None:
                newest = await self.platform.store.read(lambda db: events.newest_id(db, session_id), brief=True)
            cursor = Cursor(channel, newest or "", types, behind=from_id is not None, position=channel.end)
            if from_id is None and channel.ring:
                cursor.position = channel.start  # ids up to `newest` are passed over
            await send({"type": "websocket.accept"})
            feed = asyncio.create_task(self._feed(session_id, cursor, send, admitted))
            try:
                while (await receive())["type"] != "websocket.disconnect":
                    pass  # the socket is for listening: what comes in is not read
            finally:
                feed.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await feed

    async def _feed(self, session_id: str, cursor: Cursor, send: Send, admitted: Admitted) -> None:
        try:
            await self._deliver(session_id, cursor, send, admitted)
            await send({"type": "websocket.close", "code": _GOING_AWAY, "reason": "The service is shutting down."})
        except errors.Refusal as refusal:
            await send({"type": "websocket.close", "code": _REFUSED + refusal.status, "reason": refusal.message[:100]})
        except Exception as error:
            if type(error).__name__ == "ClientDisconnected":  # uvicorn's own; the receiving side hears of it too
                return
            log.exception("delivery to a socket of session %s failed", session_id)
            with contextlib.suppress(Exception):
                await send({"type": "websocket.close", "code": _INTERNAL_ERROR, "reason": "Something went wrong"})

    async def _deliver(self, session_id: str, cursor: Cursor, send: Send, admitted: Admitted) -> None:
        """Send whatever comes after the cursor, until the service shuts down or the key may not read on."""
        checked_at = time.monotonic()
        while not self.platform.hub.closed:
            changed = cursor.channel.changed  # read before the texts, so that no change is missed
            texts = cursor.next_texts()
            if not texts and cursor.behind:
                last_id = cursor.last_id
                page = await self.platform.store.read(lambda db: events.after(db, session_id, last_id), brief=True)  # noqa: B023
                texts = cursor.replay(list(page), is_last=len(page) < events.REPLAY_PAGE)
            elif not texts:
                await changed.wait()
            if texts and time.monotonic() - checked_at >= RECHECK_S:
                await self.platform.store.read(admitted, brief=True)
                checked_at = time.monotonic()
            for text in texts:
                await send({"type": "websocket.send", "text": text})


def _parameters(query_string: bytes) -> tuple[str | None, frozenset[str] | None]:
    """``from_id`` and ``types`` of the query, or the 400."""
    try:
        given = dict(parse_qsl(query_string.decode("latin-1"), keep_blank_values=True, max_num_fields=100))
    except ValueError:
        raise errors.invalid_input(["query: more than 100 parameters"]) from None
    problems = []
    from_id = given.get("from_id")
    if from_id is not None and not ids.is_id(from_id.lower()):
        problems.append("query.from_id: Input should be the id of a persisted event; ids of drafts are not accepted")
    types = None
    if "types" in given:
        chosen = [part.strip() for part in given["types"].split(",")]
        unknown = [name for name in chosen if name not in TYPES]
        types = frozenset(chosen)
        if unknown:
            named = ", ".join(repr(name[:40]) for name in unknown[:5])
            problems.append(f"query.types: unknown event type {named}; the valid types are {', '.join(TYPES)}")
    if problems:
        raise errors.invalid_input(problems)
    return (from_id.lower() if from_id is not None else None), types


def _check_origin(scope: Scope) -> None:
    """A browser names the page that opens a socket; only pages of this very host may."""
    headers = dict(scope["headers"])
    origin = headers.get(b"origin")
    if origin is None:
        return
    if urlsplit(origin.decode("latin-1")).netloc.lower() != headers.get(b"host", b"").decode("latin-1").lower():
        raise errors.forbidden("This origin cannot open a socket here")
