"""Running the service as a process: bind, lock, open, serve, end.

The order matters. The port is bound first and the data directory locked next, so whatever is wrong with either is said
before anything is written; and the store is complete, demo data included, before the first request is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import uvicorn
from sqlalchemy import insert, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from .. import discovery_file, ids
from ..engines.base import Engine
from ..errors import OperatorError
from ..faults import Switch, admin_token
from ..state import Platform
from ..store import Seeding, Store, Transaction
from ..store.engine import prepare_directory
from ..store.lock import DataLock
from ..store.tables import meta
from ..turns.runner import TurnSettings
from .app import VERSION_PATH, build
from .connection import connections
from .middleware import loopback_hosts

if TYPE_CHECKING:
    from sqlalchemy import Connection

_GOODBYE_S = 2.0
_URL = re.compile(r"[^\s?#\\\x00-\x1f\x7f]+")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
DEMO_SEED = 20260901
# A thousand a second: no notebook on this machine meets it, a loop that went wild does.
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
    faults: bool = False,
    engines: Callable[[str], Engine] | None = None,
) -> None:
    """Run the service until a signal ends it.

    Parameters
    ----------
    data
        The data directory: the store, and the files by which the service is found.
    host, port
        Where to listen; port 0 takes a free one. Anything but the loopback interface must be named on purpose.
    database
        URL of a PostgreSQL database instead of the SQLite store in `data`.
    public_url
        Where others reach the service, such as ``https://host`` of a proxy before it: what stands in the metadata documents
        and links. A Host header with its name is answered. None means the address it listens on.
    bare
        Leave out the demo data on a store that has none yet.
    speed
        How fast agents are: 2 halves every pause they make, 0 leaves every pause out.
    seeding
        Begin a fresh store with a seed, so that the same requests give the same answers (see `store.seeded`).
    until_unused
        End when no registered process is left (see `presence`).
    turn_ceiling_s
        Wall-clock ceiling of a turn, in seconds.
    requests_per_minute
        What each key, and each address without one, may ask for in a minute; 0 for no limit.
    faults
        Offer faults on demand to this machine, at ``/_admin/faults`` with the token in the file ``admin-token``.
    engines
        The engine of each name; None means the engines in the package.

    Raises
    ------
    OperatorError
        The port, the data directory or the store cannot be used; the message says what to do.
    """
    public = None if public_url is None else _public(public_url)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(contextlib.closing(_bound(host, port)))
        prepare_directory(data)
        lock = DataLock(data)
        stack.callback(lock.release)
        store = Store(data, database, seeding=seeding)
        stack.callback(store.close)
        stack.callback(_exclusive(store))
        if not bare:
            _write_demo(store)
        port = listener.getsockname()[1]
        root_url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        platform = Platform(
            store,
            engines=engines,
            settings=TurnSettings(ceiling_s=turn_ceiling_s, pace=1 / speed if speed else 0.0, seed=store.clock.seed),
            root_url=public or root_url,
            hosts=_answered_hosts(host, public),
            requests_per_minute=requests_per_minute,
            faults=Switch(stack.enter_context(admin_token(data))) if faults else None,
        )
        platform.turns.end_interrupted_turns()
        server = _Server(platform, data, root_url, port, until_unused=until_unused, behind_proxy=public is not None)
        stack.callback(discovery_file.withdraw, data)
        server.run(sockets=[listener])


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        if sys.platform != "win32":  # there it would let two services share the port
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


def _public(url: str) -> str:
    """A public address as it stands in documents: checked, and without the slash at its end."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if not known or "@" in parts.netloc or not _URL.fullmatch(url):
        raise OperatorError("--public-url takes an address such as https://host, without user, query or fragment.")
    return url.rstrip("/")


def _answered_hosts(host: str, public: str | None) -> frozenset[str] | None:
    """The Host headers to answer; None for any, where the service is meant to be reached from elsewhere.

    On a hub the person's browser comes in by the hub's proxy, which hands on the name that the browser knows; no browser
    runs beside the service there, so there is none that could be tricked into reaching it.
    """
    on_a_hub = bool(os.environ.get("JUPYTERHUB_SERVICE_PREFIX"))
    named = [] if public is None else [urlsplit(public).hostname or ""]
    return loopback_hosts(*named) if host in _LOOPBACK and not on_a_hub else None


def _exclusive(store: Store) -> Callable[[], None]:
    """On PostgreSQL, the lock that keeps a second service off the database; what releases it."""
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
    """Write the demo data into a store that has had none, whole or not at all."""
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
        # An account made beforehand has the name of one of the demo's.
        left_out = "the demo data is left out, because names of it are taken; --bare asks for none."
        print(f"agentbook: {left_out}", file=sys.stderr)


def _is_no_false_alarm(record: logging.LogRecord) -> bool:
    # uvicorn 0.54's sans-I/O sockets say this of every refused handshake, though the refusal was sent in full.
    return record.msg != "ASGI callable returned without completing handshake."


class _Server(uvicorn.Server):
    """uvicorn, with our ready line, our goodbye to sockets, and a clean exit on a signal."""

    def __init__(
        self, platform: Platform, data: Path, root_url: str, port: int, *, until_unused: bool, behind_proxy: bool
    ) -> None:
        # Access logs would hold paths and query strings; uvicorn's own log lines carry none of the two.
        config = uvicorn.Config(
            build(platform),
            access_log=False,
            log_config=None,
            lifespan="on",
            http=connections(platform),
            ws="websockets-sansio",
            ws_per_message_deflate=False,
            ws_max_size=64 * 1024,
            server_header=False,
            proxy_headers=behind_proxy,  # else whoever sends them would choose the address that its requests count against
            # Clients give an idle connection up after 5 s, many of them: not to be closed while one sends.
            timeout_keep_alive=65,
            timeout_graceful_shutdown=5,
        )
        super().__init__(config)
        logging.getLogger("uvicorn").setLevel(logging.ERROR)
        logging.getLogger("uvicorn.error").addFilter(_is_no_false_alarm)
        self._platform = platform
        self._data = data
        self._root_url = root_url
        self._port = port
        self._until_unused = until_unused
        self._watch: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        base_url = self._root_url + VERSION_PATH
        discovery_file.announce(self._data, base_url, self._port, ids.now())
        if self._until_unused:
            self._watch = asyncio.create_task(discovery_file.until_unused(self._data, self._end))
        ready = f"agentbook serves {base_url} from {self._data} (pid {os.getpid()}); Ctrl+C ends it."
        clock = self._platform.store.clock
        if clock.repeats:
            ready += (
                f" Seeded with {clock.seed}: ids, times and secrets repeat themselves; for tutorials and tests only."
            )
        print(ready, file=sys.stderr, flush=True)

    def _end(self) -> None:
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Sockets hear 1001 (going away) from us before uvicorn would tell them 1012.
        self._platform.hub.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._platform.hub.empty.wait(), _GOODBYE_S)
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, but a signal that ended us in order is not raised again: the exit code is 0."""
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
        """The first signal ends the service in order, a second one at once."""
        self.force_exit = self.should_exit
        self.should_exit = True
