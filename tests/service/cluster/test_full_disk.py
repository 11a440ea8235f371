"""A database whose disk is full: a file system in memory, of a few megabytes."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from service.databases import Cluster
from service.process import Service, command
from service.store.test_disasters import SCOPES, all_events, assert_whole, furnished

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root mounts file systems, on Linux"),
]

ROOM = "32m"


class SmallDisk:
    """A file system of `ROOM` that PostgreSQL may use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Leave no byte free."""
        with contextlib.suppress(OSError), self._ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def make_room(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def disk(cluster: Cluster) -> Iterator[SmallDisk]:
    folder = cluster.folder / "small-disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        folder.rmdir()
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


def _plain(url: str) -> str:
    return url.replace("postgresql+psycopg:", "postgresql:")


@pytest.fixture
def url(cluster: Cluster, disk: SmallDisk) -> Iterator[str]:
    """Of a database that lies on the small disk; the server's log lies elsewhere."""
    files = disk.folder / "files"
    files.mkdir()
    shutil.chown(files, "postgres", pwd.getpwnam("postgres").pw_gid)
    with psycopg.connect(_plain(cluster.url), autocommit=True) as admin:
        admin.execute(f"CREATE TABLESPACE small LOCATION '{files}'")
        admin.execute("CREATE DATABASE on_small_disk TABLESPACE small")
        try:
            yield cluster.url.replace("/postgres?", "/on_small_disk?")
        finally:
            admin.execute("DROP DATABASE on_small_disk WITH (FORCE)")
            admin.execute("DROP TABLESPACE small")


def test_writes_are_refused_until_there_is_room_and_none_is_lost(url: str, disk: SmallDisk, tmp_path: Path) -> None:
    command("accounts", "create", "acme", "--type", "organization", "--database", url, data=tmp_path)
    with Service(tmp_path, scripted=True, database=url) as service, service.http(service.key(*SCOPES)) as http:
        session, *_ = furnished(http)
        post = f"/sessions/{session}/events"

        def ask() -> httpx.Response:
            # Nothing that PostgreSQL could make shorter.
            return http.post(post, json={"content": "tool:a " + os.urandom(20_000).hex()})

        posted = [ask().raise_for_status().json() for _ in range(3)]
        with psycopg.connect(_plain(url)) as connection:
            disk.fill()  # a new connection may have to write a file of PostgreSQL's own
            with pytest.raises(psycopg.errors.DiskFull):
                connection.execute("CREATE TABLE more AS SELECT * FROM generate_series(1, 10000)")
        refusals = 0
        while refusals < 3:  # pages that were there may still have room
            answer = ask()
            if answer.status_code == 201:
                posted.append(answer.json())
                continue
            refusals += 1
            assert answer.status_code == 503
            assert answer.json()["error"] == "ServiceUnavailable"
        ready = service.base_url.replace("/v1", "/readyz")
        assert http.get(ready).status_code == 503, "however short a write has room"
        events = all_events(http, session)
        assert_whole(events, running=True)
        stored = {event["id"]: event for event in events}
        assert [stored.get(event["id"]) for event in posted] == posted
        disk.make_room()
        assert http.get(ready).status_code == 200
        posted.append(ask().raise_for_status().json())
        # Turns that could not be stored were kept, and are stored now.
        while http.get(f"/sessions/{session}").json()["status"] != "IDLE":
            time.sleep(0.02)
        events = all_events(http, session)
        assert_whole(events)
        assert [event["id"] for event in events if event["type"] == "message"][1:] == [event["id"] for event in posted]
        assert service.stop() == 0
