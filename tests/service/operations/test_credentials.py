"""Attaching credentials to agents in a workspace, and who may see and detach them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from agentbook.service import admin
from service.operations.test_members import Caller, person
from service.world import ALL, World, error

pytestmark = pytest.mark.anyio

AUTH_CONFIG = "0199c2f0-0000-7000-8000-0000000000aa"


@dataclass
class Desk:
    """acme's workspace ``lab`` with the agent ``helper``.

    ``carl`` and ``dora`` are members of acme; each has a github credential that is
    granted to the agent, as is one of acme's for mail. Two more are granted to nobody.
    """

    world: World
    installed: str
    workspace: str


@pytest.fixture
async def desk(world: World) -> Desk:
    for name in ("carl", "dora"):
        world.accounts[name] = admin.create_account(world.store, name, "user")
        admin.add_member(world.store, name, organization="acme")
    lab, acme = world.workspace(), world.accounts["acme"]
    installed = world.add(
        "workspace_agents", workspace_id=lab, agent_id=world.agent_row(is_public=True), creator_id=acme
    )
    for name, integration, owner in (
        ("granted mail", "mail", "acme"),
        ("carl's github", "github", "carl"),
        ("dora's github", "github", "dora"),
        ("carl's mail", "mail", "carl"),
        ("shared jira", "jira", "acme"),
    ):
        row = {"owner_id": world.accounts[owner], "account_id": acme, "params_json": '{"token": "FAKE-secret"}'}
        made = world.add("credentials", name=name, integration=integration, **row)
        if name not in ("carl's mail", "shared jira"):
            world.link("credential_grants", credential_id=made, workspace_agent_id=installed)
    return Desk(world, installed, lab)


async def test_an_agents_own_mode_is_set_and_taken_back(desk: Desk) -> None:
    path = f"/workspace_agents/{desk.installed}"
    for mode in ("SHARED", None):
        changed = await desk.world.ask("PATCH", path, desk.world.full, json={"required_credentials_mode": mode})
        assert (changed.status_code, changed.json()["required_credentials_mode"]) == (200, mode)
    refused = await desk.world.ask("PATCH", path, desk.world.full, json={"required_credentials_mode": "ALL"})
    assert error(refused)[0] == 400


async def attach(desk: Desk, caller: Caller | str, **body: Any) -> Any:
    path = f"/workspace_agents/{desk.installed}/credentials"
    if isinstance(caller, str):
        return await desk.world.post(path, body, caller)
    return await caller("POST", path, json=body)


async def test_an_existing_credential_is_attached_by_id_or_name_and_detached(desk: Desk) -> None:
    world, path = desk.world, f"/workspace_agents/{desk.installed}/credentials"
    key = world.key("acme", "integrations:write")
    attached = await attach(desk, key, credential_id="shared jira")
    assert (attached.status_code, attached.json()["name"]) == (201, "shared jira")
    again = await attach(desk, key, credential_id=attached.json()["id"].upper())
    expected = 'Credential "shared jira" is already attached to this workspace agent.'
    assert error(again) == (409, "Conflict", expected)
    names = {item["name"] for item in (await world.get(path, key)).json()["items"]}
    assert names == {"shared jira", "dora's github", "carl's github", "granted mail"}
    assert (await world.ask("DELETE", f"{path}/{attached.json()['id']}", key)).json() == {}
    gone = await world.ask("DELETE", f"{path}/{attached.json()['id']}", key)
    assert error(gone) == (404, "NotFound", "Credential not found")


async def test_a_new_credential_is_minted_with_an_auth_config(desk: Desk) -> None:
    world, key = desk.world, desk.world.key("acme", "integrations:write")
    bare = await attach(desk, key, auth_config_id=AUTH_CONFIG)
    assert error(bare) == (
        400, "InvalidInputError", "body.integration: Field required for an auth_config_id that is new here",
    )  # fmt: skip
    minted = await attach(
        desk, key, auth_config_id=AUTH_CONFIG, integration="github", name="bot", params={"token": "FAKE"}
    )
    record = minted.json()
    assert (minted.status_code, record["owner_id"], record["target_id"]) == (
        201,
        world.accounts["acme"],
        desk.installed,
    )
    assert (record["auth_config_id"], record["params"]) == (AUTH_CONFIG, {"token": "FAKE"})
    second = await attach(desk, key, auth_config_id=AUTH_CONFIG)
    assert (second.json()["integration"], second.json()["name"]) == ({"name": "github"}, "github")
    wrong = await attach(desk, key, auth_config_id=AUTH_CONFIG, integration="mail")
    assert error(wrong)[::2] == (400, "body.integration: this auth_config_id belongs to github")
    for body in ({}, {"credential_id": "bot", "auth_config_id": AUTH_CONFIG}):
        assert error(await attach(desk, key, **body))[:2] == (400, "InvalidInputError")


async def test_only_ones_own_credentials_are_attached(desk: Desk) -> None:
    world = desk.world
    refused = await attach(desk, world.key("acme", *ALL), credential_id="carl's mail")
    assert error(refused) == (403, "Forbidden", "This credential belongs to a member; only they can attach it")
    bobs = world.add(
        "credentials",
        name="bob's",
        integration="mail",
        owner_id=world.accounts["bob"],
        account_id=world.accounts["bob"],
    )
    for reference in (bobs, "bob's", AUTH_CONFIG, "no such", "a\x00b"):
        answer = await attach(desk, world.full, credential_id=reference)
        assert answer.status_code in (400, 404)
    assert error(await attach(desk, world.full, credential_id=bobs)) == (404, "NotFound", "Credential not found")
    # A stranger sees no such agent, and a member attaches what is theirs.
    stranger = await attach(desk, world.key("bob", *ALL), credential_id="bob's")
    assert error(stranger) == (404, "NotFound", "Workspace agent not found")
    carl = await person(world, "carl")
    assert (await attach(desk, carl, credential_id="carl's mail")).status_code == 201
    minted = await attach(desk, carl, auth_config_id=AUTH_CONFIG, integration="github")
    assert minted.json()["owner_id"] == world.accounts["carl"]


async def test_what_a_credential_holds_is_shown_to_its_account_and_owner_only(desk: Desk) -> None:
    carl, path = await person(desk.world, "carl"), f"/workspace_agents/{desk.installed}/credentials"
    items = {item["name"]: item["params"] for item in (await carl("GET", path)).json()["items"]}
    assert items == {"carl's github": {"token": "FAKE-secret"}, "dora's github": {}, "granted mail": {}}
    own = (await desk.world.get(path, desk.world.full)).json()["items"]
    assert all(item["params"] == {"token": "FAKE-secret"} for item in own)


async def test_a_restricted_workspace_hides_its_agents_credentials(desk: Desk) -> None:
    desk.world.change("workspaces", desk.workspace, should_restrict_members=True)
    carl, path = await person(desk.world, "carl"), f"/workspace_agents/{desk.installed}/credentials"
    assert await carl.status(path) == 404
    assert (await desk.world.get(path, desk.world.full)).status_code == 404
    admin.add_member(desk.world.store, "carl", workspace="acme~lab")
    assert await carl.status(path) == 200


async def test_members_do_not_loosen_what_their_workspace_requires(desk: Desk) -> None:
    world, path = desk.world, f"/workspace_agents/{desk.installed}"
    carl, ada = await person(world, "carl"), await person(world, "ada")
    change = {"json": {"required_credentials_mode": "SHARED"}}
    refused = (403, "Forbidden", "Only an admin can choose whose credentials an agent may use")
    assert error(await carl("PATCH", path, **change)) == refused
    assert (await carl("PATCH", path, json={})).status_code == 200
    assert (await ada("PATCH", path, **change)).status_code == 200
    world.agent_row(name="other", is_public=True)
    install = {"agent_id": "other", "required_credentials_mode": "MEMBER"}
    assert error(await carl("POST", "/workspaces/lab/agents", json=install)) == refused
    assert (await carl("POST", "/workspaces/lab/agents", json={"agent_id": "other"})).status_code == 201
    names = {row["name"]: row["id"] for row in world.rows("credentials")}
    carls, doras = names["carl's github"], names["dora's github"]
    for name in ("granted mail", "dora's github"):
        answer = await carl("DELETE", f"{path}/credentials/{names[name]}")
        assert error(answer) == (403, "Forbidden", "Only an admin can detach what belongs to someone else")
    assert (await carl("DELETE", f"{path}/credentials/{carls}")).status_code == 200
    assert (await ada("DELETE", f"{path}/credentials/{doras}")).status_code == 200
