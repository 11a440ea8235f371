"""Snapshots are one consistent state, and a failure leaves the old file."""

from __future__ import annotations

import re
import sqlite3
import stat
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agentbook.service import admin
from agentbook.service.errors import OperatorError
from agentbook.service.store import Seeding, Store
from agentbook.service.store.snapshot import restore, snapshot
from agentbook.service.store.tables import SCHEMA_VERSION
from service.process import Service, command, furnished
from service.world import on_sqlite


def filled(data: Path, *names: str) -> Path:
    store = Store(data)
    for name in names:
        admin.create_account(store, name, "user")
    store.close()
    return data


def names(data: Path) -> list[str]:
    with closing(sqlite3.connect(data / "store.db")) as db:
        return [row[0] for row in db.execute("SELECT name FROM accounts ORDER BY name")]


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    data, file = filled(tmp_path / "data", "ada"), tmp_path / "day.db"
    assert snapshot(data, file) == file.stat().st_size
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    filled(data, "bob")
    restore(file, data)
    assert names(data) == ["ada"]
    assert stat.S_IMODE((data / "store.db").stat().st_mode) == 0o600
    restore(file, tmp_path / "elsewhere" / "new")
    assert names(tmp_path / "elsewhere" / "new") == ["ada"]
    filled(tmp_path / "elsewhere" / "new", "carl")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@on_sqlite("a snapshot is of a store in a directory")
def test_a_running_service_is_taken_in_one_state_and_not_restored_into(tmp_path: Path) -> None:
    data, file = filled(tmp_path / "data", "acme"), tmp_path / "day.db"
    with Service(data, scripted=True) as service:
        with service.http(service.key("workspaces:write", "agents:write", "sessions:write")) as http:
            furnished(http)
            body = {"session_type": "chat", "agent_id": "helper", "initial_prompt": "tool:a tool:b"}
            done = threading.Event()

            def write() -> None:
                while not done.is_set():
                    assert http.post("/workspaces/lab/sessions", json=body).status_code == 201

            writer = threading.Thread(target=write)
            writer.start()
            for _ in range(8):
                snapshot(data, file)
                with closing(sqlite3.connect(file)) as db:
                    # A message and its pending turn are one commit, and so are a turn's
                    # three events.
                    (messages,) = db.execute("SELECT count(*) FROM events WHERE type = 'message'").fetchone()
                    (pending,) = db.execute("SELECT count(*) FROM pending_turns").fetchone()
                    (others,) = db.execute("SELECT count(*) FROM events WHERE type != 'message'").fetchone()
                    assert others == 3 * (messages - pending)
            done.set()
            writer.join()
        refused = command("restore", str(file), data=data, check=False)
        assert refused.returncode == 1
        assert refused.stderr.startswith(f"agentbook: Another service (pid {service.process.pid}) is using {data};")
        assert refused.stderr.count("\n") == 1
        service.stop()
    restore(file, data)
    with Service(data, scripted=True) as service:
        assert service.stop() == 0


def test_a_snapshot_cannot_replace_the_store_or_come_from_nothing(tmp_path: Path) -> None:
    data = filled(tmp_path / "data", "ada")
    with pytest.raises(OperatorError, match="is the store itself"):
        snapshot(data, data / "store.db")
    with pytest.raises(OperatorError, match="There is no store"):
        snapshot(tmp_path / "nowhere", tmp_path / "day.db")
    with pytest.raises(OperatorError, match="Nothing was replaced"):
        snapshot(data, tmp_path / "no" / "day.db")
    assert names(data) == ["ada"]


def newer(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE meta SET value = ? WHERE name = 'schema_version'", (str(SCHEMA_VERSION + 1),))


def other_database(file: Path) -> None:
    file.unlink()
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("CREATE TABLE meta (name, value)")
        db.execute("INSERT INTO meta VALUES ('schema_version', '1')")


def with_a_trigger(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("CREATE TRIGGER keeps AFTER UPDATE ON api_keys BEGIN UPDATE api_keys SET revoked_at = NULL; END")


def with_a_view(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("ALTER TABLE api_keys RENAME TO keys")
        db.execute("CREATE VIEW api_keys AS SELECT * FROM keys")


def cut_off(file: Path) -> None:
    with file.open("r+b") as handle:
        handle.truncate(file.stat().st_size // 2)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda file: file.write_text("hello"), "is not a snapshot"),
        (lambda file: file.write_bytes(b""), "is not a snapshot"),
        (other_database, "is not a snapshot"),
        (newer, f"has schema {SCHEMA_VERSION + 1}"),
        (with_a_trigger, "'keeps'"),
        (with_a_view, "'api_keys'"),
        (cut_off, "damaged|is not a snapshot"),
        (lambda file: file.unlink(), "There is no file"),
    ],
)
def test_an_invalid_snapshot_is_rejected_in_one_line(
    spoil: Callable[[Path], object], says: str, tmp_path: Path
) -> None:
    data, file = filled(tmp_path / "data", "ada"), tmp_path / "day.db"
    snapshot(data, file)
    spoil(file)
    with pytest.raises(OperatorError, match=says) as refused:
        restore(file, data)
    assert "\n" not in str(refused.value)
    assert names(data) == ["ada"]


def test_a_store_that_a_command_writes_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbook.service.store.engine._BUSY_TIMEOUT_S", 0.1)
    data, file = filled(tmp_path / "data", "ada"), tmp_path / "day.db"
    snapshot(data, file)
    with closing(sqlite3.connect(data / "store.db", isolation_level=None)) as busy:
        busy.execute("BEGIN IMMEDIATE")
        with pytest.raises(OperatorError, match="locked"):
            restore(file, data)
    assert names(data) == ["ada"]


def test_what_was_revoked_since_the_snapshot_stays_revoked(tmp_path: Path) -> None:
    data, file = filled(tmp_path / "data", "ada"), tmp_path / "day.db"
    store = Store(data)
    revoked, live = (admin.create_key(store, "ada", name, ["agents:read"]).partition(":")[0] for name in "ab")
    admin.create_signin(store, "ada")
    store.close()
    with closing(sqlite3.connect(data / "store.db")) as db:
        db.executescript("""
            INSERT INTO oauth_authorizations VALUES ('a', 'c', 'p', 'p', '[]', 'x', 's', 'c', 't', NULL, NULL, 't', 't');
            INSERT INTO oauth_tokens VALUES ('t', 'a', 'refresh', '[]', 't', NULL, 't');
            INSERT INTO page_sessions VALUES ('s', 'p', 't');
        """)
    snapshot(data, file)
    store = Store(data)
    admin.revoke_key(store, revoked)
    store.close()
    ends = (
        ("oauth_authorizations", "revoked_at"),
        ("oauth_authorizations", "code_used_at"),
        ("oauth_tokens", "spent_at"),
    )
    with closing(sqlite3.connect(data / "store.db")) as db, db:
        for table, column in ends:
            db.execute(f"UPDATE {table} SET {column} = 'now'")
    changes = [re.findall(r"\d+ \w+|\d+", change) for change in restore(file, data)]
    assert changes == [["1 keys"], ["1 authorizations"], ["2"]]
    with closing(sqlite3.connect(data / "store.db")) as db:
        keys = dict(db.execute("SELECT id, revoked_at IS NOT NULL FROM api_keys"))
        assert keys == {revoked: True, live: False}
        assert [db.execute(f"SELECT {column} FROM {table}").fetchone() for table, column in ends] == [("now",)] * 3
        for table in ("signin_links", "page_sessions"):
            assert db.execute(f"SELECT * FROM {table}").fetchall() == []


def test_a_seed_is_left_out(tmp_path: Path) -> None:
    data, file = tmp_path / "seeded", tmp_path / "day.db"
    store = Store(data, seeding=Seeding(7))
    admin.create_account(store, "ada", "user")
    store.close()
    snapshot(data, file)
    (change,) = restore(file, data)
    assert "seed" in change
    store = Store(data)
    assert store.clock.seed is None
    store.close()


def test_a_damaged_store_is_not_written_to(tmp_path: Path) -> None:
    data, file = filled(tmp_path / "data", "ada"), tmp_path / "day.db"
    snapshot(data, file)
    (data / "store.db").write_bytes(b"damaged" * 1000)
    with pytest.raises(OperatorError, match="Cannot open the store"):
        restore(file, data)
    assert (data / "store.db").read_bytes() == b"damaged" * 1000
