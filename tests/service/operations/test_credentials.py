"""Which credentials a run is given, and attaching them to agents in a workspace."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from sqlalchemy import delete

import agentbook as ab
from agentbook.service import admin
from agentbook.service.store.tables import memberships
from service.operations.test_members import Caller, person
from service.world import ALL, World, error

pytestmark = pytest.mark.anyio

AUTH_CONFIG = "0199c2f0-0000-7000-8000-0000000000aa"


class Desk:
    """acme's workspace ``lab`` with the agent ``helper``, which uses github and mail.

    ``carl`` and ``dora`` are members of acme; each has a github credential that is
    granted to the agent. acme shares one for github and one for mail, granted to
    nobody, and has one for mail that is granted.
    """

    def __init__(self, world: World, installed: str, workspace: str) -> None:
        self.world = world
        self.installed = installed
        self.workspace = workspace

    def credential(self, name: str, integration: str, owner: str = "acme", *, grant: bool = False) -> str:
        accounts = self.world.accounts
        id_ = self.world.add(
            "credentials", name=name, integration=integration, owner_id=accounts[owner], account_id=accounts["acme"],
            params_json='{"token": "FAKE-secret"}', id=f"0199c2f0-0000-7000-8000-{len(self.world.rows('credentials')):012x}",
        )  # fmt: skip
        if grant:
            self.world.link("credential_grants", credential_id=id_, workspace_agent_id=self.installed)
        return id_

    async def run(self, caller: Caller | None = None) -> dict[str, str]:
        """The names of the credentials of a real run, by integration."""
        body = {"session_type": "chat", "agent_id": "helper", "initial_prompt": "go"}
        path = "/workspaces/lab/sessions"
        answer = await (caller("POST", path, json=body) if caller else self.world.post(path, body, self.world.full))
        assert answer.status_code == 201, answer.text
        await self.world.idle()
        run = {name: credential.name for name, credential in self.world.agent.turns[-1].credentials.items()}
        # The operation says beforehand what the run is given.
        path = f"/workspace_agents/{self.installed}/credentials?effective=true"
        listed = await (caller("GET", path) if caller else self.world.ask("GET", path, self.world.full))
        assert {item["integration"]["name"]: item["name"] for item in listed.json()["items"]} == run
        return run


@pytest.fixture
async def desk(world: World) -> Desk:
    for name in ("carl", "dora"):
        world.accounts[name] = admin.create_account(world.store, name, "user")
        admin.add_member(world.store, name, organization="acme")
    lab = world.workspace()
    helper = world.agent_row(is_public=True)
    tools = '[{"integration": "github", "tools": ["x"]}, {"integration": "mail", "tools": []}]'
    world.add(
        "agent_versions", agent_id=helper, creator_id="x", type="COMMITTED", version_number="1.0.0", tools_json=tools
    )
    installed = world.add("workspace_agents", workspace_id=lab, agent_id=helper, creator_id=world.accounts["acme"])
    made = Desk(world, installed, lab)
    made.credential("shared github", "github")
    made.credential("shared mail", "mail")
    made.credential("shared jira", "jira")
    made.credential("granted mail", "mail", grant=True)
    made.credential("carl's github", "github", "carl", grant=True)
    made.credential("dora's github", "github", "dora", grant=True)
    made.credential("carl's mail", "mail", "carl")
    return made


async def test_a_run_is_given_what_is_granted_and_what_is_shared(desk: Desk) -> None:
    carl, dora = await person(desk.world, "carl"), await person(desk.world, "dora")
    assert await desk.run(carl) == {"github": "carl's github", "mail": "granted mail"}
    assert await desk.run(dora) == {"github": "dora's github", "mail": "granted mail"}
    assert await desk.run() == {"github": "dora's github", "mail": "granted mail"}, "a key of the organization"


async def test_a_grant_comes_before_what_is_newer_and_shared(desk: Desk) -> None:
    desk.credential("newer shared mail", "mail")
    assert (await desk.run())["mail"] == "granted mail"


async def test_restrict_account_credentials_takes_the_shared_pool_away(desk: Desk) -> None:
    world = desk.world
    for row in world.rows("credentials"):
        if row["name"] == "granted mail":
            path = f"/workspace_agents/{desk.installed}/credentials/{row['id']}"
            assert (await world.ask("DELETE", path, world.full)).status_code == 200
    carl = await person(world, "carl")
    assert await desk.run(carl) == {"github": "carl's github", "mail": "granted mail"}, "shared"
    world.change("workspaces", desk.workspace, restrict_account_credentials=True)
    assert await desk.run(carl) == {"github": "carl's github"}


@pytest.mark.parametrize("restricted", [False, True])
async def test_the_modes_and_the_agents_override(desk: Desk, restricted: bool) -> None:
    world = desk.world
    world.change("workspaces", desk.workspace, restrict_account_credentials=restricted)
    carl, dora = await person(world, "carl"), await person(world, "dora")
    shared = {"mail": "granted mail"} if restricted else {"github": "shared github", "mail": "granted mail"}
    world.change("workspaces", desk.workspace, required_credentials_mode="SHARED")
    assert await desk.run(carl) == await desk.run() == shared
    world.change("workspaces", desk.workspace, required_credentials_mode="MEMBER")
    assert await desk.run(carl) == {"github": "carl's github"}
    assert await desk.run(dora) == {"github": "dora's github"}
    assert await desk.run() == {}, "nobody acts when an organization's key does"
    path = f"/workspace_agents/{desk.installed}"
    changed = await world.ask("PATCH", path, world.full, json={"required_credentials_mode": "SHARED"})
    assert (changed.status_code, changed.json()["required_credentials_mode"]) == (200, "SHARED")
    assert await desk.run(carl) == shared
    back = await world.ask("PATCH", path, world.full, json={"required_credentials_mode": None})
    assert back.json()["required_credentials_mode"] is None
    assert await desk.run(carl) == {"github": "carl's github"}
    assert error(await world.ask("PATCH", path, world.full, json={"required_credentials_mode": "ALL"}))[0] == 400


async def test_who_leaves_takes_their_credentials_along(desk: Desk) -> None:
    admin.remove_member(desk.world.store, "dora", organization="acme")
    assert await desk.run() == {"github": "carl's github", "mail": "granted mail"}
    assert {row["name"] for row in desk.world.rows("credentials")} >= {"dora's github"}, "the credential itself stays"
    credential = next(row["id"] for row in desk.world.rows("credentials") if row["name"] == "dora's github")
    assert credential not in {row["credential_id"] for row in desk.world.rows("credential_grants")}
    admin.add_member(desk.world.store, "dora", organization="acme")
    assert await desk.run() == {"github": "carl's github", "mail": "granted mail"}, "who comes back grants again"


async def test_a_grant_alone_does_not_lend_the_credential_of_a_stranger(desk: Desk) -> None:
    """Such as one of a membership that another service on the store has ended."""
    world = desk.world
    is_doras = memberships.c.user_id == world.accounts["dora"]
    world.store.write_now(lambda tx: tx.db.execute(delete(memberships).where(is_doras)))
    assert await desk.run() == {"github": "carl's github", "mail": "granted mail"}


MODES = (None, "SHARED", "MEMBER")


@pytest.mark.parametrize("owner", ["acme", "carl"])
async def test_the_report_counts_as_usable_what_a_run_is_given(world: World, owner: str) -> None:
    """For every restriction, mode and grant."""
    world.accounts["carl"] = admin.create_account(world.store, "carl", "user")
    admin.add_member(world.store, "carl", organization="acme")
    made = {
        f"{whose}-{grant}": world.add(
            "credentials", name=f"{whose}-{grant}", integration=f"{whose}-{grant}",
            owner_id=world.accounts[whose], account_id=world.accounts[owner],
        )
        for whose in sorted({owner, "carl"}) for grant in (True, False)
    }  # fmt: skip
    helper = world.agent_row(is_public=True)
    tools = json.dumps([{"integration": name, "tools": []} for name in made])
    world.add("agent_versions", agent_id=helper, creator_id="x", type="COMMITTED", version_number="1", tools_json=tools)
    for n, (restricted, mode, own_mode) in enumerate(itertools.product([False, True], MODES, MODES)):
        lab = world.workspace(owner, f"lab{n}", restrict_account_credentials=restricted, required_credentials_mode=mode)
        installed = world.add(
            "workspace_agents", workspace_id=lab, agent_id=helper, creator_id="x", required_credentials_mode=own_mode
        )
        for name, credential in made.items():
            if name.endswith("True"):
                world.link("credential_grants", credential_id=credential, workspace_agent_id=installed)
    carl = (await person(world, "carl")).token
    async with (
        ab.AsyncClient("https://test/v1", credentials=world.key(owner, *ALL), http_client=world.http) as client,
        ab.AsyncClient("https://test/v1", credentials=ab.OAuthToken(carl), http_client=world.http) as person_client,
    ):
        credentials = await client.credentials.list(owner).to_pandas()
        workspaces = await client.workspaces.list(owner).to_pandas()
        assert len(workspaces) == 18
        for workspace in workspaces["full_name"]:
            [agent] = [each async for each in client.workspaces.agents(workspace)]
            mode = agent.required_credentials_mode
            here = workspaces[workspaces["full_name"] == workspace].assign(
                required_credentials_mode=lambda table, own=mode: own or table["required_credentials_mode"]
            )
            grants = (await client.credentials.of_agent(agent).to_pandas()).assign(workspace_id=here["id"].iloc[0])
            report = ab.credential_report(credentials, here, account_id=owner, granted=grants)

            async def given(agent: Any = agent) -> set[str]:
                return {each.name async for each in person_client.credentials.of_agent(agent, effective=True)}

            usable = {
                column: set(report.loc[report[column].list.len() > 0, "name"])
                for column in ("open_in", "open_if_granted")
            }
            assert await given() == usable["open_in"], here.to_dict("records")
            for name in usable["open_if_granted"]:
                world.link("credential_grants", credential_id=made[name], workspace_agent_id=agent.id)
            assert await given() == usable["open_in"] | usable["open_if_granted"], here.to_dict("records")


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
    assert (await desk.run())["github"] == "bot"
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
    assert (await desk.run(carl))["mail"] == "carl's mail"
    minted = await attach(desk, carl, auth_config_id=AUTH_CONFIG, integration="github")
    assert minted.json()["owner_id"] == world.accounts["carl"]


async def test_what_a_credential_holds_is_shown_to_its_account_and_owner_only(desk: Desk) -> None:
    carl, path = await person(desk.world, "carl"), f"/workspace_agents/{desk.installed}/credentials"
    items = {item["name"]: item["params"] for item in (await carl("GET", path)).json()["items"]}
    assert items == {"carl's github": {"token": "FAKE-secret"}, "dora's github": {}, "granted mail": {}}
    own = (await desk.world.get(path, desk.world.full)).json()["items"]
    assert all(item["params"] == {"token": "FAKE-secret"} for item in own)
    assert "FAKE-secret" not in repr(desk.world.agent.turns)


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
