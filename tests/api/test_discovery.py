"""Discovery in openapi.yaml documents that differ from ours."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

import agentbook as ab
from support.clients import client_of

BODY = {"properties": {"tools": {}, "acme_tools": {}}}
SELECTOR = {"name": "which_ones", "in": "query", "schema": {"enum": ["my", "all"]}}


def document(
    prefix: str = "",
    *,
    selector: Any = SELECTOR,
    beside: Any = None,
    kind: str = "application/json",
    body: Any = BODY,
    **components: Any,
) -> dict[str, Any]:
    """An openapi document; `beside` are parameters of the path, not the operation."""
    listed = [selector] if selector is not None else None
    configure = {"post": {"requestBody": {"content": {kind: {"schema": body}}}}}
    return {
        "paths": {
            f"{prefix}/workspaces/{{some_id}}/sessions": {"get": {}},
            f"{prefix}/me/workspaces": {"parameters": beside, "get": {"parameters": listed}},
            f"{prefix}/agents/{{a}}/configure-llm": configure,
        },
        "components": components,
    }


LOOP = {"anyOf": [{"$ref": "#/components/loop"}, {"type": "null"}]}
DOCUMENTS = {
    "as ours": document(),
    "the version in the paths": document("/v1"),
    "a longer address in the paths": document("/api/v1"),
    "parameters beside the operation": document(selector=None, beside=[SELECTOR]),
    "constants": document(selector={**SELECTOR, "schema": {"oneOf": [{"const": "my"}, {"const": "all"}]}}),
    "optional": document(
        selector={**SELECTOR, "schema": {"anyOf": [{"$ref": "#/components/which"}, {"type": "null"}]}},
        body={
            "anyOf": [{"allOf": [{"$ref": "#/components/first"}, {"$ref": "#/components/second"}]}, {"type": "null"}]
        },
        which={"enum": ["my", "all"]},
        first={"properties": {"tools": {}}},
        second={"properties": {"acme_tools": {}}},
    ),
    "Swagger's parameters": document(selector={"name": "which_ones", "in": "query", "enum": ["my", "all"]}),
    "a charset": document(kind="application/json; charset=utf-8"),
    "in circles": document(body={"allOf": [BODY, {"$ref": "#/components/loop"}]}, loop=LOOP),
}


class Platform:
    def __init__(self, described: Any) -> None:
        self.described = described
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/openapi.yaml":
            return httpx.Response(200, content=json.dumps(self.described))
        self.requests.append(request)
        return httpx.Response(200, json={"items": [], "pagination": {"total_count": 0, "has_more": False}})


@pytest.mark.parametrize("described", DOCUMENTS.values(), ids=DOCUMENTS)
def test_it_is_found_however_it_is_described(described: Any) -> None:
    platform = Platform(described)
    client = client_of(platform)
    assert list(client.sessions.list("w")) == []
    assert list(client.me.workspaces(which="all")) == []
    client.agents.configure_llm("a", system_prompt="s", description="d", tools=[], platform_tools=["search"])
    listed, mine, configured = platform.requests
    assert listed.url.path == "/v1/workspaces/w/sessions"
    assert mine.url.params["which_ones"] == "all"
    assert json.loads(configured.content)["acme_tools"] == ["search"]


@pytest.mark.parametrize(
    "described",
    [
        {},
        [],
        "html",
        {"paths": None},
        {"paths": {"/me/workspaces": None, "/agents/{a}/configure-llm": {"post": None}}},
        {"paths": {"/me/workspaces": {"get": {"parameters": None}}}},
        {"paths": {"/me/workspaces": {"get": {"parameters": [None, 5, {"$ref": "#/nowhere"}, {"in": "query"}]}}}},
        {"paths": {"/agents/{a}/configure-llm": {"post": {"requestBody": {"content": {"application/json": None}}}}}},
        document(selector={**SELECTOR, "schema": {"enum": None, "anyOf": None}}, body={"properties": None, "allOf": 5}),
        document(selector={**SELECTOR, "schema": LOOP}, body=LOOP, loop=LOOP),
    ],
)
def test_what_is_not_described_is_not_offered(described: Any) -> None:
    platform = Platform(described)
    client = client_of(platform)
    with pytest.raises(ab.NotOffered) as selector:
        list(client.me.workspaces(which="all"))
    assert "specification" not in str(selector.value)  # which shows both paths
    with pytest.raises(ab.NotOffered):
        client.agents.configure_llm("a", system_prompt="s", description="d", tools=[], platform_tools=["search"])
    assert platform.requests == []


def test_further_fields_are_sent_where_they_are_offered() -> None:
    body = {"properties": {"tools": {}, "acme_tools": {}, "model": {}, "top_p": {}}}
    platform = Platform(document(body=body))
    configure = client_of(platform).agents.configure_llm
    required: dict[str, Any] = {"system_prompt": "s", "description": "d", "tools": []}
    configure("a", **required, platform_tools=["search"], model="small", top_p=0.5)
    sent = json.loads(platform.requests.pop().content)
    assert sent == {**required, "acme_tools": ["search"], "model": "small", "top_p": 0.5}
    with pytest.raises(ab.NotOffered, match="shows no temperature and no max_tokens, so nothing was sent"):
        configure("a", **required, model="small", temperature=0, max_tokens=5)
    with pytest.raises(ab.NotOffered, match=r"sessions\.start"):
        client_of(platform).sessions.start("w", agent_id="a", prompt="Hi", agent_version_id="v")
    assert platform.requests == []
