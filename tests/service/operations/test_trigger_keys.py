from __future__ import annotations

from typing import Any

import pytest

from agentbook.service import auth
from service.oauth.flow import Flow, ready, tokens
from service.oauth.test_authorize import at
from service.world import ALL, World, error

pytestmark = pytest.mark.anyio

PATH = "/workspaces/lab/trigger_keys"
BODY = {"agent_id": "helper", "name": "build server"}


@pytest.fixture
def lab(world: World) -> str:
    world.agent_row()
    return world.workspace()


async def test_a_trigger_key_is_created_used_listed_and_revoked(world: World, lab: str) -> None:
    session = await world.start("hello")
    await world.idle()
    answer = await world.post(PATH, BODY, world.full)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    key = made.pop("key")
    helper = world.rows("agents")[0]["id"]
    assert made == {
        **{"id": key.partition(":")[0], "name": "build server", "workspace_id": lab, "agent_id": helper},
        **{"revoked_at": None, "created_at": made["created_at"], "updated_at": made["created_at"]},
    }
    assert await world.events(session, key) == await world.events(session)
    stored = next(row for row in world.rows("api_keys") if row["id"] == made["id"])
    assert stored["secret_sha256"] == auth.hash_secret(key.partition(":")[2])
    assert (stored["kind"], stored["scopes_json"]) == ("trigger", "[]")

    second = (await world.post(PATH, {**BODY, "name": "other"}, world.full)).json()
    second.pop("key")
    listed = (await world.get(PATH, world.full)).json()
    assert listed["items"] == [second, made]
    assert listed["pagination"]["total_count"] == 2

    for _ in range(2):
        gone = await world.ask("DELETE", f"{PATH}/{made['id']}", world.full)
        assert (gone.status_code, gone.json()) == (200, {})
    refused = await world.get(f"/sessions/{session}/events", key)
    assert error(refused) == (401, "Unauthorized", "Invalid API key")
    revoked = (await world.get(PATH, world.full)).json()["items"][1]
    assert revoked["id"] == made["id"]
    assert revoked["revoked_at"] == revoked["updated_at"] > made["updated_at"]


async def test_who_may_create_a_trigger_key(world: World, lab: str) -> None:
    world.agent_row(owner="bob", name="private")
    world.workspace(name="closed", should_restrict_members=True)
    nowhere = (404, "NotFound", "Workspace not found")
    ada = world.key("ada", *ALL)  # sees the workspaces of her organization, and owns none of them
    for key in (ada, world.key("bob", *ALL)):
        assert error(await world.post(f"/workspaces/{lab}/trigger_keys", BODY, key)) == nowhere
        assert error(await world.get(f"/workspaces/{lab}/trigger_keys", key)) == nowhere
    assert error(await world.post("/workspaces/closed/trigger_keys", BODY, world.full)) == nowhere
    for agent in ("private", "nobody"):
        answer = await world.post(PATH, {**BODY, "agent_id": agent}, world.full)
        assert error(answer) == (404, "NotFound", "Agent not found")
    for body, field in (({"name": "x"}, "agent_id"), ({"agent_id": "helper"}, "name"), ({**BODY, "name": ""}, "name")):
        answer = await world.post(PATH, body, world.full)
        assert answer.status_code == 400
        assert field in answer.json()["message"]
    assert [row["kind"] for row in world.rows("api_keys")] == ["account"] * 3


async def test_only_trigger_keys_of_the_workspace_can_be_revoked(world: World, lab: str) -> None:
    world.workspace(name="elsewhere")
    made = (await world.post(PATH, BODY, world.full)).json()["id"]
    absent = (404, "NotFound", "Trigger key not found")
    for path in (
        f"/workspaces/elsewhere/trigger_keys/{made}",
        f"{PATH}/{world.full.partition(':')[0]}",
        f"{PATH}/nonsense",
        f"{PATH}/%00",
    ):
        assert error(await world.ask("DELETE", path, world.full)) == absent
    assert all(row["revoked_at"] is None for row in world.rows("api_keys"))


REFUSED = (401, "Unauthorized", "Invalid API key")


async def made_with_a_token(world: World) -> tuple[Flow, dict[str, Any], str]:
    """A client with tokens that act as acme, and a trigger key that it made."""
    flow = await ready(world)
    scopes = "workspaces:write agents:read sessions:read"
    issued = await tokens(flow, scope=scopes, account="acme")
    made = await flow.call(issued["access_token"], "POST", PATH, json=BODY)
    assert made.status_code == 201, made.text
    return flow, issued, made.json()["key"]


async def test_a_key_made_with_a_token_ends_when_its_authorization_is_revoked(world: World, lab: str) -> None:
    session = await world.start("hello")
    await world.idle()
    flow, issued, key = await made_with_a_token(world)
    own = (await world.post(PATH, BODY, world.full)).json()["key"]
    assert (await world.get(f"/sessions/{session}/events", key)).status_code == 200
    renewed = (await flow.refresh(issued["refresh_token"])).json()
    assert (await world.get(f"/sessions/{session}/events", key)).status_code == 200
    assert (await flow.refresh(issued["refresh_token"])).status_code == 400  # a spent token: everything is revoked
    assert (await flow.call(renewed["access_token"])).status_code == 401
    assert error(await world.get(f"/sessions/{session}/events", key)) == REFUSED
    listed = {row["id"]: row["revoked_at"] for row in (await world.get(PATH, world.full)).json()["items"]}
    assert listed[key.partition(":")[0]] is not None
    assert (await world.get(f"/sessions/{session}/events", own)).status_code == 200


async def test_a_key_made_with_a_token_ends_with_the_last_token(
    world: World, lab: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await world.start("hello")
    await world.idle()
    _, _, key = await made_with_a_token(world)
    for seconds, status in ((3_601, 200), (31 * 24 * 3_600, 401)):  # the refresh token lives for 30 days
        with monkeypatch.context() as patch:
            at(world, patch, seconds)
            assert (await world.get(f"/sessions/{session}/events", key)).status_code == status


async def test_a_key_made_with_a_token_ends_when_the_person_is_no_admin(world: World, lab: str) -> None:
    session = await world.start("hello")
    await world.idle()
    _, _, key = await made_with_a_token(world)
    assert (await world.get(f"/sessions/{session}/events", key)).status_code == 200
    world.change("memberships", world.rows("memberships")[0]["id"], role="MEMBER")
    assert error(await world.get(f"/sessions/{session}/events", key)) == REFUSED
