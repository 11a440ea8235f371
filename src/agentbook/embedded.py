"""Finding a platform to talk to, and the door between the client and the embedded service.

`connect` looks at its arguments, then the environment, then the system's keyring and the tokens of an earlier sign-in, and at
last for the embedded service: one that runs already is used, else one is started as a process of its own. It serves every kernel
on this machine that uses the same data directory, and ends by itself when the last of them has gone. Its first key is made here
and kept in a file that only its owner can read.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .api.auth import ApiKey, Credentials
from .api.errors import AgentbookError, ConnectionFailed, Unauthorized
from .api.oauth.sign_in import stored
from .api.oauth.token_store import KEYRING_SERVICE, lock_file
from .client import DEADLINE_S, TIMEOUT_S, Client

START_TIMEOUT_S = 60.0
KEY_FILE = "local-key.json"
_PORT = "last-port"
# What the first key may do: everything a key can, within the account's own data.
LOCAL_SCOPES = ("agents:write", "sessions:write", "workspaces:write", "skills:write", "integrations:write")
FALLBACK_ACCOUNT = "local"  # whom it acts as in a store without demo data


@dataclass(frozen=True, slots=True)
class Running:
    """An embedded service that answers."""

    base_url: str
    pid: int
    data: Path


def connect(
    base_url: str | None = None,
    *,
    api_key: str | None = None,
    credentials: Credentials | None = None,
    http_client: Any = None,
    timeout_s: float = TIMEOUT_S,
    deadline_s: float = DEADLINE_S,
) -> Client:
    """A client of the platform that is configured, or of the embedded service, which is started if need be.

    Parameters
    ----------
    base_url : str, optional
        The versioned address, such as ``https://host/v1``. None: the environment's ``AGENTBOOK_BASE_URL``, else the
        embedded service.
    api_key : str, optional
        ``id:secret``. None: the environment's ``AGENTBOOK_API_KEY``, else the system keyring's entry for that address
        (service ``agentbook``, user name the address), else the tokens of an earlier `sign_in` there, else no credential.
    credentials : ApiKey or OAuthToken, optional
        Instead of `api_key`.
    http_client, timeout_s, deadline_s
        As for `Client`; the times in seconds.

    Returns
    -------
    Client

    Raises
    ------
    ConnectionFailed
        If the embedded service cannot be started; the message says why.
    ValueError
        If the address or the key has not the right form, or ``AGENTBOOK_BASE_URL`` is set and empty.

    Notes
    -----
    Environment: ``AGENTBOOK_BASE_URL``, ``AGENTBOOK_API_KEY``, ``AGENTBOOK_DATA`` (the embedded service's directory).
    Specification: "Authentication".

    Examples
    --------
    >>> connect("https://host/v1", api_key="id:secret")
    Client('https://host/v1', credentials=ApiKey('id:…'))
    """
    if api_key is not None and credentials is not None:
        raise ValueError("Give api_key or credentials, not both.")
    if api_key is not None:
        credentials = ApiKey(api_key)
    address = base_url or os.environ.get("AGENTBOOK_BASE_URL")
    if address is not None and not address.strip():
        raise ValueError(
            "AGENTBOOK_BASE_URL is set and empty. Unset it for the embedded service, or set it to https://host/v1."
        )
    if address is None:
        running = service()
        address = running.base_url
        credentials = credentials or local_key(running)
    # The environment's key belongs to the environment's address: it is never sent to another one.
    elif credentials is None:
        address = address.rstrip("/")
        known = base_url is None or base_url.rstrip("/") == (os.environ.get("AGENTBOOK_BASE_URL") or "").rstrip("/")
        credentials = configured_key(address, environment=known or "AGENTBOOK_BASE_URL" not in os.environ)
        credentials = credentials or stored(address)
    return Client(address, credentials=credentials, http_client=http_client, timeout_s=timeout_s, deadline_s=deadline_s)


def configured_key(address: str, *, environment: bool = True) -> ApiKey | None:
    """The key of an address: the environment's, if it may have that one, else the system keyring's."""
    text = os.environ.get("AGENTBOOK_API_KEY") if environment else None
    if text is None:
        text = _from_keyring(address)
    return ApiKey(text) if text else None


def _from_keyring(address: str) -> str | None:
    """The system keyring's key for an address; None where there is no keyring, or nothing in it."""
    try:
        import keyring
    except ImportError:
        return None
    # A keyring without a working backend raises errors of its own; then there is no key here.
    with contextlib.suppress(Exception):
        found: str | None = keyring.get_password(KEYRING_SERVICE, address.rstrip("/"))
        return found
    return None


# -- the embedded service ----------------------------------------------------------------------------------------------


def data_directory() -> Path:
    """Where the embedded service keeps its data: ``AGENTBOOK_DATA``, else this system's place for application data."""
    from .service.store import default_data

    return default_data()


def service(data: Path | None = None) -> Running:
    """The embedded service of a data directory; started if it is not running.

    Raises
    ------
    ConnectionFailed
        If it cannot be started; the message is the service's own.
    """
    data = data or data_directory()
    _register(data)
    with _starting(data):
        return _answering(data) or _start(data)


def find(data: Path | None = None) -> Running | None:
    """The embedded service of a data directory if it is running, else None. Starts nothing."""
    return _answering(data or data_directory())


def _answering(data: Path) -> Running | None:
    try:
        facts = json.loads((data / "service.json").read_text())
        running = Running(str(facts["base_url"]), int(facts["pid"]), data)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # The port of a service that was killed may be anybody's by now, and whoever answers there would get the key.
    return running if _is_ours(running.pid) and _ready(running.base_url) else None


def _is_ours(pid: int) -> bool:
    """Whether a process of this user has this id."""
    if pid <= 0 or sys.platform == "win32":  # where signal 0 is no question but an interrupt
        return pid > 0
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError):
        return False
    return True


def _ready(base_url: str) -> bool:
    # Straight to the loopback address, whatever proxy the environment names.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{base_url}/openapi.yaml", timeout=5) as reply:
            return bool(reply.status == 200)
    except (OSError, urllib.error.URLError, ValueError):
        return False


def _register(data: Path) -> None:
    """Tell the service that this process uses it, for as long as it lives."""
    try:
        users = data / "users"
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        users.mkdir(exist_ok=True, mode=0o700)
        (users / str(os.getpid())).touch(mode=0o600)
    except OSError as error:
        raise ConnectionFailed(
            f"connect: the embedded service cannot write to {data} ({error.strerror or error}). "
            "Set AGENTBOOK_DATA to a directory that can be written, or AGENTBOOK_BASE_URL to a platform."
        ) from None


@contextlib.contextmanager
def _starting(data: Path) -> Iterator[None]:
    """Only one process at a time looks and starts: two kernels must not start two services."""
    handle = os.open(data / "starting.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        lock_file(handle)
        yield
    finally:
        os.close(handle)


def _start(data: Path) -> Running:
    """Start the service; on the port it had before, where that is free.

    So what knew its address goes on, and what is kept of it (a `Store`, the ledger of sessions) stays the same platform's.
    """
    from .jupyterlab import port_is_free

    for port in dict.fromkeys((_last_port(data), _own_port(data))):
        if port_is_free(port):
            with contextlib.suppress(ConnectionFailed):
                return _start_on(data, port)
    return _start_on(data, 0)


def _last_port(data: Path) -> int:
    """The port of the service that ran here last; where none did, the one that is the directory's own."""
    try:
        port = int((data / _PORT).read_text())
    except (OSError, ValueError):
        port = 0
    return port if 1024 <= port <= 65535 else _own_port(data)


def _own_port(data: Path) -> int:
    """A port for this directory, below those from which systems give connections theirs: tomorrow it will be free again."""
    return 20_000 + zlib.crc32(os.fsencode(data.resolve())) % 12_000


def _start_on(data: Path, port: int) -> Running:
    log = data / "service.log"
    command = [sys.executable, "-m", "agentbook", "serve", "--port", str(port), "--data", str(data), "--until-unused"]
    for option in ("seed", "speed"):  # notebooks whose outputs are compared
        value = os.environ.get(f"AGENTBOOK_{option.upper()}")
        if value:
            command += [f"--{option}", value]
    # A session of its own: an interrupt in the notebook's terminal must not end what other kernels use.
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and command
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, close_fds=True
        )
    until = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < until:
        running = _answering(data)
        if running is not None and running.pid == process.pid:
            _children.append(process)
            with contextlib.suppress(OSError):  # a full disk costs no more than another port next time
                (data / _PORT).write_text(str(urlsplit(running.base_url).port))
            return running
        time.sleep(0.05)  # another process: there is nothing to wait on but its answer
    if process.poll() is None:
        process.terminate()
        raise ConnectionFailed(
            f"connect: the embedded service did not answer within {START_TIMEOUT_S:.0f} s; see {log}."
        )
    said = log.read_text(errors="replace").strip().splitlines()
    raise ConnectionFailed(f"connect: the embedded service did not start: {said[-1] if said else f'see {log}'}")


_children: list[
    subprocess.Popen[bytes]
] = []  # kept, so that a service that outlives this process is not reported as lost


def local_key(running: Running) -> ApiKey:
    """The key that notebooks on this machine use with the embedded service; made on first use.

    One key for all of them, since a follow-up may only be posted by the key that started the chat.
    """
    path = running.data / KEY_FILE
    with _starting(running.data):
        known = read_key(path)
        if known is not None and _accepted(running, known):
            return known
        made = _make_key(running.data)
        fresh = path.with_suffix(f".{os.getpid()}")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump({"api_key": made}, file)
        fresh.replace(path)
        return ApiKey(made)


def read_key(path: Path) -> ApiKey | None:
    """The key in a key file; None where there is none, or nothing that is one."""
    try:
        return ApiKey(json.loads(path.read_text())["api_key"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _accepted(running: Running, key: ApiKey) -> bool:
    """Whether the service knows this key: it may have been revoked, or belong to an older store."""
    with Client(running.base_url, credentials=key) as client:
        try:
            client.me.get()
        except Unauthorized:
            return False
    return True


def _make_key(data: Path) -> str:
    from .service import admin, demo
    from .service.errors import OperatorError
    from .service.store import Store

    store = Store(data)
    try:
        for account in (demo.ACCOUNT, FALLBACK_ACCOUNT):
            with contextlib.suppress(OperatorError):
                return admin.create_key(store, account, "notebook", LOCAL_SCOPES)
        admin.create_account(store, FALLBACK_ACCOUNT, "user")
        return admin.create_key(store, FALLBACK_ACCOUNT, "notebook", LOCAL_SCOPES)
    except OperatorError as problem:
        raise AgentbookError(f"connect: no key could be made for the embedded service: {problem}") from None
    finally:
        store.close()
