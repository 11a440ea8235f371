"""A comparison of scripted agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agentbook.chat.compare.compare import Compare
from chat.compare.agents import Agents, breaks, fails, never, shout
from chat.fakes import echo


@pytest.fixture
def agents() -> Agents:
    return Agents(echo=echo, shout=shout, fails=fails, breaks=breaks, never=never)


@pytest.fixture
def make(agents: Agents) -> Iterator[Callable[..., Compare]]:
    compares: list[Compare] = []

    def build(*names: Any, **options: Any) -> Compare:
        compare = Compare(agents, "acme~lab", names, follow=agents.follow, **options)  # type: ignore[arg-type]
        compares.append(compare)
        return compare

    yield build
    for compare in compares:
        compare.close()
