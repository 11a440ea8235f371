"""Hostile input anywhere gives a 4xx that names the field, never a 5xx."""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import yaml

from agentbook.service import contract
from agentbook.service.contract import Operation
from service.process import Service, command
from service.world import World, basic, error

pytestmark = pytest.mark.anyio

DOCUMENT: dict[str, Any] = yaml.load(contract.load().text, yaml.CSafeLoader)
# OAuth's endpoints answer as RFC 6749 says, and are tested beside it.
OPERATIONS = {o.id: o for o in contract.load().operations.values() if "/oauth/" not in o.path}
BODIES = {name: operation for name, operation in OPERATIONS.items() if operation.has_body}
IN_PATHS = {name: operation for name, operation in OPERATIONS.items() if "{" in operation.path}
VALUES: dict[str, list[Any]] = {
    "null": [None],
    "boolean": [True],
    "integer": [7, -(10**30)],
    "number": [1.5],
    "string": ["x"],
    "array": [[], [[]]],
    "object": [{}, {"a": {}}],
}
HOSTILE = [
    "../../../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "' OR '1'='1' --",
    "x'; DROP TABLE events; --",
    "x\r\nX-Evil: 1",
    "x\x00y",
    "%",
    "_%",
    "\x7f\x1b[31m",
    "\u202egnp.exe",
    "𝕏" * 50,
    "x" * 5000,
    "~",
    "acme~",
    "{}",
    "${jndi:ldap://x}",
    "<script>alert(1)</script>",
]


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        target: Any = DOCUMENT
        for step in schema["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        schema = target
    return schema


def types(schema: dict[str, Any]) -> set[str]:
    """The JSON types that a field takes."""
    schema = resolved(schema)
    if "anyOf" in schema:
        return set().union(*(types(branch) for branch in schema["anyOf"]))
    kind = schema.get("type", "string" if "enum" in schema else list(VALUES))
    return set([kind] if isinstance(kind, str) else kind)


def fields(operation: Operation) -> dict[str, Any]:
    described = DOCUMENT["paths"][operation.path][operation.method.lower()]
    body = resolved(described["requestBody"]["content"]["application/json"]["schema"])
    return dict(body["properties"])


def wrong(schema: dict[str, Any]) -> Iterator[Any]:
    taken = types(schema)
    for kind, values in VALUES.items():
        if kind not in taken and not (kind == "integer" and "number" in taken):
            yield from values


def target(operation: Operation, world: World, **replaced: str) -> str:
    """The operation's path with things that are there."""
    known = {
        "account_id_or_name": "acme",
        "org_id_or_name": "acme",
        "agent_id_or_name": "helper",
        "workspace_id_or_name": "lab",
        "session_id": str(uuid.uuid4()),
    }
    path = operation.path
    for name in [part.strip("{}") for part in path.split("/") if part.startswith("{")]:
        path = path.replace("{" + name + "}", replaced.get(name, known.get(name, str(uuid.uuid4()))))
    return path


@pytest.fixture
async def furnished(world: World) -> World:
    world.workspace()
    world.agent_row()
    return world


async def test_a_wrong_type_in_any_field_is_named(furnished: World) -> None:
    for name, operation in BODIES.items():
        takes_keys = "apiKey" in operation.schemes
        for field, schema in fields(operation).items():
            for value in wrong(schema):
                path = target(operation, furnished)
                answer = await furnished.ask(operation.method, path, furnished.full, json={field: value})
                if takes_keys:
                    status, kind, message = error(answer)
                    assert (status, kind) == (400, "InvalidInputError"), (name, field, value, message)
                    assert f"body.{field}" in message, (name, field, value, message)
                else:
                    assert answer.status_code == 401


async def test_a_wrong_query_parameter_is_named(furnished: World) -> None:
    for name, operation in OPERATIONS.items():
        for parameter, kind in operation._query_types.items():
            bad = {"integer": ["x", "1.5", "-1", "9" * 40, ""], "boolean": ["2", "yes", "None", ""]}.get(kind, ["\x00"])
            for value in bad:
                path = target(operation, furnished) + f"?{parameter}={quote(value)}"
                answer = await furnished.ask(operation.method, path, furnished.full)
                assert 400 <= answer.status_code < 500, (name, parameter, value)
                if answer.status_code == 400:
                    assert f"query.{parameter}" in error(answer)[2], (name, parameter, value)
                else:
                    assert answer.status_code in (401, 403, 404), "something else is wrong first"


async def test_a_hostile_name_in_a_path_is_not_found(furnished: World) -> None:
    for name, operation in IN_PATHS.items():
        parameters = [part.strip("{}") for part in operation.path.split("/") if part.startswith("{")]
        for text in HOSTILE:
            path = target(operation, furnished, **dict.fromkeys(parameters, quote(text, safe="")))
            body = {"json": {}} if operation.has_body else {}
            answer = await furnished.ask(operation.method, path, furnished.full, **body)
            assert answer.status_code in (400, 401, 404, 405), (name, text, answer.text)
            assert "x-evil" not in answer.headers


async def test_bodies_that_are_not_json_are_rejected(furnished: World) -> None:
    for name, operation in BODIES.items():
        path = target(operation, furnished)
        takes_keys = "apiKey" in operation.schemes
        for body in (
            b"[" * 100_000 + b"]" * 100_000,
            b'{"name":' * 100_000 + b"1" + b"}" * 100_000,
            b'{"name": "\xff"}',
            b'{"name": "x',
            b"{} {}",
            b"",
            b'{"name": NaN}',
            b'{"name": "\\ud800"}',
        ):
            headers = {"Content-Type": "application/json"}
            answer = await furnished.ask(operation.method, path, furnished.full, content=body, headers=headers)
            expected = (400, "BadRequest") if takes_keys else (401, "Unauthorized")
            assert error(answer)[:2] == expected, (name, body[:20])


async def test_a_body_of_20_mib_is_refused(furnished: World) -> None:
    for name, operation in BODIES.items():
        body = b'{"name": "' + b"x" * (20 << 20) + b'"}'
        headers = {"Content-Type": "application/json"}
        answer = await furnished.ask(
            operation.method, target(operation, furnished), furnished.full, content=body, headers=headers
        )
        assert error(answer)[:2] == (413, "RequestEntityTooLarge"), name


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_text_is_stored_as_text(text: str, furnished: World) -> None:
    """Text is stored unchanged or rejected by name, and filters match it literally."""
    answer = await furnished.post("/agents", {"name": "plain", "description": text}, furnished.full)
    if "\x00" in text:
        assert error(answer)[:2] == (400, "InvalidInputError")
        assert "body.description" in error(answer)[2]
    else:
        assert answer.status_code == 201
        assert answer.json()["description"] == text
    named = await furnished.post("/workspaces", {"name": text}, furnished.full)
    if named.status_code == 201:
        assert named.json()["name"] == text
        listed = await furnished.get("/accounts/acme/workspaces", furnished.full)
        assert text in {item["name"] for item in listed.json()["items"]}
    else:
        assert error(named)[:2] == (400, "InvalidInputError")
        assert "body.name" in error(named)[2]
    answer = await furnished.get("/agents", furnished.full, search=text)
    if "\x00" not in text:
        assert answer.status_code == 200
        assert {item["name"] for item in answer.json()["items"]} <= {"plain"}, "only what holds the text"
    assert furnished.rows("events") == []


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = Path(tmp_path_factory.mktemp("service"))
    command("accounts", "create", "acme", "--type", "organization", data=data)
    with Service(data, "--bare") as running:
        yield running
        assert running.stop() == 0
        assert "Traceback" not in running.log


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /v1/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/agents\r\nX-Evil: 1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/agents?a=\x00\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic " + b"A" * 200_000 + b"\r\n\r\n",
        b"GET /v1/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic \xff\xfe\r\n\r\n",
        b"GET /v1/me HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"POST /v1/agents HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/agents HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /v1/agents HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"BREW /v1/me HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_malformed_http_is_rejected_and_the_service_continues(sent: bytes, service: Service) -> None:
    with socket.create_connection(("127.0.0.1", service.facts["port"]), timeout=60) as raw:
        raw.sendall(sent)
        raw.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := raw.recv(65536):
            answer += chunk
            if b"\r\n\r\n" in answer:
                break
    assert answer == b"" or answer.split()[1].startswith(b"4"), answer[:200]
    assert b"X-Evil" not in answer
    assert httpx.get(f"{service.base_url}/openapi.yaml").status_code == 200


def test_a_body_of_20_mib_is_refused_by_the_process_too(service: Service) -> None:
    key = service.key("agents:write")
    headers = {"Authorization": basic(key), "Content-Type": "application/json", "Accept": "*/*"}
    body = json.dumps({"name": "x" * (20 << 20)}).encode()
    try:
        answer = httpx.post(f"{service.base_url}/agents", content=body, headers=headers, timeout=60)
    except httpx.WriteError:
        pass  # it answered and hung up while the body was still on its way
    else:
        assert answer.status_code == 413
    assert httpx.get(f"{service.base_url}/me", headers=headers).status_code == 200
