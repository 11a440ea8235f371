"""Carries over to a restored store what has ended in the store it replaces.

A snapshot is older than the store, so it contains keys that have since been revoked,
tokens that have been spent, and browser sessions that have ended. A seeded snapshot
also contains the source of all future secrets.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

# Table, its key, and the column that ends a row once it has a value.
_ENDS = (
    ("api_keys", "id", "revoked_at"),
    ("oauth_authorizations", "id", "revoked_at"),
    ("oauth_authorizations", "id", "code_used_at"),
    ("oauth_tokens", "sha256", "spent_at"),
)
_NOUNS = {"api_keys": "key", "oauth_authorizations": "authorization"}
# Rows that grant access to anyone who holds their secret.
_VISITS = ("signin_links", "page_sessions")


def carry_over(replaced: Path, restored: sqlite3.Connection) -> list[str]:
    """End in `restored` what has ended in the store it replaces, and drop a new seed.

    Parameters
    ----------
    replaced
        The file of the store; it may be missing, or damaged.
    restored
        A copy of the snapshot.

    Returns
    -------
    list of str
        What was changed, in sentences.
    """
    changes: list[str] = []
    with restored:
        seed = None
        try:
            with _opened(replaced) as old:
                if old is not None:
                    changes += _end(old, restored)
                    seed = _fact(old, "seed")
                    _continue_clock(old, restored, seed)
        except sqlite3.Error:
            changes.append(
                "The replaced store cannot be read, so keys that were revoked since the snapshot may be valid again: "
                "see `agentbook keys list`."
            )
        changes += _drop_seed(restored, seed)
        tables = _tables(restored)
        visits = sum(restored.execute(f"DELETE FROM {name}").rowcount for name in _VISITS if name in tables)  # noqa: S608 - constants
        if visits:
            changes.append(
                f"{visits} browser session{'s' if visits > 1 else ''} and sign-in links of the snapshot ended."
            )
    return changes


@contextlib.contextmanager
def _opened(store: Path) -> Iterator[sqlite3.Connection | None]:
    if not store.exists():
        yield None
        return
    with contextlib.closing(sqlite3.connect(f"{store.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        yield connection


def _tables(db: sqlite3.Connection) -> set[str]:
    return {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _end(old: sqlite3.Connection, restored: sqlite3.Connection) -> list[str]:
    changes = []
    tables = _tables(old) & _tables(restored)
    for table, key, column in _ENDS:
        if table not in tables:
            continue
        ended = old.execute(f"SELECT {column}, {key} FROM {table} WHERE {column} IS NOT NULL").fetchall()  # noqa: S608 - constants
        update = f"UPDATE {table} SET {column} = ? WHERE {key} = ? AND {column} IS NULL"  # noqa: S608 - constants
        count = max(restored.executemany(update, ended).rowcount, 0)
        if count and column == "revoked_at":
            changes.append(
                f"{count} {_NOUNS[table]}{'s' if count > 1 else ''} revoked since the snapshot stayed revoked."
            )
    return changes


def _continue_clock(old: sqlite3.Connection, restored: sqlite3.Connection, seed: str | None) -> None:
    """Never let a seeded clock go back: the secrets of an instant would repeat."""
    if seed is not None and seed == _fact(restored, "seed"):
        clock = max(int(_fact(db, "clock") or 0) for db in (old, restored))
        restored.execute("UPDATE meta SET value = ? WHERE name = 'clock'", (str(clock),))


def _drop_seed(restored: sqlite3.Connection, seed: str | None) -> list[str]:
    foreign = _fact(restored, "seed")
    if foreign is None or foreign == seed:
        return []
    restored.execute("DELETE FROM meta WHERE name IN ('seed', 'clock')")
    (keys,) = restored.execute("SELECT count(*) FROM api_keys WHERE revoked_at IS NULL").fetchone()
    change = f"The seed {foreign} of the snapshot was left out: new ids and secrets are random."
    if keys:
        noun = "key" if keys == 1 else "keys"
        change += f" Anyone who knows the seed knows the secrets of its {keys} {noun}; replace what you use."
    return [change]


def _fact(db: sqlite3.Connection, name: str) -> str | None:
    row = db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])
