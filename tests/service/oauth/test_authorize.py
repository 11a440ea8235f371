from __future__ import annotations

import html
import json
from urllib.parse import quote, unquote

import httpx
import pytest

from agentbook.service.auth import SCOPES
from service.oauth.flow import CALLBACK, Flow, Person, form_of, location, ready, ticked
from service.world import World

pytestmark = pytest.mark.anyio


async def test_an_invalid_client_or_redirect_uri_is_never_redirected(
    world: World,
) -> None:
    flow = await ready(world)
    cases = [
        (("client_id",), {}, "client_id: Field required"),
        ((), {"client_id": "0199c2f0-0000-7000-8000-00000000abcd"}, "client_id: no client"),
        ((), {"client_id": "<script>"}, "client_id: no client"),
        (("redirect_uri",), {}, "redirect_uri: Field required"),
        ((), {"redirect_uri": "https://evil.example/"}, "redirect_uri: the client did not register"),
        ((), {"redirect_uri": CALLBACK + "/"}, "redirect_uri: the client did not register"),
        ((), {"redirect_uri": CALLBACK + "#x"}, "redirect_uri: the client did not register"),
        ((), {"redirect_uri": "javascript:alert(1)"}, "redirect_uri: the client did not register"),
    ]  # fmt: skip
    for omit, changed, message in cases:
        answer = await flow.ask(*omit, **changed)
        assert (answer.status_code, "location" in answer.headers) == (400, False)
        assert message in answer.text
        assert "<script>" not in answer.text
        assert answer.headers["content-type"].startswith("text/html")
    twice = await flow.person.get(f"/oauth/authorize?client_id={flow.client_id}&client_id=x&redirect_uri={CALLBACK}")
    assert twice.status_code == 400
    assert "client_id: Field given more than once" in twice.text
    # A program that wants JSON gets the service's usual refusal.
    program = await world.get("/oauth/authorize")
    message = "query.client_id: Field required; query.redirect_uri: Field required"
    assert program.json() == {"error": "InvalidInputError", "message": message}
    too_many = await world.get("/oauth/authorize", **{f"a{n}": "x" for n in range(101)})
    assert too_many.json()["message"] == "query: more than 100 fields"


@pytest.mark.parametrize(
    ("omit", "changed", "error", "message"),
    [
        (("response_type",), {}, "invalid_request", "response_type: Field required"),
        ((), {"response_type": "token"}, "unsupported_response_type", "response_type must be code"),
        (("code_challenge",), {}, "invalid_request", "code_challenge: Field required"),
        (("code_challenge_method",), {}, "invalid_request", "code_challenge_method must be S256"),
        ((), {"code_challenge_method": "plain"}, "invalid_request", "code_challenge_method must be S256"),
        ((), {"code_challenge": "short"}, "invalid_request", "code_challenge must be"),
        ((), {"resource": "https://other.example/v1"}, "invalid_target", "resource is not one of this server"),
    ],
)
async def test_every_other_error_goes_to_the_client(
    world: World, omit: tuple[str, ...], changed: dict[str, str], error: str, message: str
) -> None:
    flow = await ready(world)
    redirect = await flow.ask(*omit, **changed)
    assert redirect.headers["location"].startswith("consent?")
    answer = await flow.person.get("/oauth/" + redirect.headers["location"])
    assert answer.status_code == 303
    assert answer.headers["location"].startswith(CALLBACK + "?")
    params = location(answer)
    assert message in params.pop("error_description")
    assert params == {"error": error, "state": "st/ate & more", "iss": "http://test"}


async def test_an_error_leads_nowhere_before_a_person_is_there(world: World) -> None:
    """Or whoever registers a client could send people anywhere from our address."""
    flow = Flow(world)
    elsewhere = "https://evil.example/path"
    await flow.register(redirect_uris=[elsewhere, CALLBACK])
    for uri in (elsewhere, CALLBACK):
        redirect = await flow.ask("code_challenge", redirect_uri=uri)
        assert (redirect.status_code, redirect.headers["location"][:8]) == (303, "consent?")
        consent = await flow.person.get("/oauth/" + redirect.headers["location"])
        assert (consent.status_code, consent.headers["location"][:18]) == (303, "../signin?request=")
    # Even to a person who is signed in, the way to another site is a button.
    await flow.person.sign_in(world.store)
    redirect = await flow.ask("code_challenge", redirect_uri=elsewhere, scope="agents:read")
    page = await flow.person.get("/oauth/" + redirect.headers["location"])
    assert page.status_code == 200
    assert "invalid_request: code_challenge: Field required" in page.text
    assert "Return to evil.example" in page.text
    assert world.accounts["acme"] not in page.text  # there is nothing to allow
    forced = form_of(page, decision="allow", scope="agents:read", account=world.accounts["ada"])
    answer = await flow.person.post("/oauth/consent", forced)
    assert answer.headers["location"].startswith(elsewhere + "?error=invalid_request&")
    assert world.rows("oauth_authorizations") == []


async def test_consent_gives_a_code_the_state_and_the_issuer(world: World) -> None:
    flow = await ready(world)
    page = await flow.consent_page(resource="http://test/v1")
    assert ticked(page) == ["agents:write", "workspaces:read"]
    answer = await flow.person.post(
        "/oauth/consent", form_of(page, decision="allow", scope=ticked(page), account=world.accounts["ada"])
    )
    params = location(answer)
    assert len(params.pop("code")) == 43
    assert params == {"state": "st/ate & more", "iss": "http://test"}
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"


async def test_a_query_of_the_redirect_uri_stays(world: World) -> None:
    flow = await ready(world)
    uri = "https://app.example/cb?tenant=7"
    await flow.register(redirect_uris=[uri])
    page = await flow.consent_page(redirect_uri=uri)
    answer = await flow.person.post("/oauth/consent", form_of(page, decision="deny"))
    assert answer.headers["location"].startswith(uri + "&error=access_denied&")


@pytest.mark.parametrize(
    ("scope", "offered"),
    [
        ("openid agents:read offline_access", ["agents:read"]),
        ("openid offline_access", [scope for scope in SCOPES if scope.endswith(":read")]),
        ("", [scope for scope in SCOPES if scope.endswith(":read")]),
    ],
)
async def test_scopes_of_other_servers_are_ignored(world: World, scope: str, offered: list[str]) -> None:
    flow = await ready(world)
    page = await flow.consent_page(scope=scope)
    assert ticked(page) == offered
    form = form_of(page, decision="allow", scope=[*ticked(page), "openid"], account=world.accounts["ada"])
    code = location(await flow.person.post("/oauth/consent", form))["code"]
    tokens = (await flow.redeem(code)).json()
    assert tokens["scope"].split() == sorted(offered)
    refreshed = (await flow.refresh(tokens["refresh_token"], scope=scope)).json()
    assert refreshed["scope"].split() == sorted(offered)


async def test_an_application_is_returned_to_by_its_own_scheme(world: World) -> None:
    """What follows the scheme is anyone's choice, and not shown."""
    flow = await ready(world)
    uri = "cursor://bank.example;script-src'*/oauth/callback"
    await flow.register(redirect_uris=[uri])
    page = await flow.consent_page(redirect_uri=uri)
    assert "the application of cursor: links on this machine" in page.text
    assert "bank.example" not in page.text.replace(form_of(page)["request"], "")
    assert "form-action 'self' https: cursor:;" in page.headers["content-security-policy"] + ";"
    assert "bank.example" not in page.headers["content-security-policy"]
    data = form_of(page, decision="allow", scope=ticked(page), account=world.accounts["ada"])
    answer = await flow.person.post("/oauth/consent", data)
    assert (answer.status_code, answer.headers["location"][: len(uri) + 6]) == (303, uri + "?code=")
    # An error does not start a program unless the person presses the button.
    redirect = await flow.ask("code_challenge", redirect_uri=uri)
    shown = await flow.person.get("/oauth/" + redirect.headers["location"])
    assert (shown.status_code, "Return to the application of cursor: links" in shown.text) == (200, True)


async def test_denial(world: World) -> None:
    flow = await ready(world)
    for decision in ("deny", "", "ALLOW"):
        page = await flow.consent_page()
        data = form_of(page, decision=decision, scope=ticked(page), account=world.accounts["ada"])
        params = location(await flow.person.post("/oauth/consent", data))
        assert (params["error"], params["state"], params["iss"]) == ("access_denied", "st/ate & more", "http://test")
    assert world.rows("oauth_authorizations") == []


def at(world: World, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let the platform's clock stand so many seconds from now."""
    from agentbook.service import ids

    then = world.store.clock.milliseconds() + int(seconds * 1000)
    monkeypatch.setattr(world.store.clock, "milliseconds", lambda: then)
    monkeypatch.setattr(world.store.clock, "instant", lambda: ids.instant_of_ms(then))


async def test_without_a_session_the_person_signs_in_first_and_comes_back(world: World) -> None:
    from agentbook.service import admin

    flow = Flow(world)
    await flow.register()
    redirect = await flow.ask()
    consent = "/oauth/" + redirect.headers["location"]
    sent = await flow.person.get(consent)
    assert (sent.status_code, sent.headers["location"][:18]) == (303, "../signin?request=")
    page = await flow.person.get(sent.headers["location"].removeprefix(".."))
    data = form_of(page, code=f"http://127.0.0.1:8765/v1/signin?code={admin.create_signin(world.store, 'ada')}")
    back = await flow.person.post("/signin", data)
    assert (back.status_code, "/" + back.headers["location"]) == (303, consent)
    assert (await flow.person.get(consent)).status_code == 200


async def test_the_person_can_remove_scopes_but_not_add_any(world: World) -> None:
    flow = await ready(world)
    code = await flow.allow("workspaces:read", "skills:write", "agents:read")
    answer = (await flow.redeem(code)).json()
    assert answer["scope"] == "workspaces:read"
    code = await flow.allow("none:such")
    answer = (await flow.redeem(code)).json()
    assert answer["scope"] == ""
    assert (await flow.call(answer["access_token"])).status_code == 200
    assert (await flow.call(answer["access_token"], path="/me/workspaces")).status_code == 403


async def test_the_account_is_the_persons_own_or_an_organization_it_administers(world: World) -> None:
    flow = await ready(world)
    page = await flow.consent_page()
    assert page.text.count('name="account"') == 2
    code = await flow.allow(account="acme")
    token = (await flow.redeem(code)).json()["access_token"]
    assert (await flow.call(token)).json()["name"] == "acme"
    # Somebody else's account cannot be smuggled in.
    page = await flow.consent_page()
    data = form_of(page, decision="allow", scope=ticked(page), account=world.accounts["bob"])
    assert location(await flow.person.post("/oauth/consent", data))["error"] == "access_denied"
    # A member who is no admin is not offered the organization.
    world.add("memberships", organization_id=world.accounts["acme"], user_id=world.accounts["bob"], role="MEMBER")
    await flow.person.sign_in(world.store, "bob")
    assert world.accounts["acme"] not in (await flow.consent_page()).text


async def test_the_form_is_good_for_the_session_it_was_shown_to(world: World) -> None:
    flow = await ready(world)
    page = await flow.consent_page()
    other = Person(world)
    await other.sign_in(world.store, "bob")
    data = form_of(page, decision="allow", scope=ticked(page), account=world.accounts["bob"])
    assert (await other.post("/oauth/consent", data)).status_code == 403
    stranger = await Person(world).post("/oauth/consent", data)
    assert (stranger.status_code, stranger.headers["location"][:9]) == (303, "../signin")
    assert world.rows("oauth_authorizations") == []


async def test_a_client_cannot_disguise_its_name(world: World) -> None:
    """Neither when it registers, nor with a name from before names were cleaned."""
    flow = await ready(world)
    name = "</h1><script>alert(1)</script>\"'&\u202eknaB\u202c"
    answer = await flow.register(client_name=name, client_uri="data:text/html,x")
    cleaned = name.replace("\u202e", "").replace("\u202c", "")
    assert (answer.json()["client_name"], "client_uri" in answer.json()) == (cleaned, False)
    page = await flow.consent_page()
    assert "<script" not in page.text
    assert cleaned in html.unescape(page.text)
    metadata = json.dumps({"redirect_uris": [CALLBACK], "client_uri": "file:///etc"})
    world.change("oauth_clients", flow.client_id, name="\u202eevil", metadata_json=metadata)
    page = await flow.consent_page()
    assert "\u202e" not in page.text
    assert "file:" not in page.text
    await flow.register(client_name="Tool", client_uri="https://tool.example/about")
    assert "https://tool.example/about" in (await flow.consent_page()).text


async def test_a_request_is_checked_again_on_its_way(world: World) -> None:
    flow = await ready(world)
    page = await flow.consent_page()
    data = form_of(page, decision="allow", scope=ticked(page), account=world.accounts["ada"])
    query = httpx.QueryParams(unquote(data["request"]))
    for changed, status in (
        ({"state": "another"}, 200),  # as if the client had asked so
        ({"redirect_uri": "https://evil.example/"}, 400),
        ({"client_id": "0199c2f0-0000-7000-8000-00000000abcd"}, 400),
    ):
        request = str(query.merge(changed))
        shown = await flow.person.get(f"/oauth/consent?{request}")
        assert (shown.status_code, "location" in shown.headers) == (status, False)
        # The form is for the request that the person has seen.
        assert (await flow.person.post("/oauth/consent", {**data, "request": quote(request)})).status_code == 403
    for damaged in ("", ".", "%C3%A9.%E9", "x", "x" * 20_000):
        answer = await flow.person.get(f"/oauth/consent?{damaged}")
        assert (answer.status_code, "location" in answer.headers) == (400, False), damaged
    assert world.rows("oauth_authorizations") == []


async def test_a_client_that_is_gone_gets_no_answer(world: World) -> None:
    flow = await ready(world)
    page = await flow.consent_page()
    world.change("oauth_clients", flow.client_id, metadata_json=json.dumps({"redirect_uris": ["https://new.example/"]}))
    data = form_of(page, decision="allow", scope=ticked(page), account=world.accounts["ada"])
    answer = await flow.person.post("/oauth/consent", data)
    assert (answer.status_code, "location" in answer.headers) == (400, False)
    assert world.rows("oauth_authorizations") == []


async def test_a_request_of_any_accepted_size_is_answered(world: World) -> None:
    flow = await ready(world)
    state = "&é" * 1_700  # 15,300 bytes, encoded
    page = await flow.consent_page(state=state)
    assert location(await flow.person.post("/oauth/consent", form_of(page, decision="deny")))["state"] == state
    assert (await flow.ask(state="x" * 16_384)).status_code == 400
    assert ticked(await flow.consent_page(scope="x" * 10_000 + " agents:read")) == ["agents:read"]
