"""Agents: search, create, read, change, configure, versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, false, insert, or_, select, update

from .. import errors, ids
from ..store.tables import agent_versions, agents, api_keys, workspace_agents
from . import access, records
from .registry import OperationCall, page, reads, writes

# Templates whose engine is set up outside this service; their agents stay PENDING here.
SET_UP_ELSEWHERE = frozenset({"GOOSE", "OPENCLAW", "LANGGRAPH", "ADK"})
# Tags that need no category.
SERVICE_TAGS = frozenset({"official", "featured", "tutorial"})
_VERSION_FIELDS = ("version_number", "description", "summary", "system_prompt", "mode")
_ENGINES = {None: "llm", "LLM": "llm", "PLATFORM_NATIVE": "guide"}


@reads("listAgents")
def list_agents(call: OperationCall) -> dict[str, Any]:
    """List the visible agents that match every filter."""
    params = call.query
    query = select(agents).where(access.visible_agent(call.principal, reading=True), ~agents.c.is_archived)
    for name, condition in _FILTERS.items():
        if params[name] is not None and params[name] is not False:
            query = query.where(*condition(call, params[name]))
    if params["is_pinned"] is not None:
        query = query.where(agents.c.is_pinned if params["is_pinned"] else ~agents.c.is_pinned)
    rows, total = access.fetch_page(call, access.order_by_column(query, agents, params["sort_by"], "name"))
    return page(records.agent_records(call.db, rows, call.principal), total, params)


def _installed_in(call: OperationCall, reference: str) -> list[ColumnElement[bool]]:
    try:
        # Requires agents:read ("Authentication", rule 4), else nothing is installed.
        may_read = call.principal is not None and call.principal.may("agents:read")
        workspace = access.require_workspace(call, reference) if may_read else None
    except errors.HTTPError:
        workspace = None
    if workspace is None:
        return [false()]
    installed = select(workspace_agents.c.agent_id).where(workspace_agents.c.workspace_id == workspace["id"])
    return [agents.c.id.in_(installed)]


def _owned_by(call: OperationCall, reference: str) -> list[ColumnElement[bool]]:
    owner = access.find_account(call.db, reference)
    return [agents.c.owner_id == owner["id"] if owner else false()]


def _contributed_by(call: OperationCall, reference: str) -> list[ColumnElement[bool]]:
    person = access.find_account(call.db, reference)
    if person is None:
        return [false()]
    authored = select(agent_versions.c.agent_id).where(_made_by(agent_versions.c.creator_id, person["id"]))
    maintained = agents.c.maintainer_id == person["id"]
    return [or_(_made_by(agents.c.creator_id, person["id"]), maintained, agents.c.id.in_(authored))]


def _made_by(creator: ColumnElement[str], account_id: str) -> ColumnElement[bool]:
    """The condition that the creator is the account or, more often, a key of it."""
    keys = select(api_keys.c.id).where(api_keys.c.account_id == account_id)
    return or_(creator == account_id, creator.in_(keys))


def _tagged(_call: OperationCall, text: str) -> list[ColumnElement[bool]]:
    # tags_json is a JSON list, so it contains a tag as encoded, quotes included: after
    # the opening bracket or a comma (a quote within a tag has a backslash before it).
    encoded = [msgspec.json.encode(tag).decode() for tag in _split(text)]
    matches = [agents.c.tags_json.contains(f"{before}{tag}", autoescape=True) for tag in encoded for before in "[,"]
    return [access.join_conditions(or_, [false(), *matches])]


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


_FILTERS: dict[str, Callable[[OperationCall, Any], list[ColumnElement[bool]]]] = {
    "search": lambda _call, text: access.contains_words(text, agents.c.name, agents.c.description),
    "published_only": lambda _call, _on: [
        agents.c.id.in_(select(agent_versions.c.agent_id).where(agent_versions.c.published_at.is_not(None)))
    ],
    "is_public": lambda _call, _on: [agents.c.is_public],
    "for_workspace": _installed_in,
    "tags": _tagged,
    "categories": lambda _call, text: [agents.c.category.in_(_split(text))],
    "agent_types": lambda _call, text: [agents.c.template.in_(_split(text))],
    "owner": _owned_by,
    "contributor": _contributed_by,
}


@writes("createAgent")
def create_agent(call: OperationCall) -> dict[str, Any]:
    """Create an agent of the caller's account, optionally forked from a version."""
    body, caller = call.body, call.caller
    owner_id = access.require_own_account(call, body.get("owner_id"), "create an agent")
    if body["is_public"]:
        access.require_admin(call, owner_id, "make an agent public")
    access.require_unused_name(call, agents, owner_id, body["name"], "Agent")
    source = _version_to_fork(call, body["forked_from_version"])
    template = body["template"] or (source["template"] if source else None)
    now = call.writing.clock.instant()
    agent_id = call.writing.clock.new_id()
    new = {
        "id": agent_id,
        "owner_id": owner_id,
        "creator_id": caller.id,
        "maintainer_id": _id(body["maintainer_id"]),
        **records.pick(body, "name", "description", "avatar_url", "category"),
        "tags_json": msgspec.json.encode(body["tags"] or []).decode(),
        "template": template,
        "engine": source["engine"] if source else _ENGINES.get(template, str(template).lower()),
        "setup_state": "PENDING" if template in SET_UP_ELSEWHERE else "READY",
        "forked_from_version": _id(body["forked_from_version"]),
        "is_public": body["is_public"],
        "created_at": now,
        "updated_at": now,
    }
    call.db.execute(insert(agents), new)
    if source is not None:
        fields = (*_VERSION_FIELDS, "tools_json", "platform_tools_json")
        _commit_version(call, agent_id, records.pick(source, *fields))
    return _record(call, agent_id)


def _id(reference: str | None) -> str | None:
    """Return an id in lower case, as stored."""
    return None if reference is None else reference.lower()


def _version_to_fork(call: OperationCall, version_id: str | None) -> access.Row | None:
    """Return a version with its agent's template and engine; 404 if not visible."""
    if version_id is None:
        return None
    query = (
        select(agent_versions, agents.c.template, agents.c.engine)
        .join(agents, agents.c.id == agent_versions.c.agent_id)
        .where(agent_versions.c.id == version_id.lower(), access.visible_agent(call.principal, reading=False))
    )
    row = call.db.execute(query).mappings().first()
    if row is None:
        raise errors.not_found("Agent version")
    return row


@reads("getAgent", brief=True)
def get_agent(call: OperationCall) -> dict[str, Any]:
    """Return an agent; a denied read is the same 404 as a missing agent."""
    row = access.require_agent(call, call.path["agent_id_or_name"], reading=True)
    return records.agent_records(call.db, [row], call.principal)[0]


@writes("updateAgent")
def update_agent(call: OperationCall) -> dict[str, Any]:
    """Change the fields that the body names; OAuth tokens only (see openapi.yaml)."""
    row = access.require_own_agent(call, call.path["agent_id_or_name"])
    body = call.body
    if body.get("is_public"):
        access.require_admin(call, row["owner_id"], "make an agent public")
    changes: dict[str, Any] = {name: body[name] for name in ("avatar_url", "category") if name in body}
    if "maintainer_id" in body:
        changes["maintainer_id"] = _id(body["maintainer_id"])
    changes |= {name: body[name] for name in ("is_public", "is_archived", "is_pinned") if body.get(name) is not None}
    if "tags" in body:
        changes["tags_json"] = msgspec.json.encode(body["tags"] or []).decode()
    if "tags" in body or "category" in body:
        tags: list[str] = msgspec.json.decode(changes.get("tags_json") or row["tags_json"])
        if not SERVICE_TAGS.issuperset(tags) and not changes.get("category", row["category"]):
            field = "tags" if "tags" in body else "category"
            raise errors.invalid_input([f"body.{field}: tags other than the service's own need a category"])
    if changes:
        changes["updated_at"] = call.writing.clock.instant()
        call.db.execute(update(agents).where(agents.c.id == row["id"]).values(changes))
    return _record(call, row["id"])


@writes("configureLlm")
def configure_llm(call: OperationCall) -> dict[str, Any]:
    """Commit a new version of an LLM agent."""
    row = access.require_own_agent(call, call.path["agent_id_or_name"])
    if row["setup_state"] != "READY":
        raise errors.conflict("Agent must be READY before it can be configured.")
    body = call.body
    version = {
        **records.pick(body, *_VERSION_FIELDS),
        "tools_json": msgspec.json.encode(body["tools"]).decode(),
        "platform_tools_json": msgspec.json.encode(body.get("platform_tools", [])).decode(),
    }
    version_id = _commit_version(call, row["id"], version)
    # An agent without an engine of its own becomes an LLM agent.
    engine = "llm" if row["engine"] in ("blank", "auto_managed_state") else row["engine"]
    changes = {"description": body["description"], "engine": engine, "updated_at": call.writing.clock.instant()}
    call.db.execute(update(agents).where(agents.c.id == row["id"]).values(changes))
    job = {"id": call.writing.clock.new_id(), "type": "configure_llm", "status": "COMPLETED"}
    return {**_version_record(call, version_id), "job": job}


def _commit_version(call: OperationCall, agent_id: str, fields: dict[str, Any]) -> str:
    now, version_id = call.writing.clock.instant(), call.writing.clock.new_id()
    fixed = {"id": version_id, "agent_id": agent_id, "creator_id": call.caller.id, "type": "COMMITTED"}
    call.db.execute(insert(agent_versions), {**fixed, **fields, "created_at": now, "updated_at": now})
    return version_id


@reads("listAgentVersions")
def list_agent_versions(call: OperationCall) -> dict[str, Any]:
    """List the versions of a visible agent, newest first."""
    agent = access.require_agent(call, call.path["agent_id_or_name"], reading=True)
    own = call.principal is not None and call.principal.account_id == agent["owner_id"]
    query = select(agent_versions).where(agent_versions.c.agent_id == agent["id"])
    if call.query["type"] is not None:
        query = query.where(agent_versions.c.type == call.query["type"])
    rows, total = access.fetch_page(call, query.order_by(agent_versions.c.id.desc()))
    may_read = own and call.principal is not None and call.principal.may("agents:read")
    return page((records.version_record(row, with_prompt=may_read) for row in rows), total, call.query)


@writes("publishAgentVersion")
def publish_agent_version(call: OperationCall) -> dict[str, Any]:
    """Publish a version once, after its validation has passed.

    Specification: "States and transitions", rule 2.
    """
    agent = access.require_own_agent(call, call.path["agent_id_or_name"])
    reference = call.path["version_id"].lower()
    row = None
    if ids.is_id(reference):
        query = select(agent_versions).where(agent_versions.c.agent_id == agent["id"], agent_versions.c.id == reference)
        row = call.db.execute(query).mappings().first()
    if row is None:
        raise errors.not_found("Agent version")
    if row["published_at"] is not None:
        raise errors.conflict("Version is already published")
    if row["validation"] != "PASSED":
        raise errors.conflict("Cannot publish: validation has not passed")
    now = call.writing.clock.instant()
    call.db.execute(
        update(agent_versions).where(agent_versions.c.id == reference).values(published_at=now, updated_at=now)
    )
    return _version_record(call, reference)


def _record(call: OperationCall, agent_id: str) -> dict[str, Any]:
    rows = call.db.execute(select(agents).where(agents.c.id == agent_id)).mappings().all()
    return records.agent_records(call.db, rows, call.principal)[0]


def _version_record(call: OperationCall, version_id: str) -> dict[str, Any]:
    rows = call.db.execute(select(agent_versions).where(agent_versions.c.id == version_id)).mappings()
    return next(records.version_record(row, with_prompt=True) for row in rows)
