"""Snapshots: the whole store in one file, written while the service runs.

Writing and restoring are all or nothing: a failure leaves the old file or store.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from ..._files import atomic_write
from .. import discovery_file
from ..errors import OperatorError
from .engine import STORE_FILE, open_engine
from .lock import locked
from .tables import SCHEMA_VERSION

_BUSY_S = 30.0
# No store has what acts by itself, such as a trigger that undoes a revocation. SQLite
# runs the text, whatever type stands beside it.
_ACTIVE = """
    SELECT name FROM sqlite_master
    WHERE sql NOT LIKE 'CREATE TABLE %' AND sql NOT LIKE 'CREATE INDEX %' AND sql NOT LIKE 'CREATE UNIQUE INDEX %'
"""
# Table, its key, and the column that ends a row once it has a value.
_ENDS = (
    ("api_keys", "id", "revoked_at"),
    ("oauth_authorizations", "id", "revoked_at"),
    ("oauth_authorizations", "id", "code_used_at"),
    ("oauth_tokens", "sha256", "spent_at"),
)


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
        with atomic_write(file.resolve(), private=True) as fresh, _opened(store) as db:
            db.execute("VACUUM INTO ?", (fresh.name,))
    except (OSError, sqlite3.Error) as error:
        raise OperatorError(f"Cannot write the snapshot {file}: {_reason(error)}. Nothing was replaced.") from None
    return file.stat().st_size


def restore(file: Path, data: Path) -> list[str]:
    """Replace the content of a data directory's store with a snapshot.

    Everything that has ended since the snapshot stays ended: keys and authorizations
    that were revoked since, and every browser session and sign-in link. A seed is left
    out, because the secrets of an instant would repeat.

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
        or the file is not a snapshot, damaged, or of another version. The store is then
        unchanged.
    """
    discovery_file.require_own_store(data)
    _check(file)
    open_engine(data).dispose()  # creates the store if it is missing
    try:
        with (
            locked(data),
            _opened(file) as source,
            contextlib.closing(sqlite3.connect("")) as changed,
            contextlib.closing(sqlite3.connect(data / STORE_FILE, timeout=_BUSY_S)) as store,
        ):
            source.backup(changed)
            changes = _keep_ended(store, changed)
            changed.backup(store)
            return changes
    except (OSError, sqlite3.Error) as error:
        raise OperatorError(f"Cannot restore {file} to {data}: {_reason(error)}. The store is as it was.") from None


def _keep_ended(store: sqlite3.Connection, changed: sqlite3.Connection) -> list[str]:
    """End in a copy of the snapshot what has ended; says what, in sentences."""
    changes = []
    with changed:
        for table, key, column in _ENDS:
            ended = store.execute(f"SELECT {column}, {key} FROM {table} WHERE {column} IS NOT NULL").fetchall()  # noqa: S608 - constants
            end = f"UPDATE {table} SET {column} = ? WHERE {key} = ? AND {column} IS NULL"  # noqa: S608 - constants
            count = changed.executemany(end, ended).rowcount
            if count > 0 and column == "revoked_at":
                noun = "keys" if table == "api_keys" else "authorizations"
                changes.append(f"Revoked since the snapshot, and still revoked: {count} {noun}.")
        visits = sum(changed.execute(f"DELETE FROM {table}").rowcount for table in ("signin_links", "page_sessions"))  # noqa: S608 - constants
        if visits:
            changes.append(f"Browser sessions and sign-in links of the snapshot that ended: {visits}.")
        if changed.execute("DELETE FROM meta WHERE name IN ('seed', 'clock')").rowcount:
            changes.append(
                "The seed of the snapshot was left out: new ids and secrets are random. "
                "Anyone who knows the seed knows the secrets of its keys; replace those that you use."
            )
    return changes


def _check(file: Path) -> None:
    """Raise `OperatorError` unless this version can read the whole file."""
    if not file.is_file():
        raise OperatorError(f"There is no file {file}.")
    try:
        with _opened(file) as db:
            active = db.execute(_ACTIVE).fetchone()
            (version,) = db.execute("SELECT value FROM meta WHERE name = 'schema_version'").fetchone() or (None,)
            db.execute("SELECT 1 FROM accounts, sessions, events LIMIT 1")
            damage = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    except (OSError, sqlite3.Error):
        raise OperatorError(
            f"{file} is not a snapshot of an agentbook store; name a file that `agentbook snapshot` wrote."
        ) from None
    if version != str(SCHEMA_VERSION):
        raise OperatorError(
            f"{file} has schema {version}, and this version of agentbook reads schema {SCHEMA_VERSION}; "
            "use the version that wrote it."
        )
    if active is not None:
        raise OperatorError(
            f"{file} has {active[0]!r}, a trigger or view, which no store of agentbook has; use another snapshot."
        )
    if damage != "ok":
        raise OperatorError(f"{file} is damaged ({damage.splitlines()[0]}); use another snapshot.")


def _opened(file: Path) -> contextlib.closing[sqlite3.Connection]:
    """A connection that only reads."""
    return contextlib.closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=_BUSY_S))


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
