from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from agentbook.service import contract, errors
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


async def test_what_led_to_an_error_is_forgotten_with_its_answer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body of a megabyte would wait for the garbage collector."""

    class Body:
        """What a frame of the failure holds."""

    held: list[weakref.ref[Body]] = []

    def check(_raw: bytes) -> None:
        body = Body()
        held.append(weakref.ref(body))
        raise errors.bad_request()

    monkeypatch.setattr(contract, "_check_size", check)
    gc.disable()
    try:
        for length in (10, 10_000):  # on the loop, and in a thread
            answer = await world.post("/agents", {"name": "x" * length}, world.full)
            assert answer.status_code == 400
        await asyncio.sleep(0)
        assert [body() for body in held] == [None, None]
    finally:
        gc.enable()
