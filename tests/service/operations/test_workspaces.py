from __future__ import annotations

from typing import Any

import pytest

from service.world import ALL, World, error

pytestmark = pytest.mark.anyio


async def names(world: World, path: str, key: str, **params: Any) -> list[str]:
    answer = await world.get(path, key, limit=500, **params)
    assert answer.status_code == 200, answer.text
    return [workspace["full_name"] for workspace in answer.json()["items"]]


@pytest.fixture
def filled(world: World) -> World:
    now = world.store.clock.instant()
    world.workspace(name="lab")
    world.workspace(name="closed", should_restrict_members=True)
    world.workspace(name="old lab", archived_at=now, archived_by_id=world.accounts["ada"])
    world.workspace(owner="ada", name="desk")
    world.workspace(owner="ada", name="drawer", should_restrict_members=True)
    world.workspace(owner="bob", name="shed")
    return world


async def test_own_workspaces_and_those_of_organizations(filled: World) -> None:
    key = filled.key("ada", *ALL)
    assert await names(filled, "/me/workspaces", key) == ["ada~desk"]
    assert await names(filled, "/me/workspaces", key, which="my") == ["ada~desk"]
    assert await names(filled, "/me/workspaces", key, which="all") == ["ada~desk", "acme~lab", "acme~old lab"]
    assert await names(filled, "/accounts/acme/workspaces", key) == ["acme~lab", "acme~old lab"]
    assert await names(filled, "/me/workspaces", filled.full, which="all") == ["acme~lab", "acme~old lab"]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"archived": "true"}, ["acme~old lab"]),
        ({"archived": "false"}, ["acme~lab"]),
        ({"search": "OLD"}, ["acme~old lab"]),
        ({"filter": "lab"}, ["acme~lab", "acme~old lab"]),
        ({"sort_by": "-name"}, ["acme~old lab", "acme~lab"]),
        ({"search": "closed"}, []),
    ],
)
async def test_filters(filled: World, params: dict[str, str], expected: list[str]) -> None:
    assert await names(filled, "/accounts/acme/workspaces", filled.full, **params) == expected


async def test_create(world: World) -> None:
    made = await world.post("/workspaces", {"name": "new"}, world.full)
    assert made.status_code == 201
    record = made.json()
    key_id = world.full.partition(":")[0]
    assert (record["full_name"], record["owner_id"], record["creator_id"]) == (
        "acme~new",
        world.accounts["acme"],
        key_id,
    )
    assert record["creator"] == {"id": key_id, "type": "api_key", "name": "test key"}
    assert (record["archived_at"], record["required_credentials_mode"]) == (None, None)
    assert record == (await world.get("/me/workspaces", world.full)).json()["items"][0]
    again = await world.post("/workspaces", {"name": "new", "owner_id": "acme"}, world.full)
    assert error(again) == (
        409, "Conflict", 'Workspace "acme~new" already exists. Please choose a different name.',
    )  # fmt: skip


@pytest.mark.parametrize("owner", ["bob", "ada", "nobody"])
async def test_create_for_another_account(world: World, owner: str) -> None:
    answer = await world.post("/workspaces", {"name": "new", "owner_id": owner}, world.full)
    assert error(answer) == (403, "Forbidden", "This credential cannot create a workspace for another account")
    assert world.rows("workspaces") == []


async def test_eight_parallel_requests_create_one_workspace(world: World) -> None:
    import asyncio

    answers = await asyncio.gather(*(world.post("/workspaces", {"name": "new"}, world.full) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 7


async def test_contexts(world: World) -> None:
    lab = world.workspace()
    task = world.store.clock.new_id()
    for status in ("DRAFT", "PUBLISHED"):
        world.add("contexts", workspace_id=lab, status=status, summary=f"a {status}", task_id=task)
    answer = await world.get("/workspaces/lab/contexts", world.full, limit=500)
    assert [context["status"] for context in answer.json()["items"]] == ["PUBLISHED", "DRAFT"]
    assert answer.json()["items"][0]["task"] == {"id": task}
    assert error(await world.get("/workspaces/lab/contexts", world.full, limit=501))[0] == 400


async def test_install_and_uninstall(world: World) -> None:
    world.workspace()
    helper = world.agent_row()
    made = await world.post("/workspaces/lab/agents", {"agent_id": "helper"}, world.full)
    assert made.status_code == 201
    assert (made.json()["agent_id"], made.json()["agent"]["full_name"]) == (helper, "acme~helper")
    again = await world.post("/workspaces/lab/agents", {"agent_id": helper}, world.full)
    assert error(again) == (409, "Conflict", 'Agent "helper" is already installed in this workspace.')
    listed = (await world.get("/workspaces/lab/agents", world.full)).json()["items"]
    assert listed == [made.json()]
    path = f"/workspace_agents/{made.json()['id']}"
    stranger = await world.ask("DELETE", path, world.key("bob", *ALL))
    assert error(stranger) == (404, "NotFound", "Workspace agent not found")
    credential = world.add(
        "credentials", owner_id=world.accounts["acme"], account_id=world.accounts["acme"], integration="x", name="c"
    )
    grants = {"credential_id": credential, "workspace_agent_id": made.json()["id"]}
    from agentbook.service.store import tables

    world.store.write_now(lambda tx: tx.db.execute(tables.credential_grants.insert(), grants))
    gone = await world.ask("DELETE", path, world.full)
    assert (gone.status_code, gone.json()) == (200, {})
    assert error(await world.ask("DELETE", path, world.full)) == (404, "NotFound", "Workspace agent not found")
    assert (await world.get("/workspaces/lab/agents", world.full)).json()["items"] == []


async def test_an_installed_agent_that_became_private_is_hidden(world: World) -> None:
    world.workspace("bob", "shop")
    helper = world.agent_row(is_public=True)
    mine = world.agent_row("bob", "mine")
    bob = world.key("bob", *ALL)
    for agent in (helper, mine):
        assert (await world.post("/workspaces/shop/agents", {"agent_id": agent}, bob)).status_code == 201
    world.change("agents", helper, is_public=False, description="a secret plan")
    answer = await world.get("/workspaces/shop/agents", bob)
    assert [item["agent_id"] for item in answer.json()["items"]] == [mine]
    assert answer.json()["pagination"]["total_count"] == 1
    assert "secret plan" not in answer.text


async def test_a_member_organizations_workspace_is_read_and_not_written(filled: World) -> None:
    key = filled.key("ada", *ALL)
    filled.agent_row(owner="ada", name="mine")
    assert (await filled.get("/workspaces/acme~lab/contexts", key)).status_code == 200
    for path, body in (
        ("agents", {"agent_id": "mine"}),
        ("sessions", {"session_type": "chat", "agent_id": "mine", "initial_prompt": "x"}),
    ):
        answer = await filled.post(f"/workspaces/acme~lab/{path}", body, key)
        assert error(answer) == (404, "NotFound", "Workspace not found")


async def test_a_name_means_the_callers_own_workspace_first(world: World) -> None:
    world.workspace(owner="acme", name="desk")
    own = world.workspace(owner="ada", name="desk")
    key = world.key("ada", *ALL)
    world.add("contexts", workspace_id=own, status="DRAFT")
    assert (await world.get("/workspaces/desk/contexts", key)).json()["pagination"]["total_count"] == 1
    assert (await world.get("/workspaces/acme~desk/contexts", key)).json()["pagination"]["total_count"] == 0
