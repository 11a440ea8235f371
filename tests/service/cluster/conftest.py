from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from service.databases import PLATFORMS, VARIABLE, Cluster, give_back
from service.world import World


@pytest.fixture(autouse=True)
def own_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests say themselves how many processes there are, and on what."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv(PLATFORMS, raising=False)


@pytest.fixture
async def worlds(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[World]]:
    """Two processes of a platform, with a workspace and a scripted agent."""
    monkeypatch.setenv(VARIABLE, cluster.url)
    first = World(tmp_path / "data")
    second = World(tmp_path / "data", beside=first)
    first.workspace()
    first.agent_row()
    for world in (first, second):
        await world.platform.start()
    yield [first, second]
    for world in (first, second):
        await world.aclose()
    give_back(tmp_path)
