"""Who may do what: each operation with each kind of credential and each scope."""

from __future__ import annotations

from typing import Any

import pytest

from agentbook.service import admin, contract
from agentbook.service.errors import OperatorError
from service.world import ALL, World, error

pytestmark = pytest.mark.anyio

LLM = {"system_prompt": "p", "description": "d", "tools": []}
CHAT = {"session_type": "chat", "agent_id": "helper", "initial_prompt": "hi"}
ATTACH = {"auth_config_id": "0199c2f0-0000-7000-8000-00000000abcd", "integration": "github"}
SKILL = {"overview": "o", "version_number": "2.0.0"}

# operationId: (method, path, body, the scopes of a key that may; () where they do not
# matter). Written down from the specification, not read from openapi.yaml: this is what
# checks that file.
TABLE: dict[str, tuple[str, str, Any, tuple[str, ...]]] = {
    "getMe": ("GET", "/me", None, ()),
    "listMyWorkspaces": ("GET", "/me/workspaces", None, ("workspaces:read",)),
    "listMyInvitations": ("GET", "/me/invitations", None, ()),
    "listCredentials": ("GET", "/accounts/acme/credentials", None, ("integrations:read",)),
    "listSkills": ("GET", "/accounts/acme/skills", None, ("skills:read",)),
    "createSkill": ("POST", "/accounts/acme/skills", {"name": "new"}, ("skills:write",)),
    "listSkillVersions": ("GET", "/accounts/acme/skills/{skill}/versions", None, ("skills:read",)),
    "createSkillVersion": ("POST", "/accounts/acme/skills/{skill}/versions", SKILL, ("skills:write",)),
    "listAccountWorkspaces": ("GET", "/accounts/acme/workspaces", None, ("workspaces:read",)),
    "listModels": ("GET", "/models", None, ("agents:read",)),
    "createAgent": ("POST", "/agents", {"name": "new"}, ("agents:write",)),
    "configureLlm": ("POST", "/agents/helper/configure-llm", LLM, ("agents:write",)),
    "publishAgentVersion": ("POST", "/agents/helper/versions/{version}/publish", None, ("agents:write",)),
    "createWorkspace": ("POST", "/workspaces", {"name": "new"}, ("workspaces:write",)),
    "listContexts": ("GET", "/workspaces/lab/contexts", None, ("workspaces:read",)),
    "listWorkspaceAgents": ("GET", "/workspaces/lab/agents", None, ("workspaces:read", "agents:read")),
    "installAgent": ("POST", "/workspaces/lab/agents", {"agent_id": "open"}, ("workspaces:write",)),
    "listSessions": ("GET", "/workspaces/lab/sessions", None, ("workspaces:read",)),
    "startSession": ("POST", "/workspaces/lab/sessions", CHAT, ("sessions:write",)),
    "updateWorkspaceAgent": ("PATCH", "/workspace_agents/{installed}", {}, ("workspaces:write",)),
    "listWorkspaceAgentCredentials": ("GET", "/workspace_agents/{installed}/credentials", None, ("integrations:read",)),
    "attachCredential": ("POST", "/workspace_agents/{installed}/credentials", ATTACH, ("integrations:write",)),
    "detachCredential": (
        "DELETE",
        "/workspace_agents/{installed}/credentials/{credential}",
        None,
        ("integrations:write",),
    ),
    "uninstallAgent": ("DELETE", "/workspace_agents/{installed}", None, ("workspaces:write",)),
    "getSession": ("GET", "/sessions/{session}", None, ("sessions:read",)),
    "listTasks": ("GET", "/sessions/{session}/tasks", None, ("sessions:read",)),
    "listEvents": ("GET", "/sessions/{session}/events", None, ("workspaces:read", "agents:read")),
    "listOrganizationInvitations": ("GET", "/organizations/acme/invitations", None, ()),
}
# With whatever scope: a key without any may call GET /me and nothing else.
ANY = {"listMyInvitations", "listOrganizationInvitations"}
# These three answer without a credential, and a scope only widens what is seen.
OPEN = {"listAgents", "getAgent", "listAgentVersions"}
# Only the key that began a chat posts in it, and only tokens update an agent: tested
# apart.
APART = {"postEvent", "updateAgent"}


def test_the_table_has_every_operation() -> None:
    assert set(contract.load().operations) == set(TABLE) | OPEN | APART


def granted(scope: str) -> set[str]:
    """The scopes that grant this one: itself, and the write access that implies it."""
    return {scope, scope.replace(":read", ":write")}


@pytest.mark.parametrize("operation", TABLE)
async def test_scopes(world: World, ids: dict[str, str], operation: str) -> None:
    method, path, body, needed = TABLE[operation]
    path = path.format(**ids)
    options = {"json": body} if body is not None else {}
    # Without any of the scopes that are needed: 403, which names the first one missing.
    for missing in needed:
        others = [scope for scope in ALL if scope not in granted(missing)]
        answer = await world.ask(method, path, world.key("acme", *others), **options)
        assert error(answer) == (403, "InsufficientScope", f"This credential lacks the {missing} scope")
        challenge = answer.headers["WWW-Authenticate"]
        assert 'error="insufficient_scope"' in challenge
        assert f'scope="{missing}"' in challenge
    # With exactly what is needed it works, and write access is enough where read access
    # is.
    needed = needed or (("skills:read",) if operation in ANY else ())
    wide = [next(iter(granted(scope) - {scope}), scope) for scope in needed]
    status = contract.load().operations[operation].status
    for scopes in (wide, needed) if method == "GET" else (needed,):
        answer = await world.ask(method, path, world.key("acme", *scopes), **options)
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize("operation", TABLE)
async def test_credentials(world: World, ids: dict[str, str], operation: str) -> None:
    method, path, body, _ = TABLE[operation]
    path = path.format(**ids)
    options = {"json": body} if body is not None else {}
    key_id, _, secret = world.full.partition(":")
    unknown = "0199c2f0-0000-7000-8000-00000000abcd"
    cases = {
        None: "Not authenticated",
        "Basic !!!": "Not authenticated",
        "Basic bm9jb2xvbg==": "Not authenticated",
        "Bearer": "Not authenticated",
        "Digest x": "Not authenticated",
        f"Bearer name:{secret}": "Not authenticated",
        f"Bearer {key_id}:wrong": "Invalid API key",
        f"Bearer {key_id}:": "Invalid API key",
        f"Bearer {unknown}:{secret}": "Invalid API key",
        f"Bearer 00000000-0000-0000-0000-000000000000:{secret}": "Invalid API key",
        "Bearer sometoken": "Invalid OAuth token",
    }
    for header, message in cases.items():
        headers = {} if header is None else {"Authorization": header}
        answer = await world.ask(method, path, headers=headers, **options)
        assert error(answer) == (401, "Unauthorized", message), header
        assert "resource_metadata=" in answer.headers["WWW-Authenticate"]
    answer = await world.ask(method, path, headers={"Authorization": f"Bearer {world.full}"}, **options)
    assert answer.status_code == contract.load().operations[operation].status


@pytest.mark.parametrize("path", ["/agents", "/agents/open", "/agents/open/versions"])
async def test_open_operations_reject_an_invalid_credential(world: World, ids: dict[str, str], path: str) -> None:
    assert (await world.get(path)).status_code == 200
    key_id = world.full.partition(":")[0]
    assert error(await world.get(path, f"{key_id}:wrong")) == (401, "Unauthorized", "Invalid API key")


async def test_a_key_without_scopes_can_ask_who_it_is_and_nothing_more(world: World, ids: dict[str, str]) -> None:
    key = world.key("acme")
    me = (await world.get("/me", key)).json()
    assert me["id"] == world.accounts["acme"]
    assert me["credential"] == {"type": "api_key", "id": key.partition(":")[0], "name": "test key", "scopes": []}
    for operation, (method, path, body, needed) in TABLE.items():
        if operation != "getMe":
            options = {"json": body} if body is not None else {}
            answer = await world.ask(method, path.format(**ids), key, **options)
            scope_ = (needed or ("workspaces:read",))[0]
            assert error(answer) == (403, "InsufficientScope", f"This credential lacks the {scope_} scope"), operation
            assert f'scope="{scope_}"' in answer.headers["WWW-Authenticate"]


async def test_a_trigger_key_reaches_the_session_operations_of_its_workspace_alone(
    world: World, ids: dict[str, str]
) -> None:
    key = world.key("acme", trigger="lab")
    assert (await world.get(f"/sessions/{ids['session']}/events", key)).status_code == 200
    assert (await world.get(f"/sessions/{ids['session']}", key)).status_code == 200
    assert (await world.get(f"/sessions/{ids['session']}/tasks", key)).status_code == 200
    expected = (401, "Unauthorized", "This credential cannot access this endpoint")
    for method, path, body, _ in TABLE.values():
        if not path.startswith("/sessions"):
            options = {"json": body} if body is not None else {}
            assert error(await world.ask(method, path.format(**ids), key, **options)) == expected
    headers = {"Authorization": f"Bearer {key}"}
    assert error(await world.ask("GET", f"/sessions/{ids['session']}", headers=headers)) == expected
    world.change("api_keys", key.partition(":")[0], workspace_id=world.workspace(name="elsewhere"))
    assert error(await world.get(f"/sessions/{ids['session']}", key)) == (404, "NotFound", "Session not found")


async def test_a_trigger_key_reads_the_sessions_of_its_workspace_until_it_is_revoked(world: World) -> None:
    world.agent_row()
    lab = world.workspace()
    session = await world.start("hello")
    await world.idle()
    keys = [world.key("acme", trigger=name) for name in ("lab", lab, "acme~lab")]
    for key in keys:
        assert await world.events(session, key) == await world.events(session)
    admin.revoke_key(world.store, keys[0])
    refused = (401, "Unauthorized", "Invalid API key")
    assert error(await world.get(f"/sessions/{session}/events", keys[0])) == refused
    # Of an earlier version, made with a token, whose end is no longer noticed.
    world.change("api_keys", keys[1].partition(":")[0], authorization_id="0199c2f0-0000-7000-8000-000000000000")
    assert error(await world.get(f"/sessions/{session}/events", keys[1])) == refused
    assert await world.events(session, keys[2])


async def test_a_trigger_key_is_made_only_for_an_open_workspace_of_its_account(world: World) -> None:
    world.workspace(name="closed", should_restrict_members=True)
    world.workspace("bob", "elsewhere")
    for name, wrong in {"closed": "restricted", "bob~elsewhere": "belong", "nowhere": "no workspace"}.items():
        with pytest.raises(OperatorError, match=wrong):
            world.key("acme", trigger=name)
