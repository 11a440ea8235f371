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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from .. import admin, demo, discovery_file
from ..discovery_file import KEY_FILE, RunningService
from ..engines.base import Engine
from ..engines.function import FunctionEngine, check_function
from ..engines.meter import RunLimits
from ..engines.registry import FUNCTION
from ..errors import OperatorError
from ..faults.administration import admin_token
from ..faults.switch import Switch
from ..ids import Clock
from ..proxies import LOOPBACK_HOSTS, TrustedProxies
from ..state import Platform
from ..store import Seeding, Store
from ..store.engine import STORE_FILE, prepare_directory, writing_to
from ..store.lock import LOCK_FILE, locked
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
        The limit of each key, and of each address without one; 0 for none. Each of the
        services on one database counts for itself.
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
    functions: Mapping[str, str] = field(default_factory=dict)
    reload: bool = False
    engines: Callable[[str], Engine] | None = None


def serve(settings: Settings) -> None:
    """Run the service until a signal ends it.

    Raises
    ------
    OperatorError
        The port, the data directory or the store cannot be used, or not any more; the
        message names the remedy.
    """
    public = None if settings.public_url is None else _check_public_url(settings.public_url)
    proxies = TrustedProxies([*settings.trusted_proxies, *(("127.0.0.0/8", "::1") if public is not None else ())])
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(contextlib.closing(_bind(settings.host, settings.port)))
        for name, function in settings.functions.items():
            check_function(name, function)
        prepare_directory(settings.data)
        if settings.database is None:
            stack.enter_context(locked(settings.data))
        stack.callback(discovery_file.withdraw, settings.data)
        store = stack.enter_context(
            contextlib.closing(Store(settings.data, settings.database, seeding=settings.seeding))
        )
        if left_out := demo.write_once(store, bare=settings.bare):
            print(f"agentbook: {left_out}", file=sys.stderr)
        if settings.until_unused and not (settings.data / KEY_FILE).exists():
            with contextlib.suppress(OSError):  # notebooks then try themselves, and say what is wrong
                admin.create_local_key(store, settings.data)
        for name in settings.functions:
            admin.add_agent(store, name, FUNCTION + name)
        faults = Switch(stack.enter_context(admin_token(settings.data))) if settings.faults else None
        _run(settings, store, listener, public, proxies, faults)


def _run(
    settings: Settings,
    store: Store,
    listener: socket.socket,
    public: str | None,
    proxies: TrustedProxies,
    faults: Switch | None,
) -> None:
    """Serve a store on a port that is bound, until a signal ends it."""
    host, port = settings.host, listener.getsockname()[1]
    root_url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    service = RunningService(
        settings.data,
        root_url + VERSION_PATH,
        os.getpid(),
        secrets.token_urlsafe(32),
        (public or root_url) + VERSION_PATH,
        settings.database is not None,
    )

    def announce() -> None:
        with writing_to(settings.data):
            discovery_file.announce(service, port)
        print(_ready_line(service.base_url, settings.data, store.clock), file=sys.stderr, flush=True)

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
            seed=store.clock.seed or 0,
            limits=settings.limits,
        ),
        root_url=public or root_url,
        hosts=_accepted_hosts(settings.host, public),
        proxies=proxies,
        requests_per_minute=settings.requests_per_minute,
        faults=faults,
    )
    app = build(platform, settings.monitoring, prove=partial(discovery_file.proof, service.token, service.base_url))
    users = settings.data if settings.until_unused else None
    files = [settings.data / name for name in (STORE_FILE, LOCK_FILE)] if settings.database is None else []
    server = Server(platform, app, announce, settings.drain_s, users, files)
    server.run(sockets=[listener])
    if server.lost is not None:
        raise OperatorError(
            f"{server.lost} was removed or replaced while this service used it, so it has stopped; start it again."
        )


def _ready_line(base_url: str, data: Path, clock: Clock) -> str:
    line = f"agentbook serves {base_url} from {data} (pid {os.getpid()}); Ctrl+C ends it."
    if clock.seed is not None:
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
