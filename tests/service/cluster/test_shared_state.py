"""What platforms on one database share: budgets, versions and connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from service.cluster.test_delivery import terminate
from service.databases import PLATFORMS, VARIABLE, Cluster
from service.world import World

pytestmark = pytest.mark.anyio

Worlds = Callable[..., Any]


@pytest.fixture
def worlds(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worlds:
    """Opens a world of two platforms on PostgreSQL."""
    monkeypatch.setenv(VARIABLE, cluster.url)
    monkeypatch.setenv(PLATFORMS, "2")

    @asynccontextmanager
    async def open_world(**options: Any) -> AsyncIterator[World]:
        world = World(tmp_path / "data", **options)
        await world.start_platforms()
        try:
            yield world
        finally:
            await world.aclose()

    return open_world


async def test_one_of_two_publications_at_the_same_time_succeeds(worlds: Worlds) -> None:
    async with worlds() as world:
        agent = world.agent_row(template="LLM")
        version = world.add(
            "agent_versions",
            agent_id=agent,
            creator_id=world.accounts["acme"],
            type="COMMITTED",
            version_number="1.0.0",
        )
        path = f"/agents/helper/versions/{version}/publish"
        answers = await asyncio.gather(*(world.post(path, {}, world.full) for _ in range(6)))
        assert sorted(answer.status_code for answer in answers)[1:] == [409] * 5


async def test_a_connection_that_was_ended_is_noticed_before_it_is_used(worlds: Worlds) -> None:
    async with worlds() as world:
        for _ in range(3):
            assert (await world.get("/me", world.full)).status_code == 200
            while terminate(world.store, "pid <> pg_backend_pid()"):  # they end soon
                await asyncio.sleep(0.01)
