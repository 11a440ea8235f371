"""The OAuth client of the MCP Python SDK, unchanged, against a real service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import httpx2
import pytest

from service.oauth.flow import hidden, ticked
from service.process import Service, command

if TYPE_CHECKING:  # imported where used: every process with tests collects this file
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

pytestmark = pytest.mark.anyio

CALLBACK = "http://127.0.0.1:3030/callback"


class Memory:
    """Where the SDK keeps what it was given."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Scripted:
    """A person at a browser, who signs in on request and keeps only some scopes."""

    def __init__(self, service: Service, keeps: str) -> None:
        self.service = service
        self.keeps = re.compile(keeps)
        self.http = httpx.Client(headers={"Accept": "text/html,*/*;q=0.8", "Sec-Fetch-Site": "same-origin"})
        self.offered: list[list[str]] = []
        self.came_back: dict[str, list[str]] = {}

    async def open(self, url: str) -> None:
        """From the authorization endpoint to the redirect back to the client."""
        page = self.http.get(url, follow_redirects=True)
        if urlsplit(str(page.url)).path.endswith("/signin"):
            link = command("signin", "--account", "ada", data=self.service.data).stdout.strip()
            page = self._submit(page, code=link)
            page = self.http.get(urljoin(str(page.url), page.headers["location"]))
        assert page.status_code == 200, page.text
        self.offered.append(ticked(page))
        scopes = [scope for scope in ticked(page) if self.keeps.fullmatch(scope)]
        account = re.findall(r'name="account" value="([^"]+)"', page.text)[0]
        answer = self._submit(page, decision="allow", scope=scopes, account=account)
        assert answer.headers["location"].startswith(CALLBACK)
        self.came_back = parse_qs(urlsplit(answer.headers["location"]).query)

    def _submit(self, page: httpx.Response, **more: object) -> httpx.Response:
        form = page.text[page.text.rindex("<form") :]
        action = re.findall(r'action="([^"]+)"', form)[0]
        return self.http.post(urljoin(str(page.url), action), data={**hidden(form), **more})  # type: ignore[dict-item]

    async def answer(self) -> AuthorizationCodeResult:
        from mcp.shared.auth import AuthorizationCodeResult

        params = {name: values[0] for name, values in self.came_back.items()}
        return AuthorizationCodeResult(code=params["code"], state=params["state"], iss=params["iss"])


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("service") / "data") as running:
        yield running


@pytest.fixture
def person(service: Service) -> Iterator[Scripted]:
    made = Scripted(service, keeps="workspaces:read")
    yield made
    made.http.close()


def provider(service: Service, person: Scripted, memory: Memory) -> OAuthClientProvider:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata
    from pydantic import AnyUrl

    metadata = OAuthClientMetadata(
        client_name="The SDK", redirect_uris=[AnyUrl(CALLBACK)], grant_types=["authorization_code", "refresh_token"]
    )
    return OAuthClientProvider(service.base_url, metadata, memory, person.open, person.answer)


async def test_the_whole_flow_with_refresh_and_step_up(
    service: Service, person: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    memory = Memory()
    person.keeps = re.compile(r"workspaces:read|agents:.*")
    auth = provider(service, person, memory)
    async with httpx2.AsyncClient(base_url=service.base_url, auth=auth, headers={"Accept": "*/*"}) as http:
        me = await http.get("/me")
        assert me.status_code == 200, me.text
        assert (me.json()["name"], me.json()["credential"]["name"]) == ("ada", "The SDK")
        assert len(person.offered[0]) == 10  # a plain client asks for everything; the person unticks
        assert memory.tokens is not None
        assert memory.tokens.scope == "agents:read agents:write workspaces:read"
        assert memory.client is not None
        assert (memory.client.token_endpoint_auth_method, memory.client.client_secret) == ("none", None)

        first = memory.tokens
        auth.context.token_expiry_time = 1.0  # as if an hour had gone by
        assert (await http.get("/me/workspaces")).status_code == 200
        assert memory.tokens.access_token != first.access_token
        assert memory.tokens.refresh_token != first.refresh_token
        assert len(person.offered) == 1

        person.keeps = re.compile(".*")
        stepped = await http.get("/accounts/ada/skills")
        assert stepped.status_code == 200, stepped.text
        assert len(person.offered) == 2
        assert "skills:read" in person.offered[1]
        assert (await http.get("/me")).json()["credential"]["scopes"] == sorted(person.offered[1])

        named = await http.post("/agents", json={"name": "made by a client"})
        changed = await http.patch(f"/agents/{named.json()['id']}", json={"is_public": True})
        assert (changed.status_code, changed.json()["is_public"]) == (200, True)
    assert "OAuth flow error" not in caplog.text
