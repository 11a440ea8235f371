from __future__ import annotations

import os
import sqlite3
import stat
import sys
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import func, insert, select, update

from agentbook.service import admin
from agentbook.service.data_directory import default_data
from agentbook.service.errors import OperatorError
from agentbook.service.store import Store, Transaction, events, tables
from agentbook.service.store.lock import DataLock
from agentbook.service.store.tables import SCHEMA_VERSION
from service.databases import open_store


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_connection_that_is_in_use_is_closed_when_it_is_given_back(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with store.engine.connect() as connection:
        driver = connection.connection.driver_connection
        store.close()
        assert connection.execute(select(func.count()).select_from(tables.accounts)).scalar() == 0
    assert driver is not None
    with pytest.raises((sqlite3.ProgrammingError, psycopg.OperationalError), match="closed"):
        driver.execute("SELECT 1")


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


def test_the_store_is_in_wal_mode(tmp_path: Path) -> None:
    Store(tmp_path).close()
    assert sqlite3.connect(tmp_path / "store.db").execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_store_of_another_version_is_left_alone(tmp_path: Path) -> None:
    Store(tmp_path).close()
    with sqlite3.connect(tmp_path / "store.db") as connection:
        connection.execute("UPDATE meta SET value = '999' WHERE name = 'schema_version'")
    with pytest.raises(OperatorError, match=r"schema 999.*another --data directory"):
        Store(tmp_path)


SHARED = ("processes", "request_windows", "faults")
OAUTH = ("oauth_tokens", "oauth_authorizations", "oauth_clients", "signin_links", "page_sessions")
# Schema version -> the tables that came later.
LATER = {
    "1": (*OAUTH, "workspace_members", "agent_states", *SHARED),
    "2": ("workspace_members", "agent_states", *SHARED),
    "5": SHARED,
}


@pytest.mark.parametrize("version", LATER)
def test_a_store_of_an_earlier_version_gets_its_tables_and_keeps_what_it_has(tmp_path: Path, version: str) -> None:
    store = open_store(tmp_path)

    def take_back(tx: Transaction) -> None:
        for table in LATER[version]:
            tx.db.exec_driver_sql(f"DROP TABLE {table}")
        tx.db.execute(update(tables.meta).where(tables.meta.c.name == "schema_version").values(value=version))
        tx.db.execute(insert(tables.meta), {"name": "kept", "value": "yes"})

    store.write_now(take_back)
    store.close()
    store = open_store(tmp_path)
    facts = store.read_now(lambda db: {row.name: row.value for row in db.execute(select(tables.meta))})
    assert (facts["schema_version"], facts["kept"]) == (str(SCHEMA_VERSION), "yes")
    for table in LATER[version]:
        count = select(func.count()).select_from(tables.metadata.tables[table])
        assert store.read_now(lambda db, count=count: db.execute(count).scalar()) == 0
    store.close()


def test_the_events_of_an_earlier_version_are_measured(tmp_path: Path) -> None:
    texts = ["{}", '{"text":"é"}', "x" * 3_000_000]
    store = open_store(tmp_path)

    def take_back(tx: Transaction) -> None:
        for number, text in enumerate(texts):
            events.append(tx, "s", "message", f"t{number}", lambda _id, _at, text=text: text, author_type="user")
        tx.db.exec_driver_sql("DROP INDEX IF EXISTS events_by_size")
        tx.db.exec_driver_sql("ALTER TABLE events DROP COLUMN size_bytes")
        tx.db.execute(update(tables.meta).where(tables.meta.c.name == "schema_version").values(value="3"))

    store.write_now(take_back)
    store.close()
    store = open_store(tmp_path)
    assert store.read_now(lambda db: events.page(db, events.PageRequest("s", "id"))) == (texts, 3)
    rows = store.read_now(lambda db: db.execute(select(tables.events)).mappings().all())
    assert [(row["task_id"], row["type"], row["author_type"]) for row in rows] == [
        (f"t{number}", "message", "user") for number in range(3)
    ]
    made = store.write_now(lambda tx: events.append(tx, "s", "message", "t", lambda _id, _at: "{}"))
    assert made.id > max(row["id"] for row in rows)
    store.close()


def test_a_store_of_an_earlier_version_gets_the_columns_and_hides_copied_prompts(tmp_path: Path) -> None:
    store = Store(tmp_path)
    owners = {name: admin.create_account(store, name, "user") for name in ("ada", "bob", "eve")}
    store.close()
    times = {"created_at": "2026-01-01T00:00:00.000000Z", "updated_at": "2026-01-01T00:00:00.000000Z"}

    def add(connection: sqlite3.Connection, table: str, **row: str | None) -> None:
        values = {**row, **times}
        marks = ", ".join("?" * len(values))
        connection.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values()))

    with sqlite3.connect(tmp_path / "store.db") as connection:
        # Ada's agent, Bob's fork of it with a prompt of his own as well, Eve's fork of
        # Bob's copy, and Ada's fork of her own agent.
        forks = {"a": ("ada", None), "b": ("bob", "av"), "e": ("eve", "bv"), "s": ("ada", "av")}
        for name, (owner, source) in forks.items():
            agent = {"id": name, "owner_id": owners[owner], "creator_id": owners[owner], "name": name}
            add(connection, "agents", **agent, engine="llm", forked_from_version=source)
            version = {"agent_id": name, "creator_id": "x", "type": "COMMITTED", "version_number": "1"}
            add(connection, "agent_versions", id=f"{name}v", **version, system_prompt="ada's")
        add(connection, "agent_versions", id="own", **{**version, "agent_id": "b"}, system_prompt="bob's")
        skill = {"id": "0199c2f0-0000-7000-8000-000000000001", "owner_id": owners["ada"], "creator_id": "x"}
        add(connection, "skills", **skill, name="s", overview="o")
        connection.execute("DROP INDEX ix_api_keys_authorization_id")
        for table, column in (("api_keys", "authorization_id"), ("agent_versions", "prompt_owner_id")):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        connection.execute("DROP TABLE skill_versions")
        connection.execute("UPDATE meta SET value = '2' WHERE name = 'schema_version'")
    for _ in range(2):  # the second time there is nothing to do
        Store(tmp_path).close()
    with sqlite3.connect(tmp_path / "store.db") as connection:
        owned = dict(connection.execute("SELECT id, prompt_owner_id FROM agent_versions"))
        assert owned == {"av": None, "bv": owners["ada"], "own": None, "ev": owners["ada"], "sv": None}
        assert connection.execute("SELECT count(*) FROM api_keys WHERE authorization_id IS NULL").fetchone() == (0,)
        assert connection.execute("SELECT version_number, overview FROM skill_versions").fetchall() == [("1.0.0", "o")]
        indexes = {row[1] for row in connection.execute("PRAGMA index_list(api_keys)")}
        assert "ix_api_keys_authorization_id" in indexes


def test_a_file_that_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"not a database, and longer than a header" * 100)
    with pytest.raises(OperatorError, match="Cannot open the store"):
        Store(tmp_path)


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
    first = DataLock(tmp_path)
    with pytest.raises(OperatorError, match=rf"\(pid {os.getpid()}\) is using"):
        DataLock(tmp_path)
    first.release()
    DataLock(tmp_path).release()
