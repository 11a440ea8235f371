"""Opening a store: the data directory, the connections and the schema.

SQLite is put into WAL mode once, before anything else uses the file: switching later
fails with "database is locked" if several processes open it at once (measured, November
2026).
"""

from __future__ import annotations

import contextlib
import functools
import os
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, Select, create_engine, event, insert, inspect, make_url, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from .. import ids
from ..errors import OperatorError
from . import sign_in_tables  # noqa: F401 - create_all makes its tables, too
from .tables import SCHEMA_VERSION, meta, metadata

STORE_FILE = "store.db"
_BUSY_TIMEOUT_S = 5.0  # how long a write waits for another program's, such as a command's
_POOL_TIMEOUT_S = 10.0
# Time limits for PostgreSQL, unless the URL says otherwise: a server that is gone is
# noticed, and no statement holds a connection forever.
_TIMEOUTS = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "options": "-c statement_timeout=60s -c lock_timeout=15s",
}
# SQLSTATEs that mean "not now": connection lost, out of resources, about to stop, or a
# lock or statement that took too long.
_TRANSIENT_SQLSTATES = ("08", "53", "57", "55P03")
DAMAGED = "The store is damaged; its operator can restore a snapshot."
_SQLITE_REASONS = {
    sqlite3.SQLITE_BUSY: "Another program has locked the store.",
    sqlite3.SQLITE_LOCKED: "Another program has locked the store.",
    sqlite3.SQLITE_FULL: "The disk of the store is full.",
    sqlite3.SQLITE_IOERR: "The disk of the store cannot be written.",
    sqlite3.SQLITE_INTERRUPT: "This takes the store too long.",
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
}


def prepare_directory(data: Path) -> None:
    """Make sure that the data directory exists, is writable and private (mode 0700).

    Raises `OperatorError` if that fails.
    """
    with writing_to(data):
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A directory with other contents keeps its mode; our files in it are 0600
        # anyway.
        if (data / STORE_FILE).exists() or not any(data.iterdir()):
            data.chmod(0o700)
        if not os.access(data, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")


@contextlib.contextmanager
def writing_to(data: Path) -> Iterator[None]:
    """Raise an error of the data directory's files as `OperatorError`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise OperatorError(
            f"Cannot write to the data directory {data} ({reason}); choose another with --data."
        ) from None


def open_engine(data: Path, database: str | None = None) -> Engine:
    """Connect to the store of a data directory or database, and create its schema.

    Parameters
    ----------
    data
        The data directory. Contains ``store.db`` unless `database` is passed.
    database
        An SQLAlchemy URL such as ``postgresql+psycopg://user@host/name``. None uses
        SQLite in `data`.

    Raises
    ------
    OperatorError
        The directory is not writable, the URL is invalid or unreachable, or the store
        belongs to another version.
    """
    if database is None:
        prepare_directory(data)
        engine = _sqlite(data / STORE_FILE)
    else:
        engine = _by_url(database)
    try:
        with engine.execution_options(agentbook_begin="IMMEDIATE").begin() as connection:
            _create_schema(connection)
    except DBAPIError as error:
        engine.dispose()
        where = str(data / STORE_FILE) if database is None else make_url(database).render_as_string(hide_password=True)
        reason = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else type(error.orig).__name__
        raise OperatorError(f"Cannot open the store {where}: {reason}. Check the location, or use another.") from None
    except OperatorError:
        engine.dispose()
        raise
    return engine


def _sqlite(path: Path) -> Engine:
    # SQLite's side files (-wal, -shm) inherit the main file's mode, so a private main
    # file makes them private.
    try:
        _refuse_foreign(path)
        _make_private(path)
        with contextlib.closing(sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S)) as connection:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
    except (OSError, sqlite3.Error) as error:
        raise OperatorError(f"Cannot open the store {path}: {error}. Choose another --data directory.") from None
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"check_same_thread": False, "timeout": _BUSY_TIMEOUT_S},
        pool_size=8,
        max_overflow=24,
        hide_parameters=True,  # keeps search terms and stored values out of the log
    )
    event.listen(engine, "connect", _on_sqlite_connect)
    event.listen(engine, "begin", _on_sqlite_begin)
    return engine


def _refuse_foreign(path: Path) -> None:
    """Raise `OperatorError` for another program's database, which stays as it is."""
    if not path.exists():
        return
    with contextlib.closing(sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if tables and not {"meta", "accounts", "sessions"} <= tables:
        raise OperatorError(f"{path} is a database of another program. Choose another --data directory.")


def _make_private(path: Path) -> None:
    """Create the file if it is missing; only its owner can read and write it.

    A store that was copied here may have a different mode.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if sys.platform != "win32" and os.fstat(handle).st_uid == os.getuid():
            os.fchmod(handle, 0o600)
    finally:
        os.close(handle)


def _on_sqlite_connect(connection: Any, _record: Any) -> None:
    # SQLite's own `lower` only knows ASCII, but "É" must match "é", as on PostgreSQL.
    connection.create_function("lower", 1, _lower, deterministic=True)
    connection.isolation_level = None  # we begin transactions ourselves (below), not the driver
    for pragma in ("foreign_keys = ON", "synchronous = FULL", "cache_size = -8000", "temp_store = MEMORY"):
        connection.execute(f"PRAGMA {pragma}")


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _on_sqlite_begin(connection: Connection) -> None:
    # A write takes the write lock at once; upgrading a read lock fails if two do so at
    # the same time. A connection that begins by itself has an empty option.
    kind = connection.get_execution_options().get("agentbook_begin")
    if kind is None:  # it waits for no lock; SQLAlchemy would add 40 microseconds
        driver: Any = connection.connection.driver_connection
        driver.execute("BEGIN")
    elif kind:
        connection.exec_driver_sql(f"BEGIN {kind}")


def _on_postgres_begin(connection: Connection) -> None:
    # As with SQLite's BEGIN IMMEDIATE, a write waits for those of other processes
    # before its first read. The number stands for this one purpose.
    if connection.get_execution_options().get("agentbook_begin") == "IMMEDIATE":
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7233173)")


def _by_url(database: str) -> Engine:
    try:
        url = make_url(database)
        if url.get_backend_name() == "postgresql" and "+" not in url.drivername:
            url = url.set(drivername="postgresql+psycopg")
        if url.get_backend_name() != "postgresql":
            raise OperatorError(
                f"--database takes a PostgreSQL URL, not {url.get_backend_name()!r}; "
                "for SQLite name a directory with --data."
            )
        engine = create_engine(
            url,
            connect_args={name: value for name, value in _TIMEOUTS.items() if name not in url.query},
            pool_size=8,
            max_overflow=24,
            pool_timeout=_POOL_TIMEOUT_S,
            pool_pre_ping=True,
            hide_parameters=True,
        )
        event.listen(engine, "begin", _on_postgres_begin)
        return engine
    except (ArgumentError, NoSuchModuleError):
        raise OperatorError(
            "--database could not be understood; write it as postgresql://user:password@host/name."
        ) from None
    except ModuleNotFoundError:
        raise OperatorError("PostgreSQL needs a driver: pip install 'psycopg[binary]'.") from None


@functools.cache
def _prepared(query: Select[Any]) -> tuple[str, list[str], Mapping[str, Any]]:
    """A query as SQLite takes it, the order of its parameters, and those it brings."""
    compiled = query.compile(dialect=sqlite.dialect())
    return str(compiled), compiled.positiontup or [], compiled.params


def fetch(db: Connection, query: Select[Any], parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a query that most requests run, which is kept.

    On SQLite it goes to the driver, which takes a tenth of the time that it takes
    through SQLAlchemy: truth values are 0 and 1 there.
    """
    if db.dialect.name != "sqlite":
        return [dict(row) for row in db.execute(query, parameters).mappings()]
    sql, names, own = _prepared(query)
    values = {**own, **parameters}
    driver: Any = db.connection.driver_connection
    cursor = driver.execute(sql, [values[name] for name in names])
    columns = [column[0] for column in cursor.description]
    return [dict(zip(columns, row, strict=True)) for row in cursor]


def connection_parameters(engine: Engine) -> dict[str, Any]:
    """The parameters that connect psycopg to the same PostgreSQL, outside the pool."""
    _, parameters = engine.dialect.create_connect_args(engine.url)
    return {**{name: value for name, value in _TIMEOUTS.items() if name not in parameters}, **parameters}


def close_connections(engine: Engine) -> None:
    """Close the connections; one in use is closed when it is returned.

    SQLAlchemy alone would leave that one to the garbage collector.
    """
    event.listen(engine.pool, "checkin", lambda _, record: record.invalidate())
    engine.dispose()


def unavailable_reason(error: BaseException) -> str | None:
    """Why the store cannot answer now, but may soon; None for any other error."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        return _SQLITE_REASONS.get(getattr(cause, "sqlite_errorcode", 0) & 0xFF)
    if not isinstance(error, (DBAPIError, PoolTimeout)):
        return None
    state = getattr(cause, "sqlstate", None)
    is_lost = isinstance(error, PoolTimeout) or (isinstance(error, OperationalError) and state is None)
    if is_lost or getattr(error, "connection_invalidated", False) or (state or "").startswith(_TRANSIENT_SQLSTATES):
        return "The database does not answer."
    return None


def _create_schema(connection: Connection) -> None:
    """Create the tables that are missing, or refuse a store of another version."""
    version = str(SCHEMA_VERSION)
    if inspect(connection).has_table("meta"):
        version = str(connection.execute(select(meta.c.value).where(meta.c.name == "schema_version")).scalar())
    if version != str(SCHEMA_VERSION):
        raise OperatorError(
            f"This store has schema {version}, and this version of agentbook reads schema {SCHEMA_VERSION}. "
            "Serve it with the version that wrote it, or start anew with another --data directory or --database."
        )
    metadata.create_all(connection)
    if connection.execute(select(meta.c.name).where(meta.c.name == "schema_version")).first() is None:
        facts = {"schema_version": version, "created_at": ids.now()}
        connection.execute(insert(meta), [{"name": name, "value": value} for name, value in facts.items()])
