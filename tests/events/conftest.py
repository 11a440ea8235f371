from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.fake_platform.over_socket import SocketPlatform


@pytest.fixture
def platform() -> Iterator[SocketPlatform]:
    with SocketPlatform() as running:
        yield running
