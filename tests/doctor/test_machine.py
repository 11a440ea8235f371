"""Problems of a machine, its folders and the embedded service."""

from __future__ import annotations

import io
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentbook.doctor import machine
from agentbook.service.discovery_file import proof

from .kit import SECRET, answering, findings_about, no_check_fails, problem, send, write

pytestmark = pytest.mark.python_versions


@pytest.mark.parametrize("total", [10**9, 0])
def test_a_data_directory_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, total: int) -> None:
    """Below a file, or on a file system such as /proc, which has no space at all."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(total=total, free=0))
    folder = tmp_path if total == 0 else write(tmp_path / "file", "")
    monkeypatch.setenv("AGENTBOOK_DATA", str(folder / "data"))
    problem("data directory", "cannot be written", "AGENTBOOK_DATA")
    assert findings_about("disk") == [], "no more space would help"


def test_folders_of_another_user_that_may_not_be_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private = tmp_path / "other"
    for name in ("data", "ipython", "config"):
        (private / name).mkdir(parents=True)
    for name, folder in (("AGENTBOOK_DATA", "data"), ("IPYTHONDIR", "ipython"), ("XDG_CONFIG_HOME", "config")):
        monkeypatch.setenv(name, str(private / folder))

    def refusing(call: Callable[..., Any]) -> Callable[..., Any]:
        def checked(path: Any, *arguments: Any, **options: Any) -> Any:
            if isinstance(path, str | Path) and private in Path(path).parents:
                raise PermissionError(13, "Permission denied", str(path))
            return call(path, *arguments, **options)

        return checked

    # Root, who may run these tests, is refused nothing; so refusals are simulated.
    for module, name in ((os, "stat"), (os, "scandir"), (os, "listdir"), (io, "open")):
        monkeypatch.setattr(module, name, refusing(getattr(module, name)))
    real = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: private not in (Path(path), *Path(path).parents) and real(path, mode)
    )
    problem("data directory", "cannot be written", "of your own")
    assert no_check_fails()


def test_a_data_directory_that_depends_on_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_DATA", "data")
    problem(
        "data directory", "each working folder", f"export AGENTBOOK_DATA={tmp_path / 'here' / 'data'}", state="note"
    )


def test_a_data_directory_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    other_user = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other_user)
    problem("data directory", "another user", "of your own")


def test_a_data_directory_on_a_network_file_system(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"disk / ext4 rw 0 0\nhomes:/x {tmp_path} nfs4 rw 0 0\n")
    problem("file system", "nfs4", "local disk")
    mounts.write_text(f"homes:/x / nfs4 rw 0 0\ndisk {tmp_path} ext4 rw 0 0\n")
    assert findings_about("file system") == []


@pytest.mark.parametrize(("free", "state"), [(300_000_000, "note"), (1_000_000, "wrong")])
def test_a_disk_that_is_nearly_full(monkeypatch: pytest.MonkeyPatch, free: int, state: str) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(total=10**9, free=free))
    problem("disk", f"{free // 1_000_000} MB", "Free some space", state=state)


@pytest.mark.parametrize("file", ["data/local-key.json", "data/admin-token", "config/agentbook/tokens/a.json"])
def test_secrets_that_others_can_read(tmp_path: Path, file: str) -> None:
    path = write(tmp_path / file, {"api_key": f"id:{SECRET}"})
    path.chmod(0o640)
    assert SECRET not in str(problem("secrets", str(path), f"chmod 600 '{path}'"))
    path.chmod(0o600)
    assert findings_about("secrets") == []


def test_a_service_that_was_killed(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    write(tmp_path / "data" / "service.json", {"base_url": "http://127.0.0.1:9/v1", "pid": ended.pid})
    problem("embedded service", "stale", "connect() again", state="note")


def test_a_service_that_does_not_answer(tmp_path: Path) -> None:
    write(tmp_path / "data" / "service.json", {"base_url": "http://127.0.0.1:9/v1", "pid": os.getpid()})
    problem("embedded service", f"process {os.getpid()}", f"kill {os.getpid()}")


def test_a_discovery_file_that_cannot_be_read(tmp_path: Path) -> None:
    file = write(tmp_path / "data" / "service.json", "{")
    problem("embedded service", "cannot be read", f"rm '{file}'")


def test_a_service_that_is_older_than_the_code(tmp_path: Path) -> None:
    def service(handler: BaseHTTPRequestHandler) -> None:
        address = f"http://127.0.0.1:{handler.server.server_port}/v1"  # type: ignore[attr-defined]
        send(handler, proof("t0ken", handler.path.partition("nonce=")[2], address).encode())

    with answering(service) as base_url:
        facts = {"base_url": base_url, "pid": os.getpid(), "started_at": "2020-01-01T00:00:00Z", "token": "t0ken"}
        write(tmp_path / "data" / "service.json", facts)
        problem("embedded service", "older code", f"kill {os.getpid()}", state="note")


def test_the_port_of_serve_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(machine, "SERVE_PORT", taken.getsockname()[1])
        problem("port", "in use", "--port", state="note")
