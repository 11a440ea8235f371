"""Places are shared in turn, however many one waits for."""

from __future__ import annotations

import asyncio
import threading

import pytest
from sqlalchemy import Connection

from agentbook.service.store import Store
from agentbook.service.store.fair import FairQueue
from service.world import World, on_sqlite

pytestmark = pytest.mark.anyio


async def run_in_turn(queue: FairQueue, holders: str) -> tuple[str, int]:
    """The order in which slots were held, and how many at a time."""
    order: list[str] = []
    holding = highest = 0

    async def hold(holder: str) -> None:
        nonlocal holding, highest
        async with queue.slot(holder):
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


async def test_one_holds_only_a_part_of_the_slots() -> None:
    queue = FairQueue(4, each=2)
    assert await run_in_turn(queue, "a" * 9) == ("a" * 9, 2)
    assert await run_in_turn(queue, "abcd" * 9) == ("abcd" * 9, 4)
    assert queue.waiting == 0


async def test_a_smaller_share_is_kept_to_and_forgotten() -> None:
    queue, highest, holding = FairQueue(4, each=2), 0, 0

    async def hold() -> None:
        nonlocal highest, holding
        async with queue.slot("a", share=1):
            holding += 1
            highest = max(highest, holding)
            await asyncio.sleep(0)
            holding -= 1

    async with asyncio.timeout(20):
        await asyncio.gather(*(hold() for _ in range(5)))
    assert highest == 1
    assert queue._shares == {}
    assert await run_in_turn(queue, "a" * 9) == ("a" * 9, 2)


async def busy_threads(store: Store, *, anonymous: bool) -> int:
    """How many of four reads of one reader run at a time."""
    running = highest = 0
    lock, pair = threading.Lock(), threading.Barrier(2)

    def work(_db: Connection) -> None:
        nonlocal running, highest
        with lock:
            running += 1
            highest = max(highest, running)
        if not anonymous:
            pair.wait(20)
        with lock:
            running -= 1

    await asyncio.gather(*(store.read(work, reader="a", anonymous=anonymous) for _ in range(4)))
    return highest


@on_sqlite("a question about it")
async def test_reads_without_a_credential_keep_a_single_thread_busy(world: World) -> None:
    """More of them would take the interpreter from the loop, which serves keys."""
    assert await busy_threads(world.store, anonymous=True) == 1
    assert await busy_threads(world.store, anonymous=False) == 2


async def test_whoever_gives_up_leaves_no_slot_taken() -> None:
    queue = FairQueue(1, each=1)

    async def hold(ended: asyncio.Event) -> None:
        async with queue.slot("a"):
            await ended.wait()

    ended = asyncio.Event()
    tasks = [asyncio.create_task(hold(ended)) for _ in range(4)]
    await asyncio.sleep(0)
    assert queue.waiting == 3
    tasks[1].cancel()  # while it waits
    await asyncio.sleep(0)
    assert queue.waiting == 2
    tasks[0].cancel()  # gives its slot to tasks[2] ...
    await asyncio.sleep(0)
    tasks[2].cancel()  # ... which gives up at the same moment
    ended.set()
    async with asyncio.timeout(20):
        await tasks[3]
        assert await run_in_turn(queue, "abc") == ("abc", 1)


async def test_whoever_queues_behind_one_that_gives_up_gets_the_free_slot() -> None:
    queue = FairQueue(1, each=1)

    async def hold(ended: asyncio.Event) -> None:
        async with queue.slot("a"):
            await ended.wait()

    ended = asyncio.Event()
    holding, waiting = (asyncio.create_task(hold(ended)) for _ in range(2))
    await asyncio.sleep(0)
    # In one turn of the loop: the only one in the queue gives up, the slot becomes
    # free, and another comes before that one has left the queue.
    asyncio.get_running_loop().call_soon(waiting.cancel)
    ended.set()
    late = asyncio.create_task(hold(ended))
    async with asyncio.timeout(20):
        await asyncio.gather(holding, waiting, late, return_exceptions=True)
    assert late.exception() is None
    assert queue.waiting == 0
