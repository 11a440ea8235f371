"""Forks: what is copied, what stays hidden, and how a body names what it refers to."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from agentbook.service.store import tables as t
from service.oauth.flow import ready, tokens
from service.world import World, error

pytestmark = pytest.mark.anyio

SECRET = "You are a clerk. Never mention the word xyzzy."
LLM = {"system_prompt": "Bob's own.", "description": "d", "tools": []}


@pytest.fixture
def version(world: World) -> str:
    """A version of acme's public agent, whose prompt only acme reads."""
    source = world.agent_row(name="source", is_public=True, template="LLM")
    row = {"agent_id": source, "creator_id": "x", "type": "COMMITTED", "version_number": "1.0.0"}
    return world.add("agent_versions", **row, system_prompt=SECRET)


async def fork(world: World, source: str, key: str, name: str = "fork", **more: Any) -> dict[str, Any]:
    answer = await world.post("/agents", {"name": name, "forked_from_version": source, **more}, key)
    assert answer.status_code == 201, answer.text
    assert "xyzzy" not in answer.text
    agent: dict[str, Any] = answer.json()
    return agent


async def newest(world: World, agent: str, key: str | None) -> dict[str, Any]:
    version: dict[str, Any] = (await world.get(f"/agents/{agent}/versions", key)).json()["items"][0]
    return version


async def test_a_fork_hides_what_its_source_hides(world: World, version: str) -> None:
    bob, ada = world.key("bob", "agents:write"), world.key("ada", "agents:write")
    await fork(world, version, bob)
    copy = await newest(world, "fork", bob)
    assert (copy["version_number"], copy["system_prompt"]) == ("1.0.0", None)
    published = await world.ask("POST", f"/agents/fork/versions/{copy['id']}/publish", bob)
    assert (published.status_code, published.json()["system_prompt"]) == (200, None)
    # A fork of the fork, by its owner and by somebody else, hides it as well.
    await fork(world, copy["id"], bob, "second")
    assert (await newest(world, "second", bob))["system_prompt"] is None
    world.change("agents", next(row["id"] for row in world.rows("agents") if row["name"] == "second"), is_public=True)
    await fork(world, "bob~second", ada, "third")
    assert (await newest(world, "third", ada))["system_prompt"] is None
    # Acme, whose prompt it is, forks it back and reads it.
    await fork(world, "bob~second", world.full, "back")
    assert (await newest(world, "back", world.full))["system_prompt"] == SECRET
    assert (await newest(world, "source", world.full))["system_prompt"] == SECRET


async def test_a_fork_runs_the_prompt_that_it_hides(world: World, version: str) -> None:
    bob = world.key("bob", "agents:write", "sessions:write", "workspaces:write")
    await fork(world, version, bob)
    world.workspace("bob", "desk")
    session = await world.start("hello", bob, "desk", "fork")
    await world.idle()
    assert world.agent.turns[-1].system_prompt == SECRET
    assert "xyzzy" not in str(await world.events(session, world.key("bob", "workspaces:read", "agents:read")))


async def test_the_owner_of_a_fork_reads_the_prompts_that_it_writes(world: World, version: str) -> None:
    bob = world.key("bob", "agents:write")
    await fork(world, version, bob)
    configured = await world.post("/agents/fork/configure-llm", LLM, bob)
    assert (configured.status_code, configured.json()["system_prompt"]) == (201, "Bob's own.")
    listed = (await world.get("/agents/fork/versions", bob)).json()["items"]
    assert [item["system_prompt"] for item in listed] == ["Bob's own.", None]


async def test_a_fork_of_ones_own_agent_hides_nothing(world: World, version: str) -> None:
    await fork(world, version, world.full)
    assert (await newest(world, "fork", world.full))["system_prompt"] == SECRET


async def test_a_person_forks_an_agent_of_their_organization_and_reads_nothing(world: World, version: str) -> None:
    world.change("agents", next(row["id"] for row in world.rows("agents")), is_public=False)
    flow = await ready(world)
    token = (await tokens(flow, "agents:write", scope="agents:write"))["access_token"]
    body = {"name": "fork", "forked_from_version": version}
    assert (await flow.call(token, "POST", "/agents", json=body)).status_code == 201
    for agent in ("fork", "source"):
        answer = await flow.call(token, path=f"/agents/{agent}/versions")
        assert [item["system_prompt"] for item in answer.json()["items"]] == [None]


async def test_a_version_is_named_by_its_agent(world: World, version: str) -> None:
    source = next(row["id"] for row in world.rows("agents"))
    row = {"agent_id": source, "creator_id": "x", "system_prompt": "p"}
    second = world.add("agent_versions", **row, type="COMMITTED", version_number="2.0.0")
    world.add("agent_versions", **row, type="EPHEMERAL", version_number="3.0.0")
    at = world.agent_row("bob", "me@home", is_public=True, template="LLM")
    third = world.add("agent_versions", **{**row, "agent_id": at}, type="COMMITTED", version_number="1.0.0")
    names = {
        "acme~source": second,
        "source": second,
        "acme~source@1.0.0": version,
        f"{source}@1.0.0": version,
        "me@home": third,
        "bob~me@home@1.0.0": third,
    }
    for number, (name, expected) in enumerate(names.items()):
        assert (await fork(world, name, world.full, f"fork {number}"))["forked_from_version"] == expected
    world.agent_row("bob", "private", template="LLM")
    for name in ("acme~source@9", "nobody", "bob~private", "@", source, ""):
        answer = await world.post("/agents", {"name": "no", "forked_from_version": name}, world.full)
        assert error(answer) == (404, "NotFound", "Agent version not found"), name


async def test_a_maintainer_is_named_by_name_or_id(world: World) -> None:
    ada = world.accounts["ada"]
    for number, reference in enumerate(("ada", ada, ada.upper())):
        made = await world.post("/agents", {"name": f"a{number}", "maintainer_id": reference}, world.full)
        assert made.json()["maintainer_id"] == ada
    flow = await ready(world)
    token = (await tokens(flow, "agents:write", scope="agents:write", account="acme"))["access_token"]
    changed = await flow.call(token, "PATCH", "/agents/a0", json={"maintainer_id": "bob"})
    assert changed.json()["maintainer_id"] == world.accounts["bob"]
    reason = "body.maintainer_id: no user or organization has this id or name"
    for reference in ("nobody", "0199c2f0-0000-7000-8000-00000000abcd", ""):
        body = {"maintainer_id": reference}
        refused = await world.post("/agents", {"name": "new", **body}, world.full)
        assert error(refused) == (400, "InvalidInputError", reason)
        assert error(await flow.call(token, "PATCH", "/agents/a0", json=body)) == (400, "InvalidInputError", reason)
    cleared = await flow.call(token, "PATCH", "/agents/a0", json={"maintainer_id": None})
    assert cleared.json()["maintainer_id"] is None


async def test_a_template_that_differs_from_the_source_chooses_the_engine(world: World) -> None:
    source = world.agent_row(name="native", engine="echo", template="PLATFORM_NATIVE")
    row = {"agent_id": source, "creator_id": "x", "type": "COMMITTED", "version_number": "1"}
    version = world.add("agent_versions", **row)
    for template, engine in ((None, "echo"), ("PLATFORM_NATIVE", "echo"), ("LLM", "llm")):
        await fork(world, version, world.full, str(template), template=template)
        assert next(row["engine"] for row in world.rows("agents") if row["name"] == str(template)) == engine


async def test_a_fork_runs_what_its_source_ran(world: World) -> None:
    source = world.agent_row(owner="bob", name="source", is_public=True, engine="echo", template="LLM")
    row = {"agent_id": source, "creator_id": "x", "type": "COMMITTED", "version_number": "3", "system_prompt": "p"}
    version = world.add("agent_versions", **row)
    made = (await world.post("/agents", {"name": "fork", "forked_from_version": version}, world.full)).json()
    assert (made["forked_from_version"], made["latest_version"], made["template"]) == (version, "3", "LLM")
    engines = world.store.read_now(lambda db: db.execute(select(t.agents.c.name, t.agents.c.engine)).all())
    assert dict(map(tuple, engines)) == {"source": "echo", "fork": "echo"}
    owner = (await world.get("/agents/source")).json()["owner"]
    assert (owner["cached_forks_count"], owner["cached_forks_public_count"]) == (1, 0)
    world.change("agents", source, is_public=False)
    answer = await world.post("/agents", {"name": "fork 2", "forked_from_version": version}, world.full)
    assert error(answer) == (404, "NotFound", "Agent version not found")


async def test_a_draft_of_a_public_agent_is_its_owners_alone(world: World, version: str) -> None:
    draft = (await world.post("/agents/source/configure-llm", {**LLM, "type": "EPHEMERAL"}, world.full)).json()["id"]
    bob = world.key("bob", "agents:write")
    for key in (bob, None):
        for kind in ({}, {"type": "EPHEMERAL"}):
            page = (await world.get("/agents/source/versions", key, **kind)).json()
            assert draft not in [item["id"] for item in page["items"]]
            assert page["pagination"]["total_count"] == (0 if kind else 1)
    refused = await world.post("/agents", {"name": "copy", "forked_from_version": draft}, bob)
    assert error(refused) == (404, "NotFound", "Agent version not found")
    drafts = (await world.get("/agents/source/versions", world.full, type="EPHEMERAL")).json()["items"]
    assert [item["id"] for item in drafts] == [draft]
    await fork(world, draft, world.full, "own")
