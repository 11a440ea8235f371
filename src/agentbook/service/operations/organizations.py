"""Organizations: the invitations they sent."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from .. import errors
from ..store.tables import invitations
from . import access, records
from .registry import Call, page, reads


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
