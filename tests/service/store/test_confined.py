"""What an agent of one account reads of the others: nothing, whichever of the readable tables it asks."""

from __future__ import annotations

import pytest

from agentbook.service.store.activity import READABLE
from service.world import World

pytestmark = pytest.mark.anyio


async def filled(world: World, owner: str) -> dict[str, set[str]]:
    """A row of each readable table that belongs to `owner`: their ids."""
    lab = world.workspace(owner=owner)
    agent = world.agent_row(owner=owner, name=f"{owner}s")
    version = world.add("agent_versions", agent_id=agent, creator_id="x", type="COMMITTED", version_number="1.0.0")
    installed = world.add("workspace_agents", workspace_id=lab, agent_id=agent, creator_id="x")
    key = world.full if owner == "acme" else world.key(owner, "sessions:write")
    session = await world.start("hello", key, workspace=lab, agent=agent)
    await world.idle()
    events = {row["id"] for row in world.rows("events") if row["session_id"] == session}
    assert events
    one = {"workspaces": lab, "agents": agent, "agent_versions": version, "workspace_agents": installed}
    return {"accounts": {world.accounts[owner]}, "sessions": {session}, "events": events} | {
        table: {id_} for table, id_ in one.items()
    }


async def test_an_agent_reads_the_rows_of_its_own_account_alone(world: World) -> None:
    own, others = await filled(world, "acme"), await filled(world, "bob")
    assert set(own) == READABLE
    acme, bob = (world.store.activity(world.accounts[name]) for name in ("acme", "bob"))
    for table in sorted(READABLE):
        seen = {row["id"] for row in acme.rows(f"SELECT * FROM {table}", {})}
        people = {world.accounts["ada"]} if table == "accounts" else set()  # a member of the organization
        assert seen == own[table] | people, table
        assert {row["id"] for row in bob.rows(f"SELECT * FROM {table}", {})} == others[table], table
        assert acme.rows(f"SELECT count(*) AS n FROM {table}", {}) == [{"n": len(seen)}]


async def test_restricted_workspaces_and_other_peoples_prompts_stay_out(world: World) -> None:
    own, others = await filled(world, "acme"), await filled(world, "bob")
    world.change("workspaces", *own["workspaces"], should_restrict_members=True)
    world.change("agents", *others["agents"], is_public=True)
    acme = world.store.activity(world.accounts["acme"])
    for table in ("workspaces", "workspace_agents", "sessions", "events"):
        assert acme.rows(f"SELECT * FROM {table}", {}) == []
    assert {row["id"] for row in acme.rows("SELECT id FROM agents", {})} == own["agents"] | others["agents"]
    assert {row["id"] for row in acme.rows("SELECT id FROM agent_versions", {})} == own["agent_versions"]
