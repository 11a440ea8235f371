"""Many sockets at once: what they send, and whether they may listen."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection as Database
from sqlalchemy.exc import TimeoutError as PoolTimeout

from agentbook.service import state
from agentbook.service.http import websocket
from service.http.raw import handshake, listening
from service.world import World

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "failure",
    [PoolTimeout("QueuePool limit"), sqlite3.OperationalError("disk I/O error"), RuntimeError("anything")],
    ids=["no free connection", "disk", "any other"],
)
async def test_access_is_checked_again_after_a_failure_of_the_store(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, failure: Exception
) -> None:
    monkeypatch.setattr(state, "ACCESS_CHECK_S", 0.01)
    platform = world.platforms[0]
    hub, read = platform.hub, platform.store.read
    failures = [failure] * 2

    async def read_later(work: Callable[[Database], Any]) -> Any:
        if failures:
            raise failures.pop()
        return await read(work)

    await world.start_platforms()
    monkeypatch.setattr(platform.store, "read", read_later)
    with hub.listening("session"):
        async with asyncio.timeout(20):
            for noticed in (1, 2):
                world.store.write_now(lambda tx: tx.change_access())  # as the command line does
                while hub.access_changes < noticed:
                    await asyncio.sleep(0.01)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2


async def test_a_key_that_is_revoked_while_a_text_waits_for_its_turn_does_not_get_it(
    world: World, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:

    async def wait(_limiter: websocket.PerTickLimiter, texts: list[str]) -> None:
        assert texts
        world.change("api_keys", world.full.partition(":")[0], revoked_at=world.store.clock.instant())
        world.platform.hub.recheck_access()

    monkeypatch.setattr(websocket.PerTickLimiter, "wait", wait)
    request = handshake(world, session)
    async with listening(world) as address, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(request)
        await reader.readuntil(b"\r\n\r\n")
        await world.post(f"/sessions/{session}/events", {"content": "again"}, world.full)
        closing = await reader.read()
        writer.close()
    assert closing[2:] == (4401).to_bytes(2) + b"Invalid API key", "a close, and no text before it"
    await world.idle()
