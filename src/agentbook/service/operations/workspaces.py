"""Workspaces: list, create, contexts."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from .. import errors, members
from ..store.tables import contexts, workspaces
from . import access, records
from .registry import OperationCall, page, reads, writes


@reads("listAccountWorkspaces")
def list_account_workspaces(call: OperationCall) -> dict[str, Any]:
    """List the workspaces of the caller's account or organizations; 404 for others."""
    account = access.require_account(call, call.path["account_id_or_name"])
    organizations = call.db.execute(access.organizations_of(call.caller)).scalars().all()
    if account["id"] not in {call.caller.account_id, *organizations}:
        raise errors.not_found("Account")
    params = call.query
    query = select(workspaces).where(workspaces.c.owner_id == account["id"], access.visible_workspace(call.caller))
    if params["archived"] is not None:
        archived = workspaces.c.archived_at.is_not(None)
        query = query.where(archived if params["archived"] else ~archived)
    for text in (params["search"], params["filter"]):
        if text is not None:
            query = query.where(*access.contains_words(text, workspaces.c.name))
    rows, total = access.fetch_page(call, access.order_by_column(query, workspaces, params["sort_by"], "name"))
    return page(records.workspace_records(call.db, rows, call.caller), total, call.query)


@writes("createWorkspace")
def create_workspace(call: OperationCall) -> dict[str, Any]:
    """Create a workspace of the caller's account; its creator may be a key.

    A person who creates one for an organization is its first member.
    """
    caller, name = call.caller, call.body["name"]
    owner_id = access.require_own_account(call, call.body.get("owner_id"), "create a workspace")
    access.require_unused_name(call, workspaces, owner_id, name, "Workspace")
    new = call.writing.insert(
        workspaces, owner_id=owner_id, creator_id=caller.id, creator_type=caller.author_type, name=name
    )
    rows = call.db.execute(select(workspaces).where(workspaces.c.id == new["id"])).mappings().all()
    if caller.kind == "oauth2" and owner_id != caller.id:
        members.add_to_workspace(call.writing, rows[0], {"id": caller.id, "name": caller.name}, caller.id)
    return records.workspace_records(call.db, rows, caller)[0]


@reads("listContexts")
def list_contexts(call: OperationCall) -> dict[str, Any]:
    """List the contexts of a workspace, newest first."""
    workspace = access.require_workspace(call, call.path["workspace_id_or_name"])
    query = select(contexts).where(contexts.c.workspace_id == workspace["id"]).order_by(contexts.c.id.desc())
    rows, total = access.fetch_page(call, query)
    return page((_context(row) for row in rows), total, call.query)


def _context(row: access.Row) -> records.Record:
    return {
        **records.pick(row, "id", "task_id"),
        "task": {"id": row["task_id"]} if row["task_id"] else None,
        **records.pick(row, "workspace_id", "published_by_id", "type", "status", "generated_context"),
        **records.pick(row, "manual_context", "summary", "created_at", "updated_at"),
    }
