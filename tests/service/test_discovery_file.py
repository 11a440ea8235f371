"""How a service and its users find each other through files."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentbook.service import discovery_file
from agentbook.service.discovery_file import RunningService
from agentbook.service.errors import OperatorError
from agentbook.service.store import Store
from agentbook.service.store.snapshot import snapshot
from service import databases
from service.process import command


@pytest.mark.anyio
async def test_a_service_ends_once_the_last_process_that_uses_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures, is_used = [OSError(errno.EMFILE, "Too many open files")], discovery_file.is_used

    def look(data: Path) -> bool:
        if failures:
            raise failures.pop()
        return is_used(data)

    users = tmp_path / "users"
    users.mkdir()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as user:
        (users / str(user.pid)).touch()
        others = [users / "4000123", users / "4000-ada"]  # in a folder that was there before
        for path in others:
            path.write_text("a customer")
        assert discovery_file.is_used(tmp_path)
        monkeypatch.setattr(discovery_file, "is_used", look)
        ended: list[str] = []
        watching = asyncio.create_task(
            discovery_file.until_unused(tmp_path, lambda: ended.append("now"), unused_for_s=0.05)
        )
        await asyncio.sleep(0.2)
        assert ended == []
        assert user.stdin is not None
        user.stdin.close()
        user.wait()
        await asyncio.wait_for(watching, 5)
        assert ended == ["now"]
    assert sorted(users.iterdir()) == sorted(others)
    assert not discovery_file.is_used(tmp_path)


def test_which_processes_are_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    assert discovery_file.is_alive(os.getpid())
    assert [pid for pid in (0, -1, 2**40) if discovery_file.is_alive(pid)] == []

    def refuse(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)  # as for another user's
    assert discovery_file.is_alive(1)


def test_windows_is_asked_without_a_signal_that_would_end_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(pid: int, signal: int) -> None:
        raise AssertionError("on Windows, os.kill ends the process")

    def write_exit_code(handle: int, exit_code: Any) -> None:
        exit_code._obj.value = {1: 259, 2: 0}[handle]  # 259: still active

    closed: list[int] = []
    kernel32 = SimpleNamespace(
        OpenProcess=lambda access, inherit, pid: {10: 1, 20: 2}.get(pid, 0),
        GetExitCodeProcess=write_exit_code,
        CloseHandle=closed.append,
    )
    monkeypatch.setattr(os, "kill", end)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=kernel32), raising=False)
    assert [discovery_file.is_alive(pid) for pid in (10, 20, 30, 0)] == [True, False, False, False]
    assert closed == [1, 2]


def test_the_discovery_file_is_whole_at_every_moment(tmp_path: Path) -> None:
    service = RunningService(tmp_path, "http://127.0.0.1:1/v1", os.getpid(), "t0ken", "https://host/v1")
    discovery_file.announce(service, 1)
    assert json.loads((tmp_path / "service.json").read_text())["port"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["service.json"]
    assert discovery_file.read(tmp_path) == service
    assert discovery_file.running(tmp_path) == discovery_file.read(tmp_path)
    discovery_file.withdraw(tmp_path)
    discovery_file.withdraw(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_store_is_used_beside_one_on_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service that runs would not read it."""
    monkeypatch.delenv(databases.VARIABLE, raising=False)  # no command names a database here
    Store(tmp_path / "full").close()
    snapshot(tmp_path / "full", tmp_path / "day.db")
    data, address = tmp_path / "data", "http://127.0.0.1:1/v1"
    data.mkdir()
    discovery_file.announce(RunningService(data, address, os.getpid(), "t", address, has_database=True), 1)
    for words in (
        ("restore", str(tmp_path / "day.db")),
        ("accounts", "create", "ada", "--type", "user"),
        ("snapshot", str(tmp_path / "next.db")),
    ):
        refused = command(*words, data=data, check=False)
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
        assert "has its store in PostgreSQL" in refused.stderr
    assert not (data / "store.db").exists()
    discovery_file.withdraw(data)
    assert command(*words, data=data, check=False).returncode == 1, "nothing is there to take a snapshot of"
    command("accounts", "create", "ada", "--type", "user", data=data)


def test_a_service_of_an_earlier_version_is_reached_at_its_own_address(tmp_path: Path) -> None:
    (tmp_path / "service.json").write_text('{"base_url": "http://127.0.0.1:1/v1", "pid": 1}')
    assert discovery_file.read(tmp_path).public_url == "http://127.0.0.1:1/v1"


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{}", '{"base_url": "x", "pid": "y"}', '{"base_url": "x", "pid": []}']
)
def test_a_damaged_discovery_file_names_no_service(tmp_path: Path, text: str) -> None:
    (tmp_path / "service.json").write_text(text)
    assert discovery_file.read(tmp_path) is None
    with pytest.raises(OperatorError, match="No service runs"):
        discovery_file.running(tmp_path)
