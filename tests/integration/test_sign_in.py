"""Signing in: the real client against the real service, with a scripted browser."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import agentbook as ab
from agentbook.api.oauth import sign_in as oauth
from agentbook.api.oauth.sign_in import OAuthSession, sign_in, stored
from agentbook.api.oauth.token_store import TokenStore
from service.oauth.flow import form_of, ticked
from service.process import Service, command


class Browser:
    """A scripted, signed-in browser: approves the scopes and follows the redirect."""

    def __init__(self, service: Service, account: str = "ada", *, decision: str = "allow", follow: bool = True) -> None:
        self.http = httpx.Client(headers={"Accept": "text/html"}, follow_redirects=False)
        self.decision = decision
        self.follow = follow
        self.scopes: list[str] | None = None
        self.ended_at = ""
        link = command("signin", "--account", account, data=service.data).stdout.strip()
        form = form_of(self.http.get(link))
        assert self.http.post(link.partition("?")[0], data=form).status_code == 303

    def open(self, address: str) -> None:
        answer = self.http.get(address)
        while answer.is_redirect:
            answer = self.http.get(answer.url.join(answer.headers["location"]))
        assert answer.status_code == 200, answer.text
        data = form_of(answer, decision=self.decision, scope=self.scopes if self.scopes is not None else ticked(answer))
        account = data.get("account") or answer.text.split('name="account" value="')[1].split('"')[0]
        origin = f"{answer.url.scheme}://{answer.url.netloc.decode()}"
        answer = self.http.post(
            answer.url.join("consent"),
            data={**data, "account": account},
            headers={"Origin": origin, "Sec-Fetch-Site": "same-origin"},
        )
        assert answer.status_code == 303, answer.text
        self.ended_at = answer.headers["location"]
        if self.follow:
            assert "You can close this window" in self.http.get(self.ended_at).text


@pytest.fixture
def store(service: Service, tmp_path: Path) -> TokenStore:
    return TokenStore(service.base_url, tmp_path / "tokens")


@pytest.fixture(scope="module")
def shared_store(service: Service, tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    return TokenStore(service.base_url, tmp_path_factory.mktemp("tokens"))


@pytest.fixture(scope="module")
def session(service: Service, shared_store: TokenStore) -> Iterator[OAuthSession]:
    store, browser = shared_store, Browser(service)
    yield sign_in(service.base_url, open_browser=browser.open, paste=False, store=store)
    browser.http.close()


def client_of(service: Service, session: OAuthSession) -> ab.Client:
    return ab.Client(service.base_url, credentials=session)


def test_a_person_signs_in_and_acts_as_themselves(
    service: Service, session: OAuthSession, shared_store: TokenStore
) -> None:
    with client_of(service, session) as client:
        assert client.me.get().name == "ada"
        # What no key can do: change an agent.
        name = client.agents.create("ada-s-own", template="BLANK").id
        assert client.agents.update(name, is_pinned=True).is_pinned is True
    assert stat.S_IMODE(shared_store.path.stat().st_mode) == 0o600


def test_only_what_was_asked_for_is_granted(service: Service, store: TokenStore) -> None:
    browser = Browser(service)
    session = sign_in(service.base_url, scopes=["agents:read"], open_browser=browser.open, paste=False, store=store)
    assert session.scope == "agents:read"
    with client_of(service, session) as client, pytest.raises(ab.InsufficientScope):
        client.agents.create("x")
    browser.http.close()


def test_without_a_browser_the_address_is_pasted(service: Service, store: TokenStore, capsys: Any) -> None:
    browser = Browser(service, follow=False)

    def person(prompt: str) -> str:
        address = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("http"))
        browser.open(address)
        return f"  {browser.ended_at}\n"

    session = sign_in(service.base_url, paste=True, ask=person, store=store)
    with client_of(service, session) as client:
        assert client.me.get().name == "ada"
    browser.http.close()


def test_a_refusal_is_said(service: Service, store: TokenStore) -> None:
    browser = Browser(service, decision="deny")
    with pytest.raises(ab.OAuthError) as raised:
        sign_in(service.base_url, open_browser=browser.open, paste=False, store=store)
    assert raised.value.error == "access_denied"
    assert store.load() is None
    browser.http.close()


def test_an_answer_to_another_sign_in_is_not_taken(service: Service, store: TokenStore) -> None:
    with pytest.raises(ab.OAuthError, match="does not belong"):
        sign_in(
            service.base_url, paste=True, ask=lambda prompt: "http://127.0.0.1/callback?code=x&state=y", store=store
        )


def test_the_tokens_are_found_again(
    service: Service, session: OAuthSession, shared_store: TokenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = stored(service.base_url, store=shared_store)
    assert again is not None
    assert again.authorization() == session.authorization()
    monkeypatch.setattr("agentbook._connect.stored", lambda address: stored(address, store=shared_store))
    monkeypatch.delenv("AGENTBOOK_BASE_URL", raising=False)
    with ab.connect(service.base_url + "/") as client:
        assert client.me.get().name == "ada"
    again.sign_out()
    assert stored(service.base_url, store=shared_store) is None
    shared_store.save(again.tokens)


def spoil(session: OAuthSession) -> str:
    """Replace the access token by an unknown one, as if it had expired."""
    session.tokens = session.tokens.refreshed({"access_token": "spent-" + "x" * 30})
    session.store.save(session.tokens)
    return session.authorization()


def test_an_access_token_that_ran_out_is_refreshed_on_the_way(service: Service, session: OAuthSession) -> None:
    spent = spoil(session)
    with client_of(service, session) as client:
        assert client.me.get().name == "ada"
        assert session.authorization() != spent
        # A write is sent again too: refused, it was not applied.
        spoil(session)
        assert client.agents.create("renewed", template="BLANK").id

    async def awaited() -> str:
        spoil(session)
        async with ab.AsyncClient(service.base_url, credentials=session) as async_client:
            return str((await async_client.me.get()).name)

    assert asyncio.run(awaited()) == "ada"


def test_eight_threads_refresh_once(service: Service, session: OAuthSession, monkeypatch: pytest.MonkeyPatch) -> None:
    spent, forms, request_tokens = spoil(session), [], oauth.request_tokens

    def counting(address: str, form: Any) -> Any:
        forms.append(form)
        return request_tokens(address, form)

    monkeypatch.setattr(oauth, "request_tokens", counting)
    names: list[str] = []
    with client_of(service, session) as client:
        threads = [threading.Thread(target=lambda: names.append(client.me.get().name)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert names == ["ada"] * 8
    assert len(forms) == 1
    assert session.authorization() != spent


KERNEL = """
import sys
from pathlib import Path
import agentbook as ab
from agentbook.api import oauth
from agentbook.api.oauth.sign_in import stored
from agentbook.api.oauth.token_store import TokenStore
base_url, directory = sys.argv[1:]
session = stored(base_url, store=TokenStore(base_url, Path(directory)))
sys.stdin.readline()
print(ab.Client(base_url, credentials=session).me.get().name)
"""


def test_four_kernels_never_revoke_each_other(
    service: Service, session: OAuthSession, shared_store: TokenStore
) -> None:
    spoil(session)
    directory = str(shared_store.path.parent)
    kernels = [
        subprocess.Popen(
            [sys.executable, "-c", KERNEL, service.base_url, directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    answers = [kernel.communicate("go\n", timeout=60)[0].strip() for kernel in kernels]
    assert answers == ["ada"] * 4
    with client_of(service, session) as client:
        assert client.me.get().name == "ada"


def test_an_authorization_that_has_ended_says_to_sign_in(service: Service, session: OAuthSession) -> None:
    whole = session.tokens
    spoil(session)
    session.tokens = session.tokens.refreshed({"access_token": session.tokens.access_token, "refresh_token": "spent"})
    session.store.save(session.tokens)
    with client_of(service, session) as client, pytest.raises(ab.OAuthError) as raised:
        client.me.get()
    assert raised.value.error == "invalid_grant"
    assert "Sign in again" in str(raised.value)
    session.tokens = whole
    session.store.save(whole)


def test_a_person_streams_by_polling(service: Service, session: OAuthSession, client: ab.Client) -> None:
    from agentbook.events.reader import BEGINNING

    with client_of(service, session) as mine:
        workspace = mine.workspaces.create("mine-" + session.identity[-6:])
        chat = mine.sessions.start(workspace.id, agent_id="acme~guide", prompt="What is a turn?")
        with mine.sessions.stream(chat.id, from_id=BEGINNING) as stream:
            kinds = []
            while "reply" not in kinds:
                event = stream.get(timeout_s=60)
                assert event is not None, kinds
                kinds.append("reply" if event.type == "runtime_done" and "text" in event.content else event.type)
    assert kinds[0] == "message"


def test_a_panel_knows_the_person_and_their_keys_apart(service: Service, session: OAuthSession) -> None:
    key = service.key("sessions:write", "workspaces:write", "agents:read", account="ada")
    with client_of(service, session) as person, ab.Client(service.base_url, credentials=key) as by_key:
        workspace = person.workspaces.create("talk-" + session.identity[-6:]).id
        asked = {}
        for client in (person, by_key):
            panel = ab.ChatPanel(client, workspace=workspace, agent="acme~guide")
            panel.ask("What is a turn?")
            asked[client] = panel.session_id
            panel.close()
        seen = {}
        for reader in (person, by_key):
            for author, chat in asked.items():
                panel = ab.ChatPanel(reader, session=chat)
                seen[reader is person, author is person] = (
                    panel.transcript["author"].to_list(),
                    panel.conversation.read_only,
                )
                panel.close()
    # What a person may continue is not specified, so the platform decides.
    assert seen == {
        (True, True): (["You", "guide"], False),
        (True, False): (["test", "guide"], False),
        (False, False): (["You", "guide"], False),
        (False, True): (["You", "guide"], True),  # the key's person wrote it, and only they can continue
    }


def test_a_platform_without_oauth_says_so() -> None:
    def refuse(address: str, call: Any) -> Any:
        raise ab.Unauthorized("401", challenge="Basic")

    with pytest.raises(ab.AgentbookError, match="Use an API key instead"):
        oauth.discover("https://host/v1", refuse)


def nobody_approves(service: Service, store: TokenStore) -> type[Exception]:
    with pytest.raises(ab.AgentbookError) as raised:
        sign_in(service.base_url, paste=True, ask=lambda prompt: "", store=store)
    return type(raised.value)


def test_too_many_registrations_are_said_at_once(service: Service, store: TokenStore) -> None:
    assert ab.RateLimited in [nobody_approves(service, store) for _ in range(11)]
