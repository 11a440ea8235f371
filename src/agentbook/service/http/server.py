"""Running the service as a process.

The port is bound first and the data directory locked next, so a problem with either is
reported before anything is written. The store, demo data included, is complete before
the first request is answered.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from .. import admin, demo, discovery_file, ids
from ..cluster.workers import SharedMetrics, Worker, Workers, WorkerServer
from ..discovery_file import RunningService
from ..engines.base import Engine
from ..engines.function import FunctionEngine, check_function
from ..engines.meter import RunLimits
from ..engines.registry import FUNCTION
from ..errors import OperatorError
from ..faults.administration import admin_token
from ..faults.switch import Switch
from ..ids import Clock
from ..proxies import LOOPBACK, LOOPBACK_HOSTS, TrustedProxies
from ..state import Platform
from ..store import Seeding, Store
from ..store.engine import prepare_directory, writing_to
from ..store.lock import DataLock
from ..turns.runner import TurnSettings
from .app import VERSION_PATH, build
from .monitoring import Monitoring
from .uvicorn_server import WAITING_CONNECTIONS, Server

_URL = re.compile(r"[^\s?#\\\x00-\x1f\x7f]+")
# A thousand a second: a notebook stays far below that, a runaway loop does not.
REQUESTS_PER_MINUTE = 60_000


@dataclass(frozen=True, slots=True)
class Settings:
    """How a service runs.

    Attributes
    ----------
    data : Path
        The data directory: the store, and the files that announce the service.
    host, port : str, int
        Where to listen; port 0 takes a free one. Listening beyond the loopback
        interface must be asked for.
    database : str or None
        URL of a PostgreSQL database instead of the SQLite store in `data`.
    public_url : str or None
        Where others reach the service, such as ``https://host`` of a proxy in front of
        it. Used in the metadata documents and links, and accepted as a Host header.
        None uses the address it listens on.
    trusted_proxies : tuple of str
        Addresses and networks of proxies whose ``X-Forwarded-For`` is believed. With
        `public_url`, one on this machine is too (see `proxies`).
    bare : bool
        Do not write the demo data into a store that has none.
    speed : float
        The speed of agents: 2 halves their pauses, 0 removes them.
    seeding : Seeding or None
        Seed for a new store: the same requests then give the same answers (see
        `store.seeded`).
    until_unused : bool
        Serve the notebooks of this machine: write their key to a file (see
        `admin.create_local_key`), and stop when no registered process is alive (see
        `discovery_file`).
    turn_ceiling_s : float
        Wall-clock ceiling of a turn, in seconds.
    requests_per_minute : int
        The limit of each key, and of each address without one; 0 for none.
    limits : RunLimits
        What one turn may use, and the monthly budgets.
    faults : bool
        Offer faults on demand to this machine, at ``/_admin/faults`` with the token in
        the file ``admin-token``.
    monitoring : Monitoring
        Who sees the metrics, and where requests are logged. By default this machine
        alone sees them.
    drain_s : float
        How long to answer after a signal to stop, in seconds, while running turns end.
    workers : int
        How many processes serve the port; more than one takes `database`.
    functions : mapping of str to str
        Agents that are functions: by full name, ``MODULE:FUNCTION``.
    reload : bool
        Whether each turn of those runs with their code as it is now.
    engines : callable or None
        The engine of each name; None means the engines in the package.
    """

    data: Path
    host: str = "127.0.0.1"
    port: int = 8765
    database: str | None = None
    public_url: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    bare: bool = False
    speed: float = 1.0
    seeding: Seeding | None = None
    until_unused: bool = False
    turn_ceiling_s: float = 600.0
    requests_per_minute: int = REQUESTS_PER_MINUTE
    limits: RunLimits = field(default_factory=RunLimits)
    faults: bool = False
    monitoring: Monitoring = field(default_factory=Monitoring)
    drain_s: float = 0.0
    workers: int = 1
    functions: Mapping[str, str] = field(default_factory=dict)
    reload: bool = False
    engines: Callable[[str], Engine] | None = None


def serve(settings: Settings) -> None:
    """Run the service until a signal ends it.

    Raises
    ------
    OperatorError
        The port, the data directory or the store cannot be used; the message names
        the remedy.
    """
    public = None if settings.public_url is None else _check_public_url(settings.public_url)
    proxies = TrustedProxies([*settings.trusted_proxies, *(LOOPBACK if public is not None else ())])
    if settings.workers > 1:
        _check_workers(settings)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(contextlib.closing(_bind(settings.host, settings.port)))
        for name, function in settings.functions.items():
            check_function(name, function)
        prepare_directory(settings.data)
        if settings.database is None:
            stack.callback(DataLock(settings.data).release)
        service = _Service(settings, listener, public, proxies)
        stack.callback(discovery_file.withdraw, settings.data)
        with _opened_store(settings, settings.seeding) as store:
            if left_out := demo.write_once(store, bare=settings.bare):
                print(f"agentbook: {left_out}", file=sys.stderr)
            if settings.until_unused:
                admin.create_missing_local_key(store, settings.data)
            for name in settings.functions:
                admin.add_agent(store, name, FUNCTION + name)
            if settings.workers == 1:
                return service.run(store)
            if store.clock.is_seeded:
                raise OperatorError("A seeded store belongs to one process: leave out --workers.")
        # The parent's connections are closed: none may be used by two processes.
        Workers(settings.workers, service.run_worker, partial(service.announce, store.clock)).run()


class _Service:
    """The service on a port that is bound; with workers, each of them runs it."""

    def __init__(
        self, settings: Settings, listener: socket.socket, public: str | None, proxies: TrustedProxies
    ) -> None:
        self._settings = settings
        self._listener = listener
        host, self._port = settings.host, listener.getsockname()[1]
        root_url = f"http://{f'[{host}]' if ':' in host else host}:{self._port}"
        self._public = public
        self._public_root = public or root_url
        self._base_url = root_url + VERSION_PATH
        self._proxies = proxies
        self._token = secrets.token_urlsafe(32)

    def announce(self, clock: Clock) -> None:
        """Write ``service.json`` and the line that says that the service is ready."""
        settings = self._settings
        service = RunningService(
            settings.data,
            self._base_url,
            os.getpid(),
            ids.now(),
            self._token,
            self._public_root + VERSION_PATH,
            settings.database is not None,
        )
        with writing_to(settings.data):
            discovery_file.announce(service, self._port)
        print(_ready_line(self._base_url, settings, clock), file=sys.stderr, flush=True)

    def run_worker(self, worker: Worker) -> None:
        """Serve as one of several processes."""
        with _opened_store(self._settings) as store:
            self.run(store, worker)

    def run(self, store: Store, worker: Worker | None = None) -> None:
        """Serve until a signal ends it."""
        settings = self._settings
        with admin_token(settings.data) if settings.faults else contextlib.nullcontext() as fault_token:
            platform = Platform(
                store,
                engines=settings.engines,
                functions={
                    FUNCTION + name: FunctionEngine(function, reload=settings.reload)
                    for name, function in settings.functions.items()
                },
                settings=TurnSettings(
                    ceiling_s=settings.turn_ceiling_s,
                    delay_factor=1 / settings.speed if settings.speed else 0.0,
                    seed=store.clock.seed,
                    limits=settings.limits,
                ),
                root_url=self._public_root,
                hosts=_accepted_hosts(settings.host, self._public),
                proxies=self._proxies,
                requests_per_minute=settings.requests_per_minute,
                faults=None if fault_token is None else Switch(fault_token),
            )
            prove = partial(discovery_file.proof, self._token, self._base_url)
            users = settings.data if settings.until_unused else None
            if worker is None:
                app = build(platform, settings.monitoring, prove=prove)
                server = Server(platform, app, partial(self.announce, store.clock), settings.drain_s, users)
            else:
                metrics = SharedMetrics(platform, worker.numbers)
                app = build(platform, settings.monitoring, metrics=metrics, prove=prove)
                server = WorkerServer(worker, metrics, platform, app, settings.drain_s, users)
            server.run(sockets=[self._listener])


@contextlib.contextmanager
def _opened_store(settings: Settings, seeding: Seeding | None = None) -> Iterator[Store]:
    """The open store, with the lock that services sharing a database hold."""
    with contextlib.closing(Store(settings.data, settings.database, seeding=seeding)) as store:
        if settings.database is None:
            yield store
            return
        from ..cluster.postgres import joined_database

        with joined_database(store):
            yield store


def _check_workers(settings: Settings) -> None:
    if settings.database is None:
        raise OperatorError(
            "--workers needs a PostgreSQL database, see --database: a store in a directory has one process."
        )
    if settings.seeding is not None:
        raise OperatorError("A seeded store belongs to one process: leave out --workers.")
    if settings.faults:
        raise OperatorError("Faults belong to one process: leave out --workers, or --faults.")
    if sys.platform == "win32":
        raise OperatorError("--workers is not available on Windows; start several services behind a proxy.")


def _ready_line(base_url: str, settings: Settings, clock: Clock) -> str:
    number = f" with {settings.workers} processes" if settings.workers > 1 else ""
    line = f"agentbook serves {base_url} from {settings.data}{number} (pid {os.getpid()}); Ctrl+C ends it."
    if clock.is_seeded:
        line += f" Seeded with {clock.seed}: ids, times and secrets repeat themselves; for tutorials and tests only."
    return line


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(socket.socket(family, kind, protocol))
            if sys.platform != "win32":  # there it would let two services share a port
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(WAITING_CONNECTIONS)
            stack.pop_all()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise OperatorError(
            f"Cannot listen on {host}:{port} ({reason}); choose another with --port, or 0 for any."
        ) from None
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
    forwards the name that the browser used. No browser runs on the same machine there,
    so none can be tricked into reaching the service.
    """
    on_a_hub = bool(os.environ.get("JUPYTERHUB_SERVICE_PREFIX"))
    if on_a_hub or host not in LOOPBACK_HOSTS:
        return None
    return LOOPBACK_HOSTS if public is None else LOOPBACK_HOSTS | {urlsplit(public).hostname or ""}
