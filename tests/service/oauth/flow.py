"""An OAuth client and a person: register, ask, sign in, answer, redeem."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from agentbook.service import admin
from agentbook.service.store import Store
from service.world import World

CALLBACK = "http://127.0.0.1:5555/callback"
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)">')


@dataclass
class Pkce:
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))

    @property
    def challenge(self) -> str:
        return base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).decode().rstrip("=")


class Person:
    """A minimal browser: stores cookies, sends a browser's headers, follows nothing."""

    def __init__(self, world: World) -> None:
        headers = {"Accept": "text/html,*/*;q=0.8"}
        self.http = httpx.AsyncClient(transport=world.transport, base_url="http://test/v1", headers=headers)

    async def get(self, url: str, **headers: str) -> httpx.Response:
        return await self.http.get(url, headers={name.replace("_", "-"): value for name, value in headers.items()})

    async def post(self, url: str, data: dict[str, Any], **headers: str | None) -> httpx.Response:
        """Post a form; `headers` replace the browser's, and None removes one."""
        sent = {"sec_fetch_site": "same-origin", "origin": "http://test"} | headers
        headers_ = {name.replace("_", "-"): value for name, value in sent.items() if value is not None}
        return await self.http.post(url, data=data, headers=headers_)

    async def sign_in(self, store: Store, account: str = "ada") -> httpx.Response:
        return await self.open_link(admin.create_signin(store, account))

    async def open_link(self, code: str) -> httpx.Response:
        """Open a sign-in link and use its button."""
        return await self.post("/signin", form_of(await self.get(f"/signin?code={code}")))


def hidden(form: str) -> dict[str, str]:
    """The hidden fields of a form, which need no unescaping: scripts read them too."""
    return dict(_HIDDEN.findall(form))


def form_of(answer: httpx.Response, **more: Any) -> dict[str, Any]:
    """The hidden fields of the last form of a page, and `more`."""
    last = answer.text[answer.text.rindex("<form") :]
    return {**hidden(last), **more}


def ticked(answer: httpx.Response) -> list[str]:
    return re.findall(r'name="scope" value="([^"]+)" checked', answer.text)


def location(answer: httpx.Response) -> dict[str, str]:
    """The parameters that a redirect takes to the client."""
    return {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}


class Flow:
    """One client, `pkce`, and one person, in a `World`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.person = Person(world)
        self.pkce = Pkce()
        self.client_id = ""

    async def register(self, **fields: Any) -> httpx.Response:
        answer = await self.world.post(
            "/oauth/register", {"redirect_uris": [CALLBACK], "client_name": "A tool", **fields}
        )
        if answer.status_code == 201:
            self.client_id = answer.json()["client_id"]
        return answer

    async def ask(self, *omit: str, **changed: str) -> httpx.Response:
        """GET /oauth/authorize."""
        params = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "code_challenge": self.pkce.challenge,
            "code_challenge_method": "S256",
            "state": "st/ate & more",
            "scope": "agents:write workspaces:read",
        } | changed
        query = httpx.QueryParams({name: value for name, value in params.items() if name not in omit})
        return await self.person.get(f"/oauth/authorize?{query}")

    async def consent_page(self, **changed: str) -> httpx.Response:
        answer = await self.ask(**changed)
        assert answer.status_code == 303, answer.text
        page = await self.person.get("/oauth/" + answer.headers["location"])
        assert page.status_code == 200, page.text
        return page

    async def allow(self, *scopes: str, account: str = "ada", **changed: str) -> str:
        """The code that a person's consent gives."""
        page = await self.consent_page(**changed)
        data = form_of(page, decision="allow", scope=list(scopes) or ticked(page), account=self.world.accounts[account])
        answer = await self.person.post("/oauth/consent", data)
        assert answer.status_code == 303, answer.text
        return location(answer)["code"]

    async def token(self, **form: Any) -> httpx.Response:
        return await self.world.ask("POST", "/oauth/token", data=form)

    async def redeem(self, code: str, /, **changed: Any) -> httpx.Response:
        form = {
            "grant_type": "authorization_code",
            "client_id": self.client_id,
            "code": code,
            "redirect_uri": CALLBACK,
            "code_verifier": self.pkce.verifier,
        }
        return await self.token(**{k: v for k, v in (form | changed).items() if v is not None})

    async def refresh(self, token: str, /, **changed: Any) -> httpx.Response:
        form = {"grant_type": "refresh_token", "client_id": self.client_id, "refresh_token": token}
        return await self.token(**{k: v for k, v in (form | changed).items() if v is not None})

    async def call(self, token: str, method: str = "GET", path: str = "/me", **options: Any) -> httpx.Response:
        return await self.world.ask(method, path, headers={"Authorization": f"Bearer {token}"}, **options)


async def ready(world: World) -> Flow:
    """A registered client and a person who is signed in as ada."""
    flow = Flow(world)
    assert (await flow.register()).status_code == 201
    assert (await flow.person.sign_in(world.store)).status_code == 303
    return flow


async def tokens(flow: Flow, *scopes: str, **changed: str) -> dict[str, Any]:
    answer = await flow.redeem(await flow.allow(*scopes, **changed))
    assert answer.status_code == 200, answer.text
    metadata: dict[str, Any] = answer.json()
    return metadata
