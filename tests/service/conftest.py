from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

from agentbook.service import demo
from agentbook.service.store import tables
from service.world import World

DEMO_NOW = datetime(2026, 11, 20, 15, 30, tzinfo=UTC)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path / "data")
    yield made
    await made.aclose()


@pytest.fixture(scope="session")
def demo_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A database with the demo data, for all tests that query them."""
    engine = create_engine(f"sqlite:///{tmp_path_factory.mktemp('store') / 'store.db'}")
    tables.metadata.create_all(engine)
    with engine.begin() as connection:
        demo.write(connection, seed=7, now=DEMO_NOW)
    yield engine
    engine.dispose()
