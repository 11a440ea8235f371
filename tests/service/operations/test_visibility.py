"""What each caller sees of each entity; a denied read is the same as a missing one.

`test_access` asks whether an operation may be used at all; here every scope is granted
(or none is needed), and what decides is whose the thing is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from service.world import ALL, World

pytestmark = pytest.mark.anyio

ABSENT = "0199c2f0-0000-7000-8000-00000000abcd"

# Reads of one thing: the path, and who sees it. ``acme`` owns it, ``ada`` is an admin
# of acme, ``bob`` a stranger.
READS: dict[str, tuple[str, set[str]]] = {
    "own private agent": ("/agents/{private}", {"acme"}),
    "versions of it": ("/agents/{private}/versions", {"acme"}),
    "public agent": ("/agents/{public}", {"acme", "ada", "bob", "nobody"}),
    "versions of it, public": ("/agents/{public}/versions", {"acme", "ada", "bob", "nobody"}),
    "contexts of an open workspace": ("/workspaces/{lab}/contexts", {"acme", "ada"}),
    "agents of an open workspace": ("/workspaces/{lab}/agents", {"acme", "ada"}),
    "sessions of an open workspace": ("/workspaces/{lab}/sessions", {"acme"}),
    "session in an open workspace": ("/sessions/{session}", {"acme"}),
    "its events": ("/sessions/{session}/events", {"acme"}),
    "its tasks": ("/sessions/{session}/tasks", {"acme"}),
    "contexts of a restricted workspace": ("/workspaces/{closed}/contexts", set()),
    "agents of a restricted workspace": ("/workspaces/{closed}/agents", set()),
    "sessions of a restricted workspace": ("/workspaces/{closed}/sessions", set()),
    "session in a restricted workspace": ("/sessions/{hidden}", set()),
    "its events, restricted": ("/sessions/{hidden}/events", set()),
    "workspaces of the account": ("/accounts/{acme}/workspaces", {"acme", "ada"}),
    "credentials of the account": ("/accounts/{acme}/credentials", {"acme"}),
    "invitations of the organization": ("/organizations/{acme}/invitations", {"acme"}),
}
CALLERS = ("acme", "ada", "bob", "nobody")


@pytest.fixture
async def things(world: World) -> dict[str, str]:
    lab = world.workspace()
    closed = world.workspace(name="closed", should_restrict_members=True)
    private = world.agent_row()
    public = world.agent_row(name="open", is_public=True)
    session = await world.start("hello")
    hidden = await world.start("psst")
    await world.idle()
    world.change("sessions", hidden, workspace_id=closed)
    return {
        "lab": lab,
        "closed": closed,
        "private": private,
        "public": public,
        "session": session,
        "hidden": hidden,
        "acme": world.accounts["acme"],
    }


async def answer(world: World, path: str, caller: str, keys: dict[str, str]) -> tuple[int, bytes]:
    """Return status and body; they are compared whole (the request id is a header)."""
    response = await world.get(path, keys.get(caller))
    return response.status_code, response.content


@pytest.fixture
def keys(world: World) -> dict[str, str]:
    return {name: world.key(name, *ALL) for name in ("acme", "ada", "bob")}


@pytest.mark.parametrize("read", READS)
async def test_visibility_and_a_denied_read_looks_like_a_missing_entity(
    world: World, things: dict[str, str], keys: dict[str, str], read: str
) -> None:
    path, seers = READS[read]
    name = path.partition("{")[2].partition("}")[0]
    for caller in CALLERS:
        status, body = await answer(world, path.format(**things), caller, keys)
        absent = await answer(world, path.format(**{name: ABSENT}), caller, keys)
        if caller in seers:
            assert status == 200, (caller, body)
            assert absent[0] == 404
        elif caller == "nobody" and not path.startswith("/agents"):
            assert (status, body) == absent
            assert status == 401
        else:
            assert (status, body) == absent, caller
            assert status == 404


async def test_names_reveal_no_more_than_ids(world: World, things: dict[str, str], keys: dict[str, str]) -> None:
    for path in ("/workspaces/{}/contexts", "/workspaces/{}/sessions", "/agents/{}", "/agents/{}/versions"):
        for reference in ("closed", "acme~closed", "helper", "acme~helper"):
            for caller in ("ada", "bob"):
                denied = await answer(world, path.format(reference), caller, keys)
                assert denied == await answer(world, path.format("no such name"), caller, keys)


# Lists: what each caller finds in them of acme's things.
LISTS: dict[str, tuple[Callable[[dict[str, Any]], str], dict[str, list[str]]]] = {
    "/agents": (
        lambda item: item["name"],
        {"acme": ["helper", "open"], "ada": ["open"], "bob": ["open"], "nobody": ["open"]},
    ),
    "/agents?owner=acme": (
        lambda item: item["name"],
        {"acme": ["helper", "open"], "ada": ["open"], "bob": ["open"], "nobody": ["open"]},
    ),
    "/agents?for_workspace=closed": (lambda item: item["name"], {"acme": [], "ada": [], "bob": [], "nobody": []}),
    "/me/workspaces?which=all": (lambda item: item["name"], {"acme": ["lab"], "ada": ["lab"], "bob": []}),
    "/accounts/acme/workspaces": (lambda item: item["name"], {"acme": ["lab"], "ada": ["lab"]}),
    "/accounts/acme/skills": (
        lambda item: item["name"],
        {"acme": ["hidden", "shown"], "ada": ["shown"], "bob": ["shown"]},
    ),
}


@pytest.mark.parametrize("path", LISTS)
async def test_what_a_list_holds(world: World, things: dict[str, str], keys: dict[str, str], path: str) -> None:
    world.add("workspace_agents", workspace_id=things["closed"], agent_id=things["public"], creator_id="x")
    for name, public in (("hidden", False), ("shown", True)):
        world.add("skills", owner_id=things["acme"], creator_id=things["acme"], name=name, is_public=public)
    read, expected = LISTS[path]
    for caller, names in expected.items():
        body = (await world.ask("GET", path, keys.get(caller))).json()
        assert [read(item) for item in body["items"]] == names, caller
        assert body["pagination"]["total_count"] == len(names), "the count tells no more than the items"


WRITES: dict[str, tuple[str, str, Any]] = {
    "start a session": (
        "POST",
        "/workspaces/{closed}/sessions",
        {"session_type": "chat", "agent_id": "open", "initial_prompt": "hi"},
    ),
    "install an agent": ("POST", "/workspaces/{closed}/agents", {"agent_id": "open"}),
    "post in a session": ("POST", "/sessions/{hidden}/events", {"content": "hi"}),
    "configure an agent": (
        "POST",
        "/agents/{private}/configure-llm",
        {"system_prompt": "p", "description": "d", "tools": []},
    ),
}


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_to_an_invisible_entity_is_a_404(
    world: World, things: dict[str, str], keys: dict[str, str], write: str
) -> None:
    method, path, body = WRITES[write]
    name = path.partition("{")[2].partition("}")[0]
    before = world.rows("events"), world.rows("sessions"), world.rows("workspace_agents"), world.rows("agent_versions")
    for caller in ("bob", "ada"):
        denied = await world.ask(method, path.format(**things), keys[caller], json=body)
        absent = await world.ask(method, path.format(**{name: ABSENT}), keys[caller], json=body)
        assert (denied.status_code, denied.content) == (absent.status_code, absent.content)
        assert denied.status_code == 404
    after = world.rows("events"), world.rows("sessions"), world.rows("workspace_agents"), world.rows("agent_versions")
    assert after == before
