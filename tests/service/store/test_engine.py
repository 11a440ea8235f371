from __future__ import annotations

import os
import sqlite3
import stat
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection, bindparam, func, literal, select, update
from sqlalchemy.exc import DatabaseError, OperationalError

from agentbook.service.errors import OperatorError
from agentbook.service.store import Store, tables
from agentbook.service.store.engine import DAMAGED, fetch, unavailable_reason
from agentbook.service.store.lock import locked
from agentbook.service.store.tables import SCHEMA_VERSION
from service.databases import open_store

pytestmark = pytest.mark.anyio


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_the_data_directory_is_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    old = os.umask(0)
    try:
        store = Store(tmp_path)
        store.read_now(lambda db: None)
        assert mode(tmp_path) == 0o700
        assert {path.name: mode(path) for path in tmp_path.iterdir()} == {
            "store.db": 0o600,
            "store.db-wal": 0o600,
            "store.db-shm": 0o600,
        }
        store.close()
    finally:
        os.umask(old)


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_a_store_that_was_copied_here_becomes_private(tmp_path: Path) -> None:
    Store(tmp_path).close()
    (tmp_path / "store.db").chmod(0o644)
    store = Store(tmp_path)
    store.read_now(lambda db: None)
    assert {mode(path) for path in tmp_path.iterdir()} == {0o600}
    store.close()


@pytest.mark.parametrize("version", [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1])
def test_a_store_of_another_version_is_left_alone(tmp_path: Path, version: int) -> None:
    store = open_store(tmp_path)
    this = tables.meta.c.name == "schema_version"
    store.write_now(lambda tx: tx.db.execute(update(tables.meta).where(this).values(value=str(version))))
    store.close()
    with pytest.raises(OperatorError, match=rf"schema {version}.*another --data directory"):
        open_store(tmp_path)


def test_a_file_that_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"not a database, and longer than a header" * 100)
    with pytest.raises(OperatorError, match="Cannot open the store"):
        Store(tmp_path)


@pytest.mark.parametrize("table", ["notes (text)", "meta (name, value)", "meta (key, value)"])
def test_a_database_of_another_program_is_left_alone(tmp_path: Path, table: str) -> None:
    file = tmp_path / "store.db"
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"CREATE TABLE {table}")
    file.chmod(0o644)
    before = file.read_bytes()
    with pytest.raises(OperatorError, match="another program"):
        Store(tmp_path)
    assert (file.read_bytes(), mode(file)) == (before, 0o644)
    assert list(tmp_path.iterdir()) == [file]


def test_a_data_directory_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OperatorError, match=r"Cannot write to the data directory .*file/data"):
        Store(tmp_path / "file" / "data")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "could not be understood"),
        ("mysql://host/name", "takes a PostgreSQL URL"),
        ("postgresql://nobody:hunter2@127.0.0.1:1/none?connect_timeout=2", "Cannot open the store|needs the extra"),
    ],
)
def test_a_database_that_cannot_be_used(tmp_path: Path, url: str, message: str) -> None:
    with pytest.raises(OperatorError, match=message) as caught:
        Store(tmp_path, url)
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_one_process_holds_the_lock(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(OperatorError, match=rf"\(pid {os.getpid()}\) is using"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


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
