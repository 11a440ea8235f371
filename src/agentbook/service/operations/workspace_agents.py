"""The agents installed in a workspace: list, install, change, uninstall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, select, update

from .. import errors
from ..store.tables import agents, credential_grants, workspace_agents
from . import access, records
from .registry import OperationCall, page, reads, writes

_SET_MODE = "choose whose credentials an agent may use"


@reads("listWorkspaceAgents")
def list_workspace_agents(call: OperationCall) -> dict[str, Any]:
    """List the visible agents installed in a workspace, in order of installation."""
    workspace = access.require_workspace(call, call.path["workspace_id_or_name"])
    query = (
        select(workspace_agents)
        .join(agents, agents.c.id == workspace_agents.c.agent_id)
        .where(workspace_agents.c.workspace_id == workspace["id"], access.visible_agent(call.caller))
    )
    rows, total = access.fetch_page(call, query.order_by(workspace_agents.c.id))
    return page(_installed(call, rows), total, call.query)


@writes("installAgent")
def install_agent(call: OperationCall) -> dict[str, Any]:
    """Install a visible agent in a workspace of the caller's account."""
    workspace = access.require_own_workspace(call, call.path["workspace_id_or_name"])
    agent = access.require_agent(call, call.body["agent_id"], check_read_scope=False)
    if call.body.get("required_credentials_mode") is not None:
        access.require_key_or_admin(call, workspace["owner_id"], _SET_MODE)
    installed = select(workspace_agents.c.id).where(
        workspace_agents.c.workspace_id == workspace["id"], workspace_agents.c.agent_id == agent["id"]
    )
    if call.db.execute(installed).first() is not None:
        raise errors.conflict(f'Agent "{agent["name"]}" is already installed in this workspace.')
    row = call.writing.insert(
        workspace_agents,
        workspace_id=workspace["id"],
        agent_id=agent["id"],
        creator_id=call.caller.id,
        required_credentials_mode=call.body.get("required_credentials_mode"),
    )
    return _installed(call, [row])[0]


@writes("updateWorkspaceAgent")
def update_workspace_agent(call: OperationCall) -> dict[str, Any]:
    """Change whose credentials an agent may use; null follows its workspace."""
    row = access.require_workspace_agent(call, call.path["workspace_agent_id"])
    if "required_credentials_mode" in call.body:
        access.require_key_or_admin(call, row["owner_id"], _SET_MODE)
        changes = {
            "required_credentials_mode": call.body["required_credentials_mode"],
            "updated_at": call.writing.clock.instant(),
        }
        call.db.execute(update(workspace_agents).where(workspace_agents.c.id == row["id"]).values(changes))
    query = select(workspace_agents).where(workspace_agents.c.id == row["id"])
    return _installed(call, call.db.execute(query).mappings().all())[0]


@writes("uninstallAgent")
def uninstall_agent(call: OperationCall) -> dict[str, Any]:
    """Remove an agent from a workspace of the caller's account; its sessions stay."""
    row = access.require_workspace_agent(call, call.path["workspace_agent_id"])
    call.db.execute(delete(credential_grants).where(credential_grants.c.workspace_agent_id == row["id"]))
    call.db.execute(delete(workspace_agents).where(workspace_agents.c.id == row["id"]))
    return {}


def _installed(call: OperationCall, rows: Sequence[access.Row]) -> list[records.Record]:
    installed = select(agents).where(agents.c.id.in_([row["agent_id"] for row in rows]))
    agent_records = records.agent_records(call.db, call.db.execute(installed).mappings().all(), call.caller)
    by_id = {agent["id"]: agent for agent in agent_records}
    return [
        {
            **records.pick(row, "id", "workspace_id", "agent_id"),
            "agent": by_id[row["agent_id"]],
            **records.pick(row, "creator_id", "required_credentials_mode", "created_at", "updated_at"),
        }
        for row in rows
    ]
