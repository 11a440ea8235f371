"""The database of the tests' stores.

SQLite, unless ``AGENTBOOK_TESTS_DATABASE`` names a PostgreSQL database. There every
data directory is lent a database of its own, so that tests do not see each other's data
and a store can be opened again. It is emptied and lent again after the test: to create
the tables takes longer than most tests. `Cluster` is a private PostgreSQL server in a
temporary directory, reached over a Unix socket.
"""

from __future__ import annotations

import functools
import os
import pwd
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from sqlalchemy import event, make_url

from agentbook.service.ids import Clock
from agentbook.service.store import Store
from agentbook.service.store.engine import STORE_FILE
from agentbook.service.store.tables import SCHEMA_VERSION, metadata

T = TypeVar("T")

VARIABLE = "AGENTBOOK_TESTS_DATABASE"
PLATFORMS = "AGENTBOOK_TESTS_PLATFORMS"
HOW_TO_GET_IT = "PostgreSQL is not tested: there is no server here; `apt-get install postgresql` brings one"


def platforms() -> int:
    """How many processes a platform of the tests has; on SQLite, one."""
    return int(os.environ.get(PLATFORMS, "1")) if VARIABLE in os.environ else 1


def open_store(data: Path, clock: Clock | None = None) -> Store:
    """The store of a data directory, which does not survive a power cut."""
    base = os.environ.get(VARIABLE)
    if base is not None:
        return Store(data, database_url(base, data), clock=clock)
    store = Store(data, clock=clock)
    event.listen(store.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous = OFF"))
    store.engine.dispose()  # the connections so far
    return store


def open_copy(data: Path, fill: Callable[[Store], T]) -> tuple[Store, T]:
    """A new store that `fill` has filled, and what `fill` returned.

    On SQLite, `fill` runs once for all tests, and each gets a copy of its store.
    """
    if VARIABLE in os.environ:
        store = open_store(data)
        return store, fill(store)
    content, facts = _filled(fill)
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (data / STORE_FILE).open("xb") as file:
        file.write(content)
    return open_store(data), facts


@functools.cache
def _filled(fill: Callable[[Store], T]) -> tuple[bytes, T]:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        try:
            facts = fill(store)
        finally:
            store.close()
        return (Path(folder) / STORE_FILE).read_bytes(), facts


_lent: dict[Path, str] = {}  # the URLs of databases, by the data directory
_free: list[str] = []


def database_url(base: str, data: Path) -> str:
    """The URL of the data directory's own database, empty at first.

    `base` is the URL of another database of the same server.
    """
    if data not in _lent:
        free = next((url for url in _free if _named(url, "") == _named(base, "")), None)
        if free is not None:
            _free.remove(free)
            _empty(free)
            _lent[data] = free
        else:
            name = f"lent_{os.getpid()}_{len(_lent) + len(_free)}"
            _execute(base, f"CREATE DATABASE {name}")
            _lent[data] = _named(base, name)
    return _lent[data]


def give_back(folder: Path) -> None:
    """Lend the databases of the data directories in `folder` to others."""
    _free.extend(_lent.pop(data) for data in [data for data in _lent if data.is_relative_to(folder)])


def _empty(url: str) -> None:
    if _execute(url, "SELECT to_regclass('meta')") == [(None,)]:
        return  # lent to a test that wrote nothing
    if _execute(url, "SELECT value FROM meta WHERE name = 'schema_version'") != [(str(SCHEMA_VERSION),)]:
        return without_tables(url)  # lent to a test of an upgrade
    rows = "; ".join(f"DELETE FROM {table}" for table in metadata.tables if table != "meta")
    facts = "DELETE FROM meta WHERE name <> 'schema_version'"
    _execute(url, f"SET session_replication_role = replica; {rows}; {facts}")  # foreign keys are not checked


def content(url: str) -> bytes:
    """All rows of a database, as text."""
    rows = [row for table in metadata.tables for row in _execute(url, f"SELECT t::text FROM {table} AS t")]
    return "\n".join(row[0] for row in rows).encode()


def without_tables(url: str) -> None:
    """Drop the tables of a database that was lent."""
    _execute(url, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")


def _named(base: str, name: str) -> str:
    return make_url(base).set(database=name).render_as_string(False)


def _execute(url: str, sql: str) -> list[tuple[Any, ...]]:
    import psycopg

    with psycopg.connect(url.replace("postgresql+psycopg:", "postgresql:"), autocommit=True) as connection:
        answer = connection.execute(sql)  # type: ignore[arg-type]
        return answer.fetchall() if answer.description else []


def server_binaries() -> Path | None:
    """Return the directory of initdb and postgres, or None. Not on PATH on Debian."""
    directories = [Path(folder).parent for folder in [shutil.which("initdb")] if folder]
    directories += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next(
        (folder for folder in directories if (folder / "initdb").exists() and (folder / "postgres").exists()), None
    )


class Cluster:
    """A PostgreSQL server that runs until the end of the ``with`` block.

    It also ends, and its files are removed, when this process dies, however it does.

    One that is not `durable` does not survive a power cut, and a kill -9 of the service
    does not need that either.
    """

    def __init__(self, binaries: Path, *, durable: bool = False) -> None:
        self._binaries = binaries
        self._speed = "" if durable else "-c fsync=off -c full_page_writes=off"
        self.folder = Path(tempfile.mkdtemp(prefix="agentbook-pg-"))
        # PostgreSQL refuses to run as root; there the system's own user for it does.
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            account = pwd.getpwnam(self._user)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        self._remover = self._start_remover()
        self._run("initdb", "-D", str(self.folder / "data"), "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8")
        self.url = f"postgresql+psycopg://postgres@/postgres?host={self.folder}"
        self.start()

    def _start_remover(self) -> subprocess.Popen[bytes]:
        """Stop the server and remove its files once the pipe closes or this dies."""
        stop = [self._binaries / "pg_ctl", "-D", self.folder / "data", "-m", "immediate", "-w", "stop"]
        quoted = shlex.join(map(str, stop)), shlex.quote(str(self.folder))
        return subprocess.Popen(
            ["/bin/sh", "-c", "cat; {}; rm -rf {}".format(*quoted)],
            user=self._user,
            group=self._user,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a signal to the test's process group leaves it
        )

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses='' {self._speed} -c max_connections=200"
        log = str(self.folder / "log")
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-l", log, "-w", "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._binaries / program, *arguments],
            user=self._user,
            group=self._user,
            cwd=self.folder,
            check=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._remover as remover:
            assert remover.stdin is not None
            remover.stdin.close()
