"""Authorization servers that are described otherwise than ours: what they lack is said, and nothing crashes."""

from __future__ import annotations

from typing import Any

import pytest

import agentbook as ab
from agentbook.api.oauth import sign_in

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


def served(
    monkeypatch: pytest.MonkeyPatch, resource: Any = RESOURCE, metadata: Any = METADATA, client: Any = None
) -> None:
    answers = {
        "resource": resource,
        f"{HOST}/.well-known/oauth-authorization-server": metadata,
        f"{HOST}/register": client,
    }
    monkeypatch.setattr(sign_in, "_resource_metadata", lambda base_url: "resource")
    monkeypatch.setattr(sign_in, "_run", lambda address, call: answers[address])


def test_more_and_less_than_ours_says_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    served(monkeypatch, client={"client_id": "c1", "client_secret": None})
    server = sign_in.discover(f"{HOST}/v1")
    assert (server.token_endpoint, server.scopes) == (f"{HOST}/token", ())
    assert sign_in._register(server, "http://127.0.0.1:1/callback", "") == "c1"


@pytest.mark.parametrize("client", [None, [], "c1", {}, {"client_id": None}, {"id": "c1"}])
def test_a_registration_without_a_client_id_says_so(monkeypatch: pytest.MonkeyPatch, client: Any) -> None:
    served(monkeypatch, client=client)
    with pytest.raises(ab.AgentbookError, match="without a client_id"):
        sign_in._register(sign_in.discover(f"{HOST}/v1"), "http://127.0.0.1:1/callback", "")


@pytest.mark.parametrize("servers", [None, [], "https://h", {"a": 1}])
def test_a_platform_that_names_no_authorization_server_says_so(monkeypatch: pytest.MonkeyPatch, servers: Any) -> None:
    served(monkeypatch, resource={**RESOURCE, "authorization_servers": servers})
    with pytest.raises(ab.AgentbookError, match="names no authorization server"):
        sign_in.discover(f"{HOST}/v1")


@pytest.mark.parametrize(
    ("promised", "said", "trusted"),
    [
        (False, {}, True),
        (False, {"iss": HOST}, True),
        (True, {"iss": f"{HOST}/"}, True),
        (False, {"iss": "https://evil.example"}, False),
        (True, {"iss": f"{HOST}.evil.example"}, False),
        (True, {}, False),  # whoever always names itself, and does not, is another
    ],
)
def test_a_code_of_another_server_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, promised: bool, said: dict[str, str], trusted: bool
) -> None:
    served(monkeypatch, metadata={**METADATA, "authorization_response_iss_parameter_supported": promised})
    server = sign_in.discover(f"{HOST}/v1")
    answer = {"code": "c0de", "state": "s1", **said}
    if trusted:
        assert sign_in._code(answer, "s1", server) == "c0de"
    else:
        with pytest.raises(ab.OAuthError, match=f"not from {HOST}"):
            sign_in._code(answer, "s1", server)
