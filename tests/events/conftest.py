from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import agentbook as ab
from agentbook.events import reader
from support.fake_platform.over_socket import SocketPlatform


@pytest.fixture
def platform() -> Iterator[SocketPlatform]:
    with SocketPlatform() as running:
        yield running


@pytest.fixture
def client(platform: SocketPlatform) -> Iterator[Any]:
    with ab.Client(platform.base_url, credentials="id1:s3cret-4711") as client:
        yield client


@pytest.fixture
def quick_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "BACKOFF_S", 0.002)
