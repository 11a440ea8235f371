"""Sessions: start a chat, list and read sessions, read events, post a message."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, select

from ..._text import title
from .. import errors, ids
from ..auth import Principal
from ..store import events
from ..store.tables import agent_versions, pending_turns, sessions
from ..turns.records import mark_updated
from . import access, records
from .registry import OperationCall, page, page_of_json, reads, writes

_NAME_LENGTH = 80


@writes("startSession")
def start_session(call: OperationCall) -> dict[str, Any]:
    """Start a chat; its agent answers the initial prompt at once."""
    workspace = access.require_own_workspace(call, call.path["workspace_id_or_name"])
    body, caller = call.body, call.caller
    if body["session_type"] != "chat":
        raise errors.forbidden(f"This credential cannot start sessions of type {body['session_type']}")
    agent = access.require_agent(call, body["agent_id"], check_read_scope=False)
    if workspace["archived_at"] is not None:
        raise errors.forbidden("This workspace is archived")
    if agent["is_archived"]:
        raise errors.forbidden("This agent is archived")
    version_id = _version_id(call, agent, body["agent_version_id"])
    new = call.writing.insert(
        sessions,
        workspace_id=workspace["id"],
        agent_id=agent["id"],
        agent_version_id=version_id,
        type="chat",
        initiator_id=caller.id,
        initiator_type=caller.author_type,
        name=title(body["initial_prompt"], _NAME_LENGTH),
    )
    call.platform.turns.ask(call.writing, new["id"], body["initial_prompt"], caller)
    return records.session_records(call.db, [{**new, "turn": True}])[0]


def _version_id(call: OperationCall, agent: access.Row, reference: str | None) -> str | None:
    """Return the id of the version of a new session, or raise the 403 or 404.

    The account that owns the agent may name any version, a draft included.
    """
    if reference is None:
        return None
    access.require_own_agent(call, agent["id"])
    is_this = (agent_versions.c.id == reference.lower()) & (agent_versions.c.agent_id == agent["id"])
    query = select(agent_versions.c.id).where(is_this)
    version_id = call.db.execute(query).scalar() if ids.is_id(reference.lower()) else None
    if version_id is None:
        raise errors.not_found("Agent version")
    return str(version_id)


@reads("listSessions")
def list_sessions(call: OperationCall) -> dict[str, Any]:
    """List the sessions of a workspace; for a key, of its own account's only."""
    workspace = access.require_own_workspace(call, call.path["workspace_id_or_name"])
    query = _with_turn().where(sessions.c.workspace_id == workspace["id"])
    if call.query["type"] is not None:
        query = query.where(sessions.c.type == call.query["type"])
    if call.query["agent_id"] is not None:
        query = query.where(
            sessions.c.agent_id == access.require_agent(call, call.query["agent_id"], check_read_scope=False)["id"]
        )
    query = access.order_by_column(query, sessions, call.query["sort_by"], "-id")
    rows, total = access.fetch_page(call, query)
    return page(records.session_records(call.db, rows), total, call.query)


@reads("getSession")
def get_session(call: OperationCall) -> dict[str, Any]:
    """Return a session, and whether a turn of it is running."""
    session = access.require_session(call.db, call.caller, call.path["session_id"])
    rows = call.db.execute(_with_turn().where(sessions.c.id == session["id"])).mappings().all()
    return records.session_records(call.db, rows)[0]


def _with_turn() -> Select[Any]:
    running = select(pending_turns.c.task_id).where(pending_turns.c.session_id == sessions.c.id).limit(1)
    return select(sessions, running.scalar_subquery().label("turn"))


def readable_session(db: Connection, caller: Principal, session_id: str) -> access.Row:
    """Return a session whose events the caller may read, or raise 403 or 404.

    If the session ran an agent, agents:read is required too.
    """
    row = access.require_session(db, caller, session_id)
    if row["agent_id"] is not None and caller.kind != "triggerApiKey":
        caller.require("agents:read")
    return row


@reads("listEvents")
def list_events(call: OperationCall) -> bytes:
    """List a session's events, newest first unless `sort_by` says otherwise."""
    session = readable_session(call.db, call.caller, call.path["session_id"])
    params = call.query
    request = events.PageRequest(
        session_id=session["id"],
        sort_by=params["sort_by"],
        from_id=(params["from_id"] or "").lower(),
        limit=params["limit"],
        offset=min(params["offset"], access.MAX_OFFSET),
    )
    json_texts, total = events.page(call.db, request)
    return page_of_json(json_texts, total, params)


@writes("postEvent")
def post_event(call: OperationCall) -> bytes:
    """Post a message in a chat that the caller initiated; the agent then answers.

    Any other session raises the 404.
    """
    caller = call.caller
    session = access.require_session(call.db, caller, call.path["session_id"])
    initiator = caller.id
    if session["type"] != "chat" or session["initiator_id"] != initiator:
        raise errors.not_found("Session")
    mark_updated(call.writing, session["id"])
    message = call.platform.turns.ask(call.writing, session["id"], call.body["content"], caller)
    return message.json_text.encode()
