"""Integration credentials of accounts, and of agents in workspaces.

Specification: "Resources and their fields", IntegrationCredentials; "Authentication",
rule 4, ``integrations``.
"""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import ColumnElement, delete, insert, or_, select

from .. import errors, ids
from ..store.tables import credential_grants, credentials, workspace_agents
from . import access, records
from .registry import OperationCall, page, reads, writes

# Fields that only the account that lists a credential, and its owner, may read.
_PRIVATE: dict[str, Any] = {
    "params": {},
    "extra_data": {},
    "config_params": {},
    "policy_resources": [],
    "webhook_owner_identifier": None,
    "webhook_url": None,
}


@reads("listCredentials")
def list_credentials(call: OperationCall) -> dict[str, Any]:
    """List the credentials of the caller's account, newest first; 404 for others."""
    account = access.require_account(call, call.path["account_id_or_name"])
    if account["id"] != call.caller.account_id:
        raise errors.not_found("Account")
    params = call.query
    query = select(credentials).where(credentials.c.account_id == account["id"])
    if params["integration"] is not None:
        query = query.where(credentials.c.integration == params["integration"])
    if params["search"] is not None:
        query = query.where(*access.contains_words(params["search"], credentials.c.name, credentials.c.integration))
    if params["scope"] is not None:
        shared = credentials.c.owner_id == account["id"]
        query = query.where(shared if params["scope"] else ~shared)
    if params["workspace_id"] is not None:
        workspace = access.require_workspace(call, params["workspace_id"])
        granted = (
            select(credential_grants.c.credential_id)
            .join(workspace_agents, workspace_agents.c.id == credential_grants.c.workspace_agent_id)
            .where(workspace_agents.c.workspace_id == workspace["id"])
        )
        in_workspace = credentials.c.id.in_(granted)
        query = query.where(~in_workspace if params["grant_candidates"] else in_workspace)
    elif params["grant_candidates"]:
        query = query.where(~credentials.c.id.in_(select(credential_grants.c.credential_id)))
    rows, total = access.fetch_page(call, query.order_by(credentials.c.id.desc()))
    return page(_records(call, rows), total, call.query)


@reads("listWorkspaceAgentCredentials")
def list_workspace_agent_credentials(call: OperationCall) -> dict[str, Any]:
    """List the credentials granted to an installed agent, newest first."""
    agent = access.require_workspace_agent(call, call.path["workspace_agent_id"])
    query = select(credentials).where(credentials.c.id.in_(_granted_to(agent)))
    rows, total = access.fetch_page(call, query.order_by(credentials.c.id.desc()))
    return page(_records(call, rows), total, call.query)


def _granted_to(agent: access.Row) -> Any:
    return select(credential_grants.c.credential_id).where(credential_grants.c.workspace_agent_id == agent["id"])


@writes("attachCredential")
def attach_credential(call: OperationCall) -> dict[str, Any]:
    """Grant an installed agent a credential: an existing one, or a new one.

    Only an account's own credentials: nobody may lend someone else's.
    """
    agent, body = access.require_workspace_agent(call, call.path["workspace_agent_id"]), call.body
    if (body.get("credential_id") is None) == (body.get("auth_config_id") is None):
        raise errors.invalid_input(["body: name either a credential_id, or the auth_config_id of a new credential"])
    if body.get("credential_id") is not None:
        row = _require_credential(call, body["credential_id"], _visible(call))
        if row["owner_id"] != call.caller.account_id:
            raise errors.forbidden("This credential belongs to a member; only they can attach it")
    else:
        row = _create(call, agent)
    granted = _granted_to(agent).where(credential_grants.c.credential_id == row["id"])
    if call.db.execute(granted).first() is not None:
        raise errors.conflict(f'Credential "{row["name"]}" is already attached to this workspace agent.')
    call.db.execute(insert(credential_grants), {"credential_id": row["id"], "workspace_agent_id": agent["id"]})
    return _records(call, [row])[0]


@writes("detachCredential")
def detach_credential(call: OperationCall) -> dict[str, Any]:
    """Take a credential away from an installed agent; the credential stays."""
    agent = access.require_workspace_agent(call, call.path["workspace_agent_id"])
    row = _require_credential(call, call.path["credential_id"], credentials.c.id.in_(_granted_to(agent)))
    if row["owner_id"] != call.caller.account_id:
        access.require_key_or_admin(call, agent["owner_id"], "detach what belongs to someone else")
    call.db.execute(
        delete(credential_grants).where(
            credential_grants.c.credential_id == row["id"], credential_grants.c.workspace_agent_id == agent["id"]
        )
    )
    return {}


def _visible(call: OperationCall) -> ColumnElement[bool]:
    account_id = call.caller.account_id
    return or_(credentials.c.account_id == account_id, credentials.c.owner_id == account_id)


def _require_credential(call: OperationCall, reference: str, condition: ColumnElement[bool]) -> access.Row:
    """Return the credential with this id or name, or raise the 404.

    The name must be unique: an account may have several credentials with one name.
    """
    is_this = credentials.c.id == reference.lower() if ids.is_id(reference.lower()) else credentials.c.name == reference
    rows = (
        []
        if "\x00" in reference
        else call.db.execute(select(credentials).where(is_this, condition).limit(2)).mappings().all()
    )
    if len(rows) > 1:
        raise errors.conflict(f'Several credentials are named "{reference}"; use the id of one.')
    if not rows:
        raise errors.not_found("Credential")
    return rows[0]


def _create(call: OperationCall, agent: access.Row) -> access.Row:
    """Store a new credential of the caller's account, made for an installed agent."""
    body, caller = call.body, call.caller
    auth_config_id = body["auth_config_id"].lower()
    known = select(credentials.c.integration).where(
        credentials.c.auth_config_id == auth_config_id, credentials.c.account_id == caller.account_id
    )
    known_integration = call.db.execute(known.limit(1)).scalar()
    integration = body.get("integration") or known_integration
    if integration is None:
        raise errors.invalid_input(["body.integration: Field required for an auth_config_id that is new here"])
    if known_integration not in (None, integration):
        raise errors.invalid_input([f"body.integration: this auth_config_id belongs to {known_integration}"])
    row = call.writing.insert(
        credentials,
        owner_id=caller.account_id,
        creator_id=caller.id,
        account_id=caller.account_id,
        target_id=agent["id"],
        auth_config_id=auth_config_id,
        integration=integration,
        name=body.get("name") or integration,
        params_json=msgspec.json.encode(body.get("params") or {}).decode(),
        extra_data_json=msgspec.json.encode(body.get("extra_data") or {}).decode(),
    )
    return call.db.execute(select(credentials).where(credentials.c.id == row["id"])).mappings().one()


def _records(call: OperationCall, rows: list[access.Row]) -> list[records.Record]:
    people = records.people_by_id(call.db, (row[c] for row in rows for c in ("creator_id", "target_id")))
    account_id = call.caller.account_id
    return [
        {
            **records.pick(row, "id", "name"),
            "integration": {"name": row["integration"]},
            **records.pick(row, "auth_config_id", "creator_id"),
            "creator": people.get(row["creator_id"]),
            **records.pick(row, "owner_id", "target_id"),
            "target": people.get(row["target_id"]) or ({"id": row["target_id"]} if row["target_id"] else None),
            "params": msgspec.json.decode(row["params_json"]),
            "extra_data": msgspec.json.decode(row["extra_data_json"]),
            "config_params": msgspec.json.decode(row["config_params_json"]),
            "policy_resources": msgspec.json.decode(row["policy_resources_json"]),
            **records.pick(row, "webhook_owner_identifier", "webhook_enabled", "webhook_url"),
            **records.pick(row, "has_active_webhook_triggers", "signature_type", "created_at", "updated_at"),
            **({} if account_id in (row["account_id"], row["owner_id"]) else _PRIVATE),
        }
        for row in rows
    ]
