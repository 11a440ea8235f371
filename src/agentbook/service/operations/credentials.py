"""Integration credentials of an account (specification: "Resources and their fields", IntegrationCredentials)."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import select

from .. import errors
from ..store.tables import credential_grants, credentials, workspace_agents
from . import access, records
from .registry import Call, page, reads


@reads("listCredentials")
def list_credentials(call: Call) -> dict[str, Any]:
    """Credentials of the caller's own account, newest first; another account is the 404."""
    account = access.account_or_404(call, call.path["account_id_or_name"])
    if account["id"] != call.caller.account_id:
        raise errors.not_found("Account")
    given = call.query
    query = select(credentials).where(credentials.c.account_id == account["id"])
    if given["integration"] is not None:
        query = query.where(credentials.c.integration == given["integration"])
    if given["search"] is not None:
        query = query.where(*access.words_in(given["search"], credentials.c.name, credentials.c.integration))
    if given["scope"] is not None:
        shared = credentials.c.owner_id == account["id"]
        query = query.where(shared if given["scope"] else ~shared)
    if given["workspace_id"] is not None:
        workspace = access.workspace(call, given["workspace_id"])
        granted = (
            select(credential_grants.c.credential_id)
            .join(workspace_agents, workspace_agents.c.id == credential_grants.c.workspace_agent_id)
            .where(workspace_agents.c.workspace_id == workspace["id"])
        )
        in_workspace = credentials.c.id.in_(granted)
        query = query.where(~in_workspace if given["grant_candidates"] else in_workspace)
    elif given["grant_candidates"]:
        query = query.where(~credentials.c.id.in_(select(credential_grants.c.credential_id)))
    rows, total = access.counted_page(call.db, query.order_by(credentials.c.id.desc()), given)
    return page(_records(call, rows), total, given)


def _records(call: Call, rows: list[access.Row]) -> list[records.Record]:
    people = records.people_by_id(call.db, (row[c] for row in rows for c in ("creator_id", "target_id")))
    return [
        {
            "id": row["id"],
            "name": row["name"],
            "integration": {"name": row["integration"]},
            "auth_config_id": row["auth_config_id"],
            "creator_id": row["creator_id"],
            "creator": people.get(row["creator_id"]),
            "owner_id": row["owner_id"],
            "target_id": row["target_id"],
            "target": people.get(row["target_id"]) or ({"id": row["target_id"]} if row["target_id"] else None),
            "params": msgspec.json.decode(row["params_json"]),
            "extra_data": msgspec.json.decode(row["extra_data_json"]),
            "config_params": msgspec.json.decode(row["config_params_json"]),
            "policy_resources": msgspec.json.decode(row["policy_resources_json"]),
            "webhook_owner_identifier": row["webhook_owner_identifier"],
            "webhook_enabled": row["webhook_enabled"],
            "webhook_url": row["webhook_url"],
            "has_active_webhook_triggers": row["has_active_webhook_triggers"],
            "signature_type": row["signature_type"],
            "created_at": row["created_at"],
            "updated_at": row["updated_at"],
        }
        for row in rows
    ]
