"""The page "Members" without a browser."""

from __future__ import annotations

import re

import pytest

from agentbook.service import admin
from agentbook.service.pages.visitor import Visitor
from service.pages.test_pages import forms, signed_in
from service.world import World

pytestmark = pytest.mark.anyio


@pytest.fixture
async def vault(world: World) -> str:
    """A restricted workspace of acme, whose admin is ada and whose member is carl."""
    world.accounts["carl"] = admin.create_account(world.store, "carl", "user")
    admin.add_member(world.store, "carl", organization="acme")
    return world.workspace("acme", "vault", should_restrict_members=True)


def names(world: World) -> list[str]:
    return [member["name"] for member in admin.list_members(world.store, workspace="acme~vault")]


async def test_an_admin_adds_and_removes_members(world: World, vault: str) -> None:
    person = await signed_in(world)
    page = await person.get("/members")
    assert "no members yet" in page.text
    assert "members and admins only" in page.text
    add = {**forms(page, "add")[0], "user": world.accounts["carl"]}
    added = await person.post("/members", add)
    assert (added.status_code, added.headers["location"]) == (303, f"members?done=added&workspace={vault}")
    assert names(world) == ["carl"]
    assert (await person.post("/members", add)).status_code == 303, "a form that is sent twice adds one member"
    page = await person.get("/" + added.headers["location"])
    assert "has access now" in page.text
    remove = forms(page, "remove")
    assert [form["id"] for form in remove] == [f"{vault} {world.accounts['carl']}"]
    assert (await person.post("/members", remove[0])).headers["location"].startswith("members?done=removed")
    assert names(world) == []
    again = await person.post("/members", remove[0])
    assert (again.status_code, "carl is not a member of vault" in again.text) == (409, True)


async def test_settings_of_a_workspace(world: World, vault: str) -> None:
    person = await signed_in(world)
    configure = forms(await person.get("/members"), "configure")[0]
    saved = await person.post("/members", {**configure, "restrict_account_credentials": "yes", "credentials": "MEMBER"})
    assert saved.headers["location"] == f"members?done=saved&workspace={vault}"
    [row] = world.rows("workspaces")
    settings = row["should_restrict_members"], row["restrict_account_credentials"], row["required_credentials_mode"]
    assert settings == (False, True, "MEMBER")
    page = await person.get("/members")
    assert "open to the organization" in page.text
    assert 'value="MEMBER" selected' in page.text
    await person.post("/members", {**configure, "restrict_members": "yes", "credentials": "nonsense"})
    [row] = world.rows("workspaces")
    assert (row["should_restrict_members"], row["required_credentials_mode"]) == (True, None)


async def test_a_member_leaves(world: World, vault: str) -> None:
    admin.add_member(world.store, "carl", workspace="acme~vault")
    person = await signed_in(world, "carl")
    page = await person.get("/members")
    assert forms(page, "add") == forms(page, "configure") == []
    leaving = forms(page, "leave")[0]
    assert (await person.post("/members", leaving)).headers["location"].startswith("members?done=left")
    assert names(world) == []
    assert forms(await person.get("/members"), "leave") == []
    again = await person.post("/members", leaving)
    assert (again.status_code, "not a member of this workspace" in again.text) == (409, True)
    assert "vault" not in again.text, "the name is no longer theirs to know"


async def test_only_admins_change_a_workspace(world: World, vault: str) -> None:
    admin.add_member(world.store, "carl", workspace="acme~vault")
    for name in ("carl", "bob"):
        person = await signed_in(world, name)
        # The token is theirs to compute; the workspace is not theirs to change.
        secret = next(iter(person.http.cookies.values()))
        for action, target in (("add", vault), ("remove", f"{vault} {world.accounts['carl']}"), ("configure", vault)):
            form = {"action": action, "id": target, "token": Visitor(secret, None).token(f"{action} {target}")}
            answer = await person.post("/members", {**form, "user": world.accounts["bob"]})
            assert (answer.status_code, "Only an admin" in answer.text) == (403, True)
    assert names(world) == ["carl"]
    assert world.rows("workspaces")[0]["should_restrict_members"]


async def test_first_use(world: World) -> None:
    assert (await (await signed_in(world, "bob")).get("/members")).text.count("You administer no organization") == 1
    assert "no workspaces yet" in (await (await signed_in(world)).get("/members")).text
    organization = await signed_in(world, "acme")
    assert "People: ada (admin)." in re.sub("<[^>]+>", "", (await organization.get("/members")).text)
