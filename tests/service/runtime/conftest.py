"""One store with the demo data, for all tests that ask the analyst."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

from agentbook.service import demo
from agentbook.service.store import tables

NOW = datetime(2026, 11, 20, 15, 30, tzinfo=UTC)


@pytest.fixture(scope="session")
def demo_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path: Path = tmp_path_factory.mktemp("store") / "store.db"
    engine = create_engine(f"sqlite:///{path}")
    tables.metadata.create_all(engine)
    with engine.begin() as connection:
        demo.write(connection, seed=7, now=NOW)
    yield engine
    engine.dispose()
