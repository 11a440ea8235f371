"""The address to which the browser returns takes only the answer of its own sign-in."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

import agentbook as ab
from agentbook.api.oauth.sign_in import Loopback


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
