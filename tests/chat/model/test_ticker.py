"""How often threads change while a reply is on its way."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from agentbook.chat.model import ticker
from agentbook.events import loop

USUAL_S = 0.005
FAST_S = ticker.SWITCH_S


@pytest.fixture(autouse=True)
def interval(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ticker, "_count", 0)
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(USUAL_S)
    yield
    sys.setswitchinterval(before_s)


def after(*calls: Callable[[], None]) -> list[float]:
    """The interval after each of the calls on the toolkit's thread, in seconds."""

    async def run() -> list[float]:
        ticker._count = 0  # a reply of an earlier test may have ended since the fixture
        return [call() or round(sys.getswitchinterval(), 6) for call in calls]

    return loop.run(run(), 60)


faster, reset = ticker.switch_faster, ticker.reset_switching


def test_the_interval_is_restored_after_the_last_reply() -> None:
    assert after(faster, faster, reset, reset) == [FAST_S, FAST_S, FAST_S, USUAL_S]
    assert after(faster, reset) == [FAST_S, USUAL_S]


def test_an_interval_that_another_sets_meanwhile_stays() -> None:
    def set_another() -> None:
        sys.setswitchinterval(0.02)

    assert after(faster, set_another, faster, reset, reset) == [
        FAST_S,
        0.02,
        0.02,
        0.02,
        0.02,
    ]


def test_a_shorter_interval_stays() -> None:
    sys.setswitchinterval(0.0001)
    assert after(faster, reset) == [0.0001, 0.0001]


def test_an_interval_as_short_that_another_sets_between_replies_stays() -> None:
    def set_another() -> None:
        sys.setswitchinterval(FAST_S)

    assert after(faster, reset, set_another, faster, reset) == [
        FAST_S,
        USUAL_S,
        FAST_S,
        FAST_S,
        FAST_S,
    ]


def test_other_threads_change_nothing() -> None:
    faster()
    assert sys.getswitchinterval() == USUAL_S
    assert after(faster) == [FAST_S]
    reset()
    assert sys.getswitchinterval() == FAST_S
