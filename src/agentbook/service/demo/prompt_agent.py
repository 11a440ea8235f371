# ruff: noqa: E501 - prompts read better whole
"""The `scribe` in the playground: an agent that is there to have its prompt tried out, with a history of prompts to compare.

Written last and from random numbers of its own, so that all other demo data are what they would be without it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from ..store import tables
from .people import People
from .rows import as_json, insert
from .seeded_ids import DAY_MS, HOUR_MS, Mint
from .workspaces import Places

NAME = "scribe"
DESCRIPTION = (
    "Answers in the form its system prompt asks for, by rules and without a language model: made to try out prompts."
)
# (number, days ago, summary, prompt)
VERSIONS: tuple[tuple[str, int, str, str], ...] = (
    ("1.0.0", 40, "first version", "You are the scribe of Acme Instruments. Answer questions about the platform."),
    ("1.1.0", 21, "names its sources", "You are the scribe of Acme Instruments. Answer in at most five sentences. Name your sources."),
    ("1.2.0", 6, "shorter, and honest about gaps", "You are the scribe of Acme Instruments.\nAnswer in at most three sentences. Name your sources.\nIf you do not know, say \"I have nothing about that; ask the guide.\""),
)  # fmt: skip


def write(connection: Connection, mint: Mint, now_ms: int, people: People, places: Places) -> Places:
    """The agent, its versions and its place in the playground; `places` with it."""
    creator = people.accounts["edsger"]
    born = now_ms - 50 * DAY_MS
    agent_id = mint.id(born)
    agent = {
        "id": agent_id,
        "owner_id": people.accounts["acme"],
        "creator_id": creator,
        "maintainer_id": creator,
        "name": NAME,
        "description": DESCRIPTION,
        "category": "teaching",
        "tags_json": as_json(["teaching", "prompts"]),
        "template": "PLATFORM_NATIVE",
        "engine": "scribe",
        "setup_state": "READY",
        "created_at": mint.instant(born),
        "updated_at": mint.instant(now_ms - VERSIONS[-1][1] * DAY_MS),
    }
    insert(connection, tables.agents, [agent])
    insert(connection, tables.agent_versions, [_version(mint, now_ms, agent_id, creator, *facts) for facts in VERSIONS])
    installed = {
        "id": mint.id(born + HOUR_MS),
        "workspace_id": places.workspaces["playground"],
        "agent_id": agent_id,
        "creator_id": creator,
        "created_at": mint.instant(born + HOUR_MS),
        "updated_at": mint.instant(born + HOUR_MS),
    }
    insert(connection, tables.workspace_agents, [installed])
    return replace(
        places,
        agents={**places.agents, NAME: agent_id},
        installed={**places.installed, ("playground", NAME): installed["id"]},
    )


def _version(
    mint: Mint, now_ms: int, agent_id: str, creator: str, number: str, days: int, summary: str, prompt: str
) -> dict[str, Any]:
    made = now_ms - days * DAY_MS
    return {
        "id": mint.id(made),
        "agent_id": agent_id,
        "creator_id": creator,
        "type": "COMMITTED",
        "version_number": number,
        "description": DESCRIPTION,
        "summary": summary,
        "system_prompt": prompt,
        "mode": "multi-turn",
        "created_at": mint.instant(made),
        "updated_at": mint.instant(made),
    }
