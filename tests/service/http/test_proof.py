"""The service proves that it is the one of its discovery file."""

from __future__ import annotations

import httpx
import pytest
from starlette.applications import Starlette

from agentbook.service.discovery_file import proof
from agentbook.service.http.proof import ProofOfIdentity

BASE_URL = "http://127.0.0.1:8765/v1"
NONCE = "n" * 32


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", f"/_proof?nonce={NONCE}", 200),
        ("POST", f"/_proof?nonce={NONCE}", 404),
        ("GET", f"/v1/_proof?nonce={NONCE}", 404),
        ("GET", "/_proof?nonce=short", 404),
        ("GET", f"/_proof?nonce={NONCE}%00", 404),
        ("GET", f"/_proof?nonce={NONCE * 5}", 404),
        ("GET", "/_proof", 404),
    ],
)
async def test_a_nonce_is_answered_with_the_token(method: str, target: str, status: int) -> None:
    app = ProofOfIdentity(Starlette(), "t0ken", BASE_URL)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8765") as client:
        reply = await client.request(method, target)
    assert reply.status_code == status
    assert "t0ken" not in reply.text
    if status == 200:
        assert reply.text == proof("t0ken", NONCE, BASE_URL)


def test_the_answer_depends_on_token_nonce_and_address() -> None:
    answers = {proof("t", "n", BASE_URL), proof("x", "n", BASE_URL), proof("t", "x", BASE_URL), proof("t", "n", "x")}
    assert len(answers) == 4
