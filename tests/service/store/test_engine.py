from __future__ import annotations

import os
import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import update

from agentbook.service.discovery_file import default_data
from agentbook.service.errors import OperatorError
from agentbook.service.store import Store, tables
from agentbook.service.store.lock import locked
from agentbook.service.store.tables import SCHEMA_VERSION
from service.databases import open_store


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


def test_the_default_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENTBOOK_DATA", str(tmp_path / "here"))
    assert default_data() == tmp_path / "here"
    monkeypatch.delenv("AGENTBOOK_DATA")
    assert default_data().name == "agentbook"


def test_only_one_process_holds_the_lock(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(OperatorError, match=rf"\(pid {os.getpid()}\) is using"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass
