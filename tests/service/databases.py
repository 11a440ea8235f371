"""The database of the tests' stores.

SQLite, unless ``AGENTBOOK_TESTS_DATABASE`` names a PostgreSQL database. There every
data directory gets a schema of its own, so that tests do not see each other's data and
a store can be opened again. `Cluster` is a private PostgreSQL server in a temporary
directory, reached over a Unix socket.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from sqlalchemy import create_engine, event, make_url

from agentbook.service.store import Store
from agentbook.service.store.engine import STORE_FILE

T = TypeVar("T")

VARIABLE = "AGENTBOOK_TESTS_DATABASE"
HOW_TO_GET_IT = (
    "PostgreSQL is not tested here: `apt-get install postgresql` and `pip install 'agentbook[postgres]'` bring it"
)


def open_store(data: Path) -> Store:
    """The store of a data directory, which does not survive a power cut."""
    base = os.environ.get(VARIABLE)
    if base is not None:
        return Store(data, schema_url(base, data))
    store = Store(data)
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


def schema_url(base: str, data: Path) -> str:
    """The URL of the data directory's own schema, which is made if it is not there."""
    name = "t" + hashlib.sha256(str(data).encode()).hexdigest()[:24]
    engine = create_engine(base)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {name}")
    engine.dispose()
    return make_url(base).update_query_dict({"options": f"-csearch_path={name}"}).render_as_string(False)


def server_binaries() -> Path | None:
    """Return the directory of initdb and postgres, or None. Not on PATH on Debian."""
    directories = [Path(place).parent for place in [shutil.which("initdb")] if place]
    directories += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in directories if (place / "initdb").exists() and (place / "postgres").exists()), None)


class Cluster:
    """A PostgreSQL server that runs until the end of the ``with`` block."""

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self.place = Path(tempfile.mkdtemp(prefix="agentbook-pg-"))
        # PostgreSQL refuses to run as root; there the system's own user for it does.
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            account = pwd.getpwnam(self._user)
            os.chown(self.place, account.pw_uid, account.pw_gid)
        self._run("initdb", "-D", str(self.place / "data"), "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8")
        # Nothing here must survive a power cut, and a kill -9 of the service does not
        # need fsync either.
        options = f"-k {self.place} -c listen_addresses='' -c fsync=off -c max_connections=200"
        log = str(self.place / "log")
        self._run("pg_ctl", "-D", str(self.place / "data"), "-l", log, "-w", "-o", options, "start")
        self.url = f"postgresql+psycopg://postgres@/postgres?host={self.place}"

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._binaries / program, *arguments],
            user=self._user,
            group=self._user,
            cwd=self.place,
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
        self._run("pg_ctl", "-D", str(self.place / "data"), "-m", "immediate", "-w", "stop")
        shutil.rmtree(self.place, ignore_errors=True)
