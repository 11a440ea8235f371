"""Members of organizations and workspaces: list, add, remove; whom a workspace admits.

Used by the `agentbook members` command and by the page "Members". Only people are
members. A workspace's members belong to the organization that owns it; a user's own
workspace has no other members. When someone leaves, their grants end: the agents there
can no longer use their credentials. Specification: "Resources and their fields",
Workspace, ``should_restrict_members``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, delete, select, update

from . import auth
from .errors import OperatorError
from .store import Transaction
from .store.sign_in_tables import oauth_authorizations
from .store.tables import (
    accounts,
    credential_grants,
    credentials,
    memberships,
    workspace_agents,
    workspace_members,
    workspaces,
)

Row = Mapping[Any, Any]

CREDENTIALS_MODES = ("SHARED", "MEMBER")
# The settings that `configure_workspace` changes.
SETTINGS = frozenset(
    {"should_restrict_members", "restrict_account_credentials", "unlimited_power_mode", "required_credentials_mode"}
)


def organization_members(db: Connection, organization_id: str) -> Sequence[Row]:
    """Return ``id``, ``name``, ``role`` and ``created_at`` of members, by name."""
    query = (
        select(accounts.c.id, accounts.c.name, memberships.c.role, memberships.c.created_at)
        .join(memberships, memberships.c.user_id == accounts.c.id)
        .where(memberships.c.organization_id == organization_id)
        .order_by(accounts.c.name)
    )
    return db.execute(query).mappings().all()


def workspace_members_of(db: Connection, workspace_ids: Sequence[str]) -> Sequence[Row]:
    """Return the same of workspaces' members, and their ``workspace_id``.

    `role` is the person's role in the organization that owns the workspace.
    """
    joined = workspace_members.c
    query = (
        select(joined.workspace_id, accounts.c.id, accounts.c.name, memberships.c.role, joined.created_at)
        .join(accounts, accounts.c.id == joined.user_id)
        .join(workspaces, workspaces.c.id == joined.workspace_id)
        .join(memberships, _membership(workspaces.c.owner_id, accounts.c.id))
        .where(joined.workspace_id.in_(workspace_ids))
        .order_by(accounts.c.name)
    )
    return db.execute(query).mappings().all()


def set_role(tx: Transaction, organization: Row, user: Row, role: str) -> None:
    """Make a user a member of an organization, or change a member's role.

    Raises `OperatorError` if they are not a user and an organization, or if the
    organization would be left without an admin.
    """
    if organization["type"] != "organization":
        raise OperatorError(f"{organization['name']} is a user, and only organizations have members.")
    if user["type"] != "user":
        raise OperatorError(f"{user['name']} is an organization, and only users can be members.")
    current = _role(tx, organization, user)
    if current is None:
        tx.insert(memberships, organization_id=organization["id"], user_id=user["id"], role=role)
    elif current != role:
        _require_another_admin(tx, organization, user)
        changes = {"role": role, "updated_at": tx.clock.instant()}
        tx.db.execute(update(memberships).where(_membership(organization["id"], user["id"])).values(changes))
        _end_authorizations(tx, organization, user)


def remove_from_organization(tx: Transaction, organization: Row, user: Row) -> None:
    """Remove a person from an organization and from all its workspaces.

    Raises `OperatorError` if they are not a member, or are its last admin.
    """
    if _role(tx, organization, user) is None:
        raise OperatorError(f"{user['name']} is not a member of {organization['name']}, so nothing was changed.")
    _require_another_admin(tx, organization, user)
    owned = select(workspaces.c.id).where(workspaces.c.owner_id == organization["id"])
    tx.db.execute(delete(workspace_members).where(_is_member(owned, user)))
    tx.db.execute(delete(credential_grants).where(_granted_in(owned, user)))
    tx.db.execute(delete(memberships).where(_membership(organization["id"], user["id"])))
    _end_authorizations(tx, organization, user)


def add_to_workspace(tx: Transaction, workspace: Row, user: Row, creator_id: str | None) -> None:
    """Make a person a member of a workspace. A member is not added twice.

    Raises `OperatorError` if the person does not belong to the organization that owns
    the workspace.
    """
    owner = tx.db.execute(select(accounts).where(accounts.c.id == workspace["owner_id"])).mappings().one()
    if owner["type"] != "organization":
        raise OperatorError(f"{workspace['name']} belongs to the user {owner['name']} alone, so it has no members.")
    if _role(tx, owner, user) is None:
        raise OperatorError(
            f"{user['name']} is not a member of {owner['name']}, which owns the workspace; add them there first."
        )
    if tx.db.execute(select(workspace_members.c.id).where(_is_member([workspace["id"]], user))).first() is None:
        tx.insert(workspace_members, workspace_id=workspace["id"], user_id=user["id"], creator_id=creator_id)


def remove_from_workspace(tx: Transaction, workspace: Row, user: Row) -> None:
    """Remove a member of a workspace.

    Raises `OperatorError` if they are not a member.
    """
    if tx.db.execute(delete(workspace_members).where(_is_member([workspace["id"]], user))).rowcount == 0:
        raise OperatorError(f"{user['name']} is not a member of {workspace['name']}, so nothing was changed.")
    tx.change_access()
    if workspace["should_restrict_members"]:
        tx.db.execute(delete(credential_grants).where(_granted_in([workspace["id"]], user)))


def configure_workspace(tx: Transaction, workspace: Row, changes: Mapping[str, Any]) -> None:
    """Change settings of a workspace (`SETTINGS`)."""
    if changes:
        values = {**changes, "updated_at": tx.clock.instant()}
        tx.db.execute(update(workspaces).where(workspaces.c.id == workspace["id"]).values(values))
        tx.change_access()


def _end_authorizations(tx: Transaction, organization: Row, user: Row) -> None:
    """Revoke what a person allowed clients to do as an organization.

    Their tokens end. Only admins may act as an organization.
    """
    is_theirs = oauth_authorizations.c.person_id == user["id"]
    auth.revoke(tx, oauth_authorizations, is_theirs, oauth_authorizations.c.account_id == organization["id"])


def _require_another_admin(tx: Transaction, organization: Row, user: Row) -> None:
    """Raise `OperatorError` if `user` is the only admin of the organization."""
    is_admin = (memberships.c.organization_id == organization["id"]) & (memberships.c.role == "ADMIN")
    if tx.db.execute(select(memberships.c.user_id).where(is_admin)).scalars().all() == [user["id"]]:
        raise OperatorError(
            f"{user['name']} is the last admin of {organization['name']}; make somebody else an admin first."
        )


def _role(tx: Transaction, organization: Row, user: Row) -> str | None:
    """The user's role in an organization; None if they are not a member."""
    membership = _membership(organization["id"], user["id"])
    role: str | None = tx.db.execute(select(memberships.c.role).where(membership)).scalar()
    return role


def _membership(organization_id: Any, user_id: Any) -> ColumnElement[bool]:
    return and_(memberships.c.organization_id == organization_id, memberships.c.user_id == user_id)


def _is_member(workspace_ids: Select[Any] | list[str], user: Row) -> ColumnElement[bool]:
    return and_(workspace_members.c.workspace_id.in_(workspace_ids), workspace_members.c.user_id == user["id"])


def _granted_in(workspace_ids: Select[Any] | list[str], user: Row) -> ColumnElement[bool]:
    """The condition that a grant gives these workspaces' agents a user's credential."""
    own = select(credentials.c.id).where(credentials.c.owner_id == user["id"])
    installed = select(workspace_agents.c.id).where(workspace_agents.c.workspace_id.in_(workspace_ids))
    return and_(credential_grants.c.credential_id.in_(own), credential_grants.c.workspace_agent_id.in_(installed))
