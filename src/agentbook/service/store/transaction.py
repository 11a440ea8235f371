"""What a write works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, insert

from ..ids import Clock

Execute = Callable[[str, tuple[Any, ...]], Any]

_COUNT_ACCESS_CHANGE = (
    "INSERT INTO meta (name, value) VALUES ('access_changes', '1') "
    "ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(meta.value AS INTEGER) + 1 AS TEXT)"
)


def access_changes(db: Connection) -> str | None:
    """How often access has changed in a store, by any process."""
    count: str | None = db.exec_driver_sql("SELECT value FROM meta WHERE name = 'access_changes'").scalar()
    return count


@dataclass(frozen=True, slots=True)
class Published:
    """An event that has just become visible."""

    session_id: str
    id: str
    type: str
    json_text: str


class Transaction:
    """What a write works with: the connection, the clock, event ids and callbacks.

    `new_event_id` returns the id of a new event, and its instant.
    """

    def __init__(
        self, db: Connection, clock: Clock, new_event_id: Callable[[], tuple[str, str]], execute: Execute
    ) -> None:
        self.db = db
        self.clock = clock
        self.execute = execute
        self.new_event_id = new_event_id
        self.events: list[Published] = []
        self.callbacks: list[Callable[[], None]] = []
        self.endings: list[Callable[[], None]] = []
        self.changes_access = False
        self.rows: dict[str, list[tuple[Any, ...]]] = {}  # statements of `execute_last`, with their parameters

    def insert(self, table: Table, **columns: Any) -> dict[str, Any]:
        """Store a new row, with an id unless it has one, and with times; return it."""
        now = self.clock.instant()
        row = {"id": columns.pop("id", None) or self.clock.new_id(), **columns, "created_at": now, "updated_at": now}
        self.db.execute(insert(table), row)
        return row

    def change_access(self) -> None:
        """Note that someone loses access with this commit.

        This process then immediately checks whether its listeners still have access.
        Others watch the counter that is increased (`access_changes`).
        """
        self.changes_access = True
        self.db.exec_driver_sql(_COUNT_ACCESS_CHANGE)

    def execute_last(self, sql: str, parameters: tuple[Any, ...]) -> None:
        """Run a statement before the commit, together with those of other writes.

        For rows that the writes of this commit do not read.
        """
        self.rows.setdefault(sql, []).append(parameters)

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` on the service's loop after the commit, unless this fails."""
        self.callbacks.append(callback)

    def after_end(self, callback: Callable[[], None]) -> None:
        """Call `callback` on the service's loop after the commit, or after a failure.

        Also if nobody is waiting for it any more.
        """
        self.endings.append(callback)
