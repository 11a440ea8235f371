"""Processes that share a window admit its limit together, within the stated error."""

from __future__ import annotations

import asyncio
import random

import pytest

from agentbook.service.cluster.quota import PIECES, RequestQuota
from agentbook.service.http.guard import Window

pytestmark = pytest.mark.anyio


class Table:
    """What `take_piece` does, without a database."""

    def __init__(self) -> None:
        self.taken: dict[tuple[int, str], int] = {}
        self.upserts = 0
        self.is_away = False

    def take(self, minute: int, key: str, piece: int) -> int:
        if self.is_away:
            raise OSError("the server is away")
        self.upserts += 1
        self.taken[minute, key] = self.taken.get((minute, key), 0) + piece
        return self.taken[minute, key]


class Platform:
    """Windows of several processes."""

    def __init__(self, processes: int, limit: int) -> None:
        self.now = 0.0
        self.table = Table()
        self.windows = [
            Window(limit, lambda: self.now, RequestQuota(self.table.take).reserve) for _ in range(processes)
        ]

    async def admits(self, process: int, key: str = "192.0.2.1") -> bool:
        return await self.windows[process].admit(key)

    async def count(self, requests: int, choose: random.Random) -> int:
        """How many requests are admitted, each by any process."""
        processes = len(self.windows)
        return sum([await self.admits(choose.randrange(processes)) for _ in range(requests)])


@pytest.mark.parametrize("limit", [1, 5, 150, 199])
async def test_a_limit_below_two_hundred_is_exact(limit: int) -> None:
    platform = Platform(3, limit)
    for minute in range(2):
        platform.now = minute * 60.0
        assert await platform.count(limit * 2, random.Random(limit)) == limit


@pytest.mark.parametrize("processes", [2, 4])
async def test_a_larger_one_is_exact_to_a_hundredth_for_each_other_process(processes: int) -> None:
    limit = 5_000
    platform = Platform(processes, limit)
    admitted = await platform.count(2 * limit, random.Random(7))
    assert limit - (processes - 1) * limit // PIECES <= admitted <= limit
    assert platform.table.upserts < limit / 5, "most requests ask nobody"


async def test_one_process_may_use_what_the_others_leave() -> None:
    platform = Platform(2, 1_000)
    assert await platform.admits(1)
    admitted = sum([await platform.admits(0) for _ in range(2_000)])
    assert admitted == 1_000 - 1_000 // PIECES


async def test_whoever_is_refused_asks_nobody() -> None:
    platform = Platform(1, 5)
    await platform.count(10, random.Random(1))
    upserts = platform.table.upserts
    assert await platform.count(100, random.Random(1)) == 0
    assert platform.table.upserts == upserts


async def test_requests_that_wait_share_an_upsert() -> None:
    platform = Platform(1, 10_000)
    answers = await asyncio.gather(*(platform.admits(0) for _ in range(50)))
    assert all(answers)
    assert platform.table.upserts == 1


async def test_requests_at_the_same_time_are_within_the_limit() -> None:
    platform = Platform(2, 20)
    answers = await asyncio.gather(*(platform.admits(number % 2) for number in range(100)))
    assert sum(answers) == 20


async def test_without_the_database_each_process_counts_for_itself(caplog: pytest.LogCaptureFixture) -> None:
    platform = Platform(2, 10)
    platform.table.is_away = True
    assert [sum([await platform.admits(process) for _ in range(20)]) for process in (0, 1)] == [10, 10]
    assert "this process counts for itself" in caplog.text
    platform.table.is_away, platform.now = False, 60.0
    assert await platform.count(40, random.Random(5)) == 10


async def test_a_minute_that_begins_while_a_process_asks_is_another_window() -> None:
    platform = Platform(1, 2)
    asking = asyncio.create_task(platform.admits(0))
    await asyncio.sleep(0)
    platform.now = 60.0
    assert await asking, "it counts for the minute in which it came"
    assert await platform.count(5, random.Random(2)) == 2
