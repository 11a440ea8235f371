"""Trigger keys of a workspace: create, list, revoke.

The specification shows neither a path for them nor the interface through which such a
key runs its agent; the latter is not implemented. Specification: "What the service
does", Trigger API key.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from .. import auth, errors, ids
from ..store.tables import api_keys
from . import access, records
from .registry import OperationCall, page, reads, writes


@reads("listTriggerKeys")
def list_trigger_keys(call: OperationCall) -> dict[str, Any]:
    """List a workspace's trigger keys, revoked ones too; newest first, no secrets."""
    workspace = _workspace(call)
    query = select(api_keys).where(
        api_keys.c.kind == "trigger",
        api_keys.c.workspace_id == workspace["id"],
        api_keys.c.account_id == call.caller.account_id,
    )
    rows, total = access.fetch_page(call, query.order_by(api_keys.c.id.desc()))
    return page((_record(row) for row in rows), total, call.query)


@writes("createTriggerKey")
def create_trigger_key(call: OperationCall) -> dict[str, Any]:
    """Create a trigger key for a workspace and a visible agent.

    The secret cannot be read back later. A key created with a token ends with the
    token's authorization.
    """
    workspace = _workspace(call)
    if workspace["should_restrict_members"]:  # a person may get this far, but the key would see nothing
        raise errors.forbidden("No key reaches a restricted workspace")
    agent = access.require_agent(call, call.body["agent_id"], check_read_scope=False)
    row, secret = auth.insert_key(
        call.writing,
        account_id=call.caller.account_id,
        name=call.body["name"],
        kind="trigger",
        workspace_id=workspace["id"],
        agent_id=agent["id"],
        authorization_id=call.caller.authorization_id,
        revoked_at=None,
    )
    return {**_record(row), "key": f"{row['id']}:{secret}"}


@writes("revokeTriggerKey")
def revoke_trigger_key(call: OperationCall) -> dict[str, Any]:
    """Revoke a trigger key at once. A revoked key stays revoked."""
    workspace, reference = _workspace(call), call.path["trigger_key_id"].lower()
    row = None
    if ids.is_id(reference):
        query = select(api_keys.c.id).where(
            api_keys.c.id == reference,
            api_keys.c.kind == "trigger",
            api_keys.c.workspace_id == workspace["id"],
            api_keys.c.account_id == call.caller.account_id,
        )
        row = call.db.execute(query).first()
    if row is None:
        raise errors.not_found("Trigger key")
    auth.revoke(call.writing, api_keys, api_keys.c.id == reference)
    return {}


def _workspace(call: OperationCall) -> access.Row:
    """Return a workspace of the account that the caller acts as, or raise the 404.

    A key acts as that account alone, so other accounts' workspaces are excluded.
    """
    row = access.require_own_workspace(call, call.path["workspace_id_or_name"])
    if row["owner_id"] != call.caller.account_id:
        raise errors.not_found("Workspace")
    return row


def _record(row: access.Row | dict[str, Any]) -> records.Record:
    return records.pick(row, "id", "name", "workspace_id", "agent_id", "revoked_at", "created_at", "updated_at")
