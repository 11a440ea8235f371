"""A panel on an in-process platform."""

from collections.abc import Iterator

import pytest

from agentbook.chat.panel import ChatPanel
from chat.fakes import FakePlatform, echo
from chat.panels import make


@pytest.fixture
def platform() -> FakePlatform:
    return FakePlatform(echo)


@pytest.fixture
def panel(platform: FakePlatform) -> Iterator[ChatPanel]:
    panel = make(platform)
    yield panel
    panel.close()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
