"""Creates the agent of a lab that has none, and a workspace if there is none either."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...evaluation.configurator import Notify
from ...evaluation.variant import Variant

if TYPE_CHECKING:
    from ...client import AsyncClient
    from .controller import LabController

MAX_WORKSPACES = 50  # offered to choose from
FIRST = "first prompt"  # summary of the agent's first version


def parse_agent(fields: Mapping[str, str]) -> Variant | None:
    """What a new agent runs on; None if it gets no version yet.

    Raises
    ------
    ValueError
        If the name, or the prompt of a model, is missing.

    Examples
    --------
    >>> parse_agent({"name": "helper", "prompt": "Be kind.", "model": ""})
    Variant('first prompt', system_prompt='Be kind.')
    """
    name, prompt, model = (fields.get(field, "").strip() for field in ("name", "prompt", "model"))
    if not name:
        raise ValueError("A new agent needs a name, such as “helper”.")
    if model and not prompt:
        raise ValueError("A model needs a system prompt: type one, or leave the model to the variants below.")
    return Variant(FIRST, prompt, model=model or None) if prompt else None


async def workspace_names(client: AsyncClient) -> list[str]:
    """The workspaces that a lab may use: some of those that the account can see."""
    return [
        str(workspace.get("full_name") or workspace["id"])
        async for workspace in client.me.workspaces(limit=MAX_WORKSPACES)
    ]


async def create_agent(lab: LabController, name: str, workspace: str) -> None:
    """Create an LLM agent for a lab that has none.

    A lab without a workspace gets this one, which is created if none has this name.

    Raises
    ------
    ValueError
        If the name of the workspace is missing.
    Conflict
        If an agent or a workspace has the name.
    ApiError, OutcomeUnknown
    """
    if lab.workspace is None:
        lab.workspace = await _find_or_create(lab.client, workspace.strip())
    record = await lab.client.agents.create(name.strip(), template="LLM")
    lab.agent = str(record.get("full_name") or record["id"])


async def configure_agent(lab: LabController, variant: Variant | None, notify: Notify) -> None:
    """Commit the first version of the lab's agent, if it gets one."""
    if variant is not None:
        await lab.apply(variant, notify=notify)


async def _find_or_create(client: AsyncClient, workspace: str) -> str:
    if not workspace:
        raise ValueError("The lab needs a workspace to start its sessions in: type a name, such as “trial”.")
    for name in await workspace_names(client):
        if workspace in (name, name.rpartition("~")[2]):
            return name
    record = await client.workspaces.create(workspace)
    return str(record.get("full_name") or record["id"])
