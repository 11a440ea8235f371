"""How many journeys to PostgreSQL a request and a turn take: each costs its latency."""

from __future__ import annotations

import asyncio
import statistics
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from service.cluster.test_bus import terminate
from service.databases import VARIABLE, Cluster, give_back
from service.wire_trace import WireTrace
from service.world import World

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="psycopg traces connections on Linux only"),
]


@pytest.fixture
async def world(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """A process that has written nothing, and was not started: it does no more."""
    monkeypatch.setenv(VARIABLE, cluster.url)
    first = World(tmp_path / "data")
    first.workspace()
    first.agent_row()
    second = World(tmp_path / "data", beside=first)
    yield second
    for world in (first, second):
        await world.aclose()
    give_back(tmp_path)


async def test_requests_and_turns_take_few_journeys(world: World, tmp_path: Path) -> None:
    wire = WireTrace(world.store, tmp_path / "trace")
    session = await world.start("hello")
    await world.idle()

    async def journeys(method: str, path: str, **body: Any) -> int:
        counts = []
        for _ in range(9):  # the driver prepares a statement once it is common
            wire.clear()
            answer = await world.ask(method, path, world.full, **body)
            assert answer.is_success, answer.text
            await world.idle()
            counts.append(wire.journeys)
        return statistics.mode(counts)

    message = {"json": {"content": "again"}}
    counts = {
        # Begin, key, account, two statements on its members, two on its agents, commit.
        "GET me": await journeys("GET", "/me"),
        # Begin, key, session, size of the page, page, commit.
        "GET events": await journeys("GET", f"/sessions/{session}/events"),
        # The key; five to prepare the turn (begin, most of it, history, installed
        # agents, commit); and what it takes to store the message and the outcome.
        "message and turn": await journeys("POST", f"/sessions/{session}/events", **message),
    }
    wire.close()
    assert counts == {"GET me": 7, "GET events": 6, "message and turn": 14}


async def test_a_connection_that_was_ended_is_noticed_before_it_is_used(world: World) -> None:
    """Without a journey: the server has said so."""
    for _ in range(3):
        assert (await world.get("/me", world.full)).status_code == 200
        assert terminate(world.store, "pid <> pg_backend_pid()") > 0
        while terminate(world.store, "pid <> pg_backend_pid()"):  # they end soon
            await asyncio.sleep(0.01)
