"""Integration credentials of an account.

Specification: "Resources and their fields", IntegrationCredentials.
"""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import select

from .. import errors
from ..store.tables import credential_grants, credentials, workspace_agents
from . import access, records
from .registry import OperationCall, page, reads


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
    return page(_records(call, rows), total, params)


def _records(call: OperationCall, rows: list[access.Row]) -> list[records.Record]:
    people = records.people_by_id(call.db, (row[c] for row in rows for c in ("creator_id", "target_id")))
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
        }
        for row in rows
    ]
