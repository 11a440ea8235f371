"""What goes wrong with a local store is said with the file's name, and loses nothing:
damage, full disks, kills, two at once.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pytest

import agentbook as ab
from agentbook.frames.store.storage import LOCK, StoreBusy, StoreError, open_storage
from agentbook.frames.store.store import Store
from frames.stored import DAY, everything, plain_rows, three_days
from support.fake_platform.core import event_id
from support.fake_platform.over_http import HttpPlatform


@pytest.fixture
def platform() -> HttpPlatform:
    return three_days()


def test_a_session_that_cannot_be_read_is_named_and_the_others_are_kept(platform: HttpPlatform, tmp_path: Path) -> None:
    client, store = platform.client(), Store(tmp_path)
    with pytest.raises(ab.PartialLoad) as raised:
        store.sync(client, ["s0", "gone"])
    assert set(raised.value.problems) == {"gone"}
    assert "The store has the rows that arrived; error.resume() loads what is missing." in str(raised.value)
    assert store.events()["id"].tolist() == platform.ids("s0")
    assert store.events().attrs["agentbook"]["complete"] is False
    assert store.sync(client, ["gone"], errors="keep").failed.keys() == {"gone"}
    platform.add("gone", event_id(1, 1))
    assert raised.value.resume().events == 1
    assert store.events().attrs["agentbook"]["complete"] is True


def test_malformed_items_and_strangers_are_problems_not_rows_lost_silently(tmp_path: Path) -> None:
    good = {"id": event_id(1, 1), "type": "note", "created_at": "2026-10-03T08:15:00Z"}
    items = [good, {"id": event_id(2, 2), "session_id": "other"}, {**good, "id": event_id(3, 3), "type": 5}, 7, good]
    body = json.dumps({"items": items, "pagination": {"has_more": False}}).encode()
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=body))
    store = Store(tmp_path)
    report = store.sync(ab.Client("https://h/v1", http_client=httpx.Client(transport=transport)), "s")
    problems = set(report.problems["problem"].str.split(":").str[0])
    assert {"an event of a session that was not asked for", "the item is not an object"} <= problems
    assert report.problem_count == len(report.problems)
    assert report.problems["session_id"].eq("s").all()
    events = store.events()
    assert sorted(events["id"].dropna()) == [event_id(1, 1), event_id(3, 3)]
    assert events["extra"].notna().sum() == 1
    nameless = report.problems[report.problems["problem"].str.startswith("not stored")]
    assert json.loads(json.loads(nameless["raw"].item())["extra"]) == {"$item": 7}
    assert len(store.verify()) == 0


def test_a_full_disk_names_the_file_and_leaves_the_store_as_it_was(
    platform: HttpPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, store = platform.client(), Store(tmp_path)
    store.sync(client, ["s0"])
    before = (tmp_path / "manifest.json").read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match=r"events.day=.*cannot be written: the disk is full"):
            store.sync(client, list(platform.sessions))
    assert (tmp_path / "manifest.json").read_bytes() == before
    assert plain_rows(tmp_path) == platform.ids("s0")
    assert not list(tmp_path.rglob(".writing-*"))
    assert store.sync(client, list(platform.sessions)).events == 48


def test_a_newer_a_damaged_and_an_unreadable_store_say_which_file(platform: HttpPlatform, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.sync(platform.client(), ["s0"])
    manifest = tmp_path / "manifest.json"
    text = manifest.read_text()
    for wrong, message in ((text.replace('"format":1', '"format":99'), "newer agentbook"), ("{", "not the manifest"),
                        ('{"format":1,"parts":5}', "damaged")):  # fmt: skip
        manifest.write_text(wrong)
        with pytest.raises(StoreError, match=message) as raised:
            Store(tmp_path)
        assert str(manifest) in str(raised.value)
        with pytest.raises(StoreError, match=message):
            store.sync(platform.client(), ["s0"])
        assert plain_rows(tmp_path) == platform.ids("s0")
    manifest.unlink()
    manifest.mkdir()
    with pytest.raises(StoreError, match=r"manifest\.json cannot be read"):
        Store(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        Store(tmp_path / "file").sync(platform.client(), ["s0"])


def test_damage_is_found_and_mended(platform: HttpPlatform, tmp_path: Path) -> None:
    client, store = platform.client(), Store(tmp_path)
    store.sync(client, list(platform.sessions))
    files = sorted((tmp_path / "events").rglob("*.parquet"))
    files[0].write_bytes(files[0].read_bytes()[:-20])
    files[1].unlink()
    stray = files[2].with_name("part-" + "0" * 32 + ".parquet")
    stray.write_bytes(b"")
    problems = store.verify()
    assert {problem.split(":")[0].split(" ")[0] for problem in problems["problem"]} == {"damaged", "missing", "left"}
    with pytest.raises(StoreError, match=r"verify"):
        store.events()
    store.verify(repair=True)
    assert len(store.verify()) == 0
    assert not stray.exists()
    store.sync(client)
    assert sorted(store.events()["id"]) == everything(platform)
    assert len(store.verify()) == 0


def store_rows(file: Path, data: bytes, store: Store) -> pd.DataFrame:
    file.write_bytes(data)
    return store.events()


def test_a_damaged_file_is_named_by_whatever_reads_it(platform: HttpPlatform, tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="query needs DuckDB")
    store = Store(tmp_path)
    store.sync(platform.client(), list(platform.sessions))
    file = min((tmp_path / "events").rglob("*.parquet"))
    whole = file.read_bytes()
    for damage in (whole[: len(whole) // 2], b"", whole[:150] + b"12345678" + whole[158:]):
        file.write_bytes(damage)
        for read in (
            store.events,
            lambda: store.query("SELECT * FROM events"),
            lambda: store.to_dask().compute(scheduler="sync"),
        ):
            with pytest.raises(StoreError, match=f"{file.name} is damaged: its {len(damage):,} bytes"):
                read()
    # A changed byte in the data is told by its page's checksum, even where what it
    # makes can be decoded.
    expected, footer = store_rows(file, whole, store), len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for at in range(5, footer, 13):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        with contextlib.suppress(StoreError):
            assert store.events().equals(expected), f"byte {at} of {footer}"
    file.unlink()
    file.mkdir()
    problems = store.verify()
    assert problems["file"].tolist() == [file.relative_to(tmp_path).as_posix()]
    assert "cannot be read: Is a directory" in problems["problem"][0]
    file.rmdir()
    store.verify(repair=True)
    store.sync(platform.client())
    assert sorted(store.events()["id"]) == everything(platform)


def test_events_of_two_platforms_do_not_mix(platform: HttpPlatform, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.sync(platform.client(), ["s0"])
    with pytest.raises(ValueError, match="use another path"):
        store.sync(ab.Client("https://elsewhere/v1"), ["s0"])


def test_a_second_sync_waits_or_says_who_is_at_it(platform: HttpPlatform, tmp_path: Path) -> None:
    store = Store(tmp_path)
    with open_storage(tmp_path).lock(0):
        with pytest.raises(StoreBusy, match=f"process {os.getpid()}"):
            store.sync(platform.client(), ["s0"], wait_s=0)
        waiting = threading.Thread(target=store.sync, args=(platform.client(), ["s0"]), kwargs={"wait_s": 20})
        waiting.start()
    waiting.join(60)
    assert store.events()["id"].tolist() == platform.ids("s0")


# For each line of input, a path and the number of a step, a fork of this process syncs
# a store and is killed at the step. Forks do not import anything again. Prints how the
# fork ended, and the number of steps of one that is not killed.
KILLED = """
    import os, signal, sys
    sys.path.insert(0, sys.argv[1])
    from agentbook.frames.store import storage, store, sync
    from frames.accounts import Account
    from support.fake_platform.core import event_id

    def run(path, last):
        steps = [0]
        def step(real):
            def counted(*args, **options):
                steps[0] += 1
                if steps[0] == last:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*args, **options)
            return counted
        storage.Path.replace = step(storage.Path.replace)
        storage.Path.unlink = step(storage.Path.unlink)
        os.fsync = step(os.fsync)
        sessions = {f"s{n}": [event_id(n + 86_400_000 * d, d) for d in range(6)] for n in range(8)}
        platform = Account(sessions, workspaces={"lab": list(sessions)})
        synced = store.Store(path, groups=2)
        synced.sync(platform.client(), account="acme")
        synced.compact()
        return steps[0]

    sync.COMMIT_ROWS = 20
    for line in sys.stdin:
        path, last = line.split()
        pid = os.fork()
        if pid == 0:
            try:
                print(run(path, int(last)), flush=True)
            finally:
                os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL here")
def test_killed_at_any_step_the_next_sync_makes_it_whole(tmp_path: Path) -> None:
    platform = HttpPlatform({f"s{n}": [event_id(n + DAY * d, d) for d in range(6)] for n in range(8)})
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(Path(__file__).parents[2])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forks:
        assert forks.stdin is not None
        assert forks.stdout is not None
        print(tmp_path / "whole", 0, file=forks.stdin, flush=True)
        steps, ended = int(forks.stdout.readline()), int(forks.stdout.readline())
        assert steps > 40
        assert ended == 0
        chosen = {1, 2, 3, steps - 1, steps, *range(5, steps, max(steps // 10, 1))}
        for step in chosen:
            print(tmp_path / str(step), step, file=forks.stdin, flush=True)
            ended = int(forks.stdout.readline())
            if ended >= 0:  # a slow machine joins small pages, and has fewer steps
                assert ended < step
                ended = int(forks.stdout.readline()) or -signal.SIGKILL
            assert ended == -signal.SIGKILL
        forks.stdin.close()
    for step in chosen:
        path = tmp_path / str(step)
        store = Store(path)
        seen = store.events()["id"]
        assert seen.is_unique
        assert set(seen) <= set(everything(platform))
        store.sync(platform.client(), list(platform.sessions))
        assert sorted(store.events()["id"]) == everything(platform) == plain_rows(path)
        assert len(store.verify()) == 0
        assert set(store.history().sessions["id"]) == set(platform.sessions)
        assert not [file.name for file in path.rglob(".writing-*")]


def test_two_processes_may_sync_at_once(platform: HttpPlatform, tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=Store(tmp_path).sync, args=(platform.client(), list(platform.sessions)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert plain_rows(tmp_path) == everything(platform)


def test_a_remote_lock_is_refreshed_and_its_loss_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage("memory://a-renewed-lock")

    def lock() -> dict[str, Any]:
        holder: dict[str, Any] = json.loads(storage.read(LOCK) or b"{}")
        return holder

    def until(holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.005)

    monkeypatch.setattr("agentbook.frames.store.storage.LOCK_EXPIRES_S", 0.05)
    with storage.lock(0):
        first = lock()
        until(lambda: lock()["at"] > first["at"])
        storage.write("a", b"while it is held")
        taken = {"holder": "somebody else", "at": time.time()}

        def refused() -> bool:
            try:
                if lock() != taken:  # a renewal was under way
                    storage.write(LOCK, json.dumps(taken).encode())
                storage.write("b", b"")
            except StoreBusy as error:
                return "somebody else" in str(error)
            return False

        until(refused)
        assert storage.read("a") == b"while it is held"
    assert lock() == taken, "the other's lock is left alone"
    storage.write(LOCK, b"torn")
    with storage.lock(0):
        assert lock()["holder"].startswith("process")
    assert storage.read(LOCK) is None
