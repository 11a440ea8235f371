"""The caller's account, workspaces and invitations; an organization's invitations."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from .. import errors
from ..store.tables import invitations, workspaces
from . import access, records
from .registry import OperationCall, page, reads


@reads("getMe")
def get_me(call: OperationCall) -> dict[str, Any]:
    """Return the caller's account and credential."""
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
def list_my_workspaces(call: OperationCall) -> dict[str, Any]:
    """List the account's workspaces; with ``which=all`` also its organizations'."""
    query = select(workspaces).where(access.visible_workspace(call.caller))
    if call.query["which"] == "my":
        query = query.where(workspaces.c.owner_id == call.caller.account_id)
    query = access.order_by_column(query, workspaces, call.query["sort_by"], "name")
    rows, total = access.fetch_page(call, query)
    return page(records.workspace_records(call.db, rows, call.caller), total, call.query)


@reads("listMyInvitations")
def list_my_invitations(call: OperationCall) -> dict[str, Any]:
    """List the invitations sent to the account, newest first."""
    query = select(invitations).where(invitations.c.invitee_id == call.caller.account_id)
    rows, total = access.fetch_page(call, query.order_by(invitations.c.id.desc()))
    return page(records.invitation_records(call.db, rows), total, call.query)


@reads("listOrganizationInvitations")
def list_organization_invitations(call: OperationCall) -> dict[str, Any]:
    """List the invitations of an organization, newest first.

    404 unless the caller acts as the organization or is a person who is its admin.
    """
    organization = access.require_account(call, call.path["org_id_or_name"], "Organization")
    acts_for = call.caller.account_id == organization["id"] or access.is_admin(call, organization["id"])
    if organization["type"] != "organization" or not acts_for:
        raise errors.not_found("Organization")
    query = select(invitations).where(invitations.c.organization_id == organization["id"])
    rows, total = access.fetch_page(call, query.order_by(invitations.c.id.desc()))
    return page(records.invitation_records(call.db, rows), total, call.query)
