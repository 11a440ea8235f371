from __future__ import annotations

import pytest

from agentbook.service import contract
from agentbook.service.auth import SCOPES
from service.world import World, error

pytestmark = pytest.mark.anyio


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
