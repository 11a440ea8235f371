"""The bus of a platform, between two stores on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agentbook.service.cluster.bus import MAX_VALUE_BYTES, Bus
from agentbook.service.store import Store
from service.databases import Cluster, database_url, give_back

pytestmark = pytest.mark.anyio


class Pair:
    """Two processes of a platform: what one publishes on ``t``, the other hears."""

    def __init__(self, stores: list[Store]) -> None:
        self.stores = stores
        self.buses = [Bus(store, str(number)) for number, store in enumerate(stores)]
        self.heard: list[list[Any]] = [[] for _ in stores]
        self.connected = [0 for _ in stores]
        for number, bus in enumerate(self.buses):
            bus.subscribe("t", self.heard[number].append)
            bus.on_reconnect(lambda number=number: self._count(number))  # type: ignore[misc]

    def _count(self, number: int) -> None:
        self.connected[number] += 1

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.002)


@pytest.fixture
async def pair(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Pair]:
    url = database_url(cluster.url, tmp_path)
    stores = [Store(tmp_path, url) for _ in range(2)]
    made = Pair(stores)
    for bus in made.buses:
        await bus.start()
    yield made
    for bus in made.buses:
        await bus.aclose()
    for store in stores:
        store.close()
    give_back(tmp_path)


def terminate(store: Store, condition: str) -> int:
    """End the connections of the store's database that satisfy a condition."""
    with psycopg.connect(**store.connection_parameters(), autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            f"AND pid <> pg_backend_pid() AND {condition}"
        ).fetchall()
    return len(rows)


async def test_the_other_process_hears_everything_in_order(pair: Pair) -> None:
    first, second = pair.buses
    for number in range(2000):
        first.notify("t", {"number": number, "text": "é\u0000'"})
    second.notify("t", "hello")
    await pair.until(lambda: len(pair.heard[1]) == 2000 and bool(pair.heard[0]))
    assert [value["number"] for value in pair.heard[1]] == list(range(2000))
    assert pair.heard[1][0]["text"] == "é\u0000'"
    assert pair.heard[0] == ["hello"]  # not its own


async def test_a_message_may_fill_a_notification_and_no_more(pair: Pair) -> None:
    longest = "x" * (MAX_VALUE_BYTES - len('["t",""]'))
    pair.buses[0].notify("t", longest)
    pair.buses[0].notify("t", "next")
    await pair.until(lambda: len(pair.heard[1]) == 2)
    assert pair.heard[1] == [longest, "next"]
    with pytest.raises(ValueError, match="too long for the bus"):
        pair.buses[0].notify("t", longest + "x")


async def test_a_subscriber_that_fails_does_not_deafen_the_others(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_value: Any) -> None:
        raise LookupError("on purpose")

    pair.buses[1].subscribe("other", fail)
    pair.buses[0].notify("other")
    pair.buses[0].notify("t", 1)
    await pair.until(lambda: pair.heard[1] == [1])
    assert "could not be handled" in caplog.text


async def test_a_listener_whose_connection_is_lost_listens_again_and_says_so(pair: Pair) -> None:
    assert pair.connected == [1, 1]
    assert terminate(pair.stores[0], "query LIKE 'LISTEN%'") == 2
    await pair.until(lambda: pair.connected == [2, 2])
    pair.buses[0].notify("t", "after")
    await pair.until(lambda: "after" in pair.heard[1])


async def test_what_was_published_while_the_sender_had_no_connection_is_sent_later(pair: Pair) -> None:
    pair.buses[0].notify("t", 0)
    await pair.until(lambda: pair.heard[1] == [0])
    assert terminate(pair.stores[0], "query LIKE '%pg_notify%'") == 1
    for number in range(1, 100):
        pair.buses[0].notify("t", number)
    await pair.until(lambda: 99 in pair.heard[1])
    assert sorted(set(pair.heard[1])) == list(range(100))


async def test_one_that_closes_sends_what_waits(pair: Pair) -> None:
    for number in range(100):
        pair.buses[0].notify("t", number)
    await pair.buses[0].aclose()
    await pair.until(lambda: pair.heard[1] == list(range(100)))


async def test_what_is_published_before_the_start_is_nobodys(cluster: Cluster, tmp_path: Path) -> None:
    with contextlib.closing(Store(tmp_path, database_url(cluster.url, tmp_path))) as store:
        bus = Bus(store, "p")
        bus.notify("t", 1)
        await bus.aclose()
    give_back(tmp_path)
