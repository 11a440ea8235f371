"""Kills at any moment and a full disk: acknowledged writes survive completely."""

from __future__ import annotations

import random
import resource
import signal
import sqlite3
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.process import Service, command, furnished
from service.world import on_sqlite

SCOPES = ("sessions:write", "workspaces:write", "agents:write")
SESSIONS, ROUNDS = 4, 3


def all_events(http: httpx.Client, session: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    while True:
        page = http.get(f"/sessions/{session}/events?sort_by=id&limit=1000&offset={len(events)}").json()
        events += page["items"]
        if not page["pagination"]["has_more"]:
            return events


def assert_whole(events: list[dict[str, Any]], *, running: bool = False) -> None:
    """Check that ids ascend and that every message has one end, after its tool runs.

    With `running`, turns may still be running.
    """
    assert [event["id"] for event in events] == sorted({event["id"] for event in events})
    ends: dict[str, list[str]] = {event["task_id"]: [] for event in events if event["type"] == "message"}
    tools, done = 0, 0
    for event in events:
        if event["type"] != "message" and event["task_id"] in ends:
            ends[event["task_id"]].append(event["type"])
            if event["type"] == "runtime_done":
                done += "tool:a" in event["content"]["text"]
        elif event["type"] != "message":
            assert event["content"] == {}
            tools += 1
    assert all(len(end) == 1 or (running and not end) for end in ends.values())
    assert tools == done, "a turn's events are all there or none of them"


class Poster(threading.Thread):
    """Posts to a session until the service is gone; remembers what was acknowledged."""

    def __init__(self, service: Service, key: str, session: str, started: threading.Event) -> None:
        super().__init__()
        self.service, self.key, self.session, self.started = service, key, session, started
        self.acknowledged: list[dict[str, Any]] = []
        self.start()

    def run(self) -> None:
        with self.service.http(self.key) as http:
            while True:
                try:
                    answer = http.post(f"/sessions/{self.session}/events", json={"content": "tool:a draft:b"})
                except httpx.TransportError:
                    return
                if answer.status_code == 201:
                    self.acknowledged.append(answer.json())
                    if len(self.acknowledged) > 10:  # however slow the machine is
                        self.started.set()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
def test_kills_at_random_moments_lose_nothing(tmp_path: Path) -> None:
    rng = random.Random(20261121)
    command("accounts", "create", "acme", "--type", "organization", data=tmp_path)
    acknowledged: dict[str, list[dict[str, Any]]] = {}
    key = ""
    for round_number in range(ROUNDS + 1):
        with Service(tmp_path, scripted=True) as service:
            key = key or service.key(*SCOPES)
            with service.http(key) as http:
                if round_number == 0:
                    acknowledged = {session: [] for session in furnished(http, *["first"] * SESSIONS)}
                else:
                    service.wait_for_turns(http, acknowledged)
                    for session, posted in acknowledged.items():
                        events = all_events(http, session)
                        assert_whole(events)
                        stored = {event["id"]: event for event in events}
                        assert [stored.get(event["id"]) for event in posted] == posted
            if round_number == ROUNDS:
                assert service.stop() == 0
                break
            started = threading.Event()
            posters = [Poster(service, key, session, started) for session in acknowledged]
            assert started.wait(60)
            threading.Event().wait(rng.uniform(0, 0.3))
            service.stop(signal.SIGKILL)
            for poster in posters:
                poster.join()
                acknowledged[poster.session] += poster.acknowledged
    assert sum(map(len, acknowledged.values())) > 10 * ROUNDS
    if service.database is None:
        with closing(sqlite3.connect(tmp_path / "store.db")) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@on_sqlite("the full disk of a database is tested in cluster/")
@pytest.mark.skipif(
    not hasattr(resource, "prlimit"), reason="the limit of a running process can be moved on Linux alone"
)
def test_a_full_disk_is_a_503_and_the_store_stays_readable(tmp_path: Path) -> None:
    command("accounts", "create", "acme", "--type", "organization", data=tmp_path)
    with Service(tmp_path, scripted=True) as service:
        key = service.key(*SCOPES)
        with service.http(key) as http:
            [session] = furnished(http, "first")
            body = {"content": "tool:a " + "x" * 20_000}
            posted = [http.post(f"/sessions/{session}/events", json=body).json() for _ in range(3)]
            full_at = (tmp_path / "store.db-wal").stat().st_size
            resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (full_at, resource.RLIM_INFINITY))
            refused = None
            while refused is None:
                answer = http.post(f"/sessions/{session}/events", json=body)
                if answer.status_code == 201:
                    posted.append(answer.json())
                else:
                    refused = answer
            assert (refused.status_code, refused.json()["error"]) == (503, "ServiceUnavailable")
            ready = service.base_url.replace("/v1", "/readyz")
            assert http.get(ready).status_code == 503, "however short a write has room"
            # Not a byte more: at the limit above a checkpoint can still make room
            # inside the files that are there.
            resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            for _ in range(3):  # each write is refused whole, and what was acknowledged can be read
                assert http.post(f"/sessions/{session}/events", json=body).status_code == 503
                events = all_events(http, session)
                assert_whole(events, running=True)
                stored = {event["id"]: event for event in events}
                assert [stored.get(event["id"]) for event in posted] == posted
            assert http.get("/accounts/acme/workspaces").json()["pagination"]["total_count"] == 1
            assert http.get(ready).status_code == 503

            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, unlimited)
            assert http.post("/workspaces", json={"name": "more"}).status_code == 201
            assert http.get(ready).status_code == 200
            # Turns that could not be stored were kept, and are stored now.
            while http.get(f"/sessions/{session}").json()["status"] != "IDLE":
                time.sleep(0.02)
            assert_whole(all_events(http, session))
        service.stop()
    assert "Traceback" not in service.log
    with closing(sqlite3.connect(tmp_path / "store.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@on_sqlite("a lock of PostgreSQL is tested in test_postgres")
def test_a_locked_store_is_a_503_in_one_line_and_nothing_is_lost(tmp_path: Path) -> None:
    command("accounts", "create", "acme", "--type", "organization", data=tmp_path)
    with Service(tmp_path, scripted=True) as service:
        with service.http(service.key(*SCOPES)) as http:
            [session] = furnished(http, "first")
            service.wait_for_turns(http, [session])
            ready = service.base_url.replace("/v1", "/readyz")
            with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
                other.execute("BEGIN EXCLUSIVE")
                refused = http.post("/workspaces", json={"name": "more"})
                assert (refused.status_code, refused.json()["error"]) == (503, "ServiceUnavailable")
                assert http.get(ready).status_code == 503
                assert len(all_events(http, session)) > 1, "reads need no lock"
                other.execute("ROLLBACK")
            assert http.get(ready).status_code == 200
            assert http.post("/workspaces", json={"name": "more"}).status_code == 201
        assert service.stop() == 0
    assert "Traceback" not in service.log
    assert len([line for line in service.log.splitlines() if "answered 503" in line]) == 1
