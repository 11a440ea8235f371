"""Rules for many operations: pages, sorting, fields, names, scopes."""

from __future__ import annotations

from typing import Any

import pytest

from agentbook.service import contract
from service.oauth.flow import ready, tokens
from service.operations.test_access import TABLE, granted
from service.world import ALL, World, basic, error

pytestmark = pytest.mark.anyio

MAX_OFFSET = 9223372036854776000

# Every list: its path, and its greatest page ("Limits": 1000, and five that declare 0
# to 500).
LISTS = {
    "listAgents": ("/agents", 1000),
    "listAgentVersions": ("/agents/helper/versions", 1000),
    "listModels": ("/models", 1000),
    "listSkills": ("/accounts/acme/skills", 1000),
    "listSkillVersions": ("/accounts/acme/skills/{skill}/versions", 1000),
    "listAccountWorkspaces": ("/accounts/acme/workspaces", 1000),
    "listSessions": ("/workspaces/lab/sessions", 1000),
    "listWorkspaceAgents": ("/workspaces/lab/agents", 1000),
    "listTasks": ("/sessions/{session}/tasks", 1000),
    "listEvents": ("/sessions/{session}/events", 1000),
    "listCredentials": ("/accounts/acme/credentials", 500),
    "listWorkspaceAgentCredentials": ("/workspace_agents/{installed}/credentials", 500),
    "listContexts": ("/workspaces/lab/contexts", 500),
    "listOrganizationInvitations": ("/organizations/acme/invitations", 500),
    "listMyInvitations": ("/me/invitations", 500),
    "listMyWorkspaces": ("/me/workspaces", 500),
}
SORTED = ("listAgents", "listSkills", "listAccountWorkspaces", "listMyWorkspaces", "listSessions", "listEvents")

# The fields of "Resources and their fields". Of an account's six networks the
# specification names none.
ACCOUNT = {
    *("id", "creator_id", "created_at", "updated_at", "closure_requested_at", "closure_requested_by_id", "name"),
    *("full_name", "bio", "avatar_url", "banner_url", "email_domain", "cached_forks_count"),
    *("cached_forks_public_count", "cached_installs_count", "cached_installs_public_count", "cached_likes_count"),
    *("cached_likes_public_count", "website_url", "member_count", "viewer_membership_id"),
    *("viewer_membership_public", "viewer_role", "type"),
}
FIELDS = {
    "workspace": {
        *("id", "created_at", "updated_at", "creator_id", "name", "full_name", "owner_id"),
        *("restrict_account_credentials", "should_restrict_members", "unlimited_power_mode"),
        *("unlimited_power_mode_enabled", "archived_at", "archived_by_id", "required_credentials_mode"),
        *("archived_by", "creator", "is_viewer_member", "owner"),
    },
    "credential": {
        *("id", "auth_config_id", "creator_id", "owner_id", "target_id", "created_at", "updated_at", "extra_data"),
        *("params", "webhook_owner_identifier", "config_params", "creator", "has_active_webhook_triggers"),
        *("integration", "policy_resources", "signature_type", "target", "webhook_enabled", "webhook_url"),
    },
    "context": {
        *("id", "task_id", "workspace_id", "published_by_id", "created_at", "updated_at", "generated_context"),
        *("manual_context", "summary", "status", "task", "type"),
    },
    "invitation": {
        *("id", "creator_id", "invitee_id", "organization_id", "created_at", "updated_at", "role", "status"),
        *("invitee", "type"),
    },
    "session": {"id", "workspace_id", "initiator_id", "name", "created_at", "updated_at"},
    "event": {"id", "type", "content", "task_id", "created_at", "updated_at"},
}


def test_every_list_is_here() -> None:
    lists = {name for name in contract.load().operations if name.startswith("list")}
    assert lists == set(LISTS)


@pytest.mark.parametrize("operation", LISTS)
async def test_limit_and_offset(world: World, ids: dict[str, str], operation: str) -> None:
    path, max_limit = LISTS[operation]
    path = path.format(**ids)
    body = (await world.get(path, world.full)).json()
    assert set(body) == {"items", "pagination"}
    assert set(body["pagination"]) == {"total_count", "limit", "offset", "has_more"}
    assert (body["pagination"]["limit"], body["pagination"]["offset"]) == (20, 0)
    total = body["pagination"]["total_count"]
    assert len(body["items"]) == total
    for limit, offset in ((0, 0), (max_limit, 0), (1, 0), (1, 1), (20, MAX_OFFSET)):
        answer = await world.get(path, world.full, limit=limit, offset=offset)
        page = answer.json()["pagination"]
        shown = len(answer.json()["items"])
        assert shown == max(0, min(limit, total - offset))
        assert page == {"total_count": total, "limit": limit, "offset": offset, "has_more": offset + shown < total}
    for name, value in (
        ("limit", max_limit + 1),
        ("limit", -1),
        ("limit", "x"),
        ("offset", -1),
        ("offset", MAX_OFFSET + 1000),
    ):
        answer = await world.get(path, world.full, **{name: value})
        status, kind, message = error(answer)
        assert (status, kind) == (400, "InvalidInputError")
        assert message.startswith(f"query.{name}: Input is ")


# The rest of a record is embedded, counted, or said of its viewer.
COMPUTED = {"unlimited_power_mode_enabled", "is_viewer_member", "latest_version", "published_version", "status"}
COMPUTED |= {"agent_version_id"}  # of a session: which version answered


@pytest.mark.parametrize("operation", SORTED)
async def test_every_column_sorts(world: World, ids: dict[str, str], operation: str) -> None:
    path = LISTS[operation][0].format(**ids)
    for owner, name in (("acme", "b"), ("acme", "a"), ("bob", "z"), ("bob", "y")):
        more = {"description": f"about {name}", "category": "x"} if name in "az" else {}
        world.agent_row(owner, name, is_public=True, **more)
        world.workspace(owner, name, archived_at=world.store.clock.instant() if name == "a" else None)
        world.add("skills", owner_id=world.accounts[owner], creator_id=world.accounts[owner], name=name, overview=name)
    for text in ("two", "three"):
        await world.post(f"/sessions/{ids['session']}/events", {"content": text}, world.full)
    await world.start("another")
    await world.idle()
    first = (await world.get(path, world.full)).json()["items"]
    simple = {name for name, value in first[0].items() if not isinstance(value, dict | list)} - COMPUTED
    embedded = {name.removesuffix("_id") for name in first[0] if name.endswith("_id")}
    for column in simple - embedded:
        up = (await world.get(path, world.full, sort_by=column)).json()["items"]
        down = (await world.get(path, world.full, sort_by=f"-{column}")).json()["items"]
        expected = sorted(first, key=lambda item: (item[column] is None, str(item[column]), item["id"]))
        assert [item["id"] for item in up] == [item["id"] for item in expected], column
        assert up == down[::-1]
    assert len(first) > 1
    for column in ("nonsense", "--id", "id;", "engine", "secret_sha256", ""):
        status, kind, message = error(await world.get(path, world.full, sort_by=column))
        assert (status, kind) == (400, "InvalidInputError")
        assert message.startswith("query.sort_by: Input is not one of ")


async def test_records_have_every_field_that_is_specified(world: World, ids: dict[str, str]) -> None:
    async def first(path: str) -> dict[str, Any]:
        item: dict[str, Any] = (await world.get(path.format(**ids), world.full)).json()["items"][0]
        return item

    seen = {
        "workspace": await first("/accounts/acme/workspaces"),
        "credential": await first("/accounts/acme/credentials"),
        "context": await first("/workspaces/lab/contexts"),
        "invitation": await first("/organizations/acme/invitations"),
        "session": (await world.get(f"/sessions/{ids['session']}", world.full)).json(),
        "event": await first("/sessions/{session}/events"),
    }
    for noun, fields in FIELDS.items():
        assert fields <= set(seen[noun]), noun
    owner = seen["workspace"]["owner"]
    assert set(owner) >= ACCOUNT
    networks = {name for name in owner if name.endswith("_url")} - {"avatar_url", "banner_url", "website_url"}
    assert len(networks) == 6


async def test_a_name_works_wherever_an_id_does(world: World, ids: dict[str, str]) -> None:
    accounts = world.accounts
    for by_id, by_name in (
        (f"/accounts/{accounts['acme']}/workspaces", "/accounts/acme/workspaces"),
        (f"/accounts/{accounts['acme']}/credentials", "/accounts/acme/credentials"),
        (f"/organizations/{accounts['acme']}/invitations", "/organizations/acme/invitations"),
        ("/workspaces/lab/contexts", "/workspaces/acme~lab/contexts"),
        ("/agents/helper", "/agents/acme~helper"),
    ):
        assert (await world.get(by_id, world.full)).json() == (await world.get(by_name, world.full)).json()
    for number, reference in enumerate(("acme", accounts["acme"])):
        body = {"name": f"named {number}", "owner_id": reference}
        for path in ("/agents", "/workspaces"):
            assert (await world.post(path, body, world.full)).json()["owner_id"] == accounts["acme"]
    for agent in ("helper", "acme~helper"):
        await world.start("hi", workspace="acme~lab", agent=agent)
    await world.idle()


@pytest.mark.parametrize("kind", ["basic", "bearer", "oauth2"])
async def test_each_scope_alone_with_every_kind_of_credential(world: World, ids: dict[str, str], kind: str) -> None:
    """A credential with one scope may use an operation, or the 403 names the scope."""
    if kind == "oauth2":
        flow = await ready(world)
        keys = {scope: (await tokens(flow, scope, scope=scope))["access_token"] for scope in ALL}
    else:
        keys = {scope: world.key("acme", scope) for scope in ALL}
    for operation, (method, path, body, scopes) in TABLE.items():
        if len(scopes) != 1:
            continue
        [needed] = scopes
        options = {"json": body} if body is not None else {}
        for scope, key in keys.items():
            sent = basic(key) if kind == "basic" else f"Bearer {key}"
            answer = await world.ask(method, path.format(**ids), headers={"Authorization": sent}, **options)
            if scope in granted(needed):
                # A person is not acme: what acme owns may be out of its reach. What was
                # created or deleted before is a conflict, or not there.
                assert answer.status_code in (200, 201, 403, 404, 409), (operation, answer.text)
                assert answer.status_code != 403 or answer.json()["error"] != "InsufficientScope", operation
            else:
                lacks = f"This credential lacks the {needed} scope"
                assert error(answer) == (403, "InsufficientScope", lacks), operation
                assert f'scope="{needed}"' in answer.headers["WWW-Authenticate"]
