from __future__ import annotations

import pytest

from agentbook.service import errors
from agentbook.service.web.error_responses import render_error
from service.world import World, error

pytestmark = pytest.mark.anyio

HTML = "text/html; charset=utf-8"
JSON = "application/json"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, HTML),
        ("application/json;q=0", HTML),
        ("application/json", JSON),
        ("*/*", JSON),
        ("text/html, */*;q=0.1", JSON),
        ("Application/JSON; charset=utf-8", JSON),
        ("*/*, application/json;q=0", HTML),
        ("application/json; q=0.0, */*", HTML),
        ("*/*;q=0, application/json;q=0.1", JSON),
    ],
)
async def test_an_error_is_json_only_to_those_who_accept_json(world: World, accept: str | None, kind: str) -> None:
    request = world.http.build_request("GET", "/me")
    del request.headers["Accept"]
    if accept is not None:
        request.headers["Accept"] = accept
    answer = await world.http.send(request)
    assert (answer.status_code, answer.headers["content-type"]) == (401, kind)
    assert "Not authenticated" in answer.text
    assert answer.headers["WWW-Authenticate"].startswith("Bearer ")
    assert len(answer.headers["X-Request-ID"]) == 36


async def test_an_error_page_escapes_the_request(world: World) -> None:
    _, headers, body = render_error(errors.bad_request("<script>alert(1)</script>"), [], "http://test")
    assert dict(headers)[b"content-security-policy"] == b"default-src 'none'; frame-ancestors 'none'"
    assert dict(headers)[b"x-frame-options"] == b"DENY"
    assert b"<script>" not in body
    assert b"&lt;script&gt;" in body


@pytest.mark.parametrize(
    "path", ["/nothing", "/agents/", "/agents/a/b/c", "//", "/../openapi.yaml", "/sessions/x/events/ws"]
)
async def test_a_path_that_is_not_there(world: World, path: str) -> None:
    expected = (404, "NotFound", "The requested URL was not found on the server.")
    assert error(await world.ask("GET", path)) == expected


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/agents", {"GET", "HEAD", "POST"}),
        ("DELETE", "/me", {"GET", "HEAD"}),
        ("GET", "/workspace_agents/x", {"DELETE", "PATCH"}),
        ("OPTIONS", "/agents/x", {"GET", "HEAD", "PATCH"}),
    ],
)
async def test_a_method_that_is_not_there(world: World, method: str, path: str, allow: set[str]) -> None:
    answer = await world.ask(method, path)
    assert error(answer) == (405, "MethodNotAllowed", "The method is not allowed for the requested URL.")
    assert set(answer.headers["Allow"].split(", ")) == allow


async def test_an_unexpected_failure_is_a_500_without_an_error_field(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the cause")

    monkeypatch.setattr(world.store, "read", broken)
    answer = await world.get("/me", world.full)
    assert (answer.status_code, answer.json()) == (500, {"message": "Something went wrong"})
    assert "the cause" in caplog.text
    assert answer.headers["X-Request-ID"] in caplog.text
    assert world.full.partition(":")[2] not in caplog.text


async def test_request_ids_differ(world: World) -> None:
    seen = {(await world.get("/agents")).headers["X-Request-ID"] for _ in range(5)}
    assert len(seen) == 5


async def test_head_answers_as_get_without_a_body(world: World) -> None:
    answer = await world.ask("HEAD", "/agents")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["Content-Length"]) > 0
