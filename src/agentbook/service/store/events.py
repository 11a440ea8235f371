"""Events in the store: append, page, replay.

This is the hot path, so the SQL is written out and rows stay tuples. Specification:
"Events", rules 1 to 4, and "Endpoints", GET /sessions/{session_id}/events.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import msgspec
from sqlalchemy import Connection, CursorResult

from .event_ranks import STEP, EventRanks, mark_parameters
from .transaction import Insertion, Published, Transaction

# Columns that sort events in the order of their ids, and other columns to sort by.
IN_ORDER_OF_ID = frozenset({"id", "created_at", "updated_at"})
_SORTED = {"type": "type", "task_id": "task_id"}

REPLAY_PAGE = 1000
# Limits in bytes of JSON. A longer page ends early, so that neither side has to hold a
# hundred messages of 1 MB. A page that is not small is read in groups of events, and an
# event longer than a group in pieces. A replay is read in shorter groups.
MAX_PAGE = 8 << 20
SMALL_PAGE = 256 * 1024
PAGE_GROUP = SMALL_PAGE
PIECE = 128 * 1024
REPLAY_GROUP = 64 * 1024
_SMALL_EVENT = 1024
_HISTORY = 8 << 20  # characters of earlier messages; one LLM request takes no more
_BATCH = 16  # rows that are fetched at once

_COLUMNS = ("session_id", "id", "type", "task_id", "author_type", "created_at", "size_bytes", "wire")
_INSERTION = Insertion("events", _COLUMNS, numbers=("size_bytes",))
_NEXT = "SELECT id, size_bytes, type, wire FROM events WHERE session_id = ? AND id > ? ORDER BY id LIMIT ?"
# SQLite reads a row only when it is fetched, but PostgreSQL sends all of them: this
# selects no more than one row beyond the wanted bytes. It is one statement, since each
# is a round trip.
_NEXT_WITHIN = (
    "WITH next AS (SELECT id, size_bytes, type, wire, sum(size_bytes) OVER (ORDER BY id) - size_bytes AS before "
    "FROM events WHERE session_id = %s AND id > %s ORDER BY id LIMIT %s) "
    "SELECT id, size_bytes, type, wire, (SELECT count(*) FROM next) AS candidates FROM next WHERE before <= %s ORDER BY id"
)
_ADJACENT_TEXTS = "SELECT id, wire FROM events WHERE session_id = ? AND id BETWEEN ? AND ?"
_TEXTS_BY_ARRAY = "SELECT id, wire FROM events WHERE session_id = %s AND id = ANY(%s)"


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which events of a session to list.

    `sort_by` is a column, with a leading ``-`` for descending order. Only those in
    `IN_ORDER_OF_ID` are already sorted; others sort the whole session. `from_id` leaves
    out the events up to and including it, and `up_to` the events after it.
    """

    session_id: str
    sort_by: str = "-id"
    from_id: str | None = None
    limit: int = 20
    offset: int = 0
    up_to: str | None = None

    @property
    def is_in_order_of_id(self) -> bool:
        """Whether no event of the session lies between two of a page."""
        return self.sort_by.removeprefix("-") in IN_ORDER_OF_ID

    def condition(self) -> tuple[str, tuple[str, ...]]:
        """Return the SQL condition, and its parameters."""
        conditions = {"session_id = ?": self.session_id, "id > ?": self.from_id, "id <= ?": self.up_to}
        parameters = {condition: value for condition, value in conditions.items() if value is not None}
        return " AND ".join(parameters), tuple(parameters.values())

    def order(self) -> str:
        """Return the SQL order."""
        direction = "DESC" if self.sort_by.startswith("-") else "ASC"
        if self.is_in_order_of_id:
            return f"id {direction}"
        column = self.sort_by.removeprefix("-")
        # Events without a value come last, first with `-`.
        return f"{_SORTED[column]} IS NULL {direction}, {_SORTED[column]} {direction}, id {direction}"


@dataclass(frozen=True, slots=True)
class Page:
    """A page of events.

    Attributes
    ----------
    ids : list of str
    sizes : list of int
        Sizes of their JSON texts, in bytes.
    json_texts : list of str or None
        The texts of a small page. The texts of a larger page are read while it is sent.
    total : int
        The number of events on all pages.
    is_cut : bool
        Whether it ends before its limit because of `MAX_PAGE`.
    """

    ids: list[str]
    sizes: list[int]
    json_texts: list[str] | None
    total: int
    is_cut: bool = False

    def groups(self) -> Iterator[list[str]]:
        """The ids in groups of at most `PAGE_GROUP` bytes, or of one event."""
        group: list[str] = []
        remaining = PAGE_GROUP
        for id_, size in zip(self.ids, self.sizes, strict=True):
            if group and size > remaining:
                yield group
                group, remaining = [], PAGE_GROUP
            group.append(id_)
            remaining -= size
        if group:
            yield group


class _Content(msgspec.Struct):
    text: str | None = None


class _TextEvent(msgspec.Struct):
    """The part of an event that contains its text."""

    content: _Content


def newest_id(db: Connection, session_id: str) -> str | None:
    """Return the greatest event id of a session, or None."""
    sql = mark_parameters(db, "SELECT max(id) FROM events WHERE session_id = ?")
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
    event = Published(session_id, id_, type, write(id_, at), tx.previous_event_id)
    size = len(event.json_text.encode())
    tx.insert(_INSERTION, (session_id, id_, type, task_id, author_type, at, size, event.json_text), size)
    tx.events.append(event)
    return event


def small_page(db: Connection, request: PageRequest, ranks: EventRanks) -> Page | None:
    """Return a page with its texts; None if it has more than `SMALL_PAGE` bytes.

    For pages in the order of ids: reads no more than that. Twice as much on PostgreSQL,
    where each further read is a round trip and no read runs on the service's loop. Also
    None if finding the page or its total would take long.
    """
    on_loop = db.dialect.name == "sqlite"
    nearby = _with_short_offset(db, request, ranks, brief=on_loop)
    if nearby is None:
        return None
    if _size(db, nearby) > (SMALL_PAGE if on_loop else 2 * SMALL_PAGE):
        return None
    rows = _select(db, nearby, "id, size_bytes, wire").all()
    total = _total(db, request, len(rows), ranks, is_cut=False, brief=on_loop)
    if total is None:
        return None
    return Page([row.id for row in rows], [row.size_bytes for row in rows], [row.wire for row in rows], total)


def page(db: Connection, request: PageRequest, ranks: EventRanks) -> Page:
    """Return a page, and the total of all pages.

    A page that is longer than `MAX_PAGE` ends early, but has at least one event.
    """
    nearby = _with_short_offset(db, request, ranks)
    assert nearby is not None  # only a brief read gives up
    if nearby.limit and nearby.offset > STEP and not request.is_in_order_of_id:
        total = _total(db, request, 0, ranks, is_cut=False) or 0
        if request.offset >= total:  # no session is sorted for an empty page
            return Page([], [], [], total)
    rows: Sequence[Any] = _select(db, nearby, "id, size_bytes").all()
    ends = list(accumulate([row[1] for row in rows]))
    count = min(len(rows), max(1, bisect_right(ends, MAX_PAGE)))
    is_cut = count < len(rows)
    ids, sizes = [row[0] for row in rows[:count]], [row[1] for row in rows[:count]]
    json_texts = texts(db, request, ids) if sum(sizes) <= SMALL_PAGE else None
    return Page(ids, sizes, json_texts, _total(db, request, count, ranks, is_cut=is_cut) or 0, is_cut)


def _with_short_offset(
    db: Connection, request: PageRequest, ranks: EventRanks, *, brief: bool = False
) -> PageRequest | None:
    """Return a request for the same rows that passes over no more than `STEP` others.

    Of pages that are in the order of ids. None if a `brief` read cannot.
    """
    if request.offset <= STEP or not request.is_in_order_of_id:
        return request
    whole = ranks.total(db, request.session_id, brief=brief)
    if whole is None:
        return None
    before = 0 if request.from_id is None else ranks.rank(db, request.session_id, request.from_id)
    if request.offset >= whole - before:
        return replace(request, limit=0, offset=0)
    marks = ranks.marks(request.session_id)
    if not marks:
        return request
    if not request.sort_by.startswith("-"):
        step = min((before + request.offset) // STEP, len(marks))
        return replace(request, from_id=marks[step - 1], offset=before + request.offset - step * STEP)
    step = -(-(whole - request.offset) // STEP)
    if step > len(marks):
        return request  # all that it passes over comes after the last mark
    return replace(request, up_to=marks[step - 1], offset=step * STEP - whole + request.offset)


def _size(db: Connection, request: PageRequest) -> int:
    """Return the bytes of a page's texts.

    SQLite finds the sizes in an index. To find a row among others of a megabyte, it
    would read several of them, which takes some milliseconds.
    """
    condition, parameters = request.condition()
    sizes = f"SELECT size_bytes FROM events WHERE {condition} ORDER BY {request.order()} LIMIT ? OFFSET ?"  # noqa: S608 - constants
    sql = mark_parameters(db, f"SELECT sum(size_bytes) FROM ({sizes}) AS page")  # noqa: S608
    return int(db.exec_driver_sql(sql, (*parameters, request.limit, request.offset)).scalar() or 0)


def _select(db: Connection, request: PageRequest, columns: str) -> CursorResult[Any]:
    """Select columns of a page, in its order; rows are read lazily."""
    condition, parameters = request.condition()
    sql = (
        f"SELECT {columns} FROM events WHERE {condition} "  # noqa: S608 - constants
        f"ORDER BY {request.order()} LIMIT ? OFFSET ?"
    )
    return db.exec_driver_sql(mark_parameters(db, sql), (*parameters, request.limit, request.offset))


def _total(
    db: Connection, request: PageRequest, rows: int, ranks: EventRanks, *, is_cut: bool, brief: bool = False
) -> int | None:
    """Return how many events there are on all pages; None if a `brief` read cannot."""
    if rows < request.limit and not is_cut and (rows or request.offset == 0):  # the last page needs no count
        return request.offset + rows
    return ranks.count_after(db, request.session_id, request.from_id or "", brief=brief)


def _fetch_up_to(max_bytes: int, result: CursorResult[Any]) -> tuple[list[Any], bool]:
    """Fetch rows, with a column `size_bytes`, until the sum would be too great.

    At least one row. Also returns whether rows are missing.
    """
    rows: list[Any] = []
    size, batch_size = 0, 1
    while batch := result.fetchmany(batch_size):
        for row in batch:
            size += row.size_bytes
            if rows and size > max_bytes:
                result.close()
                return rows, True
            rows.append(row)
        batch_size = 1 if max(row.size_bytes for row in batch) > _SMALL_EVENT else _BATCH
    return rows, False


def texts(db: Connection, request: PageRequest, ids: Sequence[str]) -> list[str]:
    """Return the JSON texts of neighbours in a page, in the order of `ids`."""
    if not ids:
        return []
    session_id = request.session_id
    if request.is_in_order_of_id:
        ends = min(ids[0], ids[-1]), max(ids[0], ids[-1])
        rows = db.exec_driver_sql(mark_parameters(db, _ADJACENT_TEXTS), (session_id, *ends))
    elif db.dialect.name == "postgresql":  # one parameter, so that the statement is always the same
        rows = db.exec_driver_sql(_TEXTS_BY_ARRAY, (session_id, list(ids)))
    else:
        marks = ", ".join("?" * len(ids))
        sql = f"SELECT id, wire FROM events WHERE session_id = ? AND id IN ({marks})"  # noqa: S608 - constants
        rows = db.exec_driver_sql(sql, (session_id, *ids))
    by_id: dict[str, str] = {row[0]: row[1] for row in rows.all()}
    return [by_id[id_] for id_ in ids]


class LongTexts:
    """The most recently read long events, while they are sent piece by piece.

    A reader holds no text between two pieces: one that stops leaves nothing behind, and
    one that continues finds its event here. Finding an event among long ones takes
    SQLite as long as reading several of them.
    """

    def __init__(self, max_bytes: int = 8 << 20) -> None:
        self.max_bytes = max_bytes
        self._texts: dict[str, bytes] = {}  # by id, the least recently used first
        self._bytes = 0
        self._lock = threading.Lock()

    def piece(self, db: Connection, request: PageRequest, id_: str, start: int) -> bytes:
        """Return `PIECE` bytes of an event's text, from `start` (from 0) on."""
        with self._lock:
            text = self._texts.pop(id_, None)
            if text is not None:
                self._texts[id_] = text
        if text is None:
            text = texts(db, request, [id_])[0].encode()
            self._add(id_, text)
        return text[start : start + PIECE]

    def _add(self, id_: str, text: bytes) -> None:
        with self._lock:
            if id_ in self._texts:
                return
            self._texts[id_] = text
            self._bytes += len(text)
            while self._bytes > self.max_bytes:
                self._bytes -= len(self._texts.pop(next(iter(self._texts))))


def after(db: Connection, session_id: str, from_id: str) -> tuple[list[Published], bool]:
    """Return the next events after `from_id`, oldest first, and whether they are all.

    At most `REPLAY_PAGE` events and `REPLAY_GROUP` bytes, but at least one event.
    """
    if db.dialect.name == "postgresql":
        rows, is_cut = _fetch_up_to(
            REPLAY_GROUP, db.exec_driver_sql(_NEXT_WITHIN, (session_id, from_id, REPLAY_PAGE, REPLAY_GROUP))
        )
        is_cut = is_cut or (bool(rows) and rows[0].candidates > len(rows))
    else:
        rows, is_cut = _fetch_up_to(REPLAY_GROUP, db.exec_driver_sql(_NEXT, (session_id, from_id, REPLAY_PAGE)))
    return [Published(session_id, row.id, row.type, row.wire) for row in rows], not is_cut and len(rows) < REPLAY_PAGE


def texts_before(db: Connection, session_id: str, before_id: str, limit: int) -> list[tuple[str, str]]:
    """Return (type, text) of the last messages and replies before an event.

    At most `limit`, oldest first, and no more once `_HISTORY` characters are reached.
    """
    sql = (
        "SELECT type, wire FROM events WHERE session_id = ? AND id < ? AND type IN ('message', 'runtime_done') "
        "ORDER BY id DESC"
    )
    texts: list[tuple[str, str]] = []
    characters = 0
    for type_, json_text in db.exec_driver_sql(mark_parameters(db, sql), (session_id, before_id)):
        text = msgspec.json.decode(json_text, type=_TextEvent).content.text
        if text is not None:
            texts.append((type_, text))
            characters += len(text)
            if len(texts) == limit or characters > _HISTORY:
                break
    return texts[::-1]
