"""Access tokens: they act as a person, with the scopes that the person allowed."""

from __future__ import annotations

import pytest

from service.oauth.flow import Flow, ready, tokens
from service.world import ALL, World, error

pytestmark = pytest.mark.anyio

EVERYTHING = " ".join(scope for scope in ALL if scope.endswith(":write"))


async def full(flow: Flow, **changed: str) -> str:
    return str((await tokens(flow, scope=EVERYTHING, **changed))["access_token"])


async def test_me_belongs_to_the_person(world: World) -> None:
    flow = await ready(world)
    world.workspace("ada", "desk")
    world.workspace("acme", "lab")
    world.workspace("acme", "vault", should_restrict_members=True)
    world.workspace("bob", "den")
    world.add(
        "invitations", organization_id=world.accounts["acme"], invitee_id=world.accounts["ada"],
        creator_id=world.accounts["bob"], role="ADMIN", status="PENDING",
    )  # fmt: skip
    token = await full(flow)

    async def names(path: str) -> list[str]:
        return [item["name"] for item in (await flow.call(token, path=path)).json()["items"]]

    assert await names("/me/workspaces") == ["desk"]
    assert await names("/me/workspaces?which=all") == ["desk", "lab", "vault"]
    invitations = (await flow.call(token, path="/me/invitations")).json()["items"]
    assert [item["invitee_id"] for item in invitations] == [world.accounts["ada"]]
    assert (await flow.call(token, path="/organizations/acme/invitations")).status_code == 200


@pytest.mark.parametrize(
    ("signed_in", "author"),
    [("ada", {"type": "user", "name": "ada"}), ("acme", {"type": "organization", "name": "acme"})],
)
async def test_whoever_signed_in_is_the_author_of_an_organizations_messages(
    world: World, signed_in: str, author: dict[str, str]
) -> None:
    """Ada acts as acme; or acme signed in itself."""
    flow = Flow(world)
    await flow.register()
    await flow.person.sign_in(world.store, signed_in)
    world.workspace("acme", "lab")
    world.agent_row("acme", "helper")
    token = await full(flow, account="acme")
    assert (await flow.call(token)).json()["name"] == "acme"
    body = {"session_type": "chat", "agent_id": "helper", "initial_prompt": "hello"}
    started = (await flow.call(token, "POST", "/workspaces/lab/sessions", json=body)).json()
    await world.idle()
    author = {"id": world.accounts[signed_in], **author}
    assert (started["initiator"], started["initiator_id"]) == (author, author["id"])
    posted = await flow.call(token, "POST", f"/sessions/{started['id']}/events", json={"content": "more"})
    assert posted.json()["author"] == author
    await world.idle()
    assert (await world.events(started["id"]))[0]["author"] == author
    made = (await flow.call(token, "POST", "/workspaces", json={"name": "new"})).json()
    assert (made["creator"], made["creator_id"]) == (author, author["id"])


async def test_only_tokens_update_agents(world: World) -> None:
    flow = await ready(world)
    world.agent_row("ada", "mine")
    token = await full(flow)
    changed = await flow.call(
        token, "PATCH", "/agents/mine", json={"is_pinned": True, "category": "ops", "tags": ["x"]}
    )
    assert changed.status_code == 200, changed.text
    assert (changed.json()["is_pinned"], changed.json()["tags"]) == (True, ["x"])
    ada = world.accounts["ada"]
    changed = await flow.call(token, "PATCH", "/agents/mine", json={"maintainer_id": ada.upper()})
    assert (changed.json()["maintainer_id"], changed.json()["category"]) == (ada, "ops")
    needed = "tags other than the service's own need a category"
    for body, field in (({"category": None}, "category"), ({"category": "", "tags": ["z"]}, "tags")):
        answer = await flow.call(token, "PATCH", "/agents/mine", json=body)
        assert error(answer) == (400, "InvalidInputError", f"body.{field}: {needed}")
    changed = await flow.call(token, "PATCH", "/agents/mine", json={"category": None, "tags": []})
    assert (changed.json()["category"], changed.json()["tags"]) == (None, [])
    both = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    assert (await world.ask("PATCH", "/agents/mine", headers=both)).status_code == 200  # a body may be left out
    key = world.key("ada", "agents:write")
    refused = (401, "Unauthorized", "This credential cannot access this endpoint")
    assert error(await world.ask("PATCH", "/agents/mine", key, json={})) == refused
    reading = (await tokens(flow, scope="agents:read"))["access_token"]
    answer = await flow.call(reading, "PATCH", "/agents/mine", json={})
    assert error(answer) == (403, "InsufficientScope", "This credential lacks the agents:write scope")


async def test_who_may_change_and_publish_whose_agent(world: World) -> None:
    flow = await ready(world)
    world.agent_row("acme", "shared")
    world.agent_row("bob", "open", is_public=True)
    world.agent_row("bob", "closed")
    ada = await full(flow)
    world.add("memberships", organization_id=world.accounts["acme"], user_id=world.accounts["bob"], role="MEMBER")
    bobs = Flow(world)
    await bobs.register()
    await bobs.person.sign_in(world.store, "bob")
    bob = await full(bobs, account="bob")

    async def patch(token: str, agent: str, **body: bool) -> tuple[int, str | None]:
        answer = await flow.call(token, "PATCH", f"/agents/{agent}", json=body)
        return answer.status_code, answer.json().get("error")

    assert await patch(bob, "shared", is_pinned=True) == (200, None)  # a member
    assert await patch(bob, "shared", is_public=True) == (403, "Forbidden")  # who is no admin
    assert await patch(ada, "shared", is_public=True) == (200, None)  # an admin
    assert await patch(ada, "open", is_archived=True) == (403, "Forbidden")  # a stranger's
    assert await patch(ada, "closed", is_archived=True) == (404, "NotFound")  # a stranger's, and not to be seen
    assert await patch(bob, "closed", is_public=True) == (200, None)  # one's own


async def test_an_admin_makes_a_skill_public_where_a_key_cannot(world: World) -> None:
    flow = await ready(world)
    token = await full(flow)
    body = {"name": "open", "is_public": True}
    made = await flow.call(token, "POST", "/accounts/ada/skills", json=body)
    assert (made.status_code, made.json()["is_public"]) == (201, True), made.text
    strangers = await world.get("/accounts/ada/skills", world.key("bob", "skills:read"))
    assert [item["name"] for item in strangers.json()["items"]] == ["open"]
    refused = await world.post("/accounts/ada/skills", {**body, "name": "more"}, world.key("ada", *ALL))
    assert error(refused) == (403, "Forbidden", "Only an admin can make a skill public")
