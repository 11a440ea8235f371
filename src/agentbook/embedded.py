"""The embedded service as notebooks use it: a running one, or a new process.

One service serves every kernel on this machine that uses the same data directory. It
ends by itself when the last of them has ended. Their API key is in a file that only its
owner can read. The service writes it, and it is replaced here if it no longer works.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ._files import FileLock, local_path, open_own
from .api.auth import ApiKey
from .api.errors import AgentbookError, ConnectionFailed, Unauthorized
from .api.span import parse_instant
from .client import Client
from .service import discovery_file
from .service.discovery_file import KEY_FILE, RunningService
from .service.errors import OperatorError

START_TIMEOUT_S = 60.0
_LOCK_FILE = "starting.lock"

# Processes started here. Without a reference, Python would warn that this process did
# not wait for a service that outlives it.
children: list[subprocess.Popen[bytes]] = []


def find_or_start(data: Path | None = None, options: Sequence[str] = ()) -> RunningService:
    """The running service of a data directory; starts it if it is not running.

    The `options` are those of ``agentbook serve``.

    Raises
    ------
    ConnectionFailed
        If others can write to the directory, or the service cannot be started; the
        message is the service's own.
    """
    data = data or local_path()
    try:
        discovery_file.register_user(data)
    except OperatorError as error:
        raise ConnectionFailed(f"connect: {error}") from None
    except OSError as error:
        raise ConnectionFailed(
            f"connect: the embedded service cannot write to {data} ({error.strerror or error}). "
            "Set AGENTBOOK_DATA to a directory that can be written, or AGENTBOOK_BASE_URL to a platform."
        ) from None
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(FileLock(data / _LOCK_FILE))  # two kernels must not start two services
        except OSError as error:
            raise ConnectionFailed(
                f"connect: {data} cannot be locked ({error.strerror or error}). Set AGENTBOOK_DATA to a folder on a local "
                "disk, or AGENTBOOK_BASE_URL to a platform."
            ) from None
        return discovery_file.find(data) or _start(data, options)


def _start(data: Path, options: Sequence[str]) -> RunningService:
    """Start the service, on the directory's own port if that is free.

    Clients that know its address then continue to work, and a `Store` or the session
    log, which record the address, still belong to the same platform.
    """
    if function := os.environ.get(discovery_file.IMPORTED_AGENT):
        # Its process would start a service, which imports the function, and so on.
        raise ConnectionFailed(
            f"connect: a platform starts while {function} is imported for an agent. Connect in the function, or put "
            'what starts the platform below `if __name__ == "__main__":`.'
        )
    port = _own_port(data)
    try:
        return _start_on(data, port, options)
    except ConnectionFailed:
        if port_is_free(port):
            raise
        return _start_on(data, 0, options)  # another program has the port


def port_is_free(port: int) -> bool:
    """Whether a port of the loopback interface can be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _own_port(data: Path) -> int:
    """A port derived from the directory's path.

    It is below the ephemeral ports, so outgoing connections do not take it.
    """
    return 20_000 + zlib.crc32(os.fsencode(data.resolve())) % 12_000


def _start_on(data: Path, port: int, options: Sequence[str]) -> RunningService:
    log = data / "service.log"
    command = [sys.executable, "-P", "-m", "agentbook", "serve", "--until-unused"]
    command += ["--port", str(port), "--data", str(data)]
    for option in ("seed", "speed"):  # set by notebook tests, which compare outputs
        value = os.environ.get(f"AGENTBOOK_{option.upper()}")
        if value:
            command += [f"--{option}", value]
    command += options
    # In its own session, because Ctrl+C in this terminal must not end a service that
    # other kernels use.
    try:
        output = open(log, "ab", opener=open_own)  # noqa: SIM115 - closed below
    except OSError as error:
        raise ConnectionFailed(
            f"connect: {log} cannot be written ({error.strerror or error}). Set AGENTBOOK_DATA to a folder of its own."
        ) from None
    with output:
        start = output.tell()  # what is there already may be the user's
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and command
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, close_fds=True
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        service = discovery_file.find(data)
        if service is not None and service.pid == process.pid:
            children.append(process)
            return service
        time.sleep(0.05)
    problem = "start"
    if process.poll() is None:
        process.kill()
        process.wait()
        problem = f"answer within {START_TIMEOUT_S:.0f} s"
    lines = log.read_bytes()[start:].decode(errors="replace").strip().splitlines()
    reason = lines[-1].removeprefix("agentbook: ") if lines else "it wrote nothing"
    if not lines and shutil.disk_usage(data).free < 1 << 20:
        reason = "the disk is full, so it could not even write why"
    if problem == "start" and process.returncode < 0:
        reason = f"it was ended by {signal.Signals(-process.returncode).name}; {reason}"
    raise ConnectionFailed(f"connect: the embedded service did not {problem} ({log}): {reason}")


class LocalKey(ApiKey):
    """The key of an embedded service, which only that service gets.

    Any program may take the port of a service that was killed, so the service is proved
    before each new connection.
    """

    def __init__(self, key: str, service: RunningService) -> None:
        super().__init__(key)
        self.prove = functools.partial(discovery_file.prove, service)


def local_key(service: RunningService) -> ApiKey:
    """The API key that all notebooks on this machine use; replaced if it is revoked.

    They share one key because only the key that started a chat may post to it.
    """
    with FileLock(service.data / _LOCK_FILE):
        stored_key = read_key(service)
        if stored_key is None or not _is_accepted(service, stored_key):
            _create_key(service.data)
            stored_key = read_key(service)
    if stored_key is None:
        raise AgentbookError(
            f"connect: {service.data / KEY_FILE} was changed while it was written. Call connect() again."
        )
    return stored_key


def read_key(service: RunningService) -> LocalKey | None:
    """The key in a service's key file; None if there is no file, or no key in it."""
    try:
        return LocalKey(json.loads((service.data / KEY_FILE).read_text())["api_key"], service)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_accepted(service: RunningService, key: ApiKey) -> bool:
    """Whether the service accepts a key, which may have been revoked."""
    with Client(service.base_url, credentials=key) as client:
        try:
            client.me.get()
        except Unauthorized:
            return False
    return True


def _create_key(data: Path) -> None:
    # Imported only here, because the store is half of what a notebook would load.
    from .service import admin
    from .service.store import Store

    store = Store(data)
    try:
        admin.create_local_key(store, data)
    except OperatorError as error:
        raise AgentbookError(f"connect: no API key could be created for the embedded service: {error}") from None
    finally:
        store.close()


@contextlib.contextmanager
def platform(
    seed: int = 7,
    *,
    now: Any = None,
    bare: bool = False,
    speed: float = 0.0,
    faults: Iterable[str | Mapping[str, Any]] = (),
    agents: Mapping[str, str | Callable[..., Any]] | None = None,
) -> Iterator[Platform]:
    """A platform of its own, for tests: an embedded service that ends with the block.

    It has a new directory, a free port and a key, and shares nothing with
    `agentbook.connect`. Tests get one from the pytest fixture ``agent_platform``.

    Parameters
    ----------
    seed : int
        The same requests to a platform of the same seed give the same ids, times, texts
        and secrets.
    now : datetime or str, optional
        The time at which the platform starts and the month of demo data ends. None
        means 2026-10-01T09:00Z. Pass the present for lengths of time such as
        ``since="7d"``.
    bare : bool
        True leaves out the demo data; the key then belongs to the account ``local``.
    speed : float
        Speed of the demo agents: 1 as in ``agentbook serve``, 0 without pauses.
    faults : iterable of str or mapping
        Errors on demand, as for `Platform.fail`. None by default.
    agents : mapping of str to function or str, optional
        Agents that answer with functions: ``{"acme~mine": answer}``, or the function as
        ``"my_agent:answer"``. They run in other processes, so each has to stand at the
        top of a module. See `agentbook.agents`.

    Yields
    ------
    Platform
        `client`, `base_url`, `api_key`, `fail(fault)` and `reset()`.

    Raises
    ------
    ConnectionFailed
        If the service cannot be started; the message is its own.
    ValueError
        If `now` is not a time, a fault is unknown, or a function is not at the top of
        a module.

    Notes
    -----
    Agents of the template LLM use the language model that the environment configures,
    if any. If this process is killed, the service ends by itself within about a minute;
    its directory stays in the system's folder for temporary files.

    Specification: "What the service does"; "Errors".

    Examples
    --------
    >>> with ab.platform(bare=True) as own:
    ...     own.client.workspaces.create("lab").full_name
    'local~lab'
    """
    options = ["--seed", str(seed), "--speed", str(speed), "--faults"]
    if now is not None:
        options += ["--now", parse_instant(now, "now").isoformat(timespec="seconds")]
    options += ["--bare"] if bare else []
    for name, function in (agents or {}).items():
        options += ["--agent", f"{name}={function if isinstance(function, str) else _where(function)}"]
    with tempfile.TemporaryDirectory(prefix="agentbook-platform-", ignore_cleanup_errors=True) as folder:
        started = Platform(Path(folder) / "data", options, list(faults))
        with started._running:
            started._start()
            yield started


def _where(function: Callable[..., Any]) -> str:
    """Where another process finds a function: ``MODULE:FUNCTION``, or its file."""
    path = inspect.getsourcefile(function) if inspect.isfunction(function) else None
    if path is None or not os.path.exists(path) or "<" in function.__qualname__:
        raise ValueError(
            f"platform: {function!r} runs in another process, so it has to be a function at the top of a module. "
            "Move it into a file of its own."
        )
    module = function.__module__ if function.__globals__.get("__package__") else os.path.abspath(path)
    return f"{module}:{function.__qualname__}"


class Platform:
    """A platform for tests. Made by `platform`.

    Attributes
    ----------
    client : Client
        A client with the platform's key. A `reset` may replace it.
    base_url : str
        The versioned address.
    """

    client: Client
    base_url: str

    def __init__(self, data: Path, options: Sequence[str], faults: Sequence[str | Mapping[str, Any]]) -> None:
        self._data, self._options, self._faults = data, options, faults
        self._running = contextlib.ExitStack()  # what ends with the service

    def __repr__(self) -> str:
        return f"<Platform {self.base_url}>"

    @property
    def api_key(self) -> str:
        """The key that the client has, ``id:secret``."""
        return str(json.loads((self._data / KEY_FILE).read_text())["api_key"])

    def fail(self, fault: str | Mapping[str, Any]) -> None:
        """Make requests or turns fail: a row of the error tables, or what happens.

        `fault` is as posted to ``/_admin/faults``: ``"not_ready"``, which happens once,
        or a mapping such as ``{"row": "budget", "times": 3, "match": {"agent": "*"}}``.
        """
        try:
            self._admin("POST", {"row": fault} if isinstance(fault, str) else fault)
        except urllib.error.HTTPError as error:
            with error:
                reason = json.loads(error.read())["message"]
            raise ValueError(f"The platform has no fault {fault!r}: {reason}") from None

    def reset(self) -> None:
        """Undo every change: the data and the faults are as at the start.

        If nothing was written, this takes a millisecond; else the service starts again,
        at the same address with the same key.
        """
        if self._version() != self._unchanged:
            self._running.close()
            self._start()
            return
        self._admin("DELETE")
        for fault in self._faults:
            self.fail(fault)

    def _start(self) -> None:
        service = find_or_start(self._data, self._options)
        self._running.callback(_end, service)
        self.base_url = service.base_url
        local_key(service)
        # The key alone: a fault is for the next request of the client, not for a proof.
        self.client = self._running.enter_context(Client(service.base_url, credentials=self.api_key))
        store = sqlite3.connect(self._data / "store.db", check_same_thread=False)
        self._store = self._running.enter_context(contextlib.closing(store))
        self._unchanged = self._version()
        for fault in self._faults:
            self.fail(fault)

    def _version(self) -> int:
        """A number that changes whenever the service writes."""
        [version] = self._store.execute("PRAGMA data_version").fetchone()
        return int(version)

    def _admin(self, method: str, body: Any = None) -> None:
        token = (self._data / "admin-token").read_text().strip()
        address = f"{self.base_url.removesuffix('/v1')}/_admin/faults"
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        request = urllib.request.Request(address, json.dumps(body).encode(), headers, method=method)  # noqa: S310
        discovery_file.opener.open(request, timeout=30).close()


def _end(service: RunningService) -> None:
    """End a service that was started here, and remove all that it stored."""
    [process] = [process for process in children if process.pid == service.pid]
    process.kill()
    process.wait()
    children.remove(process)
    shutil.rmtree(service.data)
