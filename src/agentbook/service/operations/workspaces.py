"""Workspaces: list, create, contexts, and the agents installed in them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, insert, select

from .. import errors
from ..store.tables import agents, contexts, credential_grants, workspace_agents, workspaces
from . import access, records
from .registry import Call, page, reads, writes


@reads("listAccountWorkspaces")
def list_account_workspaces(call: Call) -> dict[str, Any]:
    """Workspaces of the caller's account, or of an organization it is a member of; any other account is the 404."""
    account = access.account_or_404(call, call.path["account_id_or_name"])
    known = call.db.execute(access.member_of(call.caller)).scalars().all()
    if account["id"] not in {call.caller.account_id, *known}:
        raise errors.not_found("Account")
    given = call.query
    query = select(workspaces).where(workspaces.c.owner_id == account["id"], access.visible_workspace(call.caller))
    if given["archived"] is not None:
        archived = workspaces.c.archived_at.is_not(None)
        query = query.where(archived if given["archived"] else ~archived)
    for text in (given["search"], given["filter"]):
        if text is not None:
            query = query.where(*access.words_in(text, workspaces.c.name))
    rows, total = access.counted_page(call.db, access.sorted_by(query, workspaces, given["sort_by"], "name"), given)
    return page(records.workspaces(call.db, rows, call.caller), total, given)


@writes("createWorkspace")
def create_workspace(call: Call) -> dict[str, Any]:
    """A new workspace of the caller's account; a key is recorded as its creator."""
    caller, name = call.caller, call.body["name"]
    owner_id = access.own_account(call, call.body.get("owner_id"), "create a workspace")
    taken = select(workspaces.c.id).where(workspaces.c.owner_id == owner_id, workspaces.c.name == name)
    if call.db.execute(taken).first() is not None:
        raise errors.name_taken("Workspace", f"{caller.account_name}~{name}")
    now = call.writing.clock.instant()
    new = {
        "id": call.writing.clock.new_id(),
        "owner_id": owner_id,
        "creator_id": caller.id,
        "creator_type": caller.author_type,
        "name": name,
        "created_at": now,
        "updated_at": now,
    }
    call.db.execute(insert(workspaces), new)
    row = call.db.execute(select(workspaces).where(workspaces.c.id == new["id"])).mappings().one()
    return records.workspaces(call.db, [row], caller)[0]


@reads("listContexts")
def list_contexts(call: Call) -> dict[str, Any]:
    """Contexts of a workspace, newest first."""
    workspace = access.workspace(call, call.path["workspace_id_or_name"])
    query = select(contexts).where(contexts.c.workspace_id == workspace["id"]).order_by(contexts.c.id.desc())
    rows, total = access.counted_page(call.db, query, call.query)
    return page((_context(row) for row in rows), total, call.query)


def _context(row: access.Row) -> records.Record:
    return {
        "id": row["id"],
        "task_id": row["task_id"],
        "task": {"id": row["task_id"]} if row["task_id"] else None,
        "workspace_id": row["workspace_id"],
        "published_by_id": row["published_by_id"],
        "type": row["type"],
        "status": row["status"],
        "generated_context": row["generated_context"],
        "manual_context": row["manual_context"],
        "summary": row["summary"],
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
    }


@reads("listWorkspaceAgents")
def list_workspace_agents(call: Call) -> dict[str, Any]:
    """Agents installed in a workspace that the caller can see, in the order they were installed."""
    workspace = access.workspace(call, call.path["workspace_id_or_name"])
    query = (
        select(workspace_agents)
        .join(agents, agents.c.id == workspace_agents.c.agent_id)
        .where(workspace_agents.c.workspace_id == workspace["id"], access.visible_agent(call.caller, reading=True))
    )
    rows, total = access.counted_page(call.db, query.order_by(workspace_agents.c.id), call.query)
    return page(_installed(call, rows), total, call.query)


@writes("installAgent")
def install_agent(call: Call) -> dict[str, Any]:
    """A visible agent, installed in a workspace of the caller's account."""
    workspace = access.own_workspace(call, call.path["workspace_id_or_name"])
    agent = access.agent(call, call.body["agent_id"], reading=False)
    there = select(workspace_agents.c.id).where(
        workspace_agents.c.workspace_id == workspace["id"], workspace_agents.c.agent_id == agent["id"]
    )
    if call.db.execute(there).first() is not None:
        raise errors.conflict(f'Agent "{agent["name"]}" is already installed in this workspace.')
    now = call.writing.clock.instant()
    row = {
        "id": call.writing.clock.new_id(),
        "workspace_id": workspace["id"],
        "agent_id": agent["id"],
        "creator_id": call.caller.id,
        "required_credentials_mode": None,
        "created_at": now,
        "updated_at": now,
    }
    call.db.execute(insert(workspace_agents), row)
    return _installed(call, [row])[0]


@writes("uninstallAgent")
def uninstall_agent(call: Call) -> dict[str, Any]:
    """Take an agent out of a workspace that the caller's account owns. Its sessions stay."""
    reference = call.path["workspace_agent_id"].lower()
    row = None
    if access.storable(reference):
        query = (
            select(workspace_agents.c.id)
            .join(workspaces, workspaces.c.id == workspace_agents.c.workspace_id)
            .where(workspace_agents.c.id == reference, access.visible_workspace(call.caller))
        )
        if call.caller.kind != "oauth2":
            query = query.where(workspaces.c.owner_id == call.caller.account_id)
        row = call.db.execute(query).first()
    if row is None:
        raise errors.not_found("Workspace agent")
    call.db.execute(delete(credential_grants).where(credential_grants.c.workspace_agent_id == reference))
    call.db.execute(delete(workspace_agents).where(workspace_agents.c.id == reference))
    return {}


def _installed(call: Call, rows: list[access.Row] | list[dict[str, Any]]) -> list[records.Record]:
    wanted = select(agents).where(agents.c.id.in_([row["agent_id"] for row in rows]))
    found = records.agents_(call.db, call.db.execute(wanted).mappings().all(), call.caller)
    by_id = {agent["id"]: agent for agent in found}
    return [
        {
            "id": row["id"],
            "workspace_id": row["workspace_id"],
            "agent_id": row["agent_id"],
            "agent": by_id[row["agent_id"]],
            "creator_id": row["creator_id"],
            "required_credentials_mode": row["required_credentials_mode"],
            "created_at": row["created_at"],
            "updated_at": row["updated_at"],
        }
        for row in rows
    ]
