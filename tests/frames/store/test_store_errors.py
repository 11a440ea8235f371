"""What goes wrong with a local store is said with the file's name, and loses nothing:
damage, full disks, kills, two at once.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import agentbook as ab
from agentbook.frames.store import files
from agentbook.frames.store.files import StoreBusy, StoreError
from agentbook.frames.store.store import Store
from frames.store.test_store import STORE_0_2, account_of_0_2
from frames.stored import everything, plain_rows, three_days
from support.clients import client_of
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
    store = Store(tmp_path)
    report = store.sync(client_of(lambda request: httpx.Response(200, content=body)), "s")
    problems = set(report.problems["problem"].str.split(":").str[0])
    assert {"an event of a session that was not asked for", "the item is not an object"} <= problems
    assert report.problem_count == len(report.problems)
    assert report.problems["session_id"].eq("s").all()
    events = store.events()
    assert sorted(events["id"].dropna()) == [event_id(1, 1), event_id(3, 3)]
    assert events["extra"].notna().sum() == 1
    nameless = report.problems[report.problems["problem"].str.startswith("not stored")]
    assert json.loads(json.loads(nameless["raw"].item())["extra"]) == {"$item": 7}


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
        with pytest.raises(StoreError, match=r"events.*cannot be written: No space left"):
            store.sync(client, list(platform.sessions))
    assert (tmp_path / "manifest.json").read_bytes() == before
    assert plain_rows(tmp_path) == platform.ids("s0")
    assert not list(tmp_path.rglob(".*"))
    assert store.sync(client, list(platform.sessions)).events == 48


def test_a_newer_a_damaged_and_an_unreadable_store_say_which_file(platform: HttpPlatform, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.sync(platform.client(), ["s0"])
    manifest = tmp_path / "manifest.json"
    text = manifest.read_text()
    for wrong, message in ((text.replace('"format":2', '"format":99'), "newer agentbook"), ("{", "not the manifest"),
                        ('{"format":2,"files":5}', "damaged"), ('{"format":1}', "agentbook 0.1: move"), ("[]", "damaged"),
                        (text.replace('"events/', '"../events/'), "damaged")):  # fmt: skip
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


@pytest.fixture
def damaged(platform: HttpPlatform, tmp_path: Path) -> Store:
    """A store of five files, of which one is cut short and one is gone."""
    store = Store(tmp_path)
    for session in platform.sessions:
        store.sync(platform.client(), session)
    paths = sorted((tmp_path / "events").iterdir())
    paths[0].write_bytes(paths[0].read_bytes()[:-20])
    paths[1].unlink()
    return store


def test_what_reads_a_damaged_store_names_a_file_and_says_what_to_do(damaged: Store, platform: HttpPlatform) -> None:
    reads: list[Callable[[], Any]] = [damaged.events, damaged.history, damaged.turns]
    reads += [damaged.compact, lambda: damaged.sync(platform.client(), full=True)]
    with contextlib.suppress(ImportError):
        import dask.dataframe  # noqa: F401

        reads.append(lambda: damaged.to_dask().compute(scheduler="sync"))
    for read in reads:
        with pytest.raises(StoreError, match=r"events/\w+\.parquet.*sync again"):
            read()
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    with pytest.raises((StoreError, duckdb.Error), match=r"events/\w+\.parquet"):
        damaged.query("SELECT * FROM events")


def test_events_of_two_platforms_do_not_mix(platform: HttpPlatform, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.sync(platform.client(), ["s0"])
    with pytest.raises(ValueError, match="use another path"):
        store.sync(ab.Client("https://elsewhere/v1"), ["s0"])


# Holds a store in the middle of a sync until its input ends.
HOLDS = """
    import sys
    sys.path.insert(0, sys.argv[1])
    import agentbook as ab
    from frames.stored import three_days
    from support.clients import client_of
    platform = three_days()

    def answer(request):
        print("syncing", flush=True)
        sys.stdin.read()
        return platform.respond(request)

    ab.Store(sys.argv[2]).sync(client_of(answer), "s0")
"""


def test_a_second_process_waits_or_says_who_is_at_it(
    platform: HttpPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-c", textwrap.dedent(HOLDS), str(Path(__file__).parents[2]), str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "syncing\n"
        with monkeypatch.context() as patch:
            patch.setattr(files, "WAIT_S", 0.0)
            with pytest.raises(StoreBusy, match=f"process {other.pid}"):
                Store(tmp_path).sync(platform.client(), "s1")
        waiting = threading.Thread(target=Store(tmp_path).sync, args=(platform.client(), "s1"))
        waiting.start()
        other.stdin.close()
        waiting.join(60)
    assert other.returncode == 0
    assert Store(tmp_path).events()["id"].tolist() == platform.ids("s0") + platform.ids("s1")


def test_a_store_is_read_while_another_process_changes_it(
    platform: HttpPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that are joined are gone before a reader comes to them."""
    store, other = Store(tmp_path), Store(tmp_path)
    for session in platform.sessions:
        store.sync(platform.client(), session)
    real = files.read_events

    def joined_meanwhile(*args: Any) -> Any:
        monkeypatch.setattr(files, "read_events", real)
        assert other.compact() == (5, 1)
        return real(*args)

    monkeypatch.setattr(files, "read_events", joined_meanwhile)
    assert sorted(store.events()["id"]) == everything(platform)


def test_a_folder_without_locks_may_be_used(
    platform: HttpPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on some NFS and Lustre file systems."""

    def no_locks(*_: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_locks)
    assert Store(tmp_path).sync(platform.client(), ["s0"]).events == 12


# For each line of input, a path and the number of a step, a fork of this process syncs
# a store of the last release, commit by commit, and joins its files. At that step it
# is killed. Forks do not import anything again. Prints how many steps the fork took, or
# how it ended.
INTERRUPTED = """
    import os, signal, sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[1])
    from agentbook.frames.store import store, sync
    from frames.store.test_store import account_of_0_2

    steps, last = 0, 0
    def step(real):
        def counted(*args, **options):
            global steps
            steps += 1
            if steps == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **options)
        return counted

    os.replace, Path.rename, os.fsync = step(os.replace), step(Path.rename), step(os.fsync)
    sync.COMMIT_ROWS = 3
    for line in sys.stdin:
        path, last = line.split()
        pid = os.fork()
        if pid == 0:
            try:
                last, platform = int(last), account_of_0_2()
                for n in range(4):
                    platform.say(f"new{n}", 50 + n, workspace="lab")
                synced = store.Store(path)
                synced.sync(platform.client(), account="acme")
                synced.compact()
                print(steps, flush=True)
            finally:
                os._exit(0)
        if ended := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
            print(ended, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="there are no signals and forks here")
def test_whenever_a_change_is_killed_the_store_is_whole(tmp_path: Path) -> None:
    platform = account_of_0_2()
    before = everything(platform)
    for n in range(4):
        platform.say(f"new{n}", 50 + n, workspace="lab")
    command = [sys.executable, "-c", textwrap.dedent(INTERRUPTED), str(Path(__file__).parents[2])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forks:
        assert forks.stdin is not None
        assert forks.stdout is not None

        def run(path: Path, step: int) -> str:
            assert forks.stdin is not None
            assert forks.stdout is not None
            shutil.copytree(STORE_0_2, path)
            print(path, step, file=forks.stdin, flush=True)
            return forks.stdout.readline().strip()

        steps = int(run(tmp_path / "whole", 0))
        assert steps > 12
        for step in (1, steps // 3, steps - 1):
            path = tmp_path / str(step)
            assert run(path, step) == str(-signal.SIGKILL), step
            store = Store(path)
            seen = store.events()["id"]
            assert seen.is_unique
            assert set(before) <= set(seen) <= set(everything(platform)), step
            assert len(store.history().turns) >= 8
            store.sync(platform.client())
            assert sorted(store.events()["id"]) == everything(platform) == plain_rows(path), step
            assert set(store.history().sessions["id"]) == set(platform.sessions)
            assert not list(path.rglob(".*")), step
        forks.stdin.close()
