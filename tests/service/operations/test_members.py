"""Who a restricted workspace admits, and what ends with a membership."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import delete

from agentbook.service import admin
from agentbook.service.errors import OperatorError
from agentbook.service.store import tables
from service.oauth.flow import Flow, tokens
from service.world import ALL, World, error

pytestmark = pytest.mark.anyio

EVERYTHING = " ".join(scope for scope in ALL if scope.endswith(":write"))


class Caller:
    """A person with an access token for everything, acting as `account`."""

    def __init__(self, flow: Flow, token: str) -> None:
        self.flow = flow
        self.token = token

    async def __call__(self, method: str, path: str, **options: Any) -> Any:
        return await self.flow.call(self.token, method, path, **options)

    async def status(self, path: str) -> int:
        return int((await self("GET", path)).status_code)

    async def names(self, path: str) -> list[str]:
        answer = await self("GET", path)
        assert answer.status_code == 200, answer.text
        return [item["name"] for item in answer.json()["items"]]


async def person(world: World, name: str, account: str | None = None) -> Caller:
    flow = Flow(world)
    assert (await flow.register()).status_code == 201
    assert (await flow.person.sign_in(world.store, name)).status_code == 303
    return Caller(flow, (await tokens(flow, scope=EVERYTHING, account=account or name))["access_token"])


@pytest.fixture
async def vault(world: World) -> str:
    """A restricted workspace of acme, with a session that its admin ada started.

    ``carl`` is a member of acme, ``dora`` too; ``bob`` is a stranger.
    """
    for name in ("carl", "dora"):
        world.accounts[name] = admin.create_account(world.store, name, "user")
        admin.add_member(world.store, name, organization="acme")
    vault = world.workspace("acme", "vault", should_restrict_members=True)
    helper = world.agent_row("acme", "helper", is_public=True)
    world.add("workspace_agents", workspace_id=vault, agent_id=helper, creator_id=world.accounts["ada"])
    world.add("contexts", workspace_id=vault, status="DRAFT", summary="secret")
    return vault


async def start(caller: Caller) -> Any:
    body = {"session_type": "chat", "agent_id": "helper", "initial_prompt": "hello"}
    return await caller("POST", "/workspaces/acme~vault/sessions", json=body)


async def seen(caller: Caller, session: str) -> dict[str, bool]:
    """What a caller sees of the vault, by the kind of read."""
    paths = {
        "contexts": "/workspaces/acme~vault/contexts",
        "agents": "/workspaces/acme~vault/agents",
        "sessions": "/workspaces/acme~vault/sessions",
        "session": f"/sessions/{session}",
        "events": f"/sessions/{session}/events",
    }
    visible = {kind: await caller.status(path) == 200 for kind, path in paths.items()}
    account = await caller("GET", "/accounts/acme/workspaces?search=vault")
    visible["account's list"] = account.status_code == 200 and account.json()["pagination"]["total_count"] == 1
    visible["own list"] = "vault" in await caller.names("/me/workspaces?which=all")
    visible["agents' filter"] = await caller.names("/agents?for_workspace=acme~vault") == ["helper"]
    return visible


async def test_a_restricted_workspace_admits_its_members_and_admins(world: World, vault: str) -> None:
    ada, carl, bob = [await person(world, name) for name in ("ada", "carl", "bob")]
    session = (await start(ada)).json()["id"]
    await world.idle()
    assert set((await seen(ada, session)).values()) == {True}, "an admin of the organization"
    for outsider in (carl, bob):
        assert set((await seen(outsider, session)).values()) == {False}
        assert error(await start(outsider)) == (404, "NotFound", "Workspace not found")
    admin.add_member(world.store, "carl", workspace="acme~vault")
    assert set((await seen(carl, session)).values()) == {True}, "a member"
    assert set((await seen(bob, session)).values()) == {False}
    assert (await start(carl)).status_code == 201
    await world.idle()
    # No key reaches it, whoever's it is and whatever it may do.
    for owner in ("acme", "ada", "carl"):
        key = world.key(owner, *ALL)
        assert error(await world.get("/workspaces/acme~vault/contexts", key)) == (
            404,
            "NotFound",
            "Workspace not found",
        )
        assert error(await world.get(f"/sessions/{session}/events", key)) == (404, "NotFound", "Session not found")
        listed = await world.get("/me/workspaces", key, which="all")
        assert "vault" not in [item["name"] for item in listed.json()["items"]]


@pytest.mark.parametrize(
    "end_membership",
    [
        lambda world: admin.remove_member(world.store, "carl", workspace="acme~vault"),
        lambda world: admin.remove_member(world.store, "carl", organization="acme"),
    ],
    ids=["the workspace", "the organization"],
)
async def test_access_ends_with_the_membership(
    world: World, vault: str, end_membership: Callable[[World], None]
) -> None:
    admin.add_member(world.store, "carl", workspace="acme~vault")
    carl = await person(world, "carl")
    session = (await start(carl)).json()["id"]
    await world.idle()
    assert set((await seen(carl, session)).values()) == {True}
    end_membership(world)
    assert set((await seen(carl, session)).values()) == {False}
    posted = await carl("POST", f"/sessions/{session}/events", json={"content": "more"})
    assert error(posted) == (404, "NotFound", "Session not found")
    assert error(await start(carl)) == (404, "NotFound", "Workspace not found")


async def test_who_comes_back_to_the_organization_is_no_member_of_its_workspaces(world: World, vault: str) -> None:
    admin.add_member(world.store, "carl", workspace="acme~vault")
    admin.remove_member(world.store, "carl", organization="acme")
    admin.add_member(world.store, "carl", organization="acme")
    assert await (await person(world, "carl")).status("/workspaces/acme~vault/contexts") == 404


async def test_is_viewer_member(world: World, vault: str) -> None:
    world.workspace("acme", "lab")
    admin.add_member(world.store, "carl", workspace="acme~vault")

    async def members(caller: Caller) -> dict[str, bool]:
        items = (await caller("GET", "/accounts/acme/workspaces")).json()["items"]
        return {item["name"]: item["is_viewer_member"] for item in items}

    assert await members(await person(world, "carl")) == {"lab": True, "vault": True}
    assert await members(await person(world, "dora")) == {"lab": True}
    assert await members(await person(world, "ada")) == {"lab": True, "vault": False}, "an admin who is no member"
    assert await members(await person(world, "ada", "acme")) == {"lab": True, "vault": True}, "the owner itself"


async def test_who_creates_a_workspace_for_an_organization_is_its_first_member(world: World) -> None:
    acting = await person(world, "ada", "acme")
    made = await acting("POST", "/workspaces", json={"name": "fresh"})
    assert made.status_code == 201, made.text
    assert [member["name"] for member in admin.list_members(world.store, workspace="acme~fresh")] == ["ada"]


async def test_an_admin_who_is_none_any_more_cannot_act_as_the_organization(world: World, vault: str) -> None:
    admin.add_member(world.store, "carl", organization="acme", role="ADMIN")
    acting = await person(world, "carl", "acme")
    assert await acting.status("/workspaces/acme~vault/contexts") == 200
    admin.add_member(world.store, "carl", organization="acme", role="MEMBER")
    assert error(await acting("GET", "/me")) == (401, "Unauthorized", "Invalid OAuth token")
    # Whoever becomes an admin again asks anew.
    admin.add_member(world.store, "carl", organization="acme", role="ADMIN")
    assert error(await acting("GET", "/me"))[0] == 401
    admin.add_member(world.store, "dora", organization="acme", role="ADMIN")
    other = await person(world, "dora", "acme")
    is_doras = tables.memberships.c.user_id == world.accounts["dora"]
    world.store.write_now(lambda tx: tx.db.execute(delete(tables.memberships).where(is_doras)))
    assert error(await other("GET", "/me"))[0] == 401, "whatever ended the membership"


async def test_members_that_cannot_be(world: World, vault: str) -> None:
    world.workspace("ada", "desk")
    world.workspace("bob", "desk")
    store = world.store
    attempts: dict[str, Callable[[], object]] = {
        "bob is not a member of acme, which owns": lambda: admin.add_member(store, "bob", workspace="acme~vault"),
        "belongs to the user ada alone": lambda: admin.add_member(store, "carl", workspace="ada~desk"),
        "There is no account 'zoe'": lambda: admin.add_member(store, "zoe", workspace="acme~vault"),
        "There is no workspace 'cellar'": lambda: admin.add_member(store, "carl", workspace="cellar"),
        "Several accounts have a workspace 'desk'": lambda: admin.list_members(store, workspace="desk"),
        "acme is an organization, and only users": lambda: admin.add_member(store, "acme", organization="acme"),
        "ada is a user, and only organizations": lambda: admin.add_member(store, "bob", organization="ada"),
        "carl is not a member of vault": lambda: admin.remove_member(store, "carl", workspace="acme~vault"),
        "bob is not a member of acme, so": lambda: admin.remove_member(store, "bob", organization="acme"),
        "ada is the last admin of acme; make": lambda: admin.remove_member(store, "ada", organization="acme"),
        "ada is the last admin": lambda: admin.add_member(store, "ada", organization="acme", role="MEMBER"),
    }
    before = world.rows("memberships"), world.rows("workspace_members")
    for message, attempt in attempts.items():
        with pytest.raises(OperatorError) as caught:
            attempt()
        assert message in str(caught.value)
    assert (world.rows("memberships"), world.rows("workspace_members")) == before
    admin.add_member(store, "carl", organization="acme", role="ADMIN")
    admin.remove_member(store, "ada", organization="acme")
    assert [(m["name"], m["role"]) for m in admin.list_members(store, organization="acme")] == [
        ("carl", "ADMIN"),
        ("dora", "MEMBER"),
    ]


@pytest.mark.parametrize(("restricted", "remaining"), [(True, 0), (False, 1)])
async def test_the_grants_of_who_leaves_a_restricted_workspace_end(
    world: World, restricted: bool, remaining: int
) -> None:
    world.accounts["carl"] = carl = admin.create_account(world.store, "carl", "user")
    admin.add_member(world.store, "carl", organization="acme")
    room = world.workspace("acme", "room", should_restrict_members=restricted)
    admin.add_member(world.store, "carl", workspace="acme~room")
    helper = world.agent_row("acme", "aide")
    installed = world.add("workspace_agents", workspace_id=room, agent_id=helper, creator_id=world.accounts["ada"])
    own = world.add(
        "credentials", owner_id=carl, account_id=world.accounts["acme"], integration="mail", name="carl's mail"
    )
    world.link("credential_grants", credential_id=own, workspace_agent_id=installed)
    admin.remove_member(world.store, "carl", workspace="acme~room")
    assert len([row for row in world.rows("credential_grants") if row["credential_id"] == own]) == remaining
