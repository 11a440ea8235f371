"""Events in the store: append, page, replay.

This is the hot path, so the SQL is written out and rows stay tuples. Specification:
"Events", rules 1 to 4, and "Endpoints", GET /sessions/{session_id}/events.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, CursorResult

from .writer import Published, Transaction

# Columns by which events are in the order of their ids, and the others to sort by.
IN_ORDER_OF_ID = frozenset({"id", "created_at", "updated_at"})
_SORTED = {"type": "type", "task_id": "task_id"}

REPLAY_PAGE = 1000
# Bounds in characters, or bytes where `_LENGTH` counts them. A page that is longer ends
# early, so that neither side has to hold a hundred messages of 1 MB. What is sent or
# replayed is read in groups of events and, of an event longer than that, in pieces.
MAX_PAGE = 8 << 20
GROUP = 64 * 1024
PIECE = 128 * 1024
SMALL_PAGE = 256 * 1024
_SMALL_EVENT = 1024
_HISTORY = 8 << 20  # characters of earlier messages; one LLM request takes no more
_BATCH = 16  # rows that are fetched at once
# Where it exists, octet_length does not read the text itself.
_LENGTH = "octet_length(wire)" if sqlite3.sqlite_version_info >= (3, 43) else "length(wire)"


@dataclass(frozen=True, slots=True)
class Page:
    """A page of events.

    Attributes
    ----------
    ids : list of str
    lengths : list of int
        Of their JSON texts.
    wires : list of str or None
        The texts of a small page. Those of a larger one are read while it is sent.
    total : int
        The number of events on all pages.
    is_cut : bool
        Whether it ends before its limit because of `MAX_PAGE`.
    """

    ids: list[str]
    lengths: list[int]
    wires: list[str] | None
    total: int
    is_cut: bool = False

    def groups(self) -> Iterator[list[str]]:
        """The ids in groups of at most `GROUP` characters, or of one event."""
        group: list[str] = []
        remaining = GROUP
        for id_, length in zip(self.ids, self.lengths, strict=True):
            if group and length > remaining:
                yield group
                group, remaining = [], GROUP
            group.append(id_)
            remaining -= length
        if group:
            yield group


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


def page(
    db: Connection,
    session_id: str,
    *,
    from_id: str | None,
    sort_by: str,
    limit: int,
    offset: int,
    only_small: bool = False,
) -> Page | None:
    """Return a page of the events after `from_id`, and the total of all pages.

    With `only_small`, a page that is not small is None: to find out how long its events
    are takes SQLite as long as to read them, which is then done in a thread.

    `sort_by` is a column, with a leading ``-`` in descending order. Only those of
    `IN_ORDER_OF_ID` are sorted already; others sort the whole session. A page that is
    longer than `MAX_PAGE` ends early, after one event at least.
    """
    condition, parameters = "session_id = ?", [session_id]
    if from_id is not None:
        condition, parameters = "session_id = ? AND id > ?", [session_id, from_id]
    column, direction = sort_by.removeprefix("-"), "DESC" if sort_by.startswith("-") else "ASC"
    order = f"id {direction}"
    if column not in IN_ORDER_OF_ID:  # events without a value come last, first with `-`
        order = f"{_SORTED[column]} IS NULL {direction}, {_SORTED[column]} {direction}, {order}"
    at_once = SMALL_PAGE if only_small else _SMALL_EVENT
    sql = (
        f"SELECT id, {_LENGTH} AS length, CASE WHEN {_LENGTH} <= {at_once} THEN wire END AS wire "  # noqa: S608 - constants
        f"FROM events WHERE {condition} ORDER BY {order} LIMIT ? OFFSET ?"
    )
    result = db.exec_driver_sql(_mark_parameters(db, sql), (*parameters, limit, offset))
    rows, is_cut = _fetch_up_to(SMALL_PAGE if only_small else MAX_PAGE, result)
    if only_small and (is_cut or any(row.wire is None for row in rows)):
        return None
    total = offset + len(rows)
    if len(rows) == limit or is_cut or not (rows or offset == 0):  # the last page needs no count
        count = _mark_parameters(db, f"SELECT count(*) FROM events WHERE {condition}")  # noqa: S608 - constants
        total = db.exec_driver_sql(count, tuple(parameters)).scalar() or 0
    ids, lengths, wires = [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]
    if None not in wires and sum(lengths) <= SMALL_PAGE:
        return Page(ids, lengths, wires, total)
    if sum(lengths) <= GROUP:
        return Page(ids, lengths, texts(db, session_id, ids), total)
    return Page(ids, lengths, None, total, is_cut)


def _fetch_up_to(max_length: int, result: CursorResult[Any]) -> tuple[list[Any], bool]:
    """Fetch rows, with a column `length`, until the sum would be too great.

    At least one row. Also returns whether rows are missing.
    """
    rows: list[Any] = []
    length, batch_size = 0, 1
    while batch := result.fetchmany(batch_size):
        for row in batch:
            length += int(row.length)
            if rows and length > max_length:
                result.close()
                return rows, True
            rows.append(row)
        batch_size = 1 if max(row.length for row in batch) > _SMALL_EVENT else _BATCH
    return rows, False


def texts(db: Connection, session_id: str, ids: Sequence[str]) -> list[str]:
    """Return the JSON texts of some events of a session, in the order of `ids`."""
    marks = ", ".join("?" * len(ids))
    sql = _mark_parameters(db, f"SELECT id, wire FROM events WHERE session_id = ? AND id IN ({marks})")  # noqa: S608 - constants
    wires: dict[str, str] = {row[0]: row[1] for row in db.exec_driver_sql(sql, (session_id, *ids))}
    return [wires[id_] for id_ in ids]


class LongTexts:
    """The long events that were read last, while they are sent piece by piece.

    A reader holds no text between two pieces: one that stops leaves nothing behind, and
    one that goes on finds its event here. To find an event among long ones takes SQLite
    as long as to read several of them.
    """

    def __init__(self, max_length: int = 8 << 20) -> None:
        self.max_length = max_length
        self._texts: dict[str, str] = {}  # by id, the least recently used first
        self._length = 0
        self._lock = threading.Lock()

    def piece(self, db: Connection, session_id: str, id_: str, start: int) -> str:
        """Return `PIECE` characters of an event's text, from `start` (from 0) on."""
        with self._lock:
            text = self._texts.pop(id_, None)
            if text is not None:
                self._texts[id_] = text
        if text is None:
            [text] = texts(db, session_id, [id_])
            self._add(id_, text)
        return text[start : start + PIECE]

    def _add(self, id_: str, text: str) -> None:
        with self._lock:
            if id_ in self._texts:
                return
            self._texts[id_] = text
            self._length += len(text)
            while self._length > self.max_length:
                self._length -= len(self._texts.pop(next(iter(self._texts))))


def after(db: Connection, session_id: str, from_id: str) -> tuple[list[Published], bool]:
    """Return the next events after `from_id`, oldest first, and whether they are all.

    At most `REPLAY_PAGE` events and `GROUP` characters, but one event at least.
    """
    sql = f"SELECT id, {_LENGTH} AS length, type, wire FROM events WHERE session_id = ? AND id > ? ORDER BY id LIMIT ?"  # noqa: S608 - constants
    result = db.exec_driver_sql(_mark_parameters(db, sql), (session_id, from_id, REPLAY_PAGE))
    rows, is_cut = _fetch_up_to(GROUP, result)
    return [Published(session_id, row.id, row.type, row.wire) for row in rows], not is_cut and len(rows) < REPLAY_PAGE


def texts_before(db: Connection, session_id: str, before_id: str, limit: int) -> list[tuple[str, str]]:
    """Return (type, text) of the last messages and replies before an event.

    At most `limit`, oldest first, and no more after `_HISTORY` characters.
    """
    sql = (
        "SELECT type, wire FROM events WHERE session_id = ? AND id < ? AND type IN ('message', 'runtime_done') "
        "ORDER BY id DESC"
    )
    texts: list[tuple[str, str]] = []
    characters = 0
    for type_, wire in db.exec_driver_sql(_mark_parameters(db, sql), (session_id, before_id)):
        text = msgspec.json.decode(wire, type=_TextEvent).content.text
        if text is not None:
            texts.append((type_, text))
            characters += len(text)
            if len(texts) == limit or characters > _HISTORY:
                break
    return texts[::-1]
