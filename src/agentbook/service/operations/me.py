"""The current user: who am I, my workspaces, my invitations."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from ..store.tables import invitations, workspaces
from . import access, records
from .registry import Call, page, reads


@reads("getMe", brief=True)
def get_me(call: Call) -> dict[str, Any]:
    """The account, and the credential that asks."""
    caller = call.caller
    account = records.accounts_by_id(call.db, [caller.account_id], caller)[caller.account_id]
    credential: dict[str, Any] = {
        "type": caller.author_type,
        "id": caller.id,
        "name": caller.name,
        "scopes": sorted(caller.scopes),
    }
    if caller.kind == "oauth2":
        credential |= {"type": "oauth2", "id": caller.authorization_id, "name": caller.client_name}
    return {**account, "credential": credential}


@reads("listMyWorkspaces")
def list_my_workspaces(call: Call) -> dict[str, Any]:
    """The account's own workspaces, and with ``which=all`` those of its organizations."""
    query = select(workspaces).where(access.visible_workspace(call.caller))
    if call.query["which"] == "my":
        query = query.where(workspaces.c.owner_id == call.caller.account_id)
    query = access.sorted_by(query, workspaces, call.query["sort_by"], "name")
    rows, total = access.counted_page(call.db, query, call.query)
    return page(records.workspaces(call.db, rows, call.caller), total, call.query)


@reads("listMyInvitations")
def list_my_invitations(call: Call) -> dict[str, Any]:
    """Invitations sent to the account, newest first."""
    query = select(invitations).where(invitations.c.invitee_id == call.caller.account_id)
    rows, total = access.counted_page(call.db, query.order_by(invitations.c.id.desc()), call.query)
    return page(records.invitations(call.db, rows), total, call.query)
