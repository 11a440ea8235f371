"""Events in the store: append, page, replay.

This is the hot path, so the SQL is written out and rows stay tuples. Specification:
"Events", rules 1 to 4, and "Endpoints", GET /sessions/{session_id}/events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection

from .writer import Published, Transaction

REPLAY_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Page:
    """A page of events as JSON texts, and the total number of events."""

    wires: list[str]
    total: int


class _Content(msgspec.Struct):
    text: str | None = None


class _TextEvent(msgspec.Struct):
    """The part of an event that contains its text."""

    content: _Content


def _mark_parameters(db: Connection, sql: str) -> str:
    """Replace the question marks with the driver's parameter markers."""
    return sql.replace("?", "%s") if db.dialect.name == "postgresql" else sql


def newest_id(db: Connection, session_id: str) -> str | None:
    """Return the greatest event id of a session, or None."""
    sql = _mark_parameters(db, "SELECT max(id) FROM events WHERE session_id = ?")
    newest: str | None = db.exec_driver_sql(sql, (session_id,)).scalar()
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
    sockets after the commit.
    """
    id_, at = tx.new_event_id(session_id, lambda: newest_id(tx.db, session_id))
    event = Published(session_id, id_, type, write(id_, at))
    sql = (
        "INSERT INTO events (session_id, id, type, task_id, author_type, created_at, wire) VALUES (?, ?, ?, ?, ?, ?, ?)"
    )
    tx.execute(sql, (session_id, id_, type, task_id, author_type, at, event.wire))
    tx.events.append(event)
    return event


def page(db: Connection, session_id: str, *, from_id: str | None, newest_first: bool, limit: int, offset: int) -> Page:
    """Return a page of the events after `from_id`, and the total of all pages."""
    condition, parameters = "session_id = ?", [session_id]
    if from_id is not None:
        condition, parameters = "session_id = ? AND id > ?", [session_id, from_id]
    order = "DESC" if newest_first else "ASC"
    sql = _mark_parameters(db, f"SELECT wire FROM events WHERE {condition} ORDER BY id {order} LIMIT ? OFFSET ?")  # noqa: S608 - constants
    rows = db.exec_driver_sql(sql, (*parameters, limit, offset)).scalars().all()
    if len(rows) < limit and (rows or offset == 0):
        return Page(list(rows), offset + len(rows))  # the last page needs no count
    count = _mark_parameters(db, f"SELECT count(*) FROM events WHERE {condition}")  # noqa: S608 - constants
    total = db.exec_driver_sql(count, tuple(parameters)).scalar()
    return Page(list(rows), total or 0)


def after(db: Connection, session_id: str, from_id: str) -> Sequence[Published]:
    """Return up to `REPLAY_PAGE` events after `from_id`, oldest first."""
    sql = "SELECT id, type, wire FROM events WHERE session_id = ? AND id > ? ORDER BY id LIMIT ?"
    rows = db.exec_driver_sql(_mark_parameters(db, sql), (session_id, from_id, REPLAY_PAGE))
    return [Published(session_id, row[0], row[1], row[2]) for row in rows]


def texts_before(db: Connection, session_id: str, before_id: str, limit: int) -> list[tuple[str, str]]:
    """Return (type, text) of the last messages and replies before an event.

    At most `limit`, oldest first.
    """
    sql = (
        "SELECT type, wire FROM events WHERE session_id = ? AND id < ? AND type IN ('message', 'runtime_done') "
        "ORDER BY id DESC"
    )
    texts: list[tuple[str, str]] = []
    for type_, wire in db.exec_driver_sql(_mark_parameters(db, sql), (session_id, before_id)):
        text = msgspec.json.decode(wire, type=_TextEvent).content.text
        if text is not None:
            texts.append((type_, text))
            if len(texts) == limit:
                break
    return texts[::-1]
