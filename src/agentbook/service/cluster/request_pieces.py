"""The request window of a platform of several processes: each takes it in pieces.

A process takes a piece of a key's or address's requests of the minute out of a row of
the database, by one upsert, and counts its own requests against what it took. So most
requests ask nobody, and the number of upserts does not depend on that of the requests.

A piece is a hundredth of what is left, and at least one request: the pieces become
smaller toward the end of a window. Together, the processes never admit more requests
than the limit. (The first request of a key, which counts for its address until it is
answered, may be one more.) What they admit less is what the others took and did not
use: at most a hundredth of the limit for each other process, and nothing for limits
below 200. While the database does not answer, each process counts for itself.

A window belongs to the minute of the process's own clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from sqlalchemy import Connection, delete, select, tuple_

from ..store.tables import request_windows

PIECES = 100

log = logging.getLogger("agentbook.service")

# Takes pieces of a minute; returns what was taken of each, these included.
Reserve = Callable[[int, Mapping[str, int]], Awaitable[Mapping[str, int]]]


def take_pieces(db: Connection, minute: int, pieces: Mapping[str, int]) -> dict[str, int]:
    """Take pieces of a minute's requests.

    Parameters
    ----------
    db
        Of a PostgreSQL database.
    minute
        Minutes since the epoch. Windows before the one before it are deleted.
    pieces
        How many requests to take, by whose they are.

    Returns
    -------
    dict of str to int
        How many requests have been taken in all, by whose they are. More than the limit
        means that the last piece was not there any more, or not all of it.
    """
    # Here, because SQLite's platforms, such as every notebook's, need not load it.
    from sqlalchemy.dialects.postgresql import insert

    # In one order, so that two processes do not wait for each other's rows.
    rows = [{"minute": minute, "counted": key, "taken": pieces[key]} for key in sorted(pieces)]
    upsert = insert(request_windows).values(rows)
    taken = request_windows.c.taken + upsert.excluded.taken
    upsert = upsert.on_conflict_do_update(index_elements=["minute", "counted"], set_={"taken": taken})
    answer = db.execute(upsert.returning(request_windows.c.counted, request_windows.c.taken)).all()
    if any(row.taken == pieces[row.counted] for row in answer):  # the first of a window
        key = tuple_(request_windows.c.minute, request_windows.c.counted)
        old = select(*key.clauses).where(request_windows.c.minute < minute - 1)
        db.execute(delete(request_windows).where(key.in_(old.with_for_update(skip_locked=True))))
    return {row.counted: row.taken for row in answer}


class SharedPieces:
    """What a process may admit of each window.

    Parameters
    ----------
    limit
        Requests per minute of all processes.
    reserve
        Takes pieces out of the database.
    """

    def __init__(self, limit: int, reserve: Reserve) -> None:
        self._limit = limit
        self._reserve = reserve
        self._minute = -1
        self._granted: dict[str, int] = {}
        self._taken: dict[str, int] = {}  # of all processes, as this one knows it
        self._waiting: dict[str, asyncio.Future[bool]] = {}
        self._fetching: asyncio.Task[None] | None = None

    def begin(self, minute: int) -> None:
        """Forget what was granted: a minute begins."""
        self._minute, self._granted, self._taken = minute, {}, {}

    def granted(self, key: str) -> int:
        """How many requests of the minute this process may admit, as far as it took."""
        return self._granted.get(key, 0)

    async def extend(self, key: str) -> bool:
        """Take another piece; whether there was one."""
        if self._taken.get(key, 0) >= self._limit:
            return False
        return await asyncio.shield(self._ask(key))

    def owe(self, key: str) -> None:
        """Take a piece later, for a request that was counted without one."""
        self._ask(key)

    def _ask(self, key: str) -> asyncio.Future[bool]:
        if key not in self._waiting:
            self._waiting[key] = asyncio.get_running_loop().create_future()
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch())
        return self._waiting[key]

    async def _fetch(self) -> None:
        """Take a piece for everyone who waits, until nobody does."""
        while self._waiting:
            waiting, self._waiting = self._waiting, {}
            minute = self._minute
            pieces = {key: max(1, (self._limit - self._taken.get(key, 0)) // PIECES) for key in waiting}
            try:
                taken = await self._reserve(minute, pieces)
            except Exception:
                log.warning("the request windows cannot be read; this process counts for itself", exc_info=True)
                taken = None
            for key, answer in waiting.items():
                granted = self._grant(key, pieces[key], taken, minute)
                if not answer.done():
                    answer.set_result(granted)
        self._fetching = None

    def _grant(self, key: str, piece: int, taken: Mapping[str, int] | None, minute: int) -> bool:
        """Note what was taken of a key; whether anything was there."""
        if minute != self._minute:
            return True  # a minute has begun meanwhile: its window is another
        if taken is None:
            self._granted[key], self._taken[key] = self._limit, self._limit
            return True
        self._taken[key] = taken[key]
        granted = piece - max(0, taken[key] - self._limit)
        self._granted[key] = self._granted.get(key, 0) + max(0, granted)
        return granted > 0
