"""The caller's account (``/me``), its workspaces and invitations, and an organization's."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from .. import errors
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


@reads("listOrganizationInvitations")
def list_organization_invitations(call: Call) -> dict[str, Any]:
    """Invitations of an organization that the caller acts for, newest first; any other organization is the 404."""
    organization = access.account_or_404(call, call.path["org_id_or_name"], "Organization")
    if organization["type"] != "organization" or not _acts_for(call, organization["id"]):
        raise errors.not_found("Organization")
    query = select(invitations).where(invitations.c.organization_id == organization["id"])
    rows, total = access.counted_page(call.db, query.order_by(invitations.c.id.desc()), call.query)
    return page(records.invitations(call.db, rows), total, call.query)


def _acts_for(call: Call, organization_id: str) -> bool:
    if call.caller.account_id == organization_id:
        return True
    if call.caller.kind != "oauth2":  # a key never acts as a person, so a membership gives it nothing
        return False
    return organization_id in call.db.execute(access.administered(call.caller)).scalars().all()
