"""A panel on a platform of one process; and property tests have no deadline: how long one takes, the machine's load decides."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from agentbook.chat.panel import ChatPanel

from .fakes import FakePlatform, echo
from .panels import make

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
