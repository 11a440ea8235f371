"""Agents: search, create, read, change, configure, versions."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, false, or_, select, update

from .. import errors, ids
from ..engines.llm.models import models_from_environment
from ..store.tables import agent_versions, agents, api_keys, workspace_agents
from ..turns.records import engine_of_version
from . import access, records
from .registry import OperationCall, page, reads, writes

# Templates whose engine is set up outside this service; here their agents stay PENDING.
SET_UP_ELSEWHERE = frozenset({"GOOSE", "OPENCLAW", "LANGGRAPH", "ADK"})
# Tags that need no category.
SERVICE_TAGS = frozenset({"official", "featured", "tutorial"})
_MODEL_FIELDS = ("model", "temperature", "max_tokens", "top_p")
_VERSION_FIELDS = ("version_number", "description", "summary", "system_prompt", "mode", *_MODEL_FIELDS)
_ENGINES = {None: "llm", "LLM": "llm", "PLATFORM_NATIVE": "guide"}
# Templates of LLM agents, and of agents without an engine, which configure-llm turns
# into LLM agents.
_CONFIGURABLE = frozenset({None, "LLM", "BLANK", "AUTO_MANAGED_STATE"})


@reads("listAgents")
def list_agents(call: OperationCall) -> dict[str, Any]:
    """List the visible agents that match every filter."""
    params = call.query
    viewer = access.agents_viewer(call)
    query = access.visible_agents(viewer, params["sort_by"] or "name")
    for name, condition in _FILTERS.items():
        if params[name] is not None and params[name] is not False:
            query = query.where(*condition(call, params[name]))
    if params["is_pinned"] is not None:
        query = query.where(agents.c.is_pinned if params["is_pinned"] else ~agents.c.is_pinned)
    rows, total = access.fetch_page(call, query)
    return page(records.agent_records(call.db, rows, viewer), total, call.query)


def _installed_in(call: OperationCall, reference: str) -> list[ColumnElement[bool]]:
    try:
        # Requires agents:read ("Authentication", rule 4), else nothing is installed.
        workspace = access.require_workspace(call, reference) if access.agents_viewer(call) else None
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
    """The condition that the creator is the account or, more often, one of its keys."""
    keys = select(api_keys.c.id).where(api_keys.c.account_id == account_id)
    return or_(creator == account_id, creator.in_(keys))


def _tagged(_call: OperationCall, text: str) -> list[ColumnElement[bool]]:
    # tags_json is a JSON list, so it contains a tag as encoded, quotes included: after
    # the opening bracket or a comma (a quote within a tag has a backslash before it).
    encoded = [msgspec.json.encode(tag).decode() for tag in access.limit_terms("tags", "tags", _split(text))]
    matches = [agents.c.tags_json.contains(f"{before}{tag}", autoescape=True) for tag in encoded for before in "[,"]
    return [or_(false(), *matches)]


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
    maintainer_id = _maintainer_id(call, body["maintainer_id"])
    source = _version_to_fork(call, body["forked_from_version"])
    access.require_unused_name(call, agents, owner_id, body["name"], "Agent")
    template = body["template"] or (source["template"] if source else None)
    is_as_source = source is not None and template == source["template"]
    new = call.writing.insert(
        agents,
        owner_id=owner_id,
        creator_id=caller.id,
        maintainer_id=maintainer_id,
        **records.pick(body, "name", "description", "avatar_url", "category"),
        tags_json=msgspec.json.encode(body["tags"] or []).decode(),
        template=template,
        engine=source["engine"] if source and is_as_source else _ENGINES.get(template, str(template).lower()),
        setup_state="PENDING" if template in SET_UP_ELSEWHERE else "READY",
        forked_from_version=source["id"] if source else None,
        is_public=body["is_public"],
    )
    if source is not None:
        fields = (*_VERSION_FIELDS, "tools_json", "platform_tools_json")
        prompt_owner_id = source["prompt_owner_id"] or source["owner_id"]
        copied = prompt_owner_id if prompt_owner_id != owner_id else None
        _commit_version(call, new["id"], {**records.pick(source, *fields), "prompt_owner_id": copied})
    return _record(call, new["id"])


def _maintainer_id(call: OperationCall, reference: str | None) -> str | None:
    """Return the id of the account that a body names as maintainer, or raise 400."""
    if reference is None:
        return None
    account = access.find_account(call.db, reference)
    if account is None:
        raise errors.invalid_input(["body.maintainer_id: no user or organization has this id or name"])
    return str(account["id"])


def _version_to_fork(call: OperationCall, reference: str | None) -> access.Row | None:
    """Return a version with its agent's owner, template and engine, or raise the 404.

    `reference` is the version's id, or names it by its agent, as in ``acme~helper`` for
    the newest committed version and ``acme~helper@1.1.0`` for the newest of a number.
    """
    if reference is None:
        return None
    query = (
        select(agent_versions, agents.c.owner_id, agents.c.template, agents.c.engine)
        .join(agents, agents.c.id == agent_versions.c.agent_id)
        .where(access.visible_agent(call.principal))
        .order_by(agent_versions.c.id.desc())
    )
    if ids.is_id(reference.lower()):
        query = query.where(agent_versions.c.id == reference.lower())
    else:
        query = query.where(agent_versions.c.type == "COMMITTED", *_version_named(call, reference))
    row = call.db.execute(query.limit(1)).mappings().first()
    if row is None or (row["type"] == "EPHEMERAL" and not access.is_own_agent(call, row["owner_id"], call.caller)):
        raise errors.not_found("Agent version")
    return row


def _version_named(call: OperationCall, reference: str) -> list[ColumnElement[bool]]:
    """The conditions that a version has this name; a name may contain an @."""
    agent, number = access.find_agent(call, reference, check_read_scope=False), None
    if agent is None:
        name, _, number = reference.rpartition("@")
        agent = access.find_agent(call, name, check_read_scope=False)
    if agent is None:
        return [false()]
    is_of_agent = agent_versions.c.agent_id == agent["id"]
    return [is_of_agent] if number is None else [is_of_agent, agent_versions.c.version_number == number]


@reads("getAgent")
def get_agent(call: OperationCall) -> dict[str, Any]:
    """Return an agent; a denied read is the same 404 as a missing agent."""
    row = access.require_agent(call, call.path["agent_id_or_name"], check_read_scope=True)
    return records.agent_records(call.db, [row], access.agents_viewer(call))[0]


@writes("updateAgent")
def update_agent(call: OperationCall) -> dict[str, Any]:
    """Change the fields named in the body; OAuth tokens only (see openapi.yaml)."""
    row = access.require_own_agent(call, call.path["agent_id_or_name"])
    body = call.body
    if body.get("is_public"):
        access.require_admin(call, row["owner_id"], "make an agent public")
    changes: dict[str, Any] = {name: body[name] for name in ("avatar_url", "category") if name in body}
    if "maintainer_id" in body:
        changes["maintainer_id"] = _maintainer_id(call, body["maintainer_id"])
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
    """Commit a new version of an LLM agent, or add a draft, which changes nothing."""
    row = access.require_own_agent(call, call.path["agent_id_or_name"])
    if row["setup_state"] != "READY":
        raise errors.conflict("Agent must be READY before it can be configured.")
    if row["template"] not in _CONFIGURABLE:
        raise errors.conflict(f"Only an LLM agent can be configured; the template of this agent is {row['template']}.")
    body = call.body
    _require_model(body["model"])
    is_draft = body["type"] == "EPHEMERAL"
    version = {
        **records.pick(body, *_VERSION_FIELDS, "type"),
        "validation": "PENDING" if is_draft else "PASSED",
        "tools_json": msgspec.json.encode(body["tools"]).decode(),
        "platform_tools_json": msgspec.json.encode(body.get("platform_tools", [])).decode(),
    }
    version_id = _commit_version(call, row["id"], version)
    if not is_draft:
        engine = engine_of_version(row["engine"])
        changes = {"description": body["description"], "engine": engine, "updated_at": call.writing.clock.instant()}
        call.db.execute(update(agents).where(agents.c.id == row["id"]).values(changes))
    job = {"id": call.writing.clock.new_id(), "type": "configure_llm", "status": "COMPLETED"}
    # The sender of a prompt gets it back, even if only its owner may read it later.
    return {**_version_record(call, row, version_id), "system_prompt": body["system_prompt"], "job": job}


def _require_model(name: str | None) -> None:
    """Raise the 400 if no language model of this service has the name."""
    names = models_from_environment(os.environ).names
    if name is not None and names and name not in names:
        raise errors.invalid_input([f"body.model: Input should be one of {', '.join(names)}"])


@reads("listModels")
def list_models(call: OperationCall) -> dict[str, Any]:
    """List the language models that a version may name, the default first."""
    models = [{"id": name, "is_default": n == 0} for n, name in enumerate(models_from_environment(os.environ).names)]
    start, limit = call.query["offset"], call.query["limit"]
    return page(models[start : start + limit], len(models), call.query)


def _commit_version(call: OperationCall, agent_id: str, fields: dict[str, Any]) -> str:
    fixed = {"agent_id": agent_id, "creator_id": call.caller.id, "type": "COMMITTED"}
    return str(call.writing.insert(agent_versions, **fixed | fields)["id"])


@reads("listAgentVersions")
def list_agent_versions(call: OperationCall) -> dict[str, Any]:
    """List the versions of a visible agent, newest first; drafts for its owner."""
    agent = access.require_agent(call, call.path["agent_id_or_name"], check_read_scope=True)
    viewer = access.agents_viewer(call)
    query = select(agent_versions).where(agent_versions.c.agent_id == agent["id"])
    if not access.is_own_agent(call, agent["owner_id"], viewer):
        query = query.where(agent_versions.c.type == "COMMITTED")
    if call.query["type"] is not None:
        query = query.where(agent_versions.c.type == call.query["type"])
    rows, total = access.fetch_page(call, query.order_by(agent_versions.c.id.desc()))
    return page((records.version_record(row, agent["owner_id"], viewer) for row in rows), total, call.query)


@writes("publishAgentVersion")
def publish_agent_version(call: OperationCall) -> dict[str, Any]:
    """Publish a committed version once, after its validation has passed.

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
    claim = "publish", row["id"]
    if call.is_claimed(claim):
        raise errors.conflict("Version is being published, try again later.")
    if row["published_at"] is not None:
        raise errors.conflict("Version is already published")
    if row["type"] != "COMMITTED" or row["validation"] != "PASSED":
        raise errors.conflict("Cannot publish: validation has not passed")
    call.claim(claim)
    now = call.writing.clock.instant()
    call.db.execute(
        update(agent_versions).where(agent_versions.c.id == reference).values(published_at=now, updated_at=now)
    )
    return _version_record(call, agent, reference)


def _record(call: OperationCall, agent_id: str) -> dict[str, Any]:
    rows = call.db.execute(select(agents).where(agents.c.id == agent_id)).mappings().all()
    return records.agent_records(call.db, rows, call.principal)[0]


def _version_record(call: OperationCall, agent: access.Row, version_id: str) -> dict[str, Any]:
    row = call.db.execute(select(agent_versions).where(agent_versions.c.id == version_id)).mappings().one()
    return records.version_record(row, agent["owner_id"], call.principal)
