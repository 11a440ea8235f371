from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.fake_openai import FakeOpenAI


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as endpoint:
        yield endpoint
