"""Events in the store: append, page, replay.

This is the hot path, so the SQL is written out and rows stay tuples. Specification:
"Events", rules 1 to 4, and "Endpoints", GET /sessions/{session_id}/events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, CursorResult

from .transaction import Published, Transaction

# Limits in bytes of JSON. A longer page ends early, so that neither side has to hold a
# thousand messages of 1 MB.
MAX_PAGE = 8 << 20
_REPLAY_PAGE = 1000
_REPLAY_BYTES = 64 * 1024

# Columns to sort by that do not give the order of ids, as `created_at` does.
_SORTED = frozenset({"type", "task_id"})

_COLUMNS = "session_id, id, type, task_id, author_type, created_at, size_bytes, wire"
INSERT = f"INSERT INTO events ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - constants
_ON_CONFLICT = "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
_NOTE_NEWEST = f"INSERT INTO meta (name, value) VALUES ('newest_event', ?) {_ON_CONFLICT}"  # noqa: S608
# One statement for PostgreSQL, where each takes a while.
_INSERT_JSON = (
    f"WITH added AS (INSERT INTO events ({_COLUMNS}) "  # noqa: S608 - constants
    f"SELECT {_COLUMNS} FROM json_populate_recordset(NULL::events, %s) RETURNING id) "
    f"INSERT INTO meta (name, value) SELECT 'newest_event', max(id) FROM added {_ON_CONFLICT}"
)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which events of a session to list.

    `sort_by` is a column, with a leading ``-`` for descending order. `from_id` leaves
    out the events up to and including it.
    """

    session_id: str
    sort_by: str = "-id"
    from_id: str = ""
    limit: int = 20
    offset: int = 0

    @property
    def is_in_order_of_id(self) -> bool:
        """Whether no event of the session lies between two of a page."""
        return self.sort_by.removeprefix("-") not in _SORTED

    def order(self) -> str:
        """Return the SQL order."""
        column = self.sort_by.removeprefix("-")
        direction = "DESC" if self.sort_by.startswith("-") else "ASC"
        if self.is_in_order_of_id:
            return f"id {direction}"
        # Events without a value come last, first with `-`.
        return f"{column} IS NULL {direction}, {column} {direction}, id {direction}"


def newest_id(db: Connection, session_id: str) -> str | None:
    """Return the greatest event id of a session, or None."""
    newest: str | None = execute(db, "SELECT max(id) FROM events WHERE session_id = ?", session_id).scalar()
    return newest


def append(
    tx: Transaction,
    session_id: str,
    type: str,
    task_id: str,
    write: Callable[[str, str], str],
    *,
    author_type: str | None = None,
) -> Published:
    """Add an event to a session.

    `write` returns its JSON text for the new id and instant. The event is delivered to
    sockets after the commit. The write must not read it.
    """
    id_, at = tx.new_event_id()
    event = Published(session_id, id_, type, write(id_, at))
    size = len(event.json_text.encode())
    tx.execute_last(INSERT, (session_id, id_, type, task_id, author_type, at, size, event.json_text))
    tx.events.append(event)
    return event


def insert_all(db: Connection, rows: list[tuple[Any, ...]]) -> None:
    """Store rows of `INSERT`, in the order of their ids, and note the newest id."""
    if db.dialect.name == "sqlite":
        driver: Any = db.connection.driver_connection
        driver.executemany(INSERT, rows)
        driver.execute(_NOTE_NEWEST, (rows[-1][1],))
    else:
        objects = [dict(zip(_COLUMNS.split(", "), row, strict=True)) for row in rows]
        db.exec_driver_sql(_INSERT_JSON, (msgspec.json.encode(objects).decode(),))


def page(db: Connection, request: PageRequest) -> tuple[list[str], int]:
    """Return the JSON texts of a page, and the number of events on all pages.

    A page that is longer than `MAX_PAGE` ends early, but has at least one event.
    """
    count = "SELECT count(*) FROM events WHERE session_id = ? AND id > ?"
    total = int(execute(db, count, request.session_id, request.from_id).scalar_one())
    if request.offset >= total:  # no session is sorted for an empty page
        return [], total
    rows, _ = _rows(db, request, MAX_PAGE)
    return [json_text for _, _, json_text in rows], total


def after(db: Connection, session_id: str, from_id: str) -> tuple[list[Published], bool]:
    """Return the next events after `from_id`, oldest first, and whether they are all.

    At most a thousand, and no more once they are long, but at least one.
    """
    rows, is_last = _rows(db, PageRequest(session_id, "id", from_id, _REPLAY_PAGE), _REPLAY_BYTES)
    return [Published(session_id, *row) for row in rows], is_last


def _rows(db: Connection, request: PageRequest, max_bytes: int) -> tuple[list[tuple[str, str, str]], bool]:
    """Return (id, type, JSON text) of a page, and whether no event comes after it.

    The sizes of its texts are read first: a session that has to be sorted, or a page
    that ends early, would otherwise read texts for nothing.
    """
    lengths = (
        "SELECT id, size_bytes FROM events WHERE session_id = ? AND id > ? "  # noqa: S608 - constants
        f"ORDER BY {request.order()} LIMIT ? OFFSET ?"
    )
    sizes = execute(db, lengths, request.session_id, request.from_id, request.limit, request.offset).all()
    ids: list[str] = []
    length = 0
    for id_, size in sizes:
        length += size
        if ids and length > max_bytes:
            break
        ids.append(id_)
    if not ids:
        return [], True
    if request.is_in_order_of_id:
        chosen, parameters = "id BETWEEN ? AND ?", [min(ids), max(ids)]
    else:
        chosen, parameters = f"id IN ({', '.join('?' * len(ids))})", ids
    found = f"SELECT id, type, wire FROM events WHERE session_id = ? AND {chosen}"  # noqa: S608 - constants
    by_id: dict[str, Any] = {row[0]: row for row in execute(db, found, request.session_id, *parameters)}
    return [by_id[id_] for id_ in ids], len(ids) == len(sizes) < request.limit


def execute(db: Connection, sql: str, *parameters: str | int) -> CursorResult[*tuple[Any, ...]]:
    """Execute a statement whose parameters are written ``?``."""
    return db.exec_driver_sql(sql.replace("?", "%s") if db.dialect.name == "postgresql" else sql, parameters)
