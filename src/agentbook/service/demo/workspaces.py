# ruff: noqa: E501 - a row of a table is one line
"""The demo's workspaces, agents with their versions, installed agents, and skills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from ..ids import milliseconds_of
from ..store import tables
from .people import People
from .rows import DAY_MS, HOUR_MS, MINUTE_MS, SeededIds, as_json, insert, released_ms
from .texts import versions

# (owner, name, creator, created days ago, settings)
_WORKSPACES: tuple[tuple[str, str, str, int, dict[str, Any]], ...] = (
    ("acme", "support", "ada", 250, {"required_credentials_mode": "SHARED"}),
    ("acme", "data", "alan", 240, {"unlimited_power_mode": True}),
    ("acme", "release", "barbara", 200, {}),
    ("acme", "on-call", "margaret", 198, {"restrict_account_credentials": True}),
    ("acme", "sales", "tim", 170, {"required_credentials_mode": "MEMBER"}),
    ("acme", "finance", "grace", 165, {"should_restrict_members": True, "required_credentials_mode": "SHARED"}),
    ("acme", "playground", "edsger", 60, {}),
    ("acme", "onboarding", "ada", 245, {"archived": 12}),
    ("northwind", "shop", "radia", 58, {}),
    ("ada", "notes", "ada", 48, {}),
)


@dataclass(frozen=True, slots=True)
class _Agent:
    owner: str
    name: str
    creator: str
    days: int
    engine: str
    template: str
    category: str
    tags: tuple[str, ...]
    description: str
    is_public: bool = False
    is_archived: bool = False
    is_pinned: bool = False
    setup_state: str = "READY"


_AGENTS: tuple[_Agent, ...] = (
    _Agent("acme", "guide", "edsger", 235, "guide", "PLATFORM_NATIVE", "documentation", ("docs", "help"), "Answers questions about agentbook and the platform from the documentation, and names its sources.", is_public=True, is_pinned=True),
    _Agent("acme", "helpdesk", "ada", 228, "recorded", "LLM", "support", ("orders", "returns"), "Looks up orders, explains returns, helps with devices.", is_public=True),
    _Agent("acme", "data-desk", "alan", 220, "recorded", "LLM", "analytics", ("sql", "warehouse"), "Answers questions from the warehouse."),
    _Agent("acme", "release-notes", "barbara", 195, "recorded", "LLM", "engineering", ("releases",), "Writes release notes and the morning digest."),
    _Agent("acme", "incident-helper", "margaret", 190, "recorded", "LLM", "engineering", ("alerts", "runbook"), "Reads alerts and metrics, proposes one action at a time."),
    _Agent("acme", "contract-reader", "tim", 160, "recorded", "LLM", "sales", ("contracts",), "Quotes clauses of contracts. Private to acme."),
    _Agent("acme", "onboarding-buddy", "ada", 236, "recorded", "LLM", "people", ("handbook",), "Welcomed new colleagues; archived with its workspace.", is_archived=True),
    _Agent("acme", "forecaster", "katherine", 5, "langgraph", "LANGGRAPH", "analytics", ("demand",), "Forecasts demand. Still being set up.", setup_state="PENDING"),
    _Agent("northwind", "shop-assistant", "radia", 57, "recorded", "LLM", "support", ("shop",), "Helps the shop's customers. Private to northwind."),
    _Agent("northwind", "calculator", "linus", 50, "calculator", "PLATFORM_NATIVE", "utilities", ("arithmetic",), "Does arithmetic exactly.", is_public=True),
    _Agent("ada", "diary", "ada", 47, "recorded", "LLM", "personal", ("notes",), "Keeps Ada's notes."),
    *(
        _Agent("acme", name, "edsger", 55, name, "PLATFORM_NATIVE", "teaching", ("teaching",), description)
        for name, description in {
            "echo": "Says back what it is told.",
            "verbose": "Runs many subtasks before it answers: say how many.",
            "slow": "Takes as many seconds as it is told.",
            "flaky": "Fails about three turns in ten.",
            "limits": "Runs into the run limit that you name.",
        }.items()
    ),
)  # fmt: skip

# workspace -> installed agents
_INSTALLED: dict[str, tuple[str, ...]] = {
    "support": ("helpdesk", "guide"),
    "data": ("data-desk",),
    "release": ("release-notes",),
    "on-call": ("incident-helper",),
    "sales": ("contract-reader", "helpdesk"),
    "finance": ("data-desk",),
    "playground": (
        "guide", "helpdesk", "calculator", "echo", "verbose", "slow", "flaky", "limits",
    ),
    "onboarding": ("onboarding-buddy",),
    "shop": ("shop-assistant", "calculator"),
    "notes": ("diary",),
}  # fmt: skip
# A workspace agent's own mode overrides its workspace's.
_OWN_MODE = {("sales", "helpdesk"): "SHARED", ("data", "data-desk"): "MEMBER"}

# Restricted workspace -> its members, and the days since they were added.
_MEMBERS = {"finance": {"grace": 165, "katherine": 120, "alan": 40}}

# (owner, name, overview, created days ago, public, archived)
_SKILLS: tuple[tuple[str, str, str, int, bool, bool], ...] = (
    ("acme", "track-a-parcel", "Finds a parcel by order number with any of our carriers.", 150, False, False),
    ("acme", "careful-sql", "Runs a total two ways and reports both.", 120, False, False),
    ("acme", "house-style", "Rewrites a text in the words we use.", 100, True, False),
    ("acme", "read-a-runbook", "Quotes the section of a runbook that fits an alert.", 95, False, False),
    ("acme", "quote-a-clause", "Cites a contract's clause with its number.", 60, False, False),
    ("acme", "fax-a-confirmation", "Sent confirmations by fax.", 330, False, True),
    ("northwind", "gift-finder", "Suggests presents by price.", 40, False, False),
    ("ada", "summarise-my-week", "Makes one page of a week's notes.", 30, False, False),
)


@dataclass(frozen=True, slots=True)
class Workspaces:
    """The ids of workspaces and agents by name.

    `workspace_agent_ids` maps (workspace, agent) to the id of the installed agent.
    """

    ids: Mapping[str, str]
    agent_ids: Mapping[str, str]
    workspace_agent_ids: Mapping[tuple[str, str], str]


def write_workspaces(connection: Connection, seeded: SeededIds, now_ms: int, people: People) -> Workspaces:
    """Write workspaces, agents, versions, installed agents and skills.

    Trigger keys also get their workspace and agent here.
    """
    workspace_rows = [_workspace(seeded, now_ms, people, *row) for row in _WORKSPACES]
    insert(connection, tables.workspaces, workspace_rows)
    agent_rows = [_agent(seeded, now_ms, people, agent) for agent in _AGENTS]
    insert(connection, tables.agents, agent_rows)
    ids = {row["name"]: row["id"] for row in workspace_rows}
    agent_ids = {row["name"]: row["id"] for row in agent_rows}
    insert(connection, tables.agent_versions, _versions(seeded, now_ms, people, agent_ids))
    installed = _workspace_agents(seeded, now_ms, people, ids, agent_ids)
    insert(connection, tables.workspace_agents, list(installed.values()))
    skills = _skills(seeded, now_ms, people)
    insert(connection, tables.skills, skills)
    insert(connection, tables.skill_versions, [_first_version(skill) for skill in skills])
    workspaces = Workspaces(ids, agent_ids, {pair: row["id"] for pair, row in installed.items()})
    _set_triggers(connection, people, workspaces)
    return workspaces


def write_members(
    connection: Connection, seeded: SeededIds, now_ms: int, people: People, workspaces: Workspaces
) -> None:
    """Write the members of restricted workspaces."""
    rows = []
    for workspace, added_days in _MEMBERS.items():
        for name, days in added_days.items():
            added = now_ms - days * DAY_MS + HOUR_MS
            row = {"id": seeded.id(added), "workspace_id": workspaces.ids[workspace], "user_id": people.accounts[name]}
            rows.append({**row, "creator_id": people.accounts["grace"], **seeded.timestamps(added)})
    insert(connection, tables.workspace_members, rows)


def _workspace(
    seeded: SeededIds,
    now_ms: int,
    people: People,
    owner: str,
    name: str,
    creator: str,
    days: int,
    settings: dict[str, Any],
) -> dict[str, Any]:
    created = now_ms - days * DAY_MS - seeded.rng.randrange(8 * HOUR_MS)
    archived = now_ms - settings["archived"] * DAY_MS if "archived" in settings else None
    by_key = name == "playground"
    return {
        "id": seeded.id(created),
        "owner_id": people.accounts[owner],
        "creator_id": people.keys["notebooks"] if by_key else people.accounts[creator],
        "creator_type": "api_key" if by_key else "user",
        "name": name,
        "restrict_account_credentials": settings.get("restrict_account_credentials", False),
        "should_restrict_members": settings.get("should_restrict_members", False),
        "unlimited_power_mode": settings.get("unlimited_power_mode", False),
        "required_credentials_mode": settings.get("required_credentials_mode"),
        "archived_at": seeded.instant(archived) if archived else None,
        "archived_by_id": people.accounts[creator] if archived else None,
        **seeded.timestamps(created, archived or created + seeded.rng.randrange(20 * DAY_MS)),
    }


def _agent(seeded: SeededIds, now_ms: int, people: People, agent: _Agent) -> dict[str, Any]:
    created = now_ms - agent.days * DAY_MS - seeded.rng.randrange(8 * HOUR_MS)
    return {
        "id": seeded.id(created),
        "owner_id": people.accounts[agent.owner],
        "creator_id": people.accounts[agent.creator],
        "maintainer_id": people.accounts[agent.creator],
        "name": agent.name,
        "description": agent.description,
        "category": agent.category,
        "tags_json": as_json(list(agent.tags)),
        "template": agent.template,
        "engine": agent.engine,
        "setup_state": agent.setup_state,
        "is_public": agent.is_public,
        "is_archived": agent.is_archived,
        "is_pinned": agent.is_pinned,
        **seeded.timestamps(created, min(now_ms, created + seeded.rng.randrange(4 * DAY_MS))),
    }


def _versions(seeded: SeededIds, now_ms: int, people: People, agent_ids: Mapping[str, str]) -> list[dict[str, Any]]:
    rows = []
    for agent in _AGENTS:
        for version in versions().get(agent.name, ()):
            created = released_ms(now_ms, version.days) - 10 * MINUTE_MS
            published = created + 10 * MINUTE_MS if version.published else None
            rows.append(
                {
                    "id": seeded.id(created),
                    "agent_id": agent_ids[agent.name],
                    "creator_id": people.accounts[agent.creator],
                    "type": version.type,
                    "version_number": version.number,
                    "description": agent.description,
                    "summary": version.summary,
                    "system_prompt": version.system_prompt,
                    "mode": version.mode,
                    "tools_json": as_json(version.tools),
                    "validation": version.validation,
                    "published_at": seeded.instant(published) if published else None,
                    **seeded.timestamps(created, published),
                }
            )
    # An agent without a prompt also has one committed version, because only versions
    # can run.
    for agent in _AGENTS:
        if agent.name not in versions():
            created = now_ms - agent.days * DAY_MS + HOUR_MS
            rows.append(
                {
                    "id": seeded.id(created),
                    "agent_id": agent_ids[agent.name],
                    "creator_id": people.accounts[agent.creator],
                    "type": "COMMITTED",
                    "version_number": "1.0.0",
                    "description": agent.description,
                    "summary": None,
                    "system_prompt": None,
                    "mode": "multi-turn",
                    "tools_json": "[]",
                    "validation": "PASSED",
                    "published_at": seeded.instant(created),
                    **seeded.timestamps(created),
                }
            )
    return rows


def _workspace_agents(
    seeded: SeededIds, now_ms: int, people: People, ids: Mapping[str, str], agent_ids: Mapping[str, str]
) -> dict[tuple[str, str], dict[str, Any]]:
    workspace_days = {name: days for _, name, _, days, _ in _WORKSPACES}
    agent_days = {agent.name: agent.days for agent in _AGENTS}
    creators = {name: creator for _, name, creator, _, _ in _WORKSPACES}
    rows = {}
    for workspace, agents in _INSTALLED.items():
        for agent in agents:
            days = min(workspace_days[workspace], agent_days[agent])
            created = now_ms - days * DAY_MS + seeded.rng.randrange(HOUR_MS, 20 * HOUR_MS)
            rows[workspace, agent] = {
                "id": seeded.id(created),
                "workspace_id": ids[workspace],
                "agent_id": agent_ids[agent],
                "creator_id": people.accounts[creators[workspace]],
                "required_credentials_mode": _OWN_MODE.get((workspace, agent)),
                **seeded.timestamps(created),
            }
    return rows


def _skills(seeded: SeededIds, now_ms: int, people: People) -> list[dict[str, Any]]:
    rows = []
    for owner, name, overview, days, public, archived in _SKILLS:
        created = now_ms - days * DAY_MS - seeded.rng.randrange(8 * HOUR_MS)
        archived_ms = created + 200 * DAY_MS if archived else None
        rows.append(
            {
                "id": seeded.id(created),
                "owner_id": people.accounts[owner],
                "creator_id": people.accounts["ada" if owner != "northwind" else "radia"],
                "name": name,
                "overview": overview,
                "is_public": public,
                "archived_at": seeded.instant(archived_ms) if archived_ms else None,
                **seeded.timestamps(created, archived_ms),
            }
        )
    return rows


def _first_version(skill: Mapping[str, Any]) -> dict[str, Any]:
    created_ms = milliseconds_of(skill["id"])
    return {
        "id": SeededIds(skill["id"]).id(created_ms),  # its own seed, so that the demo's other ids do not change
        "skill_id": skill["id"],
        "creator_id": skill["creator_id"],
        "version_number": "1.0.0",
        "overview": skill["overview"],
        "created_at": skill["created_at"],
        "updated_at": skill["created_at"],
    }


def _set_triggers(connection: Connection, people: People, workspaces: Workspaces) -> None:
    """Give each trigger key its workspace and the agent it runs there."""
    targets = {
        "build-server": ("release", "release-notes"),
        "weekday-digest": ("release", "release-notes"),
        "alert-relay": ("on-call", "incident-helper"),
    }
    for key, (workspace, agent) in targets.items():
        connection.execute(
            tables.api_keys.update()
            .where(tables.api_keys.c.id == people.keys[key])
            .values(workspace_id=workspaces.ids[workspace], agent_id=workspaces.agent_ids[agent])
        )
