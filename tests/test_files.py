"""A lock belongs to one holder; a file is replaced as a whole, or stays as it was."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbook import _files
from agentbook._files import FileLock, append, atomic_write
from agentbook.api.oauth.token_store import TokenStore
from agentbook.chat.model.session_list import name_session
from agentbook.evaluation.runs import Recorder

HOLD = """
import sys
from pathlib import Path
from agentbook._files import FileLock
lock = FileLock(Path(sys.argv[1]), holder="the other process")
assert lock.acquire(timeout_s=0)
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_lock_belongs_to_one_process_until_it_dies(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        lock = FileLock(path, holder="this process")
        assert not lock.acquire(timeout_s=0.1)
        assert lock.holder() == "the other process"
        process.kill()
    assert lock.acquire(timeout_s=10)
    assert lock.holder() == "this process"
    lock.release()
    lock.release()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_lock_belongs_to_one_thread(tmp_path: Path) -> None:
    path, order = tmp_path / "lock", []

    def wait_and_lock() -> None:
        with FileLock(path):
            order.append("second")

    with FileLock(path) as lock:
        thread = threading.Thread(target=wait_and_lock)
        thread.start()
        thread.join(0.2)
        assert lock.holder() == "unknown"
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_a_block_that_raises_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for before in (None, b"before"):
        if before is not None:
            path.write_bytes(before)
        with pytest.raises(TypeError), atomic_write(path) as file:
            file.writelines([b"half", None])  # type: ignore[list-item]
        assert [each.read_bytes() for each in tmp_path.iterdir()] == ([] if before is None else [before])


@pytest.mark.skipif(os.name == "nt", reason="modes and links are those of POSIX")
def test_permissions_and_links_stay(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"")
    target.chmod(0o640)
    link.symlink_to(target)
    with atomic_write(link) as file:
        file.write(b"new")
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert link.is_symlink()
    with pytest.raises(FileExistsError, match="link"), atomic_write(link, private=True):
        pass
    with pytest.raises(FileExistsError, match="link"):
        append(link, b"of ours")
    assert target.read_bytes() == b"new"


@pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
@pytest.mark.parametrize("keep", [lambda: name_session("s1", "mine"), lambda: Recorder({}).close()])
def test_whoever_makes_the_data_directory_makes_it_private(
    keep: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTBOOK_DATA", str(tmp_path / "data"))
    keep()
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0


def test_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=r"it is a folder"), atomic_write(tmp_path):
        pass
    with pytest.raises(FileNotFoundError, match=r"there is no folder"), atomic_write(tmp_path / "none" / "x"):
        pass


def test_where_there_are_no_locks_an_optional_one_is_free_and_another_names_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")
    codes: list[int] = []

    def refuse(*_: object) -> None:
        raise OSError(codes[-1], os.strerror(codes[-1]))

    monkeypatch.setattr(fcntl, "flock", refuse)
    for code in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
        codes.append(code)
        with FileLock(tmp_path / "lock", optional=True):
            pass
        with TokenStore("https://h/v1", tmp_path).locked():
            pass
        with pytest.raises(OSError, match=r"no locks.*tmp|no locks.*lock"), FileLock(tmp_path / "lock"):
            pass
    codes.append(errno.EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)), FileLock(tmp_path / "lock", optional=True):
        pass


@pytest.mark.parametrize("number", [5, 32, 33])
def test_a_file_that_another_process_has_open_on_windows_is_replaced_a_moment_later(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("before")
    refused = [1, 2, 3]

    def once_open(source: Path, target: Path, move: Any = os.replace) -> None:
        if refused:
            refused.pop()
            error = PermissionError("Access is denied")
            error.winerror = number  # type: ignore[attr-defined]
            raise error
        move(source, target)

    monkeypatch.setattr(os, "replace", once_open)
    monkeypatch.setattr(_files, "_POLL_S", 0)
    with atomic_write(tmp_path / "a") as file:
        file.write(b"after")
    assert (tmp_path / "a").read_text() == "after"
    refused[:] = [1] * 1000
    monkeypatch.setattr(_files, "_BUSY_S", 0)
    with pytest.raises(PermissionError), atomic_write(tmp_path / "a") as file:
        file.write(b"never")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "after")]
