"""Authorization servers whose metadata differs from ours: clear errors, no crash."""

from __future__ import annotations

import copy
import pickle
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest

import agentbook as ab
from agentbook.api.calls import Call
from agentbook.api.oauth.sign_in import Loopback, checked_code, discover
from agentbook.api.oauth.token_store import Tokens, TokenStore

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


def test_what_the_metadata_lack_is_said() -> None:
    for client in (None, [], "c1", {}, {"client_id": None}, {"id": "c1"}):
        server = discover(f"{HOST}/v1", Web(register=client))
        with pytest.raises(ab.AgentbookError, match="without a client_id"):
            server.register_client("http://127.0.0.1:1/callback", "")
    for servers in (None, [], "https://h", {"a": 1}):
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


# -- the address to which the browser returns takes only its own sign-in ---------------


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    with Loopback("right state") as server:
        yield server


def visit(loopback: Loopback, query: str, path: str = "/callback", **headers: str) -> httpx.Response:
    address = urlsplit(loopback.redirect_uri)
    return httpx.get(f"http://{address.netloc}{path}?{query}", headers=headers, trust_env=False)


@pytest.mark.parametrize(
    ("answer", "title"), [("code=c", "Signed in"), ("error=access_denied&error_description=no", "Not signed in")]
)
def test_the_answer_with_the_right_state_is_taken_once(loopback: Loopback, answer: str, title: str) -> None:
    for query in (f"{answer}&state=right+state", "code=again&state=right+state"):
        page = visit(loopback, query)
        assert page.status_code == 200
        assert "You can close this window" in page.text
        assert page.headers["Referrer-Policy"] == "no-referrer"
        assert page.headers["Cache-Control"] == "no-store"
    taken = loopback.wait(1)
    name, value = answer.partition("&")[0].split("=")
    assert (taken[name], taken["state"]) == (value, "right state")
    with pytest.raises(ab.DeadlineExceeded):
        loopback.wait(0.01)
    assert f"<h1>{title}</h1>" in visit(loopback, f"{answer}&state=right+state").text


@pytest.mark.parametrize(
    ("query", "path", "host"),
    [
        ("code=evil&state=wrong", "/callback", None),
        ("code=evil", "/callback", None),
        ("code=evil&state=", "/callback", None),
        ("code=evil&state=%C3%A9", "/callback", None),
        ("error=access_denied&state=wrong", "/callback", None),
        ("code=evil&state=right+state", "/callback/", None),
        ("code=evil&state=right+state", "/", None),
        ("code=evil&state=right+state", "/callback", "evil.example"),
        ("code=evil&state=right+state", "/callback", "localhost:1"),
        ("code=evil&state=right+state", "/callback", "127.0.0.1"),
    ],
)
def test_anything_else_is_refused_and_the_sign_in_goes_on(
    loopback: Loopback, query: str, path: str, host: str | None
) -> None:
    answer = visit(loopback, query, path, **({} if host is None else {"Host": host}))
    assert (answer.status_code, answer.content) == (404, b"")
    assert visit(loopback, "code=good&state=right+state").status_code == 200
    assert loopback.wait(1) == {"code": "good", "state": "right state"}


# -- tokens between kernels ------------------------------------------------------------


TOKENS = Tokens("https://h/v1", "client", "https://h/v1/oauth/token", "access-1", "refresh-1", "agents:read")


def fields(tokens: Tokens | None) -> list[Any]:
    return [getattr(tokens, name) for name in Tokens.__slots__]


class Ring:
    """A keyring that keeps what it is given."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], str] = {}

    def module(self) -> Any:
        return SimpleNamespace(
            get_password=lambda service, account: self.entries.get((service, account)),
            set_password=lambda service, account, text: self.entries.__setitem__((service, account), text),
            delete_password=lambda service, account: self.entries.pop((service, account)),
        )


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)


def test_without_a_keyring_they_are_in_a_file_of_the_owners(tmp_path: Path) -> None:
    store = TokenStore("https://h/v1/", tmp_path / "tokens")
    store.save(TOKENS)
    assert fields(TokenStore("https://h/v1", tmp_path / "tokens").load()) == fields(TOKENS)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    assert [path.name for path in store.path.parent.iterdir()] == [store.path.name]
    store.forget()
    assert store.load() is None


def test_a_keyring_is_used_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring, store = Ring(), TokenStore("https://h/v1", tmp_path)
    store.save(TOKENS)  # before there was one
    monkeypatch.setitem(sys.modules, "keyring", ring.module())
    store.save(TOKENS)
    assert not store.path.exists()
    assert list(ring.entries) == [("agentbook", "oauth https://h/v1")]
    assert fields(store.load()) == fields(TOKENS)
    store.forget()
    assert ring.entries == {}


def test_a_keyring_that_fails_is_as_good_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: str) -> str:
        raise RuntimeError("no backend")

    monkeypatch.setitem(
        sys.modules, "keyring", SimpleNamespace(get_password=broken, set_password=broken, delete_password=broken)
    )
    store = TokenStore("https://h/v1", tmp_path)
    store.save(TOKENS)
    assert fields(store.load()) == fields(TOKENS)
    store.forget()
    assert store.load() is None


def test_a_damaged_file_and_tokens_of_another_platform_are_no_tokens(tmp_path: Path) -> None:
    store = TokenStore("https://elsewhere/v1", tmp_path)
    store.save(TOKENS)
    assert store.load() is None
    for content in ("", "{", "[]", "{}", '{"base_url": "https://elsewhere/v1"}'):
        store.path.write_text(content)
        assert store.load() is None


def test_what_a_renewal_leaves_out_stays() -> None:
    assert fields(TOKENS.refreshed({"access_token": "access-1"})) == fields(TOKENS)
    assert TOKENS.refreshed({"access_token": "access-2"}).access_token == "access-2"
    assert TOKENS.refreshed({"access_token": "a", "refresh_token": "refresh-2"}).refresh_token == "refresh-2"


def test_they_are_in_no_repr_and_nowhere_else() -> None:
    assert "access-1" not in repr(TOKENS)
    assert "refresh-1" not in repr(TOKENS)
    for write in (pickle.dumps, copy.copy, msgspec.json.encode):
        with pytest.raises(TypeError):
            write(TOKENS)
