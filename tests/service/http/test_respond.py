from __future__ import annotations

from functools import partial
from typing import Any

import httpx
import pytest

from agentbook.service.discovery_file import proof
from agentbook.service.http.app import build
from service.world import World

pytestmark = pytest.mark.anyio


async def test_no_response_is_stored_or_sniffed(world: World) -> None:
    """Keys, tokens and private records are in them; errors echo what was sent."""
    made = await world.post("/workspaces", {"name": "lab"}, world.full)
    assert made.status_code == 201
    others = [
        await world.get(path, world.full) for path in ("/me", "/agents", "/agents/nothing", "/docs", "/openapi.yaml")
    ]
    others.append(await world.ask("GET", "/me", headers={"Accept": "text/html"}))
    others.append(await world.ask("POST", "/oauth/token"))
    for answer in (made, *others):
        assert answer.headers["cache-control"] == "no-store", answer.url
        assert answer.headers["x-content-type-options"] == "nosniff", answer.url


async def test_what_a_caller_sends_is_no_line_of_the_log(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: Any) -> None:
        raise RuntimeError("a bug")

    for platform in world.platforms:
        monkeypatch.setattr(platform.store, "read", fail)
    assert (await world.get("/agents/a%0a%0d%e2%80%a8forged")).status_code == 500
    [line] = [record.getMessage() for record in caplog.records]
    assert line.splitlines() == [line]
    assert "forged" in line


BASE_URL = "http://127.0.0.1:8765/v1"
NONCE = "n" * 32


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", f"/_proof?nonce={NONCE}", 200),
        ("POST", f"/_proof?nonce={NONCE}", 405),
        ("GET", f"/v1/_proof?nonce={NONCE}", 404),
        ("GET", "/_proof?nonce=short", 404),
        ("GET", f"/_proof?nonce={NONCE}%00", 404),
        ("GET", f"/_proof?nonce={NONCE * 5}", 404),
        ("GET", "/_proof", 404),
    ],
)
async def test_a_nonce_is_answered_with_the_token(world: World, method: str, target: str, status: int) -> None:
    app = build(world.platform, prove=partial(proof, "t0ken", BASE_URL))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8765") as client:
        reply = await client.request(method, target)
    assert reply.status_code == status
    assert "t0ken" not in reply.text
    if status == 200:
        assert reply.text == proof("t0ken", BASE_URL, NONCE)


def test_the_answer_depends_on_token_nonce_and_address() -> None:
    answers = {proof("t", BASE_URL, "n"), proof("x", BASE_URL, "n"), proof("t", BASE_URL, "x"), proof("t", "x", "n")}
    assert len(answers) == 4
