from __future__ import annotations

from typing import Any

import pytest

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
