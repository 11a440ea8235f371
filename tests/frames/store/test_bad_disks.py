"""Disks that are full, files that are cut short, folders that may not be read or
written: named, and never a store that is half written.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

import agentbook as ab
from agentbook.frames import session_log
from agentbook.frames.store.storage import StoreError
from support.fake_platform.core import event_id
from support.fake_platform.over_http import HttpPlatform

# The n-th step of a kind fails as on a full disk: nothing is written, or half of it is.
FULL = """
import errno, itertools, os, pathlib, sys
sys.path.insert(0, sys.argv[1])
import agentbook as ab
from agentbook.frames.store import storage, sync
from agentbook.frames.store.storage import StoreError
from support.fake_platform.core import event_id
from support.fake_platform.over_http import HttpPlatform

sync.COMMIT_ROWS = 10
path, full = pathlib.Path(sys.argv[2]), [10**9, 0]
def failing(real):
    def step(*args, **options):
        full[1] += 1
        if full[1] == full[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args, **options)
    return step
class Writes:
    def __init__(self, file): self.file = file
    def __getattr__(self, name): return getattr(self.file, name)
    def __enter__(self): return self
    def __exit__(self, *_): self.file.close()
    def write(self, data):
        full[1] += 1
        if full[1] == full[0]:
            self.file.write(bytes(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.file.write(data)
real_open = open
storage.open = failing(lambda *args, **options: Writes(real_open(*args, **options)))
storage.Path.replace, storage.Path.mkdir = failing(storage.Path.replace), failing(storage.Path.mkdir)
os.fsync = failing(os.fsync)

platform = HttpPlatform({f"s{n}": [event_id(n + 86_400_000 * d, d) for d in range(3)] for n in range(4)})
names = list(platform.sessions)
everything = sorted(event for ids in platform.sessions.values() for event in ids)
def run(store):
    store.sync(platform.client(), names[:2])
    store.sync(platform.client(), names)
    store.compact()
# How many steps a run takes depends on how many pages arrive together, so the runs go on
# until one ends before its step came.
for number in itertools.count(1):
    store = ab.Store(path / str(number), groups=2)
    full[:] = [number, 0]
    try:
        run(store)
        message = None
    except StoreError as error:
        message = str(error)
    if full[1] < number:
        assert message is None, (number, message)
        break
    full[0] = 10**9
    assert message and "the disk is full" in message and str(path / str(number)) in message, (number, message)
    orphans = list((path / str(number)).rglob(".writing-*"))
    assert not orphans, (number, orphans)
    seen = ab.Store(path / str(number)).events()["id"]
    assert seen.is_unique and set(seen) <= set(everything), number
    store.sync(platform.client(), names)
    assert sorted(store.events()["id"]) == everything, number
    assert len(store.verify()) == 0, number
print("steps", number - 1)
"""


def script(text: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    tests = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", textwrap.dedent(text), tests, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def test_a_disk_that_is_full_at_any_step_leaves_the_store_whole(tmp_path: Path) -> None:
    done = script(FULL, tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 40


# A limit on the size of a file is the nearest to a full disk that a process can have to
# itself.
LIMITED = """
import resource, signal, sys
sys.path.insert(0, sys.argv[1])
import agentbook as ab
from support.fake_platform.core import event_id
from support.fake_platform.over_http import HttpPlatform
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
few = HttpPlatform({"s": [event_id(n, n) for n in range(20)]})
store = ab.Store(sys.argv[2])
store.sync(few.client(), "s")
many = HttpPlatform({"s": few.ids("s") + [event_id(10_000 + 7919 * n, n) for n in range(9000)]})
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    store.sync(many.client(), "s")
except ab.AgentbookError as error:
    print(error)
print(sorted(store.events()["id"]) == few.ids("s"), len(store.verify()))
"""


@pytest.mark.skipif(os.name != "posix", reason="there is no limit on the size of files here")
def test_a_file_that_the_system_cuts_short_is_no_part_of_the_store(tmp_path: Path) -> None:
    done = script(LIMITED, tmp_path / "store")
    assert done.returncode == 0, done.stderr
    message, state = done.stdout.splitlines()
    assert str(tmp_path / "store") in message
    assert "cannot be written: File too large" in message
    assert state == "True 0"


def test_a_ledger_on_a_full_disk_says_which_session_it_could_not_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(session_log.PATH_VARIABLE, str(tmp_path / "sessions.jsonl"))

    def full(handle: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(
            ab.AgentbookError, match=r"sessions\.jsonl cannot be written .* the session s1 is not recorded"
        ):
            session_log.note(ab.Client("https://h/v1"), "s1")
    assert len(session_log.sessions()) == 0


# Run as a user other than root, whom no permission stops. Imports come first, since
# that user may not be able to read any packages.
UNREADABLE = """
import os, pathlib, sys, tempfile
sys.path.insert(0, sys.argv[1])
import agentbook as ab, pandas, pyarrow.dataset, pyarrow.parquet
from agentbook.frames.store.store import Store
from agentbook.frames.store.storage import StoreError
from support.fake_platform.core import event_id
from support.fake_platform.over_http import HttpPlatform

def report(step, call):
    try:
        call()
        print(step, "| nothing")
    except StoreError as error:
        print(step, "|", error)

folder = pathlib.Path(tempfile.mkdtemp())
try:
    path = folder / "store"
    platform = HttpPlatform({"s": [event_id(n, n) for n in range(3)]})
    Store(path).sync(platform.client(), "s")
    Store(path).events(), Store(path).verify()
    day = next((path / "events").iterdir())
    for file in path.rglob("*"):  # a store that its owner shares
        file.chmod(0o755 if file.is_dir() else 0o644)
    folder.chmod(0o777), path.chmod(0o777), (path / "lock").chmod(0o666)
    opened = Store(path)
    for name in (path, path / "manifest.json", day):
        usual = name.stat().st_mode & 0o777
        name.chmod(0)
        if os.getuid() == 0:
            os.seteuid(65534)
        report("open", lambda: Store(path))
        report("events", lambda: opened.events())
        report("sync", lambda: opened.sync(platform.client(), "s", full=True))
        os.seteuid(os.getuid())
        name.chmod(usual | 0o444)
    path.chmod(0o555), (path / "lock").chmod(0o444)
    orphan = next(day.iterdir()) / (".writing-" + "0" * 32)
    orphan.touch()
    if os.getuid() == 0:
        os.seteuid(65534)
    report("verify", lambda: print(*opened.verify()["problem"]))
    report("repair", lambda: opened.verify(repair=True))
    os.seteuid(os.getuid())
    path.chmod(0o777), orphan.unlink()
    print(len(opened.events()), len(opened.verify()))
finally:
    import shutil
    shutil.rmtree(folder)
"""


@pytest.mark.skipif(os.name != "posix", reason="there are no such permissions here")
def test_an_unreadable_folder_is_named() -> None:
    done = script(UNREADABLE)
    assert done.returncode == 0, done.stderr
    *lines, orphan, verify, repair, last = done.stdout.splitlines()
    assert [line.split(" | ")[0] for line in lines] == ["open", "events", "sync"] * 3
    for line in (*lines[:2], *lines[3:6]):
        assert "store/manifest.json cannot be read: Permission denied" in line, line
    assert "store/lock cannot be opened: Permission denied" in lines[2]
    assert lines[6] == "open | nothing"
    for line in lines[7:]:
        assert "store/events/day=" in line, line
        assert "ermission denied" in line, line
    assert orphan.startswith("belongs to a change that is in progress")
    assert verify == "verify | nothing", "looking writes nothing"
    assert "store/lock cannot be opened: Permission denied" in repair
    assert last == "3 0"


def test_what_is_in_the_store_is_what_plain_readers_see(tmp_path: Path) -> None:
    store, platform = ab.Store(tmp_path), HttpPlatform({"s": [event_id(n, n) for n in range(9)]})
    store.sync(platform.client(), list(platform.sessions))
    part = sorted((tmp_path / "events").rglob("*.parquet"))[0]
    part.write_bytes(b"not a table")
    with pytest.raises(StoreError, match="verify"):
        store.events()
    with pytest.raises(Exception, match="not a parquet file"):
        ds.dataset(part).to_table()
