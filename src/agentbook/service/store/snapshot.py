"""The whole store in one file: taken while the service runs, put back while it does not.

Both are all or nothing. A snapshot is written beside its destination, made durable, and then takes its place, so an export
that fails leaves the file that was there; a store that is restored takes the old one's place in the same way.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import OperatorError
from .engine import STORE_FILE, prepare_directory
from .lock import DataLock
from .tables import SCHEMA_VERSION, metadata

_BUSY_S = 30.0
_NOT_OURS = "is not a snapshot of agentbook's store; name a file that `agentbook snapshot` wrote."


def snapshot(data: Path, file: Path) -> int:
    """Write the store of a data directory into `file`, replacing it; its size in bytes.

    Parameters
    ----------
    data
        The data directory. A service may be running on it: the snapshot is one consistent state of its store.
    file
        Where to write; readable by its owner alone.

    Raises
    ------
    OperatorError
        There is no store, or the file cannot be written; one that was there before is then as it was.

    Examples
    --------
    >>> import tempfile
    >>> from agentbook.service.store import Store
    >>> place = Path(tempfile.mkdtemp())
    >>> Store(place / "data").close()
    >>> snapshot(place / "data", place / "today.db") > 4096
    True
    """
    store = data / STORE_FILE
    if not store.is_file():
        raise OperatorError(f"There is no store in {data}; name its directory with --data.")
    if file.exists() and file.samefile(store):
        raise OperatorError(f"{file} is the store itself; name another file.")
    try:
        with _fresh_beside(file) as fresh, contextlib.closing(sqlite3.connect(_uri(store), uri=True)) as db:
            db.execute(f"PRAGMA busy_timeout = {int(_BUSY_S * 1000)}")
            db.execute("VACUUM INTO ?", (str(fresh),))
    except (OSError, sqlite3.Error) as error:
        raise OperatorError(f"Cannot write the snapshot {file}: {_reason(error)}. Nothing was replaced.") from None
    return file.stat().st_size


def restore(file: Path, data: Path) -> None:
    """Make a snapshot the store of a data directory, replacing what is there.

    Parameters
    ----------
    file
        What `snapshot` wrote; it stays.
    data
        The data directory, made if it is not there. No service may be running on it.

    Raises
    ------
    OperatorError
        A service is running, or the file is none of ours, damaged, or of a newer version. The store is then as it was.
    """
    _check(file)
    prepare_directory(data)
    lock = DataLock(data)
    try:
        with (
            _fresh_beside(data / STORE_FILE, before=lambda: _close(data / STORE_FILE)) as fresh,
            contextlib.closing(sqlite3.connect(_uri(file), uri=True)) as source,
            contextlib.closing(sqlite3.connect(fresh)) as target,
        ):
            source.backup(target)
    except (OSError, sqlite3.Error) as error:
        raise OperatorError(f"Cannot restore {file} into {data}: {_reason(error)}. The store is as it was.") from None
    finally:
        lock.release()


def _check(file: Path) -> None:
    """Raise a `OperatorError` unless the file is a whole store that this version can read."""
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
            if (found := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
                raise OperatorError(f"{file} is damaged ({found.splitlines()[0]}); use another snapshot.")
    except (sqlite3.DatabaseError, ValueError):
        raise OperatorError(f"{file} {_NOT_OURS}") from None
    except OSError as error:
        raise OperatorError(f"Cannot read {file}: {_reason(error)}.") from None


def _close(store: Path) -> None:
    """Fold the side files of the old store into it: a write-ahead log that stays behind would be played into the new one."""
    if store.exists():
        with contextlib.closing(sqlite3.connect(store, timeout=2)) as db:
            try:
                mode = db.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:
                mode = "delete"  # damaged beyond reading, which may be why another is to take its place
        if mode != "delete":
            raise OSError(f"another process is using {store}")
    for suffix in ("-wal", "-shm"):
        store.with_name(store.name + suffix).unlink(missing_ok=True)


@contextlib.contextmanager
def _fresh_beside(file: Path, before: Callable[[], None] = lambda: None) -> Iterator[Path]:
    """An empty file that takes the place of `file`, durably, if the block ends well, and vanishes otherwise.

    `before` is called right before it does.
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
