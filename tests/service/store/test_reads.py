"""Reads begin on the loop, and do not hold it up."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection, bindparam, event, func, insert, literal, select
from sqlalchemy.exc import DatabaseError, OperationalError

from agentbook.service.store import Store, Transaction, tables
from agentbook.service.store.engine import DAMAGED, fetch, unavailable_reason

pytestmark = pytest.mark.anyio

COUNT = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT max(i) FROM n"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = Store(tmp_path)
    yield store
    store.close()


def count_to(db: Connection, last: int) -> tuple[int, threading.Thread]:
    return db.exec_driver_sql(COUNT.format(last)).scalar_one(), threading.current_thread()


def count_by_driver(db: Connection, last: int) -> tuple[int, threading.Thread]:
    numbers = select(literal(1).label("i")).cte(recursive=True)
    numbers = numbers.union_all(select(numbers.c.i + 1).where(numbers.c.i < bindparam("last")))
    [row] = fetch(db, select(func.max(numbers.c.i).label("last")), {"last": last})
    return row["last"], threading.current_thread()


@pytest.mark.parametrize("count", [count_to, count_by_driver])
async def test_a_read_that_takes_long_is_repeated_in_a_thread(
    store: Store, count: Callable[[Connection, int], tuple[int, threading.Thread]]
) -> None:
    assert await store.read(lambda db: count(db, 10)) == (10, threading.current_thread())
    counted, thread = await store.read(lambda db: count(db, 1_000_000))
    assert counted == 1_000_000
    assert thread is not threading.current_thread()
    assert await store.read(lambda db: count(db, 10)) == (10, threading.current_thread())


async def test_a_read_that_takes_too_long_is_ended(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbook.service.store._READ_S", 0.05)
    with pytest.raises(OperationalError) as raised:
        await store.read(lambda db: count_to(db, 10**12))
    assert unavailable_reason(raised.value) is not None, "it is answered 503"
    store.read_now(lambda db: count_to(db, 1_000_000))
    monkeypatch.setattr("agentbook.service.store._READ_S", 60.0)
    assert (await store.read(lambda db: count_to(db, 1_000_000)))[0] == 1_000_000


async def test_a_damaged_store_says_so_to_whoever_asks_whether_it_is_sound(tmp_path: Path) -> None:
    Store(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "store.db")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'skills'").fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    with open(tmp_path / "store.db", "r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"damaged " * (size // 8))
    store = Store(tmp_path)
    await store.check()
    with pytest.raises(DatabaseError) as raised:
        await store.read(lambda db: db.exec_driver_sql("SELECT * FROM skills NOT INDEXED").all())
    assert unavailable_reason(raised.value) == DAMAGED
    with pytest.raises(DatabaseError):
        await store.check()
    store.close()


async def test_a_disk_that_has_room_for_short_writes_only_is_full(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def allow(pages: int) -> None:
        event.listen(store.engine, "connect", lambda db, _: db.execute(f"PRAGMA max_page_count = {pages}"))
        store.engine.dispose()

    def write(tx: Transaction) -> None:
        tx.db.execute(insert(tables.meta), {"name": "long", "value": "x" * 200_000})

    allow(store.read_now(lambda db: db.exec_driver_sql("PRAGMA page_count").scalar_one()) + 20)
    await store.check()
    with pytest.raises(OperationalError, match="full"):
        await store.write(write)
    for _ in range(2):
        with pytest.raises(OperationalError, match="full"):
            await store.check()
    allow(10_000)
    await store.check()
    await store.write(write)
    store.close()
