"""A newer version starts beside an older one, on the same database."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agentbook.service.store import Store
from agentbook.service.store.tables import SCHEMA_VERSION
from service import process
from service.databases import Cluster, database_url, give_back
from service.process import Service, command
from service.store.test_disasters import SCOPES, all_events, assert_whole, furnished

# What a newer schema may add: a table, and columns of tables that are in use.
NEWER = """
from sqlalchemy import Column, Integer, Table, Text
from agentbook.service.store import engine, tables
Table("newer", tables.metadata, Column("id", Text, primary_key=True))
for table in (tables.sessions, tables.pending_turns, tables.agents, tables.api_keys):
    table.append_column(Column("newer", Text))
tables.events.append_column(Column("newer", Integer, server_default="0", nullable=False))
engine.UPGRADABLE_FROM = {str(engine.SCHEMA_VERSION)}
engine.SCHEMA_VERSION += 1
"""


class Talk(threading.Thread):
    """Posts to a session and reads it, until `stop`."""

    def __init__(self, service: Service, key: str, session: str) -> None:
        super().__init__()
        self._service, self._key, self._session = service, key, session
        self._stopping = threading.Event()
        self._problem: Exception | None = None
        self.posted: list[dict[str, Any]] = []
        self.start()

    def run(self) -> None:
        try:
            with self._service.http(self._key) as http:
                while not self._stopping.is_set():
                    answer = http.post(f"/sessions/{self._session}/events", json={"content": "tool:a"})
                    self.posted.append(answer.raise_for_status().json())
                    http.get(f"/sessions/{self._session}").raise_for_status()
        except Exception as error:
            self._problem = error

    def stop(self) -> None:
        self._stopping.set()
        self.join()
        self.check()

    def check(self) -> None:
        """Raise what went wrong, if anything did."""
        if self._problem is not None:
            raise self._problem


def test_an_older_process_goes_on_while_a_newer_one_upgrades(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = database_url(cluster.url, tmp_path)
    command("accounts", "create", "acme", "--type", "organization", "--database", url, data=tmp_path / "older")
    with Service(tmp_path / "older", scripted=True, database=url) as older:
        key = older.key(*SCOPES)
        with older.http(key) as http:
            sessions = furnished(http)[:2]
            talks = [Talk(older, key, sessions[0])]
            monkeypatch.setattr(process, "SCRIPTED", NEWER + process.SCRIPTED)
            with Service(tmp_path / "newer", scripted=True, database=url) as newer:
                talks.append(Talk(newer, key, sessions[1]))
                before = [len(talk.posted) for talk in talks]
                while any(len(talk.posted) < count + 10 for talk, count in zip(talks, before, strict=True)):
                    for talk in talks:
                        talk.check()
                    time.sleep(0.01)
                for talk in talks:
                    talk.stop()
                for session, talk in zip(sessions, talks, strict=True):
                    while http.get(f"/sessions/{session}").json()["status"] != "IDLE":
                        time.sleep(0.02)
                    events = all_events(http, session)
                    assert_whole(events)
                    messages = [event for event in events if event["type"] == "message"][1:]
                    assert messages == talk.posted
                refused = command("serve", "--port", "0", "--database", url, data=tmp_path / "again", check=False)
                assert f"(schema {SCHEMA_VERSION + 1}, this one has {SCHEMA_VERSION})" in refused.stderr
                assert (older.stop(), older.log) == (0, "")
                assert (newer.stop(), newer.log) == (0, "")
    # The database is not given back: its tables are those of the newer version.


def test_a_read_beside_an_upgrade_meets_no_deadlock(cluster: Cluster, tmp_path: Path) -> None:
    url = database_url(cluster.url, tmp_path)
    with contextlib.closing(Store(tmp_path, url)) as store:
        store.write_now(lambda tx: tx.db.exec_driver_sql("UPDATE meta SET value = '5' WHERE name = 'schema_version'"))
        parameters = store.connection_parameters()
    with (
        psycopg.connect(**parameters) as reader,
        psycopg.connect(**parameters, autocommit=True) as observer,
        ThreadPoolExecutor(1) as threads,
    ):
        reader.execute("SELECT * FROM workspaces")
        upgrading = threads.submit(Store, tmp_path, url)
        waiting = "SELECT 1 FROM pg_locks WHERE relation = 'workspaces'::regclass AND NOT granted"
        while observer.execute(waiting).fetchone() is None:
            assert not upgrading.done()
        # By its name this table comes first: the upgrade has locked it.
        assert reader.execute("SELECT count(*) FROM accounts").fetchone() == (0,)
        assert not upgrading.done()
        reader.commit()
        upgrading.result(60).close()
        version = observer.execute("SELECT value FROM meta WHERE name = 'schema_version'").fetchone()
        assert version == (str(SCHEMA_VERSION),)
    give_back(tmp_path)
