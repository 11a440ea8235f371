"""The pages in a real browser, below a path prefix, in light and dark mode."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlencode

import httpx
import pytest
from playwright.sync_api import Browser, Page

from service.oauth.flow import Pkce
from service.pages.proxy import below_a_prefix
from service.process import Service, command
from support.browser import running_browser, take_picture

pytestmark = pytest.mark.browser

SIZES = {"wide": {"width": 1280, "height": 900}, "narrow": {"width": 360, "height": 740}}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("pages") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def base(service: Service) -> Iterator[str]:
    with below_a_prefix(service.facts["port"]) as root:
        yield f"{root}/v1"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as started:
        yield started


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    context.close()
    assert complaints == []


def sign_in(page: Page, base: str, service: Service) -> None:
    """Paste the link that the command prints; it has the loopback address."""
    page.goto(f"{base}/settings")
    assert page.url == f"{base}/signin"
    page.get_by_label("Sign-in link").fill(command("signin", "--account", "ada", data=service.data).stdout)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{base}/settings")


def ask(base: str, service: Service, callback: str, pkce: Pkce) -> tuple[str, str]:
    """A fresh client's id, and where it sends the person."""
    fields = {"redirect_uris": [callback], "client_name": "Quarterly <i>report</i> notebook"}
    client = httpx.post(f"{service.base_url}/oauth/register", json=fields).json()["client_id"]
    params = {
        "response_type": "code", "client_id": client, "redirect_uri": callback, "state": "s", "scope": "agents:read skills:write",
        "code_challenge": pkce.challenge, "code_challenge_method": "S256",
    }  # fmt: skip
    return client, f"{base}/oauth/authorize?{urlencode(params)}"


def test_sign_in_make_a_key_use_it_revoke_it_sign_out(page: Page, base: str, service: Service) -> None:
    sign_in(page, base, service)
    page.get_by_label("Name").fill("<b>nightly</b>")
    page.get_by_label("See private agents").check()
    page.get_by_role("button", name="Create key").click()
    key = page.locator("#secret").inner_text()
    me = httpx.get(f"{service.base_url}/me", headers={"Authorization": f"Bearer {key}"}).json()
    assert (me["name"], me["credential"]["scopes"]) == ("ada", ["agents:read"])
    page.reload()  # sends the form again, as a person may
    assert page.locator("#secret").count() == 0
    assert page.get_by_text("created already").is_visible()
    assert page.locator("td strong", has_text="<b>nightly</b>").count() == 1
    page.get_by_role("button", name="Revoke <b>nightly</b>").click()
    page.wait_for_url(f"{base}/settings?done=revoked")
    refused = httpx.get(f"{service.base_url}/me", headers={"Authorization": f"Bearer {key}"})
    assert refused.status_code == 401
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(f"{base}/signin")
    page.goto(f"{base}/settings")
    assert page.url == f"{base}/signin"


@pytest.mark.parametrize(("scheme", "size"), [("light", "narrow"), ("dark", "wide")])
def test_how_they_look(browser: Browser, base: str, service: Service, scheme: str, size: str) -> None:
    context = browser.new_context(color_scheme=scheme, viewport=SIZES[size])  # type: ignore[arg-type]
    page = context.new_page()

    def shot(name: str, *, whole: bool = True) -> None:
        take_picture(page, f"pages-{name}-{scheme}-{size}", whole=whole)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than its window"
        assert page.locator("h1").count() == 1
        unlabelled = (
            """fields => fields.filter(f => f.type !== 'hidden' && !(f.labels && f.labels.length)).map(f => f.name)"""
        )
        assert page.locator("input, select, textarea").evaluate_all(unlabelled) == []
        bright = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", bright)[:3])) > 382) == (scheme == "light")

    page.goto(f"{base}/signin")
    shot("signin")
    sign_in(page, base, service)
    page.get_by_label("Name").fill("nightly report")
    page.get_by_label("See private agents").check()
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"  # focus can be seen
    page.get_by_role("button", name="Create key").click()
    page.locator("#secret").wait_for()
    shot("settings")
    page.get_by_role("link", name="Members").click()
    page.get_by_role("heading", name="Members", level=1).wait_for()
    shot("members")
    page.goto(ask(base, service, "http://127.0.0.1:9/callback", Pkce())[1])
    shot("consent")
    page.goto(f"{base}/oauth/authorize")
    shot("problem")
    page.goto(f"{base}/docs")
    shot("docs", whole=False)
    page.goto(f"{base}/docs#createAgent")
    shot("docs-operation", whole=False)
    context.close()
