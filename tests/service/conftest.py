from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from service.world import World


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path / "data")
    yield made
    await made.aclose()
