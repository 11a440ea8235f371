"""Which integration credentials a run gets.

An agent gets the credentials that are granted to it in the session's workspace and,
unless the workspace restricts it, those that the owning account shares. The required
mode (the installed agent's own, else its workspace's) then narrows them to the owning
account's (``SHARED``) or to those of the person the session acts for (``MEMBER``).
Specification: "Resources and their fields", Workspace, ``restrict_account_credentials``
and ``required_credentials_mode``.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import ColumnElement, Connection, ScalarSelect, and_, case, false, or_, select

from ..engines.base import IntegrationCredential
from ..store.tables import accounts, api_keys, credential_grants, credentials, memberships, workspace_agents, workspaces


def acting_user(initiator_id: ColumnElement[str], initiator_type: ColumnElement[str]) -> ScalarSelect[str]:
    """Select the id of the user that a session acts for, or null.

    A key acts as its account, which may be a user's.
    """
    user = accounts.alias()
    key_account = select(api_keys.c.account_id).where(api_keys.c.id == initiator_id).correlate_except(api_keys)
    account = case((initiator_type == "user", initiator_id), else_=key_account.scalar_subquery())
    query = select(user.c.id).where(user.c.id == account, user.c.type == "user")
    return query.correlate_except(user).scalar_subquery()


def credentials_of_run(
    db: Connection, workspace_id: str, agent_id: str, user_id: str | None, integrations: Iterable[str]
) -> dict[str, IntegrationCredential]:
    """Return the credentials of a run, at most one for each of the integrations.

    Granted credentials come before shared ones, the user's own before others, and newer
    ones before older ones.
    """
    names = list(integrations)
    if not names:
        return {}
    chosen: dict[str, IntegrationCredential] = {}
    for credential in _usable(db, workspace_id, agent_id, user_id, names):
        chosen.setdefault(credential.integration, credential)
    return chosen


def _usable(
    db: Connection, workspace_id: str, agent_id: str, user_id: str | None, integrations: list[str]
) -> list[IntegrationCredential]:
    """The usable credentials, preferred ones first."""
    workspace = db.execute(select(workspaces).where(workspaces.c.id == workspace_id)).mappings().one()
    installed_query = select(workspace_agents).where(
        workspace_agents.c.workspace_id == workspace_id, workspace_agents.c.agent_id == agent_id
    )
    installed = db.execute(installed_query).mappings().first()
    granted: ColumnElement[bool] = false()
    if installed is not None:
        grants = select(credential_grants.c.credential_id).where(
            credential_grants.c.workspace_agent_id == installed["id"]
        )
        granted = credentials.c.id.in_(grants)
    is_owners = credentials.c.owner_id == workspace["owner_id"]
    is_users: ColumnElement[bool] = credentials.c.owner_id == user_id if user_id is not None else false()
    usable = granted
    if not workspace["restrict_account_credentials"]:
        usable = or_(granted, and_(is_owners, credentials.c.account_id == workspace["owner_id"]))
    # People who have left the organization take their credentials with them.
    colleagues = select(memberships.c.user_id).where(memberships.c.organization_id == workspace["owner_id"])
    conditions = [usable, or_(is_owners, credentials.c.owner_id.in_(colleagues))]
    mode = (installed["required_credentials_mode"] if installed else None) or workspace["required_credentials_mode"]
    if mode is not None:
        conditions.append(is_owners if mode == "SHARED" else is_users)
    query = (
        select(credentials.c.id, credentials.c.integration, credentials.c.name, is_owners)
        .where(credentials.c.integration.in_(integrations), *conditions)
        .order_by(case((granted, 0), else_=1), case((is_users, 0), else_=1), credentials.c.id.desc())
    )
    return [IntegrationCredential(*row) for row in db.execute(query)]
