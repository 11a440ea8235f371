"""Wherever a method takes an entity, it takes a record, an id or a name.

Of a record only the id is sent: it may hold a prompt, or a secret.
"""

from __future__ import annotations

import inspect
import uuid
from operator import attrgetter
from typing import Any

import pytest

import agentbook as ab
from agentbook.api.record import Record
from support.clients import sent_by_both

ID = "0199a0b2-0000-7000-8000-000000000000"
SECRET = "swordfish"
RECORD = Record({"id": ID, "name": "n", "system_prompt": SECRET, "owner": {"id": "1", "name": SECRET}})
NOUNS = ("me", "agents", "skills", "credentials", "workspaces", "sessions", "organizations")
# What is required, for each method that has it; entities as they are passed by name.
REQUIRED: dict[str, Any] = {
    "agent": "a", "account": "a", "workspace": "w", "organization": "o", "session_id": ID, "workspace_agent_id": "i",
    "agent_id": "a", "version_id": "v", "name": "n", "system_prompt": "s", "description": "d", "prompt": "p",
    "text": "t", "credential_id": "c",
}  # fmt: skip
# What the platform offers beyond the specification.
OPENAPI = b"""
paths:
  /agents/{a}/configure-llm: {post: {requestBody: {content: {application/json: {schema: {properties: {model: {}}}}}}}}
  /agents/{a}/versions/{v}/publish: {post: {}}
  /sessions/{s}: {get: {}}
  /workspace_agents/{i}/credentials: {get: {}, post: {}}
  /workspace_agents/{i}/credentials/{c}: {delete: {}}
  /workspaces/{w}/agents: {get: {}, post: {}}
  /workspaces/{w}/sessions:
    get: {}
    post: {requestBody: {content: {application/json: {schema: {properties: {agent_version_id: {}}}}}}}
"""
ENTITIES = {
    *("account", "agent", "agent_id", "agent_version_id", "auth_config_id", "category", "contributor"),
    *("credential_id", "for_workspace", "forked_from_version", "from_id", "maintainer_id", "model", "organization"),
    *("owner", "owner_id", "session_id", "version_id", "workspace", "workspace_agent_id"),
}
VALUES = {
    *("agent_types", "archived", "avatar_url", "categories", "description", "drafts", "fast", "filter"),
    *("grant_candidates", "integration", "is_archived", "is_pinned", "is_public", "limit", "max_tokens", "mode"),
    *("name", "offset", "overview", "params", "platform_tools", "prompt", "published_only", "scope", "search"),
    *("since", "sort_by", "summary", "system_prompt", "tags", "temperature", "template", "text", "timeout_s", "tools"),
    *("top_p", "type", "types", "until", "version_number", "which"),
}


def methods() -> dict[str, inspect.Signature]:
    client = ab.Client("https://h/v1")
    found = {}
    for noun in NOUNS:
        for name in dir(getattr(client, noun)):
            if not name.startswith("_"):
                found[f"{noun}.{name}"] = inspect.signature(getattr(getattr(client, noun), name))
    return found


ARGUMENTS = [
    (method, parameter)
    for method, signature in methods().items()
    if method not in ("sessions.stream", "sessions.ask")
    for parameter in signature.parameters
    if parameter in ENTITIES
]


def sent(method: str, **values: Any) -> list[Any]:
    """Each request, the same from both clients."""
    return sent_by_both(lambda client: attrgetter(method)(client)(**values), OPENAPI)[0]


def test_each_argument_is_an_entity_or_a_value() -> None:
    assert {name for signature in methods().values() for name in signature.parameters} == ENTITIES | VALUES


@pytest.mark.parametrize(("method", "parameter"), ARGUMENTS)
def test_a_record_a_uuid_and_an_id_are_sent_alike(method: str, parameter: str) -> None:
    signature = methods()[method]
    required = {name: REQUIRED[name] for name, each in signature.parameters.items() if each.default is each.empty}
    by_id = sent(method, **{**required, parameter: ID})
    assert ID in str(by_id)
    assert sent(method, **{**required, parameter: RECORD}) == by_id
    assert sent(method, **{**required, parameter: dict(RECORD)}) == by_id
    assert sent(method, **{**required, parameter: uuid.UUID(ID)}) == by_id
    if parameter != "from_id":
        assert "acme~x" in str(sent(method, **{**required, parameter: "acme~x"}))


@pytest.mark.parametrize(("method", "parameter"), ARGUMENTS)
def test_nothing_is_sent_for_a_record_without_an_id(method: str, parameter: str) -> None:
    signature = methods()[method]
    required = {name: REQUIRED[name] for name, each in signature.parameters.items() if each.default is each.empty}
    with pytest.raises((TypeError, ab.InvalidInput)) as raised:
        sent(method, **{**required, parameter: Record({"name": SECRET})})
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_help_of_a_method_is_about_the_method(asynchronous: bool) -> None:
    client = ab.Client("http://127.0.0.1:9/v1")
    try:
        used = client.asynchronous() if asynchronous else client
        returned = {"AsyncListing", "Awaitable[Record]"} if asynchronous else {"Listing", "Record"}
        for operation in methods():
            noun, name = operation.split(".")
            if name in ("ask", "stream"):
                continue  # ordinary methods
            method = getattr(getattr(used, noun), name)
            assert method.__name__ == name
            assert inspect.signature(method).return_annotation in returned
            assert f"client.{operation}(" in inspect.getdoc(method)
    finally:
        client.close()
