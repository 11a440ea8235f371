"""Authorization servers whose metadata differs from ours: clear errors, no crash."""

from __future__ import annotations

from typing import Any

import pytest

import agentbook as ab
from agentbook.api.calls import Call
from agentbook.api.oauth.sign_in import checked_code, discover

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


class Web:
    """Answers by address, and records what was requested. `replies` replaces some."""

    def __init__(self, *, challenge: str = f'Bearer resource_metadata="{HOST}/resource"', **replies: Any) -> None:
        self.challenge = challenge
        self.requested: list[str] = []
        self.replies = {"resource": RESOURCE, "server": METADATA, "register": {"client_id": "c1"}} | replies

    def __call__(self, address: str, call: Call[Any]) -> Any:
        self.requested.append(address)
        if call.path == "me":
            raise ab.Unauthorized("401", challenge=self.challenge)
        reply = self.replies[address.rpartition("/")[2].replace("oauth-authorization-server", "server")]
        if isinstance(reply, Exception):
            raise reply
        return reply


def test_optional_metadata_may_be_missing_and_unknown_fields_are_ignored() -> None:
    server = discover(f"{HOST}/v1", Web(register={"client_id": "c1", "client_secret": None}))
    assert (server.token_endpoint, server.scopes) == (f"{HOST}/token", ())
    assert server.register_client("http://127.0.0.1:1/callback", "") == "c1"


@pytest.mark.parametrize("client", [None, [], "c1", {}, {"client_id": None}, {"id": "c1"}])
def test_a_registration_without_a_client_id_says_so(client: Any) -> None:
    server = discover(f"{HOST}/v1", Web(register=client))
    with pytest.raises(ab.AgentbookError, match="without a client_id"):
        server.register_client("http://127.0.0.1:1/callback", "")


@pytest.mark.parametrize("servers", [None, [], "https://h", {"a": 1}])
def test_a_platform_that_names_no_authorization_server_says_so(servers: Any) -> None:
    with pytest.raises(ab.AgentbookError, match="names no authorization server"):
        discover(f"{HOST}/v1", Web(resource={**RESOURCE, "authorization_servers": servers}))


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
def test_a_code_of_another_server_is_not_taken(promised: bool, parameters: dict[str, str], trusted: bool) -> None:
    metadata = {**METADATA, "authorization_response_iss_parameter_supported": promised}
    server = discover(f"{HOST}/v1", Web(server=metadata))
    answer = {"code": "c0de", "state": "s1", **parameters}
    if trusted:
        assert checked_code(answer, "s1", server) == "c0de"
    else:
        with pytest.raises(ab.OAuthError, match=f"not from {HOST}"):
            checked_code(answer, "s1", server)


ELSEWHERE = [
    "https://evil.example/x",
    "https://h.evil.example/x",
    "https://h:8443/x",
    "http://h/x",
    "https://127.0.0.1/x",
    "http://127.0.0.1:6379/x",
    "http://[::1]/x",
    "http://169.254.169.254/latest/meta-data",
    "https://h\\@evil.example/x",
    "https://u:p@h/x",
    "javascript:x",
    "",
]


@pytest.mark.parametrize(
    "field", ["resource_metadata", "issuer", "authorization_endpoint", "token_endpoint", "registration_endpoint"]
)
def test_no_address_that_is_not_the_platforms_own_is_requested(field: str) -> None:
    for address in ELSEWHERE:
        web = Web()
        if field == "resource_metadata":
            web.challenge = f'Bearer resource_metadata="{address}"'
        elif field == "issuer":
            web.replies["resource"] = {**RESOURCE, "authorization_servers": [address]}
            web.replies["server"] = {**METADATA, "issuer": address}
        else:
            web.replies["server"] = {**METADATA, field: address}
        with pytest.raises(ab.AgentbookError, match=r"not one of its own addresses|another platform|names no resource"):
            discover(f"{HOST}/v1", web)
        assert all(requested.startswith(f"{HOST}/") for requested in web.requested), address


def test_a_platform_on_this_machine_may_name_the_address_of_its_proxy() -> None:
    public = "https://agents.example.org"
    endpoints = {name: f"{public}/x" for name in METADATA if name.endswith("_endpoint")}
    web = Web(
        challenge=f'Bearer resource_metadata="{public}/resource"',
        resource={"resource": f"{public}/v1", "authorization_servers": [public]},
        server={**METADATA, **endpoints, "issuer": public},
    )
    assert discover("http://127.0.0.1:8765/v1", web).token_endpoint == f"{public}/x"
    for address in ("http://agents.example.org/x", "http://10.0.0.1/x"):
        web.replies["server"] = {**METADATA, **endpoints, "issuer": public, "token_endpoint": address}
        with pytest.raises(ab.AgentbookError, match="token_endpoint"):
            discover("http://127.0.0.1:8765/v1", web)


@pytest.mark.parametrize(
    ("base_url", "resource"),
    [
        ("https://evil.example/v1", "https://host/v1"),
        ("https://host:444/v1", "https://host/v1"),
        ("https://host/v1", "http://host/v1"),
        ("https://host/v1", "https://host.evil.example/v1"),
        ("https://host/v1", "https://host:port/v1"),
    ],
)
def test_a_platform_gets_no_tokens_of_another(base_url: str, resource: str) -> None:
    metadata_url = base_url.removesuffix("/v1") + "/resource"
    web = Web(challenge=f'Bearer resource_metadata="{metadata_url}"', resource={**RESOURCE, "resource": resource})
    with pytest.raises(ab.AgentbookError, match="another platform"):
        discover(base_url, web)
