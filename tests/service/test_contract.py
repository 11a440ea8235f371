from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

import jsonschema_rs
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agentbook.service import contract
from agentbook.service.errors import HTTPError
from agentbook.service.operations import HANDLERS
from service.world import World, error

OPERATIONS, DOCUMENT = contract.load().operations, contract.load().document
VERSION: dict[str, Any] = {"system_prompt": "", "description": "", "tools": []}


def refused(call: Any) -> tuple[str | None, str]:
    with pytest.raises(HTTPError) as caught:
        call()
    assert caught.value.status == 400
    return caught.value.error, caught.value.message


def status_of(call: Any) -> int:
    try:
        call()
    except HTTPError as refusal:
        return refusal.status
    return 200


def test_the_file_and_the_handlers_name_the_same_operations() -> None:
    assert set(OPERATIONS) == set(HANDLERS)


def test_operation_ids_and_marks() -> None:
    operations = [op for item in DOCUMENT["paths"].values() for name, op in item.items() if name != "parameters"]
    ids = [op["operationId"] for op in operations]
    assert len(ids) == len(set(ids))
    extensions = {op["operationId"] for op in operations if op.get("x-agentbook-extension")}
    assert extensions == {
        "publishAgentVersion", "listWorkspaceAgents", "installAgent", "listSessions", "getSession",
        "listTasks", "listSkillVersions", "createSkillVersion",
        "updateWorkspaceAgent", "listWorkspaceAgentCredentials", "attachCredential", "detachCredential", "listModels",
    }  # fmt: skip
    assert all(len(op["x-agentbook-choice"]) > 20 for op in operations if "x-agentbook-choice" in op)


def test_records_with_gaps_say_what_was_chosen() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    gaps = {"Account", "Workspace", "IntegrationCredentials", "Context", "Invitation", "Session", "Event"}
    gaps |= {"Agent", "Skill", "Version", "WorkspaceAgent", "SkillVersion", "Task"}
    assert {name for name in gaps if len(schemas[name].get("x-agentbook-choice", "")) < 20} == set()


@pytest.mark.parametrize("base_url", ["http://127.0.0.1:8765/v1", "https://hub/user/ada/proxy/8765/v1"])
def test_a_generated_client_finds_the_paths_below_the_document(base_url: str) -> None:
    server = urljoin(f"{base_url}/openapi.yaml", DOCUMENT["servers"][0]["url"])
    assert server + "/me" == f"{base_url}/me"
    flow = DOCUMENT["components"]["securitySchemes"]["oauth2"]["flows"]["authorizationCode"]
    urls = [urljoin(server, flow[name]) for name in ("authorizationUrl", "tokenUrl", "refreshUrl")]
    assert urls == [f"{base_url}/oauth/{name}" for name in ("authorize", "token", "token")]


@pytest.mark.parametrize(
    ("operation", "query", "message"),
    [
        ("listSkills", b"limit=x", "query.limit: Input is not of type \"integer\""),
        ("listSkills", b"limit=-1", "query.limit: Input is less than the minimum of 0"),
        ("listSkills", b"limit=1001", "query.limit: Input is greater than the maximum of 1000"),
        ("listCredentials", b"limit=501", "query.limit: Input is greater than the maximum of 500"),
        ("listSkills", b"offset=9223372036854776001", "query.offset: Input is greater than the maximum of 9223372036854776000"),
        ("listSkills", b"offset=1e3", "query.offset: Input is not of type \"integer\""),
        ("listSkills", b"archived=maybe", "query.archived: Input is not of type \"boolean\""),
        ("listSkills", b"sort_by=engine", "query.sort_by: Input is not one of "),
        ("listSkills", b"search=%00", "query.search: Input must not contain a null character"),
        ("listEvents", b"from_id=draft-3-x", "query.from_id: Input is not a \"uuid\""),
        ("listMyWorkspaces", b"which=some", "query.which: Input is not one of "),
        ("listSkills", b"&".join([b"a=1"] * 101), "query: more than 100 parameters"),
    ],
)  # fmt: skip
def test_a_bad_query_is_named(operation: str, query: bytes, message: str) -> None:
    name, message_ = refused(lambda: OPERATIONS[operation].query(query))
    assert name == "InvalidInputError"
    assert message_.startswith(message)


def test_a_boolean_of_pythons_own_spelling_is_one() -> None:
    for text, expected in (("True", True), ("FALSE", False), ("true", True)):
        assert OPERATIONS["listSkills"].query(f"archived={text}".encode())["archived"] is expected


def test_every_bad_parameter_is_named() -> None:
    _, message_ = refused(lambda: OPERATIONS["listSkills"].query(b"limit=x&offset=-1&archived=2"))
    assert sorted(part.split(":")[0] for part in message_.split("; ")) == [
        "query.archived",
        "query.limit",
        "query.offset",
    ]


def test_defaults_and_unknown_parameters() -> None:
    assert OPERATIONS["listEvents"].query(b"") == {"from_id": None, "sort_by": "-id", "limit": 20, "offset": 0}
    query = OPERATIONS["listEvents"].query(b"limit=9223&limit=7&nonsense=1&offset=9223372036854776000")
    assert query == {"from_id": None, "sort_by": "-id", "limit": 7, "offset": 9223372036854776000}


@pytest.mark.parametrize(
    ("operation", "body", "message"),
    [
        ("createAgent", {}, "body.name: Field required"),
        ("createAgent", {"name": 3}, "body.name: Input is not of type \"string\""),
        ("createAgent", {"name": ""}, "body.name: Input is shorter than 1 character"),
        ("createAgent", {"name": "..", }, "body.name: Input should not hold"),
        ("createAgent", {"name": "0199c2f0-0000-7000-8000-00000000abcd"}, "body.name: Input should not hold"),
        ("createAgent", {"name": "n", "tags": "x"}, "body.tags: Input is not of type \"array\""),
        (
            "createAgent",
            {"name": "n", "tags": [1, 2]},
            "body.tags.0: Input is not of type \"string\"; body.tags.1: Input is not of type \"string\"",
        ),
        ("createAgent", {"name": "n", "template": "COBOL"}, "body.template: Input is not one of "),
        ("createAgent", {"name": "n", "description": "\x00"}, "body.description: Input must not contain a null character"),
        ("createAgent", [], "body: Input is not of type \"object\""),
        ("configureLlm", {"system_prompt": "", "description": "", "tools": [{"integration": "x"}]},
         "body.tools.0.tools: Field required"),
        ("configureLlm", {**VERSION, "version_number": "1" * 101}, "body.version_number: Input is longer than 100 "),
        ("configureLlm", {**VERSION, "model": 1}, "body.model: Input is not of types "),
        ("updateAgent", {"is_pinned": "yes"}, "body.is_pinned: Input is not of types "),
        ("startSession", {"session_type": "walk", "agent_id": "a", "initial_prompt": "p"},
         "body.session_type: Input is not one of "),
        ("postEvent", {"content": ""}, "body.content: Input is shorter than 1 character"),
        ("postEvent", {"content": "x", "mode": "voice"}, "body.mode: Input is not one of "),
    ],
)  # fmt: skip
def test_a_bad_body_is_named(operation: str, body: Any, message: str) -> None:
    name, message_ = refused(lambda: OPERATIONS[operation].body(json.dumps(body).encode(), b"application/json"))
    assert name == "InvalidInputError"
    assert message_.startswith(message)


def test_every_missing_field_is_named() -> None:
    _, message_ = refused(lambda: OPERATIONS["configureLlm"].body(b"{}", b"application/json"))
    fields = {"body.system_prompt: Field required", "body.description: Field required", "body.tools: Field required"}
    assert set(message_.split("; ")) == fields


@pytest.mark.parametrize("kind", [None, b"text/plain", b"application/jsonx", b"application/x-www-form-urlencoded"])
def test_a_body_that_is_not_sent_as_json(kind: bytes | None) -> None:
    name, message_ = refused(lambda: OPERATIONS["createAgent"].body(b'{"name": "x"}', kind))
    assert (name, message_) == ("InvalidInputError", "body: send it with Content-Type: application/json")


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b'{"name": NaN}', b'{"name": 1e999}', b'"\\ud800"', b"\xff", b"[" * 100_000, b'{"a":' * 100_000, b"{} {}"],
    ids=lambda raw: repr(raw[:12]),
)  # fmt: skip
def test_a_body_that_is_not_json(raw: bytes) -> None:
    name, _ = refused(lambda: OPERATIONS["createAgent"].body(raw, b"application/json; charset=utf-8"))
    assert name == "BadRequest"


def test_a_body_that_may_be_left_out() -> None:
    assert OPERATIONS["updateAgent"].body(b"", None) == {}
    assert OPERATIONS["updateAgent"].body(b'{"category": null}', b"application/json") == {"category": None}


def test_defaults_of_a_body() -> None:
    body = OPERATIONS["configureLlm"].body(
        b'{"system_prompt": "p", "description": "d", "tools": [], "more": 1}', b"application/json"
    )
    assert (body["mode"], body["version_number"], body["summary"]) == ("one-shot", "1.0.0", None)


@given(st.text())
def test_every_valid_name_works_in_a_full_name_and_a_path(text: str) -> None:
    if contract.is_name(text):
        assert "~" not in text
        assert "/" not in text
        assert text == text.strip(" ")
        assert 1 <= len(text) <= 120
        assert all(character >= " " for character in text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
FIELDS = ["name", "system_prompt", "description", "tools", "content", "agent_id", "initial_prompt", "session_type"]


@pytest.mark.parametrize("operation", [op.id for op in OPERATIONS.values() if op.has_body])
@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), JSON, max_size=6) | JSON)
def test_any_json_is_taken_or_refused_with_400(operation: str, body: Any) -> None:
    raw = json.dumps(body).encode()
    assert status_of(lambda: OPERATIONS[operation].body(raw, b"application/json")) in (200, 400)


@given(st.binary(max_size=80))
def test_any_query_is_taken_or_refused_with_400(raw: bytes) -> None:
    for operation in OPERATIONS.values():
        assert status_of(lambda op=operation: op.query(raw)) in (200, 400)


@pytest.mark.anyio
async def test_the_file_is_served_to_anybody(world: World) -> None:
    answer = await world.get("/openapi.yaml")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/yaml")
    assert answer.content == contract.load().text
    assert error(await world.ask("POST", "/openapi.yaml"))[0] == 405


def test_it_is_a_valid_openapi_document_as_far_as_schemas_go() -> None:
    for name in DOCUMENT["components"]["schemas"]:
        schema = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
        jsonschema_rs.Draft202012Validator(schema)


def test_the_file_has_no_anchors_or_merge_keys() -> None:
    """They are no part of the JSON schema ruleset to which OpenAPI keeps YAML."""
    tokens = list(yaml.scan(contract.load().text.decode()))
    assert not [token for token in tokens if isinstance(token, yaml.AnchorToken | yaml.AliasToken)]
    assert "<<" not in [token.value for token in tokens if isinstance(token, yaml.ScalarToken)]


def objects(node: Any) -> Iterator[dict[str, Any]]:
    """All objects of a document."""
    if isinstance(node, dict):
        yield node
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from objects(part)


def test_the_document_is_what_client_generators_and_messages_expect() -> None:
    alternatives = 0
    for node in objects(DOCUMENT):
        # YAML reads `{description: Absent, or not to be seen}` as two keys, the second
        # without a value.
        assert [name for name, value in node.items() if value is None and name != "default"] == []
        # Client generators drop arrays without `items` and everything around them.
        kinds = node.get("type")
        assert "items" in node or not (kinds == "array" or (isinstance(kinds, list) and "array" in kinds)), node
        # Messages about an invalid field explain the first of two alternatives.
        if "anyOf" in node:
            alternatives += 1
            assert len(node["anyOf"]) == 2
            assert node["anyOf"][1] == {"type": "null"}
    assert alternatives


def test_composed_schemas_have_all_fields_in_their_parts() -> None:
    """`allOf` has several parts and no fields beside it.

    Client generators drop fields beside an `allOf` of one part, and create a class
    twice for an object in both.
    """
    schemas = DOCUMENT["components"]["schemas"]
    composed = {name: schema for name, schema in schemas.items() if "allOf" in schema}
    assert {"Me", "VersionWithJob"} <= set(composed)
    for name, schema in composed.items():
        assert set(schema) - {"description", "x-agentbook-choice"} == {"allOf"}, name
        named = [schemas[part["$ref"].rpartition("/")[2]] for part in schema["allOf"] if "$ref" in part]
        for field in (field for part in named for field in part["properties"].values()):
            assert "properties" not in field, (name, field)
            assert field.get("items", {}).get("type") != "object", (name, field)
