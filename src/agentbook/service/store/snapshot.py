"""Snapshots: the whole store in one file, written while the service runs.

Writing and restoring are all or nothing. The new file is written next to its
destination, made durable and then moved there, so a failure leaves the old file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from .. import discovery_file
from ..errors import OperatorError
from .engine import STORE_FILE, prepare_directory
from .lock import DataLock
from .revocations import carry_over
from .tables import SCHEMA_VERSION, metadata

_BUSY_S = 30.0
_NOT_OURS = "is not a snapshot of an agentbook store; name a file that `agentbook snapshot` wrote."


def snapshot(data: Path, file: Path) -> int:
    """Write the store of a data directory to `file`, and return its size in bytes.

    Parameters
    ----------
    data
        The data directory. A service may be running on it: the snapshot is one
        consistent state of its store.
    file
        Where to write. An existing file is replaced; only its owner can read it.

    Raises
    ------
    OperatorError
        There is no store, the service of the directory has its store in PostgreSQL, or
        the file cannot be written. An existing file is unchanged.

    Examples
    --------
    >>> import tempfile
    >>> from agentbook.service.store import Store
    >>> directory = Path(tempfile.mkdtemp())
    >>> Store(directory / "data").close()
    >>> snapshot(directory / "data", directory / "today.db") > 4096
    True
    """
    discovery_file.require_own_store(data)
    store = data / STORE_FILE
    if not store.is_file():
        raise OperatorError(
            f"There is no store in {data}; name its directory with --data. "
            'A PostgreSQL database is saved with pg_dump: see the manual, "Deployment on PostgreSQL".'
        )
    if file.exists() and file.samefile(store):
        raise OperatorError(f"{file} is the store itself; name another file.")
    try:
        with _replacing(file) as fresh, contextlib.closing(sqlite3.connect(_uri(store), uri=True)) as db:
            db.execute(f"PRAGMA busy_timeout = {int(_BUSY_S * 1000)}")
            db.execute("VACUUM INTO ?", (str(fresh),))
    except (OSError, sqlite3.Error) as error:
        raise OperatorError(f"Cannot write the snapshot {file}: {_reason(error)}. Nothing was replaced.") from None
    return file.stat().st_size


def restore(file: Path, data: Path) -> list[str]:
    """Replace the store of a data directory with a snapshot.

    Everything that has ended since the snapshot stays ended: keys and authorizations
    that were revoked in the replaced store, and every browser session and sign-in link.
    A seed that the replaced store does not have is left out, because anyone who knows
    it would know every secret to come.

    Parameters
    ----------
    file
        A file that `snapshot` wrote; it stays.
    data
        The data directory, created if missing. No service may be running on it.

    Returns
    -------
    list of str
        What differs from the snapshot, in sentences.

    Raises
    ------
    OperatorError
        A service is running, the service of the directory has its store in PostgreSQL,
        or the file is not a snapshot, damaged, or of a newer version. The store is then
        unchanged.
    """
    _check(file)
    discovery_file.require_own_store(data)
    prepare_directory(data)
    lock = DataLock(data)
    try:
        with (
            _replacing(data / STORE_FILE, before=lambda: _close(data / STORE_FILE)) as fresh,
            contextlib.closing(sqlite3.connect(_uri(file), uri=True)) as source,
            contextlib.closing(sqlite3.connect(fresh)) as target,
        ):
            source.backup(target)
            return carry_over(data / STORE_FILE, target)
    except (OSError, sqlite3.Error) as error:
        raise OperatorError(f"Cannot restore {file} to {data}: {_reason(error)}. The store is as it was.") from None
    finally:
        lock.release()


def _check(file: Path) -> None:
    """Raise `OperatorError` unless this version can read the whole file."""
    try:
        if not file.is_file():
            raise OperatorError(f"There is no file {file}.")
        with contextlib.closing(sqlite3.connect(_uri(file), uri=True)) as db:
            names = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            version = db.execute("SELECT value FROM meta WHERE name = 'schema_version'").fetchone()
            if version is None or not {"accounts", "sessions", "events"} <= names & metadata.tables.keys():
                raise OperatorError(f"{file} {_NOT_OURS}")
            if int(version[0]) > SCHEMA_VERSION:
                raise OperatorError(
                    f"{file} was written by a newer agentbook (schema {version[0]}, this one has {SCHEMA_VERSION}); "
                    "use that version."
                )
            if (check := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
                raise OperatorError(f"{file} is damaged ({check.splitlines()[0]}); use another snapshot.")
    except (sqlite3.DatabaseError, ValueError):
        raise OperatorError(f"{file} {_NOT_OURS}") from None
    except OSError as error:
        raise OperatorError(f"Cannot read {file}: {_reason(error)}.") from None


def _close(store: Path) -> None:
    """Merge the old store's side files into it.

    A write-ahead log that stays behind would be applied to the new store.
    """
    if store.exists():
        with contextlib.closing(sqlite3.connect(store, timeout=2)) as db:
            try:
                mode = db.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:
                mode = "delete"  # it cannot be read, which may be why it is being replaced
        if mode != "delete":
            raise OSError(f"another process is using {store}")
    for suffix in ("-wal", "-shm"):
        store.with_name(store.name + suffix).unlink(missing_ok=True)


@contextlib.contextmanager
def _replacing(file: Path, before: Callable[[], None] = lambda: None) -> Iterator[Path]:
    """Yield an empty file that durably replaces `file` if the block succeeds.

    If it fails, the new file is removed. `before` is called right before the
    replacement.
    """
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        yield fresh
        _sync(fresh)
        before()
        fresh.replace(file)
        if os.name == "posix":
            _sync(file.parent)
    finally:
        for leftover in (fresh, *(fresh.with_name(fresh.name + suffix) for suffix in ("-journal", "-wal", "-shm"))):
            leftover.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _uri(path: Path) -> str:
    return f"{path.resolve().as_uri()}?mode=ro"


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
