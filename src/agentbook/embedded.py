"""The embedded service as notebooks use it: a running one, or a new process.

One service serves every kernel on this machine that uses the same data directory. It
ends by itself when the last of them has ended. Their API key is in a file that only its
owner can read. The service writes it, and it is replaced here if it no longer works.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
import zlib
from pathlib import Path
from urllib.parse import urlsplit

from ._files import FileLock
from .api.auth import ApiKey
from .api.errors import AgentbookError, ConnectionFailed, Unauthorized
from .client import Client
from .service import discovery_file
from .service.data_directory import KEY_FILE, default_data
from .service.discovery_file import RunningService

START_TIMEOUT_S = 60.0
_PORT_FILE = "last-port"
_LOCK_FILE = "starting.lock"

# Processes started here. Without a reference, Python would warn that this process did
# not wait for a service that outlives it.
children: list[subprocess.Popen[bytes]] = []


def data_directory() -> Path:
    """The service's data directory: ``AGENTBOOK_DATA``, or the system's default.

    The default is one of the user's directories, where the system keeps application
    data.
    """
    return default_data()


def find_or_start(data: Path | None = None) -> RunningService:
    """The running service of a data directory; starts it if it is not running.

    Raises
    ------
    ConnectionFailed
        If it cannot be started; the message is the service's own.
    """
    data = data or data_directory()
    try:
        discovery_file.register_user(data)
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
        return find(data) or _start(data)


def find(data: Path | None = None) -> RunningService | None:
    """The running service of a data directory, or None. Starts nothing."""
    try:
        service = discovery_file.read(data or data_directory())
    except (OSError, ValueError):
        return None
    if not discovery_file.is_alive(service.pid, own=True):
        return None
    return service if _proves_itself(service) else None


def _proves_itself(service: RunningService) -> bool:
    """Whether the service itself answers at its address.

    Another program may have taken the port of a service that was killed, and it would
    get the key. Only the service can answer with the token in the discovery file.
    """
    nonce = secrets.token_urlsafe(24)
    address = f"{service.base_url.removesuffix('/v1')}/_proof?nonce={nonce}"
    # Without the environment's proxy, because the address is on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=5) as reply:
            answer = reply.read(1000)
    except (OSError, http.client.HTTPException, ValueError):
        return False
    expected = discovery_file.proof(service.token, service.base_url, nonce).encode()
    return bool(service.token) and secrets.compare_digest(answer, expected)


def _start(data: Path) -> RunningService:
    """Start the service, on the port it had before if that is free.

    Clients that know its address then continue to work, and a `Store` or the session
    log, which record the address, still belong to the same platform.
    """
    for port in dict.fromkeys((_last_port(data), _default_port(data))):
        if port_is_free(port):
            with contextlib.suppress(ConnectionFailed):
                return _start_on(data, port)
    return _start_on(data, 0)


def port_is_free(port: int) -> bool:
    """Whether a port of the loopback interface can be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _last_port(data: Path) -> int:
    """The port of the directory's last service, or else its default port."""
    try:
        port = int((data / _PORT_FILE).read_text())
    except (OSError, ValueError):
        port = 0
    return port if 1024 <= port <= 65535 else _default_port(data)


def _default_port(data: Path) -> int:
    """A port derived from the directory's path.

    It is below the ephemeral ports, so outgoing connections do not take it.
    """
    return 20_000 + zlib.crc32(os.fsencode(data.resolve())) % 12_000


def _start_on(data: Path, port: int) -> RunningService:
    log = data / "service.log"
    command = [sys.executable, "-m", "agentbook", "serve", "--port", str(port), "--data", str(data), "--until-unused"]
    for option in ("seed", "speed"):  # set by notebook tests, which compare outputs
        value = os.environ.get(f"AGENTBOOK_{option.upper()}")
        if value:
            command += [f"--{option}", value]
    # In its own session, because Ctrl+C in this terminal must not end a service that
    # other kernels use.
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and command
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, close_fds=True
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        service = find(data)
        if service is not None and service.pid == process.pid:
            children.append(process)
            with contextlib.suppress(OSError):  # on a full disk, the next start takes another port
                (data / _PORT_FILE).write_text(str(urlsplit(service.base_url).port))
            return service
        time.sleep(0.05)
    if process.poll() is None:
        process.terminate()
        raise ConnectionFailed(
            f"connect: the embedded service did not answer within {START_TIMEOUT_S:.0f} s; see {log}."
        )
    output_lines = log.read_text(errors="replace").strip().splitlines()
    reason = output_lines[-1] if output_lines else f"see {log}"
    raise ConnectionFailed(f"connect: the embedded service did not start: {reason}")


def local_key(service: RunningService) -> ApiKey:
    """The API key that all notebooks on this machine use; replaced if it is revoked.

    They share one key because only the key that started a chat may post to it.
    """
    path = service.data / KEY_FILE
    with FileLock(service.data / _LOCK_FILE):
        stored_key = read_key(path)
        if stored_key is None or not _is_accepted(service, stored_key):
            _create_key(service.data)
            stored_key = read_key(path)
    if stored_key is None:
        raise AgentbookError(f"connect: {path} was changed while it was written. Call connect() again.")
    return stored_key


def read_key(path: Path) -> ApiKey | None:
    """The key in a key file; None if the file does not exist or contains no key."""
    try:
        return ApiKey(json.loads(path.read_text())["api_key"])
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
    from .service import local_key
    from .service.errors import OperatorError
    from .service.store import Store

    store = Store(data)
    try:
        local_key.create(store, data)
    except OperatorError as error:
        raise AgentbookError(f"connect: no API key could be created for the embedded service: {error}") from None
    finally:
        store.close()
