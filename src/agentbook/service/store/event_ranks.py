"""How many events a long session has before an id, without counting them each time.

SQLite counts a million events in 40 ms and passes over as many in 200 ms, on the
service's loop, and every page of a list has a total. PostgreSQL takes longer.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from typing import Any

from sqlalchemy import Connection

STEP = 1_000
BRIEF_STEPS = 10  # looked for at most in a brief read
_SESSIONS = 500

_NEXT_MARK = "SELECT id FROM events WHERE session_id = ? AND id > ? ORDER BY id LIMIT 1 OFFSET ?"
_COUNT_FROM = "SELECT count(*) FROM (SELECT 1 FROM events WHERE session_id = ? AND id >= ? LIMIT ?) AS rest"
_COUNT_AFTER = "SELECT count(*) FROM (SELECT 1 FROM events WHERE session_id = ? AND id > ? LIMIT ?) AS rest"
_COUNT_BETWEEN = "SELECT count(*) FROM events WHERE session_id = ? AND id > ? AND id <= ?"


class EventRanks:
    """Remembers every thousandth id of the sessions that were listed last.

    A session's events are never removed, and a new one has the greatest id. So what is
    remembered stays true, whichever process adds events. Safe to use from several
    threads.
    """

    def __init__(self) -> None:
        self._marks: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def count_after(self, db: Connection, session_id: str, event_id: str, *, brief: bool = False) -> int | None:
        """Return the number of events after an id; None if a `brief` read cannot."""
        rest = _query(db, _COUNT_AFTER, session_id, event_id, 2 * STEP) or 0
        if rest < 2 * STEP:
            return int(rest)
        total = self.total(db, session_id, brief=brief)
        return None if total is None else total - self.rank(db, session_id, event_id)

    def total(self, db: Connection, session_id: str, *, brief: bool = False) -> int | None:
        """Return the number of events; None if a `brief` read cannot."""
        marks = self.marks(session_id)
        known = len(marks)
        while True:
            first = marks[-1] if marks else ""
            rest = int(_query(db, _COUNT_FROM, session_id, first, 2 * STEP) or 0)
            if marks and not rest:  # found in a newer state than this one
                marks = marks[:-1]
            elif rest < 2 * STEP:
                self._remember(session_id, marks)
                return len(marks) * STEP + rest - bool(marks)
            elif brief and len(marks) >= known + BRIEF_STEPS:
                self._remember(session_id, marks)
                return None
            else:
                marks = (*marks, str(_query(db, _NEXT_MARK, session_id, first, STEP - 1)))

    def rank(self, db: Connection, session_id: str, event_id: str) -> int:
        """Return the number of events up to an id; `total` must have been called."""
        marks = self.marks(session_id)
        before = bisect_right(marks, event_id)
        start = marks[before - 1] if before else ""
        return before * STEP + int(_query(db, _COUNT_BETWEEN, session_id, start, event_id) or 0)

    def marks(self, session_id: str) -> tuple[str, ...]:
        """Return the ids that are known: the thousandth event's, and so on."""
        with self._lock:
            marks = self._marks.get(session_id, ())
            if marks:
                self._marks.move_to_end(session_id)
            return marks

    def _remember(self, session_id: str, marks: tuple[str, ...]) -> None:
        with self._lock:
            if len(marks) > len(self._marks.get(session_id, ())):
                self._marks[session_id] = marks
                self._marks.move_to_end(session_id)
                if len(self._marks) > _SESSIONS:
                    self._marks.popitem(last=False)


def mark_parameters(db: Connection, sql: str) -> str:
    """Replace the question marks with the driver's parameter markers."""
    return sql.replace("?", "%s") if db.dialect.name == "postgresql" else sql


def _query(db: Connection, sql: str, *parameters: str | int) -> Any:
    return db.exec_driver_sql(mark_parameters(db, sql), parameters).scalar()
