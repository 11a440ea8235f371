"""The data directory, and its files by which a service and its users find each other.

``service.json`` holds the service's address and process id while it runs; only its
owner can read it. It also holds a random token, with which the service proves that it
is the one the file describes: another program may have taken the port (see `proof`).
A process that uses a service started for it leaves an empty file
``users/<pid>``. With ``--until-unused`` the service ends once none of those processes
has been alive for a while. (The files are polled, because no portable call reports the
death of another process.)
"""

from __future__ import annotations

import asyncio
import hmac
import http.client
import json
import os
import secrets
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

from .._files import atomic_write, local_path
from .errors import OperatorError

KEY_FILE = "local-key.json"
SERVICE_FILE = "service.json"
IMPORTED_AGENT = "AGENTBOOK_IMPORTED_AGENT"
"""The variable that names an agent's function while its process imports it."""
UNUSED_FOR_S = 60.0
# Without the environment's proxy, because the service is on this machine.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_POLL_S = 5.0


@dataclass(frozen=True, slots=True)
class RunningService:
    """A service as its discovery file describes it."""

    data: Path
    base_url: str
    pid: int
    token: str = field(default="", repr=False)
    public_url: str = ""
    """Where others reach it: `base_url` too, unless it has a ``--public-url``."""
    has_database: bool = False
    """Whether its store is a PostgreSQL database, and not in the directory."""


def announce(service: RunningService, port: int) -> None:
    """Write ``service.json`` atomically."""
    data = service.data
    with atomic_write(data / SERVICE_FILE, private=True) as file:
        file.write(json.dumps({**asdict(service), "data": str(data), "port": port}).encode())


def withdraw(data: Path) -> None:
    """Remove ``service.json`` if it describes this process."""
    service = read(data)
    if service is not None and service.pid == os.getpid():
        (data / SERVICE_FILE).unlink(missing_ok=True)


def read(data: Path) -> RunningService | None:
    """The service that ``service.json`` describes, whether or not it is still running.

    None if the file does not exist, cannot be read, or does not describe a service.
    """
    try:
        facts = json.loads((data / SERVICE_FILE).read_text())
        # Earlier versions write no public address.
        return msgspec.convert({"public_url": facts["base_url"], **facts, "data": data}, RunningService)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def proof(token: str, base_url: str, nonce: str) -> str:
    """The answer of a service with this token to a nonce, at ``/_proof?nonce=NONCE``.

    It includes the address, so that a program on another port cannot pass the nonce on
    to the service.
    """
    return hmac.digest(token.encode(), f"{nonce} {base_url}".encode(), "sha256").hex()


def find(data: Path | None = None) -> RunningService | None:
    """The service that runs on a data directory and has proved itself, or None."""
    service = read(data or local_path())
    is_there = service is not None and is_alive(service.pid) and _proves_itself(service)
    return service if is_there else None


def _proves_itself(service: RunningService) -> bool:
    """Whether the service itself answers at its address.

    Another program may have taken the port of a service that was killed, and it would
    get the key. Only the service can answer with the token in the discovery file.
    """
    nonce = secrets.token_urlsafe(24)
    address = f"{service.base_url.removesuffix('/v1')}/_proof?nonce={nonce}"
    try:
        with opener.open(address, timeout=5) as reply:
            answer = reply.read(1000)
    except (OSError, http.client.HTTPException, ValueError):
        return False
    expected = proof(service.token, service.base_url, nonce).encode()
    return bool(service.token) and secrets.compare_digest(answer, expected)


def prove(known: RunningService) -> None:
    """Raise a ConnectionError unless a service, or its successor, has its port."""
    found = find(known.data)
    if found is None or found.base_url != known.base_url:
        raise ConnectionError("the embedded service does not run any more: call connect() again")


def running(data: Path) -> RunningService:
    """The service that runs on this data directory.

    Raises
    ------
    OperatorError
        If none is running.
    """
    service = read(data)
    if service is not None and is_alive(service.pid):
        return service
    raise OperatorError(f"No service runs on the data directory {data}; start one with `agentbook serve`.")


def require_own_store(data: Path) -> None:
    """Check that the service that runs on this directory, if any, has its store in it.

    Raises
    ------
    OperatorError
        It has its store in PostgreSQL.
    """
    service = read(data)
    if service is not None and service.has_database and is_alive(service.pid):
        raise OperatorError(
            f"The service on {data} (pid {service.pid}) has its store in PostgreSQL, not in that directory; name its "
            "database with --database, or another directory with --data."
        )


def distrust(data: Path) -> str:
    """Why the files of a data directory are not believed; empty if they are.

    Others could have put there a service's address and key, or a link to a file of the
    user's, which a log would overwrite.
    """
    if sys.platform == "win32" or not data.exists():  # there, folders of a user are closed to others
        return ""
    facts = data.stat()
    advice = "what it holds may not be yours. Set AGENTBOOK_DATA to a folder of your own; a new one is yours alone"
    if facts.st_uid not in (0, os.geteuid()):
        return f"The data directory {data} belongs to another user (uid {facts.st_uid}): {advice}."
    if facts.st_mode & 0o022:
        return f"Others can write to the data directory {data}: {advice}, or run `chmod go-w` on it if nobody else did."
    return ""


def register_user(data: Path) -> None:
    """Tell the service that this process uses it, for as long as the process lives.

    Raises
    ------
    OSError
        If the data directory is not writable.
    OperatorError
        If others could have written there; see `distrust`.
    """
    users = data / "users"
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    if reason := distrust(data):
        raise OperatorError(reason)
    users.mkdir(exist_ok=True, mode=0o700)
    (users / str(os.getpid())).touch(mode=0o600)


def is_used(data: Path) -> bool:
    """Whether any registered process is alive. Removes the files of dead ones.

    The folder may be the user's own: a file with a content is not ours.
    """
    ours = [file for file in (data / "users").glob("[0-9]*") if file.name.isdecimal() and file.lstat().st_size == 0]
    dead = [file for file in ours if not is_alive(int(file.name))]
    for file in dead:
        file.unlink(missing_ok=True)
    return len(dead) < len(ours)


def is_alive(pid: int) -> bool:
    """Whether a process with this id exists."""
    if pid <= 0:
        return False
    if sys.platform == "win32":
        return _is_alive_on_windows(pid)
    try:
        os.kill(pid, 0)
    except PermissionError:  # another user's
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def _is_alive_on_windows(pid: int) -> bool:
    # os.kill would act instead of asking: signal 0 is CTRL_C_EVENT, and any other ends
    # the process.
    import ctypes

    kernel32 = ctypes.windll.kernel32  # type: ignore[attr-defined,unused-ignore]
    query_limited_information, still_active = 0x1000, 259
    handle = kernel32.OpenProcess(query_limited_information, False, pid)
    if not handle:
        return False
    try:
        exit_code = ctypes.c_ulong()
        kernel32.GetExitCodeProcess(handle, ctypes.byref(exit_code))
        return exit_code.value == still_active
    finally:
        kernel32.CloseHandle(handle)


async def until_unused(data: Path, end: Callable[[], None], *, unused_for_s: float = UNUSED_FOR_S) -> None:
    """Call `end` once no registered process has been alive for `unused_for_s`."""
    last_used = time.monotonic()
    while True:
        await asyncio.sleep(min(_POLL_S, unused_for_s))
        try:
            used = is_used(data)
        except OSError:  # for example too many open files: the next look may succeed
            continue
        if used:
            last_used = time.monotonic()
        elif time.monotonic() - last_used >= unused_for_s:
            return end()
