"""Every operation of both clients: the same bytes, the same results."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest

import agentbook as ab
from agentbook.api import policy
from agentbook.api.calls import UNSET
from agentbook.api.transport import SyncTransport
from support.clients import KEY, Wire, async_client_of, client_of, sent_by_both

OPENAPI = b"""
paths:
  /workspaces/{workspace_id_or_name}/sessions:
    get: {operationId: a}
  /agents/{agent}/configure-llm:
    post:
      requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/Configure'}}}}
  /me/workspaces:
    get:
      parameters:
        - {name: limit, in: query, schema: {type: integer}}
        - {$ref: '#/components/parameters/Which'}
components:
  parameters:
    Which: {name: membership, in: query, schema: {anyOf: [{type: string, enum: [my, all]}]}}
  schemas:
    Configure: {properties: {system_prompt: {}, description: {}, tools: {}, acme_tools: {}, mode: {}}}
"""

# name -> (what to call on a client, the method, target and body that are sent)
OPERATIONS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "me.get": (lambda c: c.me.get(), "GET me"),
    "agents.get": (lambda c: c.agents.get("acme~my/agent"), "GET agents/acme~my%2Fagent"),
    "agents.get dots": (lambda c: c.agents.get(".."), "GET agents/%2E%2E"),
    "agents.get record": (lambda c: c.agents.get({"id": "0190"}), "GET agents/0190"),
    "agents.get unicode": (lambda c: c.agents.get("ümlaut ?#"), "GET agents/%C3%BCmlaut%20%3F%23"),
    "agents.create": (
        lambda c: c.agents.create("a", tags=("x",), category=None),
        'POST agents {"name":"a","category":null,"tags":["x"]}',
    ),
    "agents.update": (
        lambda c: c.agents.update("a", is_pinned=True, tags=None, category=UNSET),
        'PATCH agents/a {"is_pinned":true,"tags":null}',
    ),
    "agents.configure_llm": (
        lambda c: c.agents.configure_llm("a", system_prompt="s", description="d", platform_tools=["search"]),
        'POST agents/a/configure-llm {"system_prompt":"s","description":"d","tools":[],"acme_tools":["search"]}',
    ),
    "skills.create": (lambda c: c.skills.create("acme", "sql"), 'POST accounts/acme/skills {"name":"sql"}'),
    "workspaces.create": (lambda c: c.workspaces.create("w"), 'POST workspaces {"name":"w"}'),
    "workspaces.uninstall_agent": (lambda c: c.workspaces.uninstall_agent("0190"), "DELETE workspace_agents/0190"),
    "sessions.start": (
        lambda c: c.sessions.start("acme~w", agent_id="0190", prompt="Hi"),
        'POST workspaces/acme~w/sessions {"session_type":"chat","agent_id":"0190","initial_prompt":"Hi"}',
    ),
    "sessions.send": (
        lambda c: c.sessions.send("0190", "Hi"),
        'POST sessions/0190/events {"content":"Hi","mode":"text"}',
    ),
    "sessions.send options": (
        lambda c: c.sessions.send("0190", "Hi", mode="markdown", agent_id={"id": "0191"}),
        'POST sessions/0190/events {"content":"Hi","mode":"markdown","agent_id":"0191"}',
    ),
    "request": (
        lambda c: c.request("post", "/x", params={"a": True, "b": None}, json={"c": [1]}),
        'POST x?a=true {"c":[1]}',
    ),
}
# name -> (what to list, target of the first page)
LISTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "agents.list": (
        lambda c: c.agents.list(search="a b", fast=False, tags=["x", "y"], owner={"id": "1"}, sort_by="-name"),
        "agents?search=a+b&fast=false&tags=x%2Cy&owner=1&sort_by=-name&limit=1000",
    ),
    "agents.versions": (
        lambda c: c.agents.versions("a", type="COMMITTED"),
        "agents/a/versions?type=COMMITTED&limit=1000",
    ),
    "skills.list": (lambda c: c.skills.list("acme", archived=True), "accounts/acme/skills?archived=true&limit=1000"),
    "credentials.list": (
        lambda c: c.credentials.list(
            "acme", integration="github", workspace="acme~w", scope=True, grant_candidates=False
        ),
        "accounts/acme/credentials?integration=github&workspace_id=acme~w&scope=true&grant_candidates=false&limit=500",
    ),
    "workspaces.list": (lambda c: c.workspaces.list("acme"), "accounts/acme/workspaces?limit=1000"),
    "workspaces.contexts": (lambda c: c.workspaces.contexts("acme~w"), "workspaces/acme~w/contexts?limit=500"),
    "organizations.invitations": (
        lambda c: c.organizations.invitations("acme"),
        "organizations/acme/invitations?limit=500",
    ),
    "me.invitations": (lambda c: c.me.invitations(), "me/invitations?limit=500"),
    "me.workspaces": (lambda c: c.me.workspaces(which="all"), "me/workspaces?limit=500&membership=all"),
    "sessions.events": (lambda c: c.sessions.events("0190"), "sessions/0190/events?sort_by=id&limit=1000"),
    "sessions.list": (lambda c: c.sessions.list("acme~w"), "workspaces/acme~w/sessions?limit=1000"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_sends_the_same_bytes_from_both_clients(name: str) -> None:
    act, sent = OPERATIONS[name]
    [(sent_method, sent_target, headers, sent_body)], _ = sent_by_both(act, OPENAPI)
    assert f"{sent_method} {sent_target} {sent_body}".replace("/v1/", "", 1).strip() == sent
    assert ("accept", "application/json") in headers
    assert ("authorization", ab.ApiKey(KEY).authorization()) in headers
    assert (("content-type", "application/json") in headers) is bool(sent_body)


@pytest.mark.parametrize("name", LISTS)
def test_a_list_sends_the_same_bytes_from_both_clients(name: str) -> None:
    make, target = LISTS[name]
    requests, result = sent_by_both(make, OPENAPI)
    assert result == []
    assert [(method, sent) for method, sent, _, _ in requests] == [("GET", f"/v1/{target}")]


def test_every_operation_of_the_contract_is_in_these_tables() -> None:
    client = ab.Client("https://h/v1")
    nouns = ("me", "agents", "skills", "credentials", "workspaces", "sessions", "organizations")
    offered = {
        f"{noun}.{name}" for noun in nouns for name in dir(type(getattr(client, noun))) if not name.startswith("_")
    }
    tested_elsewhere = {"sessions.stream", "sessions.ask", "agents.publish", "agents.models"}
    here = {name.split()[0] for name in [*OPERATIONS, *LISTS, *BEYOND]} - {"request"}
    assert offered - tested_elsewhere == here


# What the specification does not show.
BEYOND: dict[str, Callable[[Any], Any]] = {
    "sessions.get": lambda c: c.sessions.get("0190"),
    "workspaces.agents": lambda c: list(c.workspaces.agents("w")),
    "workspaces.install_agent": lambda c: c.workspaces.install_agent("w", "a"),
    "credentials.of_agent": lambda c: list(c.credentials.of_agent("w")),
    "credentials.attach": lambda c: c.credentials.attach("w", "c"),
    "credentials.detach": lambda c: c.credentials.detach("w", "c"),
}


@pytest.mark.parametrize("act", BEYOND.values(), ids=BEYOND)
def test_an_operation_the_platform_does_not_offer_says_so_and_sends_nothing(act: Callable[[Any], Any]) -> None:
    wire = Wire(OPENAPI)
    with pytest.raises(ab.NotOffered, match=r"openapi\.yaml"):
        act(client_of(wire))
    assert wire.requests == []


@pytest.mark.parametrize(
    "junk",
    [b"{{{{: -", b"a: !!python/object:os.system x", b"\xff\xfe\x00", b"[" * 10_000, b"- " * 100_000, b"a: 2020-99-99"],
)
def test_an_openapi_document_that_is_none_is_one_clear_error(junk: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "BACKOFF_S", 0.0)
    with pytest.raises(ab.ApiError, match=r"openapi: the reply .* is not the YAML that was expected"):
        client_of(lambda request: httpx.Response(200, content=junk)).openapi()


def test_an_openapi_document_may_repeat_its_parts() -> None:
    body = b"paths: {/a: &a {get: {x: 1}}, /b: *a, /c: {<<: *a, post: {}}}"
    client = client_of(lambda request: httpx.Response(200, content=body))
    assert client.openapi()["paths"]["/c"] == {"get": {"x": 1}, "post": {}}


def test_calls_that_need_openapi_at_the_same_time_fetch_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it fails, they fail with it; the next call fetches it again."""
    paths, perform, all_are_here = [], SyncTransport._perform, threading.Barrier(4, timeout=60)

    def platform(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.path)
        return httpx.Response(200, content=OPENAPI) if len(paths) > 1 else httpx.Response(404)

    def wait_for_the_others(transport: SyncTransport, step: Any) -> Any:
        if not paths:
            all_are_here.wait()  # each has decided what it needs
        return perform(transport, step)

    def outcome(_: int) -> str:
        try:
            return "read" if client.openapi()["paths"] else ""
        except ab.NotFound:
            return "failed"

    monkeypatch.setattr(SyncTransport, "_perform", wait_for_the_others)
    client = client_of(platform)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(outcome, range(4))) == ["failed"] * 4
        assert paths == ["/v1/openapi.yaml"]
        assert list(pool.map(outcome, range(4))) == ["read"] * 4
    assert paths == ["/v1/openapi.yaml"] * 2


@pytest.mark.parametrize("awaited", [False, True])
def test_waiting_for_the_openapi_of_another_call_ends_at_ones_own_deadline(awaited: bool) -> None:
    other: Future[Any] = Future()
    other.set_running_or_notify_cancel()
    client = ab.Client("https://h/v1", deadline_s=0.05)
    waiting: Any = client.asynchronous() if awaited else client
    waiting._reading[os.getpid()] = other  # no other call ever ends this
    with pytest.raises(ab.DeadlineExceeded, match=r"openapi: not answered within 0\.05 s"):
        asyncio.run(waiting.openapi()) if awaited else waiting.openapi()


async def read_in_tasks(client: ab.AsyncClient) -> list[Any]:
    tasks = [asyncio.create_task(client.openapi()) for _ in range(4)]
    await asyncio.sleep(0)
    tasks[1].cancel()  # one that waits: the others are not cancelled with it
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_tasks_that_need_openapi_at_the_same_time_fetch_it_once() -> None:
    paths = []

    async def platform(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.path)
        for _ in range(100):  # turns of the loop, in which the other tasks go as far as they can
            await asyncio.sleep(0)
        return httpx.Response(200, content=OPENAPI)

    client = async_client_of(platform)
    first, cancelled, *others = asyncio.run(read_in_tasks(client))
    assert isinstance(cancelled, asyncio.CancelledError)
    assert first["paths"]
    assert others == [first, first]
    assert paths == ["/v1/openapi.yaml"]


@pytest.mark.parametrize("kind", [ab.Client, ab.AsyncClient])
def test_wrong_arguments_are_named_with_how_to_write_the_call(kind: Any) -> None:
    client = kind("https://h/v1")
    calls: dict[str, Callable[[], Any]] = {
        "agents.list has no argument 'serch'; did you mean 'search'?": lambda: client.agents.list(serch="x"),
        "me.get has no argument 'fields'; it has none.": lambda: client.me.get(fields="x"),
        "sessions.start has no argument 'workspace_id'; did you mean 'workspace'": (
            lambda: client.sessions.start(workspace_id="x")
        ),
        "workspaces.list: missing a required argument: 'account'. Write client.workspaces.list(account).": (
            client.workspaces.list
        ),
        "sessions.start: too many positional arguments. Write client.sessions.start(workspace, agent_id=..., prompt=": (
            lambda: client.sessions.start("acme~support", "helpdesk", "the question")
        ),
        "agents.list: is_public=False would list public and private agents": lambda: client.agents.list(
            is_public=False
        ),
    }
    for message, call in calls.items():
        with pytest.raises((TypeError, ab.InvalidInput), match=f"^{re.escape(message)}"):
            call()
    assert repr(client.sessions).startswith("<sessions: ask, ")
    assert client.agents.list(is_public=True).parameters["is_public"] is True
    assert "is_public" not in client.agents.list(is_public=None).parameters
