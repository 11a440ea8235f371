"""The agent `scribe` of the playground, for trying out prompts.

It comes with a history of prompts to compare (``prompts.yaml``).
"""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from ..store import tables
from .people import People
from .rows import DAY_MS, HOUR_MS, SeededIds, as_json, insert
from .texts import versions
from .workspaces import Workspaces

NAME = "scribe"
DESCRIPTION = (
    "Answers in the form its system prompt asks for, by rules and without a language model: made to try out prompts."
)


def write_prompt_agent(
    connection: Connection, seeded: SeededIds, now_ms: int, people: People, workspaces: Workspaces
) -> Workspaces:
    """Write the agent and its versions, and install it in the playground.

    Returns `workspaces` with the agent added.
    """
    creator = people.accounts["edsger"]
    prompts = versions()[NAME]
    created = now_ms - 50 * DAY_MS
    agent_id = seeded.id(created)
    agent = {
        "id": agent_id,
        "owner_id": people.accounts["acme"],
        "creator_id": creator,
        "maintainer_id": creator,
        "name": NAME,
        "description": DESCRIPTION,
        "category": "teaching",
        "tags_json": as_json(["teaching", "prompts"]),
        "template": "LLM",
        "engine": "scribe",
        "setup_state": "READY",
        **seeded.timestamps(created, now_ms - prompts[-1].days * DAY_MS),
    }
    insert(connection, tables.agents, [agent])
    rows = [
        {
            "id": seeded.id(now_ms - version.days * DAY_MS),
            "agent_id": agent_id,
            "creator_id": creator,
            "type": version.type,
            "version_number": version.number,
            "description": DESCRIPTION,
            "summary": version.summary,
            "system_prompt": version.system_prompt,
            "mode": version.mode,
            **seeded.timestamps(now_ms - version.days * DAY_MS),
        }
        for version in prompts
    ]
    insert(connection, tables.agent_versions, rows)
    installed = {
        "id": seeded.id(created + HOUR_MS),
        "workspace_id": workspaces.ids["playground"],
        "agent_id": agent_id,
        "creator_id": creator,
        **seeded.timestamps(created + HOUR_MS),
    }
    insert(connection, tables.workspace_agents, [installed])
    return replace(
        workspaces,
        agent_ids={**workspaces.agent_ids, NAME: agent_id},
        workspace_agent_ids={**workspaces.workspace_agent_ids, ("playground", NAME): installed["id"]},
    )
