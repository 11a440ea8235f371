"""Sessions: start a chat, list, read; its events as pages, and the follow-up message."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, insert, select

from .. import errors
from ..auth import Principal
from ..store import events
from ..store.tables import pending_turns, sessions
from . import access, records
from .registry import Call, page, page_of_wires, reads, writes

_NAME_LENGTH = 80


@writes("startSession")
def start_session(call: Call) -> dict[str, Any]:
    """A new chat whose agent starts on the initial prompt at once."""
    workspace = access.own_workspace(call, call.path["workspace_id_or_name"])
    body, caller = call.body, call.caller
    if body["session_type"] != "chat":
        raise errors.forbidden(f"This credential cannot start sessions of type {body['session_type']}")
    agent = access.agent(call, body["agent_id"], reading=False)
    if workspace["archived_at"] is not None:
        raise errors.forbidden("This workspace is archived")
    if agent["is_archived"]:
        raise errors.forbidden("This agent is archived")
    now = call.writing.clock.instant()
    new = {
        "id": call.writing.clock.new_id(),
        "workspace_id": workspace["id"],
        "agent_id": agent["id"],
        "type": "chat",
        "initiator_id": caller.id,
        "initiator_type": caller.author_type,
        "name": _first_line(body["initial_prompt"]),
        "created_at": now,
        "updated_at": now,
    }
    call.db.execute(insert(sessions), new)
    call.platform.turns.ask(call.writing, new["id"], body["initial_prompt"], caller)
    return records.sessions(call.db, [{**new, "turn": True}])[0]


def _first_line(prompt: str) -> str | None:
    line = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    return line if len(line) <= _NAME_LENGTH else line[: _NAME_LENGTH - 1] + "…"


@reads("listSessions")
def list_sessions(call: Call) -> dict[str, Any]:
    """Sessions of a workspace; a key sees those of its own account's workspaces alone."""
    workspace = access.own_workspace(call, call.path["workspace_id_or_name"])
    query = _with_turn().where(sessions.c.workspace_id == workspace["id"])
    if call.query["type"] is not None:
        query = query.where(sessions.c.type == call.query["type"])
    if call.query["agent_id"] is not None:
        query = query.where(sessions.c.agent_id == access.agent(call, call.query["agent_id"], reading=False)["id"])
    query = access.sorted_by(query, sessions, call.query["sort_by"], "-id")
    rows, total = access.counted_page(call.db, query, call.query)
    return page(records.sessions(call.db, rows), total, call.query)


@reads("getSession", brief=True)
def get_session(call: Call) -> dict[str, Any]:
    """One session, and whether a turn of it is running."""
    found = access.session(call.db, call.caller, call.path["session_id"])
    row = call.db.execute(_with_turn().where(sessions.c.id == found["id"])).mappings().one()
    return records.sessions(call.db, [row])[0]


def _with_turn() -> Select[Any]:
    running = select(pending_turns.c.task_id).where(pending_turns.c.session_id == sessions.c.id).limit(1)
    return select(sessions, running.scalar_subquery().label("turn"))


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
    page_ = events.page(
        call.db,
        session["id"],
        from_id=given["from_id"].lower() if given["from_id"] is not None else None,
        newest_first=given["sort_by"].startswith("-"),
        limit=given["limit"],
        offset=min(given["offset"], (1 << 63) - 1),
    )
    return page_of_wires(page_.wires, page_.total, given)


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
