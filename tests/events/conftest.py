from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.fake_platform import FakePlatform


@pytest.fixture
def platform() -> Iterator[FakePlatform]:
    with FakePlatform() as running:
        yield running
