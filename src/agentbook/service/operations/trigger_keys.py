"""Trigger keys of a workspace: make, list, revoke (specification: "What the service does", Trigger API key).

The specification shows no path for them, nor the surface on which such a key runs its agent; the latter is left out here.
"""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import insert, select, update

from .. import auth, errors
from ..store.tables import api_keys
from . import access, records
from .registry import Call, page, reads, writes


@reads("listTriggerKeys")
def list_trigger_keys(call: Call) -> dict[str, Any]:
    """Trigger keys of a workspace of the caller's account, newest first, the revoked ones too; never a secret."""
    workspace = _workspace(call)
    query = select(api_keys).where(
        api_keys.c.kind == "trigger",
        api_keys.c.workspace_id == workspace["id"],
        api_keys.c.account_id == call.caller.account_id,
    )
    rows, total = access.counted_page(call.db, query.order_by(api_keys.c.id.desc()), call.query)
    return page((_record(row) for row in rows), total, call.query)


@writes("createTriggerKey")
def create_trigger_key(call: Call) -> dict[str, Any]:
    """A new trigger key for a workspace of the caller's account and a visible agent, with its secret this one time."""
    workspace = _workspace(call)
    if workspace["should_restrict_members"]:  # a person gets here, and the key would see nothing
        raise errors.forbidden("No key reaches a restricted workspace")
    agent = access.agent(call, call.body["agent_id"], reading=False)
    now, secret = call.writing.clock.instant(), call.writing.clock.secret()
    row = {
        "id": call.writing.clock.new_id(),
        "kind": "trigger",
        "account_id": call.caller.account_id,
        "workspace_id": workspace["id"],
        "agent_id": agent["id"],
        "name": call.body["name"],
        "secret_sha256": auth.hash_secret(secret),
        "scopes_json": msgspec.json.encode([]).decode(),
        "revoked_at": None,
        "created_at": now,
        "updated_at": now,
    }
    call.db.execute(insert(api_keys), row)
    return {**_record(row), "key": f"{row['id']}:{secret}"}


@writes("revokeTriggerKey")
def revoke_trigger_key(call: Call) -> dict[str, Any]:
    """Make a trigger key stop working at once; one that is revoked already stays so."""
    workspace, reference = _workspace(call), call.path["trigger_key_id"].lower()
    row = None
    if access.storable(reference):
        query = select(api_keys.c.revoked_at).where(
            api_keys.c.id == reference,
            api_keys.c.kind == "trigger",
            api_keys.c.workspace_id == workspace["id"],
            api_keys.c.account_id == call.caller.account_id,
        )
        row = call.db.execute(query).first()
    if row is None:
        raise errors.not_found("Trigger key")
    if row.revoked_at is None:
        now = call.writing.clock.instant()
        call.db.execute(update(api_keys).where(api_keys.c.id == reference).values(revoked_at=now, updated_at=now))
    return {}


def _workspace(call: Call) -> access.Row:
    """The workspace, if it is the very account's that the caller acts as: the key outlives a person's token."""
    row = access.own_workspace(call, call.path["workspace_id_or_name"])
    if row["owner_id"] != call.caller.account_id:
        raise errors.not_found("Workspace")
    return row


def _record(row: access.Row | dict[str, Any]) -> records.Record:
    fields = ("id", "name", "workspace_id", "agent_id", "revoked_at", "created_at", "updated_at")
    return {field: row[field] for field in fields}
