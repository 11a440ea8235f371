"""Authorization servers whose metadata differs from ours: clear errors, no crash."""

from __future__ import annotations

from typing import Any

import pytest

import agentbook as ab
from agentbook.api.oauth import server as oauth
from agentbook.api.oauth import sign_in

pytestmark = pytest.mark.python_versions

HOST = "https://h"
RESOURCE = {"resource": f"{HOST}/v1", "authorization_servers": [f"{HOST}/"], "extra": None}
METADATA = {
    "issuer": HOST,
    "authorization_endpoint": f"{HOST}/authorize?tenant=1",
    "token_endpoint": f"{HOST}/token",
    "registration_endpoint": f"{HOST}/register",
    "code_challenge_methods_supported": ["plain", "S256"],
    "extra": {"a": None},
}


def serve(
    monkeypatch: pytest.MonkeyPatch, resource: Any = RESOURCE, metadata: Any = METADATA, client: Any = None
) -> None:
    replies = {
        "resource": resource,
        f"{HOST}/.well-known/oauth-authorization-server": metadata,
        f"{HOST}/register": client,
    }
    monkeypatch.setattr(oauth, "_resource_metadata_url", lambda base_url: "resource")
    monkeypatch.setattr(oauth, "_run_at", lambda address, call: replies[address])


def test_optional_metadata_may_be_missing_and_unknown_fields_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, client={"client_id": "c1", "client_secret": None})
    server = oauth.discover(f"{HOST}/v1")
    assert (server.token_endpoint, server.scopes) == (f"{HOST}/token", ())
    assert server.register_client("http://127.0.0.1:1/callback", "") == "c1"


@pytest.mark.parametrize("client", [None, [], "c1", {}, {"client_id": None}, {"id": "c1"}])
def test_a_registration_without_a_client_id_says_so(monkeypatch: pytest.MonkeyPatch, client: Any) -> None:
    serve(monkeypatch, client=client)
    with pytest.raises(ab.AgentbookError, match="without a client_id"):
        oauth.discover(f"{HOST}/v1").register_client("http://127.0.0.1:1/callback", "")


@pytest.mark.parametrize("servers", [None, [], "https://h", {"a": 1}])
def test_a_platform_that_names_no_authorization_server_says_so(monkeypatch: pytest.MonkeyPatch, servers: Any) -> None:
    serve(monkeypatch, resource={**RESOURCE, "authorization_servers": servers})
    with pytest.raises(ab.AgentbookError, match="names no authorization server"):
        oauth.discover(f"{HOST}/v1")


@pytest.mark.parametrize(
    ("promised", "parameters", "trusted"),
    [
        (False, {}, True),
        (False, {"iss": HOST}, True),
        (True, {"iss": f"{HOST}/"}, True),
        (False, {"iss": "https://evil.example"}, False),
        (True, {"iss": f"{HOST}.evil.example"}, False),
        (True, {}, False),  # it promised to name itself always, and does not
    ],
)
def test_a_code_of_another_server_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, promised: bool, parameters: dict[str, str], trusted: bool
) -> None:
    serve(monkeypatch, metadata={**METADATA, "authorization_response_iss_parameter_supported": promised})
    server = oauth.discover(f"{HOST}/v1")
    answer = {"code": "c0de", "state": "s1", **parameters}
    if trusted:
        assert sign_in._checked_code(answer, "s1", server) == "c0de"
    else:
        with pytest.raises(ab.OAuthError, match=f"not from {HOST}"):
            sign_in._checked_code(answer, "s1", server)
