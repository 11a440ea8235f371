from __future__ import annotations

import pytest

from service.world import World, error

pytestmark = pytest.mark.anyio

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
