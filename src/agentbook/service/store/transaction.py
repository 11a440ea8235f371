"""What a write works with: the connection, new event ids, and rows to insert."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Connection

from ..clock import Clock

Execute = Callable[[str, tuple[Any, ...]], Any]
Deferred = tuple[tuple[str, ...], str, tuple[Any, ...]]  # order, statement, parameters
Row = tuple[Any, ...]

# The channel through which a platform's processes notify each other (see
# `cluster.bus`).
CHANNEL = "agentbook"

_COUNT_ACCESS_CHANGE = (
    "INSERT INTO meta (name, value) VALUES ('access_changes', '1') "
    "ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)"
)
_SEPARATOR = "\x1f"  # chr(31), ASCII's unit separator
_MAX_GATHERED = 4 << 20  # bytes of rows that wait to be inserted together


def access_changes(db: Connection) -> str | None:
    """How often access has changed in a store on SQLite, by any process."""
    count: str | None = db.exec_driver_sql("SELECT value FROM meta WHERE name = 'access_changes'").scalar()
    return count


class EventIds(Protocol):
    """Makes the ids of events.

    Attributes
    ----------
    previous : str or None
        See `Published.previous`, for the event whose id was created last.
    """

    @property
    def previous(self) -> str | None: ...

    def new_event_id(self, session_id: str, newest: Callable[[], str | None]) -> tuple[str, str]: ...


@dataclass(frozen=True, slots=True)
class Published:
    """An event that has just become visible.

    `previous` is the newest event of the session before it, or empty if there was none.
    None if only this process writes.
    """

    session_id: str
    id: str
    type: str
    json_text: str
    previous: str | None = None


class Insertion:
    """The statements that put rows into a table.

    `by_column` inserts many of them, from one text per column: its values, separated by
    `_SEPARATOR`. Only PostgreSQL can split such a text. (An array as a parameter costs
    three times as much: the driver escapes every quotation mark of an event's JSON, one
    at a time.)

    Parameters
    ----------
    table, columns
        Their names.
    numbers
        The columns that hold numbers. All others hold text that is not empty and, like
        JSON, has no control characters.
    """

    def __init__(self, table: str, columns: Sequence[str], *, numbers: Collection[str]) -> None:
        into = f"INSERT INTO {table} ({', '.join(columns)})"
        values = ", ".join(f"{name}::int" if name in numbers else name for name in columns)
        arrays = ", ".join(["string_to_array(?, chr(31), '')"] * len(columns))
        self.by_row = f"{into} VALUES ({', '.join('?' * len(columns))})"
        self.by_column = f"{into} SELECT {values} FROM unnest({arrays}) AS added ({', '.join(columns)})"  # noqa: S608 - constants

    def columns(self, rows: Iterable[Row]) -> tuple[str, ...]:
        """The parameters of `by_column`; None is written as an empty text."""
        return tuple(
            _SEPARATOR.join("" if value is None else str(value) for value in column)
            for column in zip(*rows, strict=True)
        )


class GatheredRows:
    """Rows that the writes of a batch insert together."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._rows: dict[Insertion, list[Row]] = {}
        self._bytes = 0

    def add(self, insertion: Insertion, row: Row, size: int) -> None:
        """Insert a row of this many bytes, now or later."""
        self._rows.setdefault(insertion, []).append(row)
        self._bytes += size
        if self._bytes >= _MAX_GATHERED:
            self.insert()

    def insert(self) -> None:
        """Insert the rows so far."""
        for sql, parameters in self.statements():
            self._execute(sql, parameters)

    def statements(self) -> list[tuple[str, tuple[Any, ...]]]:
        """The statements that insert the rows so far; the caller runs them."""
        rows, self._rows, self._bytes = self._rows, {}, 0
        return [(insertion.by_column, insertion.columns(some)) for insertion, some in rows.items()]


class Transaction:
    """What a write works with: the connection, the clock, event ids and callbacks."""

    __slots__ = (
        "_minter",
        "_rows",
        "callbacks",
        "changes_access",
        "clock",
        "db",
        "deferred",
        "endings",
        "events",
        "execute",
    )

    def __init__(
        self,
        db: Connection,
        clock: Clock,
        minter: EventIds,
        execute: Execute,
        rows: GatheredRows | None = None,
    ) -> None:
        self.db = db
        self.clock = clock
        self.execute = execute
        self._minter = minter
        self._rows = rows
        self.events: list[Published] = []
        self.callbacks: list[Callable[[], None]] = []
        self.endings: list[Callable[[], None]] = []
        self.changes_access = False
        self.deferred: list[Deferred] = []

    def new_event_id(self, session_id: str, newest: Callable[[], str | None]) -> tuple[str, str]:
        """Return a new event id for a session, and its instant.

        `newest` finds the newest id of the session in the store; it is called once per
        session.
        """
        return self._minter.new_event_id(session_id, newest)

    def change_access(self) -> None:
        """Note that someone loses access with this commit.

        Every process then immediately checks whether its listeners still have access.
        On PostgreSQL the transaction itself notifies them, so that the command line
        reaches them too; this is too rare to hold up other commits. On SQLite a counter
        is increased, and the service watches it (`access_changes`).
        """
        self.changes_access = True
        if self.db.dialect.name == "postgresql":
            self.db.exec_driver_sql("SELECT pg_notify(%s, %s)", (CHANNEL, '["",["access",null]]'))
        else:
            self.db.exec_driver_sql(_COUNT_ACCESS_CHANGE)

    @property
    def previous_event_id(self) -> str | None:
        """The `Published.previous` of the event whose id was created last."""
        return self._minter.previous

    def insert(self, insertion: Insertion, row: Row, size: int) -> None:
        """Insert a row of this many bytes, together with other writes' rows if cheaper.

        Call `finish_inserting` before anything that reads the table.
        """
        if self._rows is None:
            self.execute(insertion.by_row, row)
        else:
            self._rows.add(insertion, row, size)

    def finish_inserting(self) -> None:
        """Insert all rows that are still waiting, including those of earlier writes."""
        if self._rows is not None:
            self._rows.insert()

    def defer(self, order: tuple[str, ...], sql: str, parameters: tuple[Any, ...]) -> None:
        """Execute a statement at the end of the transaction.

        For rows that writes of several sessions share: if all of them are written last,
        and in the same `order`, processes cannot deadlock.
        """
        self.deferred.append((order, sql, parameters))

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` on the service's loop after the commit, unless this fails."""
        self.callbacks.append(callback)

    def after_end(self, callback: Callable[[], None]) -> None:
        """Call `callback` on the service's loop after the commit, or after a failure.

        Also if nobody is waiting for it any more. Not for a write that may run more
        than once.
        """
        self.endings.append(callback)
