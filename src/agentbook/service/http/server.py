"""Running the service as a process.

The port is bound first and the data directory locked next, so a problem with either is
reported before anything is written. The store, demo data included, is complete before
the first request is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import re
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import uvicorn
from sqlalchemy import insert, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from .. import discovery_file, ids
from ..engines.base import Engine
from ..engines.meter import RunLimits
from ..errors import OperatorError
from ..faults import Switch, admin_token
from ..state import Platform
from ..store import Seeding, Store, Transaction
from ..store.engine import prepare_directory
from ..store.lock import DataLock
from ..store.tables import meta
from ..turns.runner import TurnSettings
from .app import VERSION_PATH, build
from .connection import Connection as HTTPConnection
from .connection import Socket, connection_class, refusal
from .middleware import loopback_hosts
from .proof import ProofOfIdentity
from .reception import Reception

if TYPE_CHECKING:
    from sqlalchemy import Connection

_CLOSE_SOCKETS_S = 2.0
_URL = re.compile(r"[^\s?#\\\x00-\x1f\x7f]+")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
DEMO_SEED = 20260901
# A thousand a second: a notebook stays far below, a runaway loop does not.
REQUESTS_PER_MINUTE = 60_000


def run(
    *,
    data: Path,
    host: str = "127.0.0.1",
    port: int = 8765,
    database: str | None = None,
    public_url: str | None = None,
    bare: bool = False,
    speed: float = 1.0,
    seeding: Seeding | None = None,
    until_unused: bool = False,
    turn_ceiling_s: float = 600.0,
    requests_per_minute: int = REQUESTS_PER_MINUTE,
    limits: RunLimits | None = None,
    faults: bool = False,
    engines: Callable[[str], Engine] | None = None,
) -> None:
    """Run the service until a signal ends it.

    Parameters
    ----------
    data
        The data directory: the store, and the files that announce the service.
    host, port
        Where to listen; port 0 takes a free one. Listening beyond the loopback
        interface must be asked for.
    database
        URL of a PostgreSQL database instead of the SQLite store in `data`.
    public_url
        Where others reach the service, such as ``https://host`` of a proxy in front of
        it. Used in the metadata documents and links, and accepted as a Host header.
        None uses the address it listens on.
    bare
        Do not write the demo data into a store that has none.
    speed
        The speed of agents: 2 halves their pauses, 0 removes them.
    seeding
        Seed for a new store: the same requests then give the same answers (see
        `store.seeded`).
    until_unused
        Stop when no registered process is alive (see `discovery_file`).
    turn_ceiling_s
        Wall-clock ceiling of a turn, in seconds.
    requests_per_minute
        The limit of each key, and of each address without one; 0 for none.
    limits
        What one turn may use, and the monthly budgets; None for the defaults.
    faults
        Offer faults on demand to this machine, at ``/_admin/faults`` with the token in
        the file ``admin-token``.
    engines
        The engine of each name; None means the engines in the package.

    Raises
    ------
    OperatorError
        The port, the data directory or the store cannot be used; the message names
        the remedy.
    """
    public = None if public_url is None else _check_public_url(public_url)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(contextlib.closing(_bind(host, port)))
        prepare_directory(data)
        lock = DataLock(data)
        stack.callback(lock.release)
        store = Store(data, database, seeding=seeding)
        stack.callback(store.close)
        stack.callback(_lock_database(store))
        if not bare:
            _write_demo(store)
        port = listener.getsockname()[1]
        root_url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        platform = Platform(
            store,
            engines=engines,
            settings=TurnSettings(
                ceiling_s=turn_ceiling_s,
                pace=1 / speed if speed else 0.0,
                seed=store.clock.seed,
                limits=limits or RunLimits(),
            ),
            root_url=public or root_url,
            hosts=_accepted_hosts(host, public),
            requests_per_minute=requests_per_minute,
            faults=Switch(stack.enter_context(admin_token(data))) if faults else None,
        )
        platform.turns.end_interrupted_turns()
        # Threads that compute let the loop run within a millisecond.
        sys.setswitchinterval(0.001)
        server = _Server(platform, data, root_url, port, until_unused=until_unused, behind_proxy=public is not None)
        stack.callback(discovery_file.withdraw, data)
        server.run(sockets=[listener])


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        if sys.platform != "win32":  # there it would let two services share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(2048)
        except OSError:
            listener.close()
            raise
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise OperatorError(
            f"Cannot listen on {host}:{port} ({reason}); choose another with --port, or 0 for any."
        ) from None
    listener.setblocking(False)
    return listener


def _check_public_url(url: str) -> str:
    """Validate a public address and remove its trailing slash."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid or "@" in parts.netloc or not _URL.fullmatch(url):
        raise OperatorError("--public-url takes an address such as https://host, without user, query or fragment.")
    return url.rstrip("/")


def _accepted_hosts(host: str, public: str | None) -> frozenset[str] | None:
    """Return the Host headers to accept; None for any.

    On a JupyterHub the browser reaches the service through the hub's proxy, which
    forwards the name that the browser used. No browser runs beside the service there,
    so none can be tricked into reaching it.
    """
    on_a_hub = bool(os.environ.get("JUPYTERHUB_SERVICE_PREFIX"))
    named = [] if public is None else [urlsplit(public).hostname or ""]
    return loopback_hosts(*named) if host in _LOOPBACK and not on_a_hub else None


def _lock_database(store: Store) -> Callable[[], None]:
    """Lock a PostgreSQL database against a second service; returns the release."""
    if store.engine.dialect.name != "postgresql":
        return lambda: None
    connection: Connection = store.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    if not connection.exec_driver_sql("SELECT pg_try_advisory_lock(7233172)").scalar():
        connection.close()
        raise OperatorError("Another service is using this database; stop it, or give this one its own.")

    def release() -> None:
        with contextlib.suppress(DBAPIError):
            connection.exec_driver_sql("SELECT pg_advisory_unlock(7233172)")
        connection.close()

    return release


def _write_demo(store: Store) -> None:
    """Write the demo data once into a store, completely or not at all."""
    from .. import demo

    def write(tx: Transaction) -> None:
        if tx.db.execute(select(meta.c.value).where(meta.c.name == "demo")).first() is not None:
            return
        now = datetime.fromtimestamp(tx.clock.milliseconds() / 1000, UTC)
        demo.write(tx.db, seed=tx.clock.seed if tx.clock.repeats else DEMO_SEED, now=now)
        if tx.db.execute(select(meta.c.value).where(meta.c.name == "demo")).first() is None:
            tx.db.execute(insert(meta), {"name": "demo", "value": str(DEMO_SEED)})

    try:
        store.write_now(write)
    except (IntegrityError, ValueError):
        # An account created beforehand has the name of a demo account.
        print(
            "agentbook: the demo data is left out because some of its names are taken; use --bare to skip it.",
            file=sys.stderr,
        )


def _is_genuine(record: logging.LogRecord) -> bool:
    # uvicorn 0.54's sans-I/O sockets log this for every rejected handshake, although
    # the response was sent in full.
    return record.msg != "ASGI callable returned without completing handshake."


class _Server(uvicorn.Server):
    """uvicorn with a ready line, a close code for sockets, and a clean exit."""

    def __init__(
        self, platform: Platform, data: Path, root_url: str, port: int, *, until_unused: bool, behind_proxy: bool
    ) -> None:
        self._token, self._base_url = secrets.token_urlsafe(32), root_url + VERSION_PATH
        # Access logs would contain paths and query strings; uvicorn's other lines do
        # not.
        config = uvicorn.Config(
            ProofOfIdentity(build(platform), self._token, self._base_url),
            access_log=False,
            log_config=None,
            lifespan="on",
            http=connection_class(platform),
            ws=Socket,
            ws_per_message_deflate=False,
            ws_max_size=64 * 1024,
            server_header=False,
            proxy_headers=behind_proxy,  # otherwise clients could choose the address they are counted by
            # Many clients drop an idle connection after 5 s; it must not close while
            # one is sending.
            timeout_keep_alive=65,
            timeout_graceful_shutdown=5,
        )
        super().__init__(config)
        logging.getLogger("uvicorn").setLevel(logging.ERROR)
        logging.getLogger("uvicorn.error").addFilter(_is_genuine)
        self._platform = platform
        self._data = data
        self._port = port
        self._until_unused = until_unused
        self._watch: asyncio.Task[None] | None = None
        self._receptions: list[Reception] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if sys.platform == "win32":  # its loop cannot watch a socket
            await super().startup(sockets)
        else:
            await super().startup([])
            self._receptions = [
                Reception(listener, self._create_connection, partial(refusal, self._platform))
                for listener in sockets or ()
            ]
        discovery_file.announce(self._data, self._base_url, self._port, ids.now(), token=self._token)
        if self._until_unused:
            self._watch = asyncio.create_task(discovery_file.until_unused(self._data, self._end))
        ready = f"agentbook serves {self._base_url} from {self._data} (pid {os.getpid()}); Ctrl+C ends it."
        clock = self._platform.store.clock
        if clock.repeats:
            ready += (
                f" Seeded with {clock.seed}: ids, times and secrets repeat themselves; for tutorials and tests only."
            )
        # What was loaded lives as long as the service. To look through it for garbage
        # stops everything for 50 ms, and several times as long on a busy machine.
        gc.collect()
        gc.freeze()
        print(ready, file=sys.stderr, flush=True)

    def _create_connection(self) -> HTTPConnection:
        kind = self.config.http_protocol_class
        state, app_state = self.server_state, self.lifespan.state
        return kind(config=self.config, server_state=state, app_state=app_state)  # type: ignore[call-arg,return-value]

    def _end(self) -> None:
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for reception in self._receptions:
            reception.close()
        # Close sockets with 1001 (going away) before uvicorn closes them with 1012.
        self._platform.hub.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._platform.hub.empty.wait(), _CLOSE_SOCKETS_S)
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, but without raising the signal again: the exit code is 0."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop in order on the first signal, at once on the second."""
        self.force_exit = self.should_exit
        self.should_exit = True
