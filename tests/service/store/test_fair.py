"""Places are shared in turn, however many one waits for."""

from __future__ import annotations

import asyncio

import pytest

from agentbook.service.store.fair import FairQueue

pytestmark = pytest.mark.anyio


async def run_in_turn(queue: FairQueue, holders: str) -> tuple[str, int]:
    """The order in which places were held, and how many at a time."""
    order: list[str] = []
    holding = highest = 0

    async def hold(holder: str) -> None:
        nonlocal holding, highest
        async with queue.place(holder):
            order.append(holder)
            holding += 1
            highest = max(highest, holding)
            await asyncio.sleep(0)
            holding -= 1

    async with asyncio.timeout(20):
        await asyncio.gather(*map(hold, holders))
    return "".join(order), highest


async def test_a_crowd_delays_another_by_one_turn() -> None:
    assert await run_in_turn(FairQueue(1, each=1), "aaaaaabbc") == ("aabcabaaa", 1)


async def test_one_holds_only_a_part_of_the_places() -> None:
    queue = FairQueue(4, each=2)
    assert await run_in_turn(queue, "a" * 9) == ("a" * 9, 2)
    assert await run_in_turn(queue, "abcd" * 9) == ("abcd" * 9, 4)
    assert queue.waiting == 0


async def test_whoever_gives_up_leaves_no_place_taken() -> None:
    queue = FairQueue(1, each=1)

    async def hold(ended: asyncio.Event) -> None:
        async with queue.place("a"):
            await ended.wait()

    ended = asyncio.Event()
    tasks = [asyncio.create_task(hold(ended)) for _ in range(4)]
    await asyncio.sleep(0)
    assert queue.waiting == 3
    tasks[1].cancel()  # while it waits
    await asyncio.sleep(0)
    assert queue.waiting == 2
    tasks[0].cancel()  # gives its place to tasks[2] ...
    await asyncio.sleep(0)
    tasks[2].cancel()  # ... which gives up at the same moment
    ended.set()
    async with asyncio.timeout(20):
        await tasks[3]
        assert await run_in_turn(queue, "abc") == ("abc", 1)
