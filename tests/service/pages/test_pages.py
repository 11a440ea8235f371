"""The pages without a browser: sign-in, keys, and what every page must be sent with."""

from __future__ import annotations

import re

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from agentbook.service import admin, auth
from agentbook.service.pages.visitor import endpoint
from agentbook.service.state import Platform
from service.oauth.flow import Person, form_of, hidden, ready, tokens
from service.oauth.test_authorize import at
from service.world import World, error

pytestmark = pytest.mark.anyio

ALLOWED_HEADERS = {
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # the test's host is not the loopback interface; see test_loopback_pages_tell_nobody
    "cache-control": "no-store",
}


async def signed_in(world: World, account: str = "ada") -> Person:
    person = Person(world)
    assert (await person.sign_in(world.store, account)).status_code == 303
    return person


def forms(answer: httpx.Response, action: str) -> list[dict[str, str]]:
    """The hidden fields of every form of a page that does `action`."""
    forms = [hidden(form) for form in re.findall(r"<form.*?</form>", answer.text, re.S)]
    return [form for form in forms if form.get("action") == action]


async def new_key(person: Person, **fields: object) -> httpx.Response:
    page = await person.get("/settings")
    form = {**forms(page, "create")[0], "name": "nightly", "scope": ["agents:read"], **fields}
    return await person.post("/settings", {name: value for name, value in form.items() if value is not None})


def shown_key(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return re.findall(r'id="secret"[^>]*>([^<]+)<', answer.text)[0]


async def every_page(world: World) -> list[httpx.Response]:
    flow = await ready(world)
    return [
        await flow.person.get("/docs"),
        await flow.person.get("/signin"),
        await flow.person.get("/settings"),
        await flow.person.get("/members"),
        await flow.consent_page(),
        await new_key(flow.person),
        await flow.person.get("/oauth/authorize"),
        await flow.person.post("/settings", {}, origin="https://evil.example", sec_fetch_site="cross-site"),
        await Person(world).get("/signin?code=wrong"),
    ]


async def test_every_page_is_sent_with_its_headers(world: World) -> None:
    for page in await every_page(world):
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert {name: page.headers[name] for name in ALLOWED_HEADERS} == ALLOWED_HEADERS
        policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["frame-ancestors"] == "'none'"
        assert policy["base-uri"] == "'none'"
        assert "unsafe" not in str(policy)
        assert "script-src" not in policy
        assert policy["form-action"].startswith("'self'")


async def test_every_address_on_a_page_is_relative(world: World) -> None:
    for page in await every_page(world):
        addresses = re.findall(r'(?:href|src|action)="([^"]*)"', page.text)
        wrong = [a for a in addresses if a.startswith("/") or (":" in a and not a.startswith("data:image/svg+xml"))]
        assert wrong == [], page.url
        assert "<script" not in page.text


async def test_loopback_pages_tell_nobody_where_the_person_came_from(world: World) -> None:
    for host in ("127.0.0.1:8765", "localhost:8765", "[::1]:8765"):
        assert (await Person(world).get("/signin", host=host)).headers["referrer-policy"] == "no-referrer"
    for host in (
        "localhost.evil.example",
        "127.0.0.1.evil.example:80",
        "[::1",
    ):  # not loopback, whatever they begin with
        assert (await Person(world).get("/signin", host=host)).headers["referrer-policy"] == "same-origin"
    proxied = await Person(world).get("/signin", host="hub.example", x_forwarded_proto="https")
    assert proxied.headers["referrer-policy"] == "no-referrer"


async def test_a_link_signs_in_once_and_by_its_button(world: World) -> None:
    code = admin.create_signin(world.store, "ada")
    person = Person(world)
    page = await person.get(f"/signin?code={code}", sec_fetch_site="cross-site")
    assert (page.status_code, "Sign in as <strong>ada</strong>" in page.text) == (200, True)
    assert (await person.get("/settings")).headers["location"] == "signin"  # nobody is signed in yet
    first = await person.post("/signin", form_of(page))
    assert (first.status_code, first.headers["location"]) == (303, "settings")
    cookie = first.headers["set-cookie"]
    assert re.fullmatch(r"agentbook_[0-9a-f]{8}=[\w-]{43}; HttpOnly; Max-Age=43200; SameSite=lax", cookie)
    assert "ada" in (await person.get("/settings")).text
    again = await Person(world).get(f"/signin?code={code}")
    assert (again.status_code, "has been used" in again.text) == (400, True)


async def test_a_link_followed_from_elsewhere_signs_nobody_in(world: World) -> None:
    """Whoever is signed in stays so, and sees as whom the button would sign in."""
    person = await signed_in(world)
    code = admin.create_signin(world.store, "bob")
    page = await person.get(f"/signin?code={code}", sec_fetch_site="cross-site")
    assert "You are signed in as <strong>ada</strong>" in page.text
    assert "Sign in as <strong>bob</strong>" in page.text
    assert "ada" in (await person.get("/settings")).text
    stranger = form_of(page)
    for form in (stranger, {"code": code}):  # a form of another visitor, or of another site
        assert (await Person(world).post("/signin", form)).status_code == 403
    assert (await person.post("/signin", stranger, sec_fetch_site="cross-site")).status_code == 403
    assert (await person.post("/signin", stranger)).status_code == 303


async def test_lifetimes_of_links_and_sessions(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    code = admin.create_signin(world.store, "ada")
    person = await signed_in(world)
    with monkeypatch.context() as patch:
        at(world, patch, 15 * 60)
        assert (await Person(world).get(f"/signin?code={code}")).status_code == 400
    with monkeypatch.context() as patch:
        at(world, patch, 12 * 3600)
        assert (await person.get("/settings")).headers["location"] == "signin"


async def test_the_link_or_its_code_can_be_pasted(world: World) -> None:
    for form in ("{}", " {} ", "http://127.0.0.1:8765/v1/signin?code={}"):
        person = Person(world)
        page = await person.get("/signin")
        pasted = form.format(admin.create_signin(world.store, "ada"))
        answer = await person.post("/signin", form_of(page, code=pasted))
        assert (answer.status_code, answer.headers["location"]) == (303, "settings")
    for nonsense in ("nonsense", "http://[?code=nonsense"):
        wrong = await person.post("/signin", form_of(await person.get("/signin"), code=nonsense))
        assert (wrong.status_code, 'role="alert"' in wrong.text) == (400, True)


@pytest.mark.parametrize(
    "request_",
    ["https://evil.example/", "//evil.example", "/\\evil.example", "x\r\nSet-Cookie: a=b", "../../evil", "a" * 300],
)
async def test_sign_in_never_redirects_elsewhere(world: World, request_: str) -> None:
    person = Person(world)
    params = {"code": admin.create_signin(world.store, "ada"), "request": request_}
    answer = await person.post("/signin", form_of(await person.http.get("/signin", params=params)))
    assert (answer.status_code, answer.headers["location"]) == (303, "settings")


async def test_signing_out(world: World) -> None:
    person = await signed_in(world)
    page = await person.get("/settings")
    before = dict(person.http.cookies)
    token = re.findall(r'name="token" value="(\w+)"', page.text)[0]
    answer = await person.post("/signout", {"token": token})
    assert (answer.status_code, answer.headers["location"]) == (303, "signin")
    person.http.cookies.update(before)  # the cookie is of no more use
    assert (await person.get("/settings")).headers["location"] == "signin"
    assert world.rows("page_sessions") == []


async def test_a_key_is_made_shown_once_used_and_revoked(world: World) -> None:
    person = await signed_in(world)
    made = await new_key(person, name="nightly <b>", scope=["agents:read", "sessions:write", "no:such"])
    key = shown_key(made)
    me = await world.get("/me", key)
    assert me.json()["credential"] == {
        "type": "api_key", "id": key.partition(":")[0], "name": "nightly <b>", "scopes": ["agents:read", "sessions:write"],
    }  # fmt: skip
    assert "nightly &lt;b&gt;" in made.text
    page = await person.get("/settings")
    assert key.partition(":")[2] not in page.text
    assert key.partition(":")[2] not in str([world.rows(table) for table in auth.api_keys.metadata.tables])
    revoke = next(form for form in forms(page, "revoke") if form["id"] == key.partition(":")[0])
    assert (await person.post("/settings", revoke)).headers["location"] == "settings?done=revoked"
    assert error(await world.get("/me", key)) == (401, "Unauthorized", "Invalid API key")
    assert "Revoked (1)" in (await person.get("/settings")).text


async def test_a_form_that_is_sent_twice_makes_one_key(world: World) -> None:
    person = await signed_in(world)
    page = await person.get("/settings")
    form = {**forms(page, "create")[0], "name": "nightly"}
    before = len(world.rows("api_keys"))
    shown_key(await person.post("/settings", form))
    again = await person.post("/settings", form)
    assert (again.status_code, 'id="secret"' in again.text) == (200, False)
    assert len(world.rows("api_keys")) == before + 1


@pytest.mark.parametrize("name", ["", "   ", "x" * 121, "two\nlines", "a\x1b[2Jb", "a\x9bb", "a\u202eb", "a\u2028b"])
async def test_a_key_needs_a_name(world: World, name: str) -> None:
    answer = await new_key(await signed_in(world), name=name, scope=["skills:read"])
    assert answer.status_code == 400
    assert 'aria-invalid="true"' in answer.text
    assert 'value="skills:read" checked' in answer.text  # what was chosen is still there


async def test_whose_keys(world: World) -> None:
    person = await signed_in(world)
    key = shown_key(await new_key(person, account=world.accounts["acme"]))
    assert (await world.get("/me", key)).json()["name"] == "acme"
    assert (await new_key(person, account=world.accounts["bob"])).status_code == 400
    # bob sees and revokes none of it, whatever he sends.
    bob = await signed_in(world, "bob")
    page = await bob.get("/settings")
    assert key.partition(":")[0] not in page.text
    ours = next(form for form in forms(await person.get("/settings"), "revoke") if form["id"] == key.partition(":")[0])
    assert (await bob.post("/settings", ours)).status_code == 403
    assert (await world.get("/me", key)).status_code == 200


async def test_a_clients_access_is_ended(world: World) -> None:
    flow = await ready(world)
    issued = await tokens(flow)
    page = await flow.person.get("/settings")
    assert "A tool" in page.text
    assert (await flow.person.post("/settings", forms(page, "end")[0])).headers["location"] == "settings?done=ended"
    assert error(await flow.call(issued["access_token"])) == (401, "Unauthorized", "Invalid OAuth token")
    assert forms(await flow.person.get("/settings"), "end") == []


FORGED: list[dict[str, str | None]] = [
    {"sec_fetch_site": "cross-site"},
    {"sec_fetch_site": "same-site"},
    {"sec_fetch_site": "none"},
    {"sec_fetch_site": None, "origin": "https://evil.example"},
    {"sec_fetch_site": None, "origin": "http://test.evil.example"},
    {"sec_fetch_site": None, "origin": "http://test:81"},
    {"sec_fetch_site": None, "origin": "null"},
    {"sec_fetch_site": None, "origin": "http://["},
]


@pytest.mark.parametrize("headers", FORGED)
async def test_a_form_from_another_site_does_nothing(world: World, headers: dict[str, str | None]) -> None:
    flow = await ready(world)
    person = flow.person
    settings, consent = await person.get("/settings"), await flow.consent_page()
    keys, allowed = len(world.rows("api_keys")), len(world.rows("oauth_authorizations"))
    attempts = {
        "/settings": {**forms(settings, "create")[0], "name": "x"},
        "/oauth/consent": form_of(consent, decision="allow", account=world.accounts["ada"]),
        "/signout": {"token": re.findall(r'name="token" value="(\w+)"', settings.text)[0]},
        "/signin": form_of(await person.get("/signin"), code=admin.create_signin(world.store, "bob")),
    }
    for path, form in attempts.items():
        answer = await person.post(path, form, **headers)
        assert (answer.status_code, "another site" in answer.text) == (403, True), path
    assert (len(world.rows("api_keys")), len(world.rows("oauth_authorizations"))) == (keys, allowed)
    assert "ada" in (await person.get("/settings")).text
    # Without any of the two headers, from a program: the token alone decides.
    assert (await person.post("/settings", attempts["/settings"], sec_fetch_site=None, origin=None)).status_code == 200


async def test_no_page_forgets_to_ask_where_a_post_comes_from(world: World) -> None:
    async def careless(_platform: Platform, _request: Request) -> Response:
        return Response("done")

    transport = httpx.ASGITransport(endpoint(world.platform, GET=careless, POST=careless))
    evil = {"Sec-Fetch-Site": "cross-site"}
    async with httpx.AsyncClient(transport=transport, base_url="http://test", headers={"Accept": "text/html"}) as http:
        assert (await http.post("/", headers=evil)).status_code == 403
        assert (await http.post("/")).text == (await http.get("/", headers=evil)).text == "done"


async def test_a_form_without_its_own_token_does_nothing(world: World) -> None:
    flow = await ready(world)
    page = await flow.person.get("/settings")
    create, revoke_like = forms(page, "create")[0], forms(page, "create")[0]["id"]
    mine = world.key("ada")
    wrong = [
        {**create, "name": "x", "token": ""},
        {**create, "name": "x", "token": "0" * 64},
        {**create, "name": "x", "id": "0199c2f0-0000-7000-8000-00000000abcd"},
        {"action": "revoke", "id": mine.partition(":")[0], "token": create["token"]},
        {"action": "create", "id": revoke_like, "name": "x"},
        {"action": "create"},
    ]
    for form in wrong:
        assert (await flow.person.post("/settings", form)).status_code == 403, form
    consent = await flow.consent_page()
    stale = form_of(consent, decision="allow", account=world.accounts["ada"], token=create["token"])
    assert (await flow.person.post("/oauth/consent", stale)).status_code == 403
    assert (await world.get("/me", mine)).status_code == 200
    assert world.rows("oauth_authorizations") == []


async def test_a_body_that_is_not_a_form(world: World) -> None:
    person = await signed_in(world)
    assert error(await person.http.post("/settings", json={}))[:2] == (400, "InvalidInputError")
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert error(await person.http.post("/settings", content=b"a=%ff", headers=headers))[:2] == (
        400,
        "InvalidInputError",
    )
    for path in ("/settings", "/signin", "/docs", "/oauth/consent"):
        assert error(await person.http.delete(path, headers={"Accept": "*/*"}))[0] == 405


async def test_a_program_is_refused_in_json_and_a_person_on_a_page(world: World) -> None:
    person = await signed_in(world)
    answers = [
        (
            await person.get("/oauth/consent?state=x", accept="application/json"),
            400,
            "InvalidInputError",
            "client_id: Field required",
        ),
        (await person.post("/settings", {"a": "b"}, accept="*/*"), 403, "Forbidden", "This form has expired"),
        (await person.post("/signout", {"a": "b"}, accept="*/*"), 403, "Forbidden", "This form has expired"),
    ]
    for answer, *expected, words in answers:
        assert [*error(answer)[:2]] == expected
        assert words in error(answer)[2]
    page = await person.get("/oauth/consent?state=x")
    assert (page.status_code, page.headers["content-type"]) == (400, "text/html; charset=utf-8")


@pytest.mark.parametrize("typed", ["/", "/v1", "/v1/", "/docs", "/signin", "/settings", "/members"])
async def test_what_people_type_leads_a_browser_to_a_page(world: World, typed: str) -> None:
    address = f"http://test{typed}"
    async with httpx.AsyncClient(transport=world.transport) as http:
        page = await http.get(address, headers={"Accept": "text/html,*/*"}, follow_redirects=True)
        assert page.status_code == 200
        assert page.headers["Content-Type"].startswith("text/html")
        for method, accept in (("GET", "*/*"), ("GET", "application/json"), ("POST", "text/html")):
            answer = await http.request(method, address, headers={"Accept": accept})
            assert answer.status_code == 404, "a client of the API finds nothing here"
