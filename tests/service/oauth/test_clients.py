from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.service import contract, ids
from agentbook.service.auth import SCOPES
from agentbook.service.oauth.clients import _APPLICATIONS, check_redirect_uri, is_registered
from service.oauth.flow import CALLBACK, Flow
from service.world import World, error

pytestmark = pytest.mark.anyio


async def test_a_client_becomes_a_public_one_whatever_it_asks_for(world: World) -> None:
    flow = Flow(world)
    answer = await flow.register(token_endpoint_auth_method="client_secret_basic", logo_uri="http://127.0.0.1:1/logo")
    assert (answer.status_code, answer.headers["cache-control"]) == (201, "no-store")
    made = answer.json()
    assert ids.is_id(made.pop("client_id"))
    assert isinstance(made.pop("client_id_issued_at"), int)
    assert made == {
        "client_name": "A tool",
        "redirect_uris": [CALLBACK],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": " ".join(SCOPES),
    }


@pytest.mark.parametrize(
    ("fields", "failed"),
    [
        ({"redirect_uris": None}, ["body.redirect_uris: Input is not of type \"array\""]),
        (
            {"redirect_uris": ["https://ok.example/", "http://evil.example/cb", "javascript:alert(1)"]},
            [
                "body.redirect_uris.1: Input should be https, http on this machine, or an application's own scheme",
                "body.redirect_uris.2: Input should be https, http on this machine, or an application's own scheme",
            ],
        ),
        (
            {"client_name": 7, "grant_types": ["implicit"], "response_types": ["token"]},
            [
                "body.client_name: Input is not of type",
                "body.grant_types: Input should include authorization_code",
                "body.response_types: Input should include code",
            ],
        ),
        ({"client_name": 7, "grant_types": "x", "scope": 3}, ["body.client_name: ", "body.grant_types: ", "body.scope: "]),
        ({"client_name": "\x00"}, ["body.client_name: Input must not contain a null character"]),
    ],
)  # fmt: skip
async def test_every_failed_field_is_named(world: World, fields: dict[str, Any], failed: list[str]) -> None:
    status, name, message = error(await Flow(world).register(**fields))
    assert (status, name) == (400, "InvalidInputError")
    assert all(part in message for part in failed), message
    assert len(message.split("; ")) >= len(failed)


@pytest.mark.parametrize(
    ("scope", "registered"),
    [
        ("openid offline_access", ""),
        ("openid agents:read offline_access sessions:write agents:read", "agents:read sessions:write"),
        ("agents:admin AGENTS:READ agents:read,agents:write", ""),
        ("", " ".join(SCOPES)),
        (None, " ".join(SCOPES)),
    ],
)
async def test_scopes_of_other_servers_are_left_out_of_the_reply(
    world: World, scope: str | None, registered: str
) -> None:
    answer = await Flow(world).register(scope=scope)
    assert (answer.status_code, answer.json()["scope"]) == (201, registered)


# As these programs register, in the autumn of 2026.
PROGRAMS: dict[str, dict[str, Any]] = {
    "Cursor": {
        "redirect_uris": [
            "cursor://anysphere.cursor-mcp/oauth/callback",
            "https://www.cursor.com/agents/mcp/oauth/callback",
            "http://localhost:8787/callback",
        ],
        "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "scope": "openid offline_access",
    },
    "Visual Studio Code": {
        "client_uri": "https://code.visualstudio.com",
        "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
        "response_types": ["code"],
        "redirect_uris": [
            "https://insiders.vscode.dev/redirect",
            "https://vscode.dev/redirect",
            "http://localhost/",
            "http://127.0.0.1/",
            "http://localhost:33418/",
            "http://127.0.0.1:33418/",
        ],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    },
}


@pytest.mark.parametrize("name", PROGRAMS)
async def test_programs_that_people_use_can_register(world: World, name: str) -> None:
    answer = await Flow(world).register(client_name=name, **PROGRAMS[name])
    assert (answer.status_code, answer.json()["redirect_uris"]) == (201, PROGRAMS[name]["redirect_uris"])


async def test_a_body_that_is_no_json(world: World) -> None:
    answer = await world.ask("POST", "/oauth/register", content=b"{", headers={"Content-Type": "application/json"})
    assert error(answer)[:2] == (400, "BadRequest")
    assert error(await world.ask("POST", "/oauth/register", data={"redirect_uris": CALLBACK}))[:2] == (
        400,
        "InvalidInputError",
    )


async def test_the_eleventh_registration_in_an_hour_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Flow(world)
    assert (await flow.register(redirect_uris=[])).status_code == 400  # what is refused does not count
    for _ in range(10):
        assert (await flow.register()).status_code == 201
    answer = await flow.register()
    expected = "This user has exceeded an allotted request count. Try again later."
    assert error(answer) == (429, "TooManyRequests", expected)
    assert "retry-after" not in answer.headers
    later = world.store.clock.milliseconds() + 3_600_001
    monkeypatch.setattr(world.store.clock, "milliseconds", lambda: later)
    assert (await flow.register()).status_code == 201


GOOD = [
    "https://app.example/callback",
    "https://app.example:8443/a?b=c",
    "http://127.0.0.1:8000/cb",
    "http://localhost:1/",
    "http://[::1]:8000/cb",
    "com.example.app:/oauth2redirect",
    "cursor://anysphere.cursor-mcp/oauth/callback",
    "vscode://vscode.github-authentication/did-authenticate",
]
BAD = [
    "http://app.example/cb",
    "http://127.0.0.1.evil.example/cb",
    "http://localhost.evil.example/",
    "http://localhost@evil.example/",
    "http://evil.example@127.0.0.1/",
    "https://user:pass@app.example/",
    "https://app.example/#fragment",
    "javascript:alert(1)",
    "JavaScript://app.example/%0aalert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "blob:https://app.example/x",
    "ms-msdt:/id",
    "intent://scan/#Intent;scheme=zxing;end",
    "unknown://callback",
    "com.example.app:cb",
    "com.example.app:",
    "com.example.app:/cb#fragment",
    "com.example.app://user@host/cb",
    ".example.app:/cb",
    "cursor:callback",
    "cursor.://x",
    "//app.example/cb",
    "/cb",
    "https://",
    "https:///cb",
    "https://app.example\\@evil.example/",
    "https://app.example/ x",
    "https://app.example:99999/",
    "https://[::1/",
    "https://bücher.example/",
    "",
    "https://app.example/" + "x" * 2000,
]


def test_valid_redirect_uris() -> None:
    assert [uri for uri in GOOD if check_redirect_uri(uri) is not None] == []


def test_invalid_redirect_uris() -> None:
    assert [uri for uri in BAD if not check_redirect_uri(uri) or is_registered(uri, GOOD)] == []


@pytest.mark.parametrize(
    ("uri", "registered", "own"),
    [
        ("https://app.example/cb", "https://app.example/cb", True),
        ("https://app.example/cb/", "https://app.example/cb", False),
        ("https://APP.example/cb", "https://app.example/cb", False),
        ("https://app.example/%63b", "https://app.example/cb", False),
        ("http://127.0.0.1:5999/cb", "http://127.0.0.1:5555/cb", True),
        ("http://127.0.0.1:5999/cb", "http://127.0.0.1/cb", True),
        ("http://localhost:5999/cb", "http://127.0.0.1:5999/cb", False),
        ("http://127.0.0.1:5999/other", "http://127.0.0.1:5555/cb", False),
        ("http://x@127.0.0.1:5999/cb", "http://127.0.0.1:5555/cb", False),
        ("http://127.0.0.1:\u0663/cb", "http://127.0.0.1/cb", False),
        ("cursor://host/cb", "cursor://host/cb", True),
        ("cursor://host/cb/..", "cursor://host/cb", False),
        ("CURSOR://host/cb", "cursor://host/cb", False),
    ],
)
def test_redirect_uris_match_exactly_except_for_a_loopback_port(uri: str, registered: str, own: bool) -> None:
    assert is_registered(uri, [registered]) is own


@given(
    st.text(max_size=60)
    | st.builds("{}//{}".format, st.sampled_from(["https:", "http:", "ftp:"]), st.text(max_size=40))
)
def test_every_accepted_redirect_uri_is_absolute_and_unambiguous(uri: str) -> None:
    if check_redirect_uri(uri) is None:
        assert uri.isascii()
        known = ("https://", "http://127.0.0.1", "http://localhost", "http://[::1]", *(f"{a}:/" for a in _APPLICATIONS))
        assert uri.lower().startswith(known) or "." in uri.partition(":/")[0]
        assert not set(uri) & set("#\\ \r\n\t<>\"'") - {"'"}


async def test_the_authorization_server_document(world: World) -> None:
    answer = await world.get("http://test/.well-known/oauth-authorization-server")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == {
        "issuer": "http://test",
        "authorization_endpoint": "http://test/v1/oauth/authorize",
        "token_endpoint": "http://test/v1/oauth/token",
        "registration_endpoint": "http://test/v1/oauth/register",
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "scopes_supported": list(SCOPES),
        "authorization_response_iss_parameter_supported": True,
        "service_documentation": "http://test/v1/docs",
    }


@pytest.mark.parametrize(
    ("path", "resource"), [("/v1", "http://test/v1"), ("/mcp", "http://test/mcp"), ("", "http://test")]
)
async def test_the_protected_resource_documents(world: World, path: str, resource: str) -> None:
    answer = await world.get(f"http://test/.well-known/oauth-protected-resource{path}")
    assert answer.status_code == 200
    assert answer.json() == {
        "resource": resource,
        "authorization_servers": ["http://test"],
        "bearer_methods_supported": ["header"],
        "scopes_supported": list(SCOPES),
    }


async def test_documents_that_are_not_there(world: World) -> None:
    assert error(await world.get("http://test/.well-known/oauth-protected-resource/v2"))[0] == 404
    assert error(await world.get("/.well-known/oauth-authorization-server"))[0] == 404  # at the root, not under /v1
    answer = await world.ask("POST", "http://test/.well-known/oauth-authorization-server")
    assert (error(answer)[0], answer.headers["allow"]) == (405, "GET, HEAD")


async def test_a_401_leads_to_the_document(world: World) -> None:
    challenge = (await world.get("/me")).headers["www-authenticate"]
    assert challenge == 'Bearer resource_metadata="http://test/.well-known/oauth-protected-resource/v1"'
    link = challenge.partition('resource_metadata="')[2].rstrip('"')
    assert "http://test/v1/me".startswith((await world.get(link)).json()["resource"])


async def test_openapi_yaml_and_the_endpoints_name_the_same_operations(world: World) -> None:
    operations = contract.load().oauth_operations
    assert operations.keys() == {"authorize", "getToken", "registerClient"}
    for op in operations.values():
        assert (await world.ask(op.method, op.path)).status_code == 400  # there, and not content with nothing
        other = await world.ask("DELETE", op.path)
        assert error(other) == (405, "MethodNotAllowed", "The method is not allowed for the requested URL.")
