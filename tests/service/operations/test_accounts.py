"""Skills, credentials, invitations and the current user."""

from __future__ import annotations

from typing import Any

import pytest

from agentbook.service.store import tables
from service.world import ALL, World, error

pytestmark = pytest.mark.anyio


async def names(world: World, path: str, key: str, **params: Any) -> list[str]:
    answer = await world.get(path, key, **params)
    assert answer.status_code == 200, answer.text
    return [item["name"] for item in answer.json()["items"]]


async def test_skills(world: World) -> None:
    acme = world.accounts["acme"]
    for name in ("b", "a"):
        made = await world.post("/accounts/acme/skills", {"name": name, "overview": f"does {name}"}, world.full)
        assert (made.status_code, made.json()["full_name"]) == (201, f"acme~{name}")
    world.add(
        "skills", owner_id=acme, creator_id=acme, name="c", is_public=True, archived_at=world.store.clock.instant()
    )
    path = "/accounts/acme/skills"
    assert await names(world, path, world.full) == ["a", "b", "c"]
    assert await names(world, path, world.full, sort_by="-name") == ["c", "b", "a"]
    assert await names(world, path, world.full, archived="true") == ["c"]
    assert await names(world, path, world.full, archived="false") == ["a", "b"]
    assert await names(world, path, world.full, search="does b") == ["b"]
    assert await names(world, path, world.key("bob", *ALL)) == ["c"]
    assert error(await world.get("/accounts/nobody/skills", world.full)) == (404, "NotFound", "Account not found")


async def test_a_skill_that_cannot_be_made(world: World) -> None:
    public = await world.post("/accounts/acme/skills", {"name": "s", "is_public": True}, world.full)
    assert error(public) == (403, "Forbidden", "Only an admin can make a skill public")
    other = await world.post("/accounts/bob/skills", {"name": "s"}, world.full)
    assert error(other) == (403, "Forbidden", "This credential cannot create a skill for another account")
    await world.post("/accounts/acme/skills", {"name": "s"}, world.full)
    again = await world.post("/accounts/acme/skills", {"name": "s"}, world.full)
    assert error(again) == (409, "Conflict", 'Skill "acme~s" already exists. Please choose a different name.')
    assert [row["name"] for row in world.rows("skills")] == ["s"]


async def test_credentials(world: World) -> None:
    acme, ada = world.accounts["acme"], world.accounts["ada"]
    lab, agent = world.workspace(), world.agent_row()
    installed = world.add("workspace_agents", workspace_id=lab, agent_id=agent, creator_id=acme)
    ids = {
        name: world.add("credentials", owner_id=owner, account_id=acme, creator_id=ada, integration=kind, name=name)
        for name, kind, owner in (("Build bot", "github", acme), ("Mail", "gmail", acme), ("Own", "github", ada))
    }
    world.add(
        "credentials", owner_id=world.accounts["bob"], account_id=world.accounts["bob"], integration="x", name="bobs"
    )
    grant = {"credential_id": ids["Mail"], "workspace_agent_id": installed}
    world.store.write_now(lambda tx: tx.db.execute(tables.credential_grants.insert(), grant))
    path = "/accounts/acme/credentials"
    assert await names(world, path, world.full) == ["Own", "Mail", "Build bot"]
    assert await names(world, path, world.full, integration="github") == ["Own", "Build bot"]
    assert await names(world, path, world.full, search="bot GIT") == ["Build bot"]
    assert await names(world, path, world.full, scope="true") == ["Mail", "Build bot"]
    assert await names(world, path, world.full, scope="false") == ["Own"]
    assert await names(world, path, world.full, workspace_id="lab") == ["Mail"]
    assert await names(world, path, world.full, workspace_id=lab, grant_candidates="true") == ["Own", "Build bot"]
    assert await names(world, path, world.full, grant_candidates="true") == ["Own", "Build bot"]
    assert error(await world.get(path, world.full, workspace_id="none"))[0] == 404
    assert error(await world.get(path, world.key("ada", *ALL))) == (404, "NotFound", "Account not found")
    first = (await world.get(path, world.full, limit=1)).json()["items"][0]
    assert (first["integration"], first["creator"]["name"], first["params"]) == ({"name": "github"}, "ada", {})


async def test_invitations(world: World) -> None:
    acme, bob = world.accounts["acme"], world.accounts["bob"]
    row = {"organization_id": acme, "invitee_id": bob, "creator_id": world.accounts["ada"], "status": "PENDING"}
    for role in ("ADMIN", "MEMBER"):
        world.add("invitations", **row, role=role)
    mine = (await world.get("/me/invitations", world.key("bob", "skills:read"))).json()
    sent = (await world.get("/organizations/acme/invitations", world.key("acme", "agents:read"))).json()
    assert mine == sent
    assert [item["role"] for item in sent["items"]] == ["MEMBER", "ADMIN"]
    assert sent["items"][0]["invitee"] == {"id": bob, "type": "user", "name": "bob"}
    assert (await world.get("/me/invitations", world.full)).json()["items"] == []
    for reference, key in (("acme", "ada"), ("acme", "bob"), ("nothing", "acme"), ("bob", "bob"), ("%00", "acme")):
        answer = await world.get(f"/organizations/{reference}/invitations", world.key(key, *ALL))
        assert error(answer) == (404, "NotFound", "Organization not found")


async def test_me(world: World) -> None:
    acme = (await world.get("/me", world.full)).json()
    assert (acme["name"], acme["type"], acme["member_count"], acme["viewer_role"]) == (
        "acme",
        "organization",
        1,
        "ADMIN",
    )
    assert acme["credential"]["scopes"] == sorted(ALL)
    ada = (await world.get("/me", world.key("ada"))).json()
    assert (ada["type"], ada["member_count"]) == ("user", None)
    links = [field for field in ada if field.endswith("_url") and field not in ("avatar_url", "banner_url")]
    assert len(links) == 7


async def test_what_is_counted_of_accounts_is_each_ones_own(world: World) -> None:
    """In lists whose records have different owners, and in one record."""
    lab = world.workspace()
    for owner, is_public, installs in (("acme", True, 2), ("acme", False, 1), ("bob", True, 1)):
        agent = world.agent_row(owner, f"{owner} {is_public}", is_public=is_public)
        version = world.add("agent_versions", agent_id=agent, creator_id="x", type="COMMITTED", version_number="1")
        world.agent_row("ada", f"fork of {owner} {is_public}", is_public=is_public, forked_from_version=version)
        for n in range(installs):
            workspace = lab if n == 0 else world.workspace(name=f"lab {n}")
            world.add("workspace_agents", workspace_id=workspace, agent_id=agent, creator_id="x")
    listed = (await world.get("/agents", world.full)).json()["items"]
    owners = {item["owner"]["name"]: item["owner"] for item in listed}
    counts = ("forks_count", "forks_public_count", "installs_count", "installs_public_count")
    assert {name: [owner[f"cached_{count}"] for count in counts] for name, owner in owners.items()} == {
        "acme": [2, 1, 3, 2],
        "bob": [1, 1, 1, 1],
        "ada": [0, 0, 0, 0],
    }
    assert [owners[name]["member_count"] for name in ("acme", "bob")] == [1, None]
    me = (await world.get("/me", world.full)).json()
    assert {name: me[name] for name in owners["acme"]} == owners["acme"]


PATH = "/accounts/acme/skills/research/versions"


async def test_a_skill_has_versions(world: World) -> None:
    made = (await world.post("/accounts/acme/skills", {"name": "research", "overview": "Reads."}, world.full)).json()
    first = (await world.get(PATH, world.full)).json()["items"]
    assert [(version["version_number"], version["overview"]) for version in first] == [("1.0.0", "Reads.")]
    body = {"overview": "Reads and cites.", "version_number": "1.1.0"}
    answer = await world.post(PATH, body, world.full)
    assert answer.status_code == 201, answer.text
    version = answer.json()
    assert version == {
        **{"id": version["id"], "skill_id": made["id"], "creator_id": world.full.partition(":")[0], **body},
        **{"created_at": version["created_at"], "updated_at": version["created_at"]},
    }
    by_id = f"/accounts/{world.accounts['acme']}/skills/{made['id']}/versions"
    for path in (PATH, by_id, "/accounts/acme/skills/acme~research/versions"):
        assert (await world.get(path, world.full)).json()["items"] == [version, *first]
    skill = (await world.get("/accounts/acme/skills", world.full)).json()["items"][0]
    assert (skill["overview"], skill["updated_at"]) == (body["overview"], version["created_at"])


async def test_who_sees_and_creates_versions_of_a_skill(world: World) -> None:
    acme = world.accounts["acme"]
    skill = world.add("skills", owner_id=acme, creator_id=acme, name="research")
    world.add("skill_versions", skill_id=skill, creator_id=acme, version_number="1.0.0")
    bob, body = world.key("bob", "skills:write"), {"overview": "o", "version_number": "2"}
    absent = (404, "NotFound", "Skill not found")
    assert error(await world.get(PATH, bob)) == absent
    assert error(await world.post(PATH, body, bob)) == absent
    for path in ("/accounts/acme/skills/nothing/versions", "/accounts/bob/skills/research/versions"):
        assert error(await world.get(path, world.full)) == absent
    assert error(await world.get("/accounts/nobody/skills/research/versions", bob)) == (
        404,
        "NotFound",
        "Account not found",
    )
    world.change("skills", skill, is_public=True)
    assert len((await world.get(PATH, bob)).json()["items"]) == 1
    assert error(await world.post(PATH, body, bob)) == (403, "Forbidden", "This skill belongs to another account")
