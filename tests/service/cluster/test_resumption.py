"""Our client beside cuts of every kind: it changes processes and loses nothing."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

import agentbook as ab
from agentbook.events import reader
from agentbook.service.store import Store
from agentbook.service.store.engine import connection_parameters
from service.cluster.test_delivery import terminate
from service.databases import Cluster, database_url, give_back
from service.process import command, furnished
from support.processes import PlatformOfProcesses

SCOPES = ("agents:write", "sessions:write", "workspaces:write")
STREAMS, ROUNDS = 5, 20  # 100 cuts


@pytest.fixture(scope="module")
def platform(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformOfProcesses]:
    folder = tmp_path_factory.mktemp("services")
    url = database_url(cluster.url, folder)
    command("accounts", "create", "acme", "--type", "organization", "--database", url, data=folder)
    with PlatformOfProcesses(folder / "data", url, scripted=True) as running:
        yield running
    give_back(folder)


class Writer(threading.Thread):
    """Posts messages to a session, to each process in turn, until it is stopped."""

    def __init__(self, platform: PlatformOfProcesses, key: str, session: str) -> None:
        super().__init__()
        self._clients = [service.http(key) for service in platform.services]
        self._session = session
        self.stopped = threading.Event()
        self.acknowledged: list[str] = []

    def run(self) -> None:
        for number, http in enumerate(itertools.cycle(self._clients)):
            if self.stopped.is_set():
                break
            answer = http.post(f"/sessions/{self._session}/events", json={"content": f"draft:x tool:a {number}"})
            # A connection to the database may have been lost during the commit.
            assert answer.status_code in (201, 503), answer.text
            if answer.status_code == 201:
                self.acknowledged.append(answer.json()["id"])
        for http in self._clients:
            http.close()


def next_event(stream: Any) -> str:
    """The id of the next event that is not a draft."""
    while True:
        event = stream.get(timeout_s=60)
        assert event is not None
        if event.type != "runtime_draft":
            return str(event.id)


def test_100_cuts_lose_and_repeat_nothing(
    platform: PlatformOfProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "BACKOFF_S", 0.002)
    key = platform.key(*SCOPES)
    with ExitStack() as stack:
        http = stack.enter_context(platform.services[0].http(key))
        [session] = furnished(http, "first")
        client = stack.enter_context(ab.Client(platform.base_url, credentials=key))
        streams = [
            stack.enter_context(client.sessions.stream(session, from_id=reader.BEGINNING)) for _ in range(STREAMS)
        ]
        store = Store(tmp_path, platform.database)
        stack.callback(store.close)
        writer = Writer(platform, key, session)
        stack.callback(writer.stopped.set)
        writer.start()
        received: list[list[str]] = [[] for _ in streams]
        for round_number in range(ROUNDS):
            for stream, ids in zip(streams, received, strict=True):
                ids.append(next_event(stream))
            platform.proxy.cut()
            if round_number % 10 == 5:  # those that listen and notify, and those that write
                terminate(store, "pid <> pg_backend_pid()")
        writer.stopped.set()
        writer.join()
        with psycopg.connect(**connection_parameters(store.engine), autocommit=True) as connection:
            while connection.execute("SELECT count(*) FROM pending_turns").fetchone() != (0,):
                threading.Event().wait(0.02)
        stored = [event.id for event in client.sessions.events(session, sort_by="id")]
        for stream, ids in zip(streams, received, strict=True):
            while ids[-1] != stored[-1]:
                ids.append(next_event(stream))
            assert ids == stored
        assert set(writer.acknowledged) <= set(stored)
