"""Session events over REST: the page, and the follow-up message. The socket has a module of its own (`service.socket`)."""

from __future__ import annotations

from sqlalchemy import Connection

from .. import errors
from ..auth import Principal
from ..store import events
from ..store.tables import sessions
from . import access
from .registry import Call, page_of_wires, reads, writes


def readable_session(db: Connection, caller: Principal, session_id: str) -> access.Row:
    """The session, to a caller who may read its events: agents:read is needed too when it ran an agent."""
    row = access.session(db, caller, session_id)
    if row["agent_id"] is not None and caller.kind != "triggerApiKey":
        caller.require("agents:read")
    return row


@reads("listEvents", brief=True)
def list_events(call: Call) -> bytes:
    """A page of a session's events, newest first unless asked otherwise."""
    session = readable_session(call.db, call.caller, call.path["session_id"])
    given = call.query
    page = events.page(
        call.db,
        session["id"],
        from_id=given["from_id"].lower() if given["from_id"] is not None else None,
        newest_first=given["sort_by"].startswith("-"),
        limit=given["limit"],
        offset=min(given["offset"], (1 << 63) - 1),
    )
    return page_of_wires(page.wires, page.total, given)


@writes("postEvent")
def post_event(call: Call) -> bytes:
    """A follow-up in a chat that the caller initiated; the agent then answers. Anything else is the 404."""
    caller = call.caller
    session = access.session(call.db, caller, call.path["session_id"])
    initiator = caller.id
    if session["type"] != "chat" or session["initiator_id"] != initiator:
        raise errors.not_found("Session")
    call.db.execute(
        sessions.update().where(sessions.c.id == session["id"]).values(updated_at=call.writing.clock.instant())
    )
    message = call.platform.turns.ask(call.writing, session["id"], call.body["content"], caller)
    return message.wire.encode()
