"""Every list operation of the specification loads with its schema: a walk over the
platform's own openapi.yaml.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import httpx
import pytest
import yaml

import agentbook as ab
from agentbook.frames.parse.schemas import SCHEMAS
from agentbook.resources import ListOperation, Resource

TEXT = (files("agentbook.service") / "openapi.yaml").read_text("utf-8")
DOCUMENT: dict[str, Any] = yaml.load(TEXT, yaml.CSafeLoader)

# Path -> what asks for it, and what its items are. The specification's ten, then those
# in its gaps.
LISTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "/agents": (lambda c: c.agents.list(), "agents"),
    "/agents/{agent_id_or_name}/versions": (lambda c: c.agents.versions("x"), "agent_versions"),
    "/accounts/{account_id_or_name}/skills": (lambda c: c.skills.list("x"), "skills"),
    "/accounts/{account_id_or_name}/credentials": (lambda c: c.credentials.list("x"), "credentials"),
    "/accounts/{account_id_or_name}/workspaces": (lambda c: c.workspaces.list("x"), "workspaces"),
    "/workspaces/{workspace_id_or_name}/contexts": (lambda c: c.workspaces.contexts("x"), "contexts"),
    "/sessions/{session_id}/events": (lambda c: c.sessions.events("x"), "events"),
    "/organizations/{org_id_or_name}/invitations": (lambda c: c.organizations.invitations("x"), "invitations"),
    "/me/invitations": (lambda c: c.me.invitations(), "invitations"),
    "/me/workspaces": (lambda c: c.me.workspaces(), "workspaces"),
    "/workspaces/{workspace_id_or_name}/sessions": (lambda c: c.sessions.list("x"), "sessions"),
    "/workspaces/{workspace_id_or_name}/agents": (lambda c: c.workspaces.agents("x"), "workspace_agents"),
    "/workspace_agents/{workspace_agent_id}/credentials": (lambda c: c.credentials.of_agent("x"), "credentials"),
    "/models": (lambda c: c.agents.models(), "models"),
}
ID = "019a0b1c-0000-7000-8000-00000000000{}"


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        target: Any = DOCUMENT
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        schema = target
    return schema


@functools.cache
def list_operations() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Path to operation and schema of its items, of every GET that answers with the
    list envelope.
    """
    operations = {}
    for path, methods in DOCUMENT["paths"].items():
        reply = resolved(methods.get("get", {}).get("responses", {}).get("200", {}))
        body = resolved(reply.get("content", {}).get("application/json", {}).get("schema", {}))
        if {"items", "pagination"} <= set(body.get("properties", ())):
            operations[path] = methods["get"], resolved(body["properties"]["items"]["items"])
    return operations


def sample(schema: dict[str, Any], n: int) -> Any:
    """A value as the schema wants it."""
    schema = resolved(schema)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return sample(schema[several][0], n)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    kind = next(name for name in kind if name != "null") if isinstance(kind, list) else kind
    if kind == "object":
        return {name: sample(inner, n) for name, inner in schema.get("properties", {}).items()}
    if kind == "array":
        return [sample(schema.get("items", {"type": "string"}), n)]
    if kind == "string":
        return {"uuid": ID.format(n), "date-time": f"2026-10-03T08:15:0{n}Z"}.get(schema.get("format", ""), f"text {n}")
    return {"boolean": True, "integer": n, "number": n / 2}[kind]


def test_the_lists_are_those_of_the_specification_and_of_the_client() -> None:
    operations = list_operations()
    documented = {path for path, (operation, _) in operations.items() if "x-agentbook-extension" not in operation}
    assert documented == set(list(LISTS)[:10])
    assert set(LISTS) <= set(operations)
    owners = [value for value in vars(ab.Client("https://h/v1")).values() if isinstance(value, Resource)]
    lists = [
        (owner, name)
        for owner in owners
        for name in dir(type(owner))
        if isinstance(getattr(type(owner), name), ListOperation)
    ]
    assert len(lists) == len(LISTS), lists
    assert {resource for _, resource in LISTS.values()} == set(SCHEMAS)


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize("path", LISTS)
def test_a_list_loads_with_its_schema(path: str, count: int) -> None:
    call, resource = LISTS[path]
    items = [sample(list_operations()[path][1], n) for n in range(count)]
    for n, item in enumerate(items):
        item["id"] = ID.format(n)
    page = {"items": items, "pagination": {"total_count": count, "limit": 100, "offset": 0, "has_more": False}}
    paths = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("openapi.yaml"):
            return httpx.Response(200, text=TEXT)
        paths.append(request.url.path)
        return httpx.Response(200, json=page)

    transport = httpx.MockTransport(answer)
    frame = call(ab.Client("https://h/v1", http_client=httpx.Client(transport=transport))).to_pandas()
    assert re.fullmatch("/v1" + re.sub(r"\{\w+\}", "x", path), paths[0])
    assert frame.dtypes.map(str).to_dict() == {column.name: column.dtype for column in SCHEMAS[resource].columns}
    assert frame["id"].to_list() == [ID.format(n) for n in range(count)]
    assert len(ab.load_problems(frame)) == 0
    for item, extra in zip(items, frame["extra"], strict=True):
        wires = {column.wire.partition(".")[0] for column in SCHEMAS[resource].columns if column.wire}
        assert set(item) - wires <= set(json.loads(extra) if isinstance(extra, str) else ()), "a field is lost"
    for column in SCHEMAS[resource].columns:
        if count and column.documented and column.wire in items[0] and items[0][column.wire] is not None:
            assert frame[column.name].notna().all(), column.name

    async def awaited() -> Any:
        client = ab.AsyncClient("https://h/v1", http_client=httpx.AsyncClient(transport=transport))
        return await call(client).to_pandas()

    assert asyncio.run(awaited()).drop(columns="extra").equals(frame.drop(columns="extra"))
