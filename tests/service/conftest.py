from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

from agentbook.service import demo
from agentbook.service.store import tables
from service import databases
from service.world import World

DEMO_NOW = datetime(2026, 11, 20, 15, 30, tzinfo=UTC)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def databases_are_given_back(request: pytest.FixtureRequest) -> Iterator[None]:
    """On PostgreSQL, a test's databases are lent to the next (see `databases`)."""
    folder = None
    if databases.VARIABLE in os.environ and "tmp_path" in request.fixturenames:
        folder = request.getfixturevalue("tmp_path")
    yield
    if folder is not None:
        databases.give_back(folder)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path / "data")
    await made.start_platforms()
    yield made
    await made.aclose()


@pytest.fixture
def filled(world: World) -> World:
    """The world with a workspace ``lab`` and a scripted agent ``helper`` of acme."""
    world.workspace()
    world.agent_row()
    return world


@pytest.fixture
async def session(filled: World) -> str:
    """A session in that workspace, in which the agent has answered."""
    session = await filled.start("hello")
    await filled.idle()
    return session


@pytest.fixture(scope="session")
def demo_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A database with the demo data, for all tests that query them."""
    engine = create_engine(f"sqlite:///{tmp_path_factory.mktemp('store') / 'store.db'}")
    tables.metadata.create_all(engine)
    with engine.begin() as connection:
        demo.write(connection, now=DEMO_NOW)
    yield engine
    engine.dispose()


@pytest.fixture(scope="session")
def cluster() -> Iterator[databases.Cluster]:
    """A PostgreSQL server for all tests of this process that want one."""
    binaries = databases.server_binaries()
    if binaries is None:
        pytest.skip(databases.HOW_TO_GET_IT)
    with databases.Cluster(binaries) as running:
        yield running
