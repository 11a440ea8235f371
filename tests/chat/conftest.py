"""A panel on an in-process platform."""

from collections.abc import Iterator

import pytest

from agentbook.chat.panel import ChatPanel
from chat.fakes import FakePlatform, echo
from chat.panels import MADE, make


@pytest.fixture
def platform() -> FakePlatform:
    return FakePlatform(echo)


@pytest.fixture
def panel(platform: FakePlatform) -> ChatPanel:
    return make(platform)


@pytest.fixture(autouse=True)
def panels_are_closed() -> Iterator[None]:
    yield
    while MADE:
        MADE.pop().close()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
