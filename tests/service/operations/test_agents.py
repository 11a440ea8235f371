from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from agentbook.service.operations import access
from service.world import World, error

pytestmark = pytest.mark.anyio

LLM = {
    "system_prompt": "Be brief.",
    "description": "Answers",
    "tools": [{"integration": "github", "tools": ["search"]}],
}


async def names(world: World, key: str | None = None, **params: Any) -> list[str]:
    answer = await world.get("/agents", key, limit=1000, **params)
    assert answer.status_code == 200, answer.text
    return [agent["name"] for agent in answer.json()["items"]]


@pytest.fixture
async def filled(world: World) -> World:
    acme = world.accounts["acme"]
    world.agent_row(name="private one", description="Counts sheep", tags_json='["farm"]', category="nature")
    world.agent_row(
        name="public one", is_public=True, is_pinned=True, template="LLM", maintainer_id=world.accounts["ada"]
    )
    world.agent_row(name="old one", is_archived=True, is_public=True)
    world.agent_row(owner="bob", name="bob public", is_public=True, tags_json='["farm","a\\"b_%"]')
    world.agent_row(owner="bob", name="bob private")
    lab = world.workspace()
    by_name = {row["name"]: row["id"] for row in world.rows("agents")}
    world.add("workspace_agents", workspace_id=lab, agent_id=by_name["bob public"], creator_id=acme)
    world.add(
        "agent_versions",
        agent_id=by_name["public one"],
        creator_id=world.accounts["bob"],
        type="COMMITTED",
        version_number="2.0.0",
        published_at=world.store.clock.instant(),
    )
    return world


async def test_who_sees_which_agents(filled: World) -> None:
    assert await names(filled) == ["bob public", "public one"]
    assert await names(filled, filled.key("acme")) == ["bob public", "public one"]
    assert await names(filled, filled.key("acme", "agents:read")) == ["bob public", "private one", "public one"]
    assert await names(filled, filled.key("ada", "agents:read")) == ["bob public", "public one"]


async def test_filters(filled: World) -> None:
    for params, expected in (
        ({"search": "SHEEP counts"}, ["private one"]),
        ({"search": "sheep wolves"}, []),
        ({"search": "one"}, ["private one", "public one"]),
        ({"search": "%"}, []),
        ({"search": "o_e"}, []),
        ({"is_public": "true"}, ["bob public", "public one"]),
        ({"is_public": "false"}, ["bob public", "private one", "public one"]),
        ({"is_pinned": "true"}, ["public one"]),
        ({"is_pinned": "false"}, ["bob public", "private one"]),
        ({"published_only": "true"}, ["public one"]),
        ({"tags": "farm"}, ["bob public", "private one"]),
        ({"tags": "far"}, []),
        ({"tags": "b_%"}, []),
        ({"tags": 'a"b_%'}, ["bob public"]),
        ({"tags": "nothing, farm"}, ["bob public", "private one"]),
        ({"categories": "nature"}, ["private one"]),
        ({"agent_types": "LLM,ADK"}, ["public one"]),
        ({"owner": "bob"}, ["bob public"]),
        ({"owner": "nobody"}, []),
        ({"contributor": "ada"}, ["public one"]),
        ({"contributor": "bob"}, ["bob public", "public one"]),
        ({"for_workspace": "lab"}, ["bob public"]),
        ({"for_workspace": "acme~lab"}, ["bob public"]),
        ({"for_workspace": "none"}, []),
        ({"sort_by": "-name"}, ["public one", "private one", "bob public"]),
        ({"fast": "true", "sort_by": "created_at"}, ["private one", "public one", "bob public"]),
    ):
        assert await names(filled, filled.full, **params) == expected, params


async def test_an_account_contributed_what_its_keys_created(filled: World) -> None:
    key = filled.key("bob", "agents:write")
    assert (await filled.post("/agents", {"name": "made by key"}, key)).status_code == 201
    assert await names(filled, key, contributor="bob") == ["bob private", "bob public", "made by key", "public one"]
    assert await names(filled, key, contributor="ada") == ["public one"]


@pytest.mark.parametrize(
    ("name", "longest", "too_many", "noun"),
    [
        ("search", "%" * 10_000, " ".join(map(str, range(1800))), "words"),
        ("tags", "a," * 4_900 + "farm", ",".join(map(str, range(101))), "tags"),
    ],
)
async def test_long_filters_are_answered(filled: World, name: str, longest: str, too_many: str, noun: str) -> None:
    """Those of very many terms are refused: each would occupy a thread for seconds."""
    answer = await filled.get("/agents", filled.full, **{name: longest})
    assert (answer.status_code, bool(answer.json()["items"])) == (200, name == "tags")
    for value, problem in (
        ("x" * 10_001, "is longer than 10000 characters"),
        (too_many, f"should have at most 100 different {noun}"),
    ):
        refused = error(await filled.get("/agents", **{name: value}))
        assert refused == (400, "InvalidInputError", f"query.{name}: Input {problem}")


@pytest.mark.parametrize("path", ["/agents", "/agents/public one", "/agents/public one/versions", "/agents/twin"])
async def test_a_key_without_agents_read_gets_what_no_credential_would(filled: World, path: str) -> None:
    """To the last field: not even who looks at the owner shows."""
    for owner in ("acme", "bob"):  # of two agents of a name, a reader's own comes first
        filled.agent_row(owner, name="twin", is_public=True, is_archived=owner == "acme")
    expected = (await filled.get(path)).json()
    for account in ("acme", "ada"):
        for scopes in ((), ("skills:read", "sessions:write")):
            assert (await filled.get(path, filled.key(account, *scopes))).json() == expected
    reader = (await filled.get(path, filled.full)).json()
    assert (reader != expected) == (not path.endswith("versions"))


async def test_a_key_without_scopes_learns_nothing_of_a_workspace(filled: World) -> None:
    assert await names(filled, filled.full, for_workspace="lab") == ["bob public"]
    for key in (None, filled.key("acme"), filled.key("acme", "skills:read")):
        assert await names(filled, key, for_workspace="lab") == []


async def test_letters_are_found_in_either_case_whatever_the_language(world: World) -> None:
    world.agent_row(name="école")
    assert await names(world, world.full, search="ÉCOLE") == ["école"]
    assert await names(world, world.full, search="ecole") == []


@pytest.mark.parametrize(
    "name",
    [
        *("acme\u202e", "\u200bacme", "a\u2066b", "a\u2028b", "\ufeffacme", "a\u2060b", "\u200e"),
        *("a\u009b2Jb", "\u0085acme", "acme\u0080", "a\u061cb", "a\u180eb", "a\u206eb", "acme\ufffb"),
    ],
)
async def test_a_name_hides_and_reorders_nothing(world: World, name: str) -> None:
    for path in ("/agents", "/workspaces", "/accounts/acme/skills"):
        answer = await world.post(path, {"name": name}, world.full)
        assert error(answer)[:2] == (400, "InvalidInputError"), path
        assert "body.name" in error(answer)[2]


async def test_joiners_are_part_of_a_name(world: World) -> None:
    for name in ("नमस्\u200dते", "می\u200cخواهم", "🏳️\u200d🌈"):
        assert (await world.post("/agents", {"name": name}, world.full)).json()["name"] == name


async def test_unicode_spaces_are_part_of_a_name(world: World) -> None:
    world.agent_row(name="nb")
    for reference in ("nb%E3%80%80", "%20nb", "nb%0A"):
        assert (await world.get(f"/agents/{reference}", world.full)).status_code == 404
    made = await world.post("/agents", {"name": "nb\u3000"}, world.full)
    answer = await world.get("/agents/nb%E3%80%80", world.full)
    assert answer.json()["id"] == made.json()["id"]


@pytest.mark.parametrize("spelt", ["{id}", "private one", "acme~private one", "{ID}"])
async def test_one_agent_by_id_and_by_name(filled: World, spelt: str) -> None:
    id_ = next(row["id"] for row in filled.rows("agents") if row["name"] == "private one")
    answer = await filled.get("/agents/" + spelt.format(id=id_, ID=id_.upper()), filled.full)
    agent = answer.json()
    assert (agent["id"], agent["full_name"], agent["owner"]["name"]) == (id_, "acme~private one", "acme")
    assert (agent["tags"], agent["category"], agent["setup_state"]) == (["farm"], "nature", "READY")


async def test_a_page_of_long_texts_ends_early_and_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand descriptions of a megabyte each are not held at once."""
    monkeypatch.setattr(access, "MAX_PAGE", 5_000)
    for number in range(5):
        world.agent_row(name=f"agent-{number}", description="x" * (2_000 if number else 9_000))
    pages: list[list[str]] = []
    has_more = True
    while has_more:
        offset = sum(map(len, pages))
        answer = (await world.get("/agents", world.full, limit=100, offset=offset, sort_by="name")).json()
        pages.append([agent["name"] for agent in answer["items"]])
        has_more = answer["pagination"]["has_more"]
        assert answer["pagination"]["limit"] == (len(answer["items"]) if has_more else 100)
    assert pages == [["agent-0"], ["agent-1", "agent-2"], ["agent-3", "agent-4"]]


async def test_a_denied_read_looks_like_a_missing_agent(filled: World) -> None:
    absent = error(await filled.get("/agents/nothing", filled.full))
    assert absent == (404, "NotFound", "Agent not found")
    for reference in ("bob private", "bob~bob private"):
        for key in (None, filled.full, filled.key("ada", "agents:read")):
            assert error(await filled.get(f"/agents/{reference}", key)) == absent
    for key in (None, filled.key("acme"), filled.key("acme", "sessions:write"), filled.key("ada", "agents:read")):
        assert error(await filled.get("/agents/private one", key)) == absent
        assert error(await filled.get("/agents/private one/versions", key)) == absent
    assert error(await filled.get("/agents/%00", filled.full)) == absent


async def test_create_with_nothing_but_a_name(world: World) -> None:
    answer = await world.post("/agents", {"name": "fresh"}, world.full)
    assert answer.status_code == 201
    made = answer.json()
    assert made == (await world.get(f"/agents/{made['id']}", world.full)).json()
    assert made["owner_id"] == world.accounts["acme"]
    assert made["creator_id"] == world.full.partition(":")[0]
    assert (made["is_public"], made["tags"], made["template"], made["description"]) == (False, [], None, None)


@pytest.mark.parametrize(
    ("template", "state", "engine"),
    [
        (None, "READY", "llm"),
        ("LLM", "READY", "llm"),
        ("BLANK", "READY", "blank"),
        ("AUTO_MANAGED_STATE", "READY", "auto_managed_state"),
        ("PLATFORM_NATIVE", "READY", "guide"),
        ("GOOSE", "PENDING", "goose"),
        ("OPENCLAW", "PENDING", "openclaw"),
        ("LANGGRAPH", "PENDING", "langgraph"),
        ("ADK", "PENDING", "adk"),
    ],
)
async def test_every_template(world: World, template: str | None, state: str, engine: str) -> None:
    answer = await world.post("/agents", {"name": "fresh", "template": template}, world.full)
    assert (answer.json()["template"], answer.json()["setup_state"]) == (template, state)
    assert world.rows("agents")[0]["engine"] == engine
    answer = await world.post("/agents/fresh/configure-llm", LLM, world.full)
    if template == "PLATFORM_NATIVE":
        reason = "Only an LLM agent can be configured; the template of this agent is PLATFORM_NATIVE."
        assert error(answer) == (409, "Conflict", reason)
    elif state == "READY":
        assert answer.status_code == 201
    else:
        assert error(answer) == (409, "Conflict", "Agent must be READY before it can be configured.")


async def test_names_are_unique_within_an_account(world: World) -> None:
    assert (await world.post("/agents", {"name": "fresh"}, world.full)).status_code == 201
    expected = (409, "Conflict", 'Agent "acme~fresh" already exists. Please choose a different name.')
    assert error(await world.post("/agents", {"name": "fresh"}, world.full)) == expected
    assert (await world.post("/agents", {"name": "fresh"}, world.key("bob", "agents:write"))).status_code == 201


async def test_a_key_can_neither_publish_nor_create_for_others(world: World) -> None:
    for owner in ("acme", world.accounts["acme"]):
        body = {"name": f"for {owner}", "owner_id": owner}
        assert (await world.post("/agents", body, world.full)).status_code == 201
    for owner in ("bob", world.accounts["ada"], "nobody"):
        answer = await world.post("/agents", {"name": "other", "owner_id": owner}, world.full)
        assert error(answer)[:2] == (403, "Forbidden")
    answer = await world.post("/agents", {"name": "other", "is_public": True}, world.full)
    assert error(answer) == (403, "Forbidden", "Only an admin can make an agent public")
    assert "other" not in await names(world, world.full)


async def test_configure_commits_a_version(world: World) -> None:
    await world.post("/agents", {"name": "fresh", "template": "BLANK"}, world.full)
    body = {**LLM, "platform_tools": ["search"], "mode": "multi-turn", "summary": "first", "version_number": "1.1.0"}
    made = (await world.post("/agents/fresh/configure-llm", body, world.full)).json()
    assert made["job"]["status"] == "COMPLETED"
    listed = (await world.get("/agents/fresh/versions", world.full)).json()["items"]
    assert listed == [{key: value for key, value in made.items() if key != "job"}]
    assert (made["type"], made["version_number"], made["mode"]) == ("COMMITTED", "1.1.0", "multi-turn")
    assert (made["system_prompt"], made["tools"], made["platform_tools"]) == ("Be brief.", LLM["tools"], ["search"])
    agent = (await world.get("/agents/fresh", world.full)).json()
    assert (agent["latest_version"], agent["published_version"], agent["description"]) == ("1.1.0", None, "Answers")
    assert world.rows("agents")[0]["engine"] == "llm"


async def test_versions_are_filtered_and_their_prompt_is_the_owners(world: World) -> None:
    agent = world.agent_row(name="open", is_public=True)
    for kind in ("COMMITTED", "EPHEMERAL", "COMMITTED"):
        row = {"agent_id": agent, "creator_id": "x", "type": kind, "version_number": "1", "system_prompt": "secret"}
        world.add("agent_versions", **row)
    for key, kind, count in (
        (None, "COMMITTED", 2), (None, "EPHEMERAL", 0), (world.full, "COMMITTED", 2), (world.full, "EPHEMERAL", 1),
        (world.key("acme"), "EPHEMERAL", 0),
    ):  # fmt: skip
        answer = await world.get("/agents/open/versions", key, type=kind)
        assert [version["type"] for version in answer.json()["items"]] == [kind] * count, "drafts are their owner's"
    assert error(await world.get("/agents/open/versions", type="OTHER"))[0] == 400
    prompts = {
        key: {v["system_prompt"] for v in (await world.get("/agents/open/versions", key)).json()["items"]}
        for key in (None, world.key("bob", "agents:read"), world.key("acme"), world.full)
    }
    assert list(prompts.values()) == [{None}, {None}, {None}, {"secret"}]


async def test_a_version_that_another_request_is_publishing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    if len(world.platforms) > 1:
        pytest.skip("processes never share a commit")
    agent = world.agent_row(name="fresh")
    version = world.add("agent_versions", agent_id=agent, creator_id="x", type="COMMITTED", version_number="1")
    path = f"/agents/fresh/versions/{version}/publish"
    has_begun, is_open = threading.Event(), threading.Event()
    # What waits meanwhile shares one commit: no request is through before the others.
    blocked = asyncio.create_task(world.store.write(lambda tx: has_begun.set() or is_open.wait(60)))
    await asyncio.to_thread(has_begun.wait)
    write, waiting = world.store.write, []
    monkeypatch.setattr(world.store, "write", lambda work, **more: waiting.append(work) or write(work, **more))
    requests = [asyncio.create_task(world.ask("POST", path, world.full)) for _ in range(3)]
    while len(waiting) < len(requests):
        await asyncio.sleep(0)
    is_open.set()
    await blocked
    answers = await asyncio.gather(*requests)
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409]
    refused = next(answer for answer in answers if answer.status_code == 409)
    assert error(refused) == (409, "Conflict", "Version is being published, try again later.")
    later = await world.ask("POST", path, world.full)
    assert error(later) == (409, "Conflict", "Version is already published")
    assert world.platform.claims == set()


async def test_publishing(world: World) -> None:
    agent = world.agent_row(name="fresh")
    row = {"agent_id": agent, "creator_id": "x", "type": "COMMITTED", "version_number": "1"}
    good, bad = world.add("agent_versions", **row), world.add("agent_versions", **row, validation="PENDING")
    path = "/agents/fresh/versions/{}/publish"
    published = await world.ask("POST", path.format(good), world.full)
    assert published.status_code == 200
    assert published.json()["published_at"] is not None
    again = await world.ask("POST", path.format(good), world.full)
    assert error(again) == (409, "Conflict", "Version is already published")
    refused = await world.ask("POST", path.format(bad), world.full)
    assert error(refused) == (409, "Conflict", "Cannot publish: validation has not passed")
    draft = world.add("agent_versions", **{**row, "type": "EPHEMERAL"}, validation="PASSED")
    refused = await world.ask("POST", path.format(draft), world.full)
    assert error(refused) == (409, "Conflict", "Cannot publish: validation has not passed")
    assert {each["id"] for each in world.rows("agent_versions") if each["published_at"]} == {good}
    absent = await world.ask("POST", path.format("x"), world.full)
    assert error(absent) == (404, "NotFound", "Agent version not found")
    other = await world.ask("POST", path.format(good), world.key("bob", "agents:write"))
    assert error(other) == (404, "NotFound", "Agent not found")
    world.change("agents", agent, is_public=True)
    other = await world.ask("POST", path.format(good), world.key("bob", "agents:write"))
    assert error(other)[:2] == (403, "Forbidden")
