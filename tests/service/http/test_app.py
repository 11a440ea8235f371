"""The service proves that it is the one of its discovery file."""

from __future__ import annotations

from functools import partial

import httpx
import pytest

from agentbook.service.discovery_file import proof
from agentbook.service.http.app import build
from service.world import World

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
