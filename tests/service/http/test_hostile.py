"""Hostile names, texts and requests get a 4xx, never a 5xx."""

from __future__ import annotations

import itertools
import re
from urllib.parse import quote

import pytest

from agentbook.service import contract
from service.world import World, error

pytestmark = pytest.mark.anyio

HOSTILE = [
    "../../../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "' OR '1'='1' --",
    "x'; DROP TABLE events; --",
    "x\r\nX-Evil: 1",
    "x\x00y",
    "%",
    "_%",
    "\x7f\x1b[31m",
    "\u202egnp.exe",
    "𝕏" * 50,
    "x" * 5000,
    "~",
    "acme~",
    "{}",
    "${jndi:ldap://x}",
    "<script>alert(1)</script>",
]


async def test_a_hostile_name_in_a_path_is_not_found(filled: World) -> None:
    operations = [operation for operation in contract.load().operations.values() if "{" in operation.path]
    for operation, text in itertools.product(operations, HOSTILE):
        path = re.sub(r"\{\w+\}", lambda _, text=text: quote(text, safe=""), operation.path)
        body = {"json": {}} if operation.has_body else {}
        answer = await filled.ask(operation.method, path, filled.full, **body)
        assert answer.status_code in (400, 401, 404, 405), (operation.id, text, answer.text)
        assert "x-evil" not in answer.headers


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_text_is_stored_as_text(text: str, filled: World) -> None:
    """Text is stored unchanged or rejected by name, and filters match it literally."""
    answer = await filled.post("/agents", {"name": "plain", "description": text}, filled.full)
    if "\x00" in text:
        assert error(answer)[:2] == (400, "InvalidInputError")
        assert "body.description" in error(answer)[2]
    else:
        assert answer.status_code == 201
        assert answer.json()["description"] == text
    named = await filled.post("/workspaces", {"name": text}, filled.full)
    if named.status_code == 201:
        assert named.json()["name"] == text
        listed = await filled.get("/accounts/acme/workspaces", filled.full)
        assert text in {item["name"] for item in listed.json()["items"]}
    else:
        assert error(named)[:2] == (400, "InvalidInputError")
        assert "body.name" in error(named)[2]
    answer = await filled.get("/agents", filled.full, search=text)
    if "\x00" not in text:
        assert answer.status_code == 200
        assert {item["name"] for item in answer.json()["items"]} <= {"plain"}, "only what holds the text"
    assert filled.rows("events") == []
