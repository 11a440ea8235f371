"""A panel on an in-process platform.

Property tests have no deadline, because their duration depends on the machine's load.
"""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from agentbook.chat.panel import ChatPanel
from chat.fakes import FakePlatform, echo
from chat.panels import make

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


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
