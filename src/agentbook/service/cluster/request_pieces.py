"""The request window of a platform with several processes, each of which takes pieces.

For each minute, the database has a row for each key or address. By one upsert, a
process takes a piece of the requests in that row, and counts its own requests against
that piece. So most requests need no query, and the number of upserts does not depend on
the number of requests.

A piece is a hundredth of what is left, and at least one request, so the pieces become
smaller toward the end of a window. Together, the processes never admit more requests
than the limit. They may admit fewer, because a process may not use all that
it took: at most a hundredth of the limit for each other process, and nothing for limits
below 200. While the database does not answer, each process counts for itself.

A window belongs to a minute on the process's own clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from sqlalchemy import Connection, delete, select, tuple_

from ..store.tables import request_windows

PIECES = 100

log = logging.getLogger("agentbook.service")

# Takes pieces of a minute; returns the totals taken, including these pieces.
Reserve = Callable[[int, Mapping[str, int]], Awaitable[Mapping[str, int]]]


def take_pieces(db: Connection, minute: int, pieces: Mapping[str, int]) -> dict[str, int]:
    """Take pieces of a minute's requests.

    Parameters
    ----------
    db
        A connection to a PostgreSQL database.
    minute
        Minutes since the epoch. Windows older than the previous minute are deleted.
    pieces
        How many requests to take, by key or address.

    Returns
    -------
    dict of str to int
        How many requests have been taken in all, by key or address. If this is more
        than the limit, the last piece was no longer available, or not all of it.
    """
    # Imported here, because platforms on SQLite, as in notebooks, do not need it.
    from sqlalchemy.dialects.postgresql import insert

    # In a fixed order, so that two processes do not wait for each other's rows.
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
    """How much of each window a process may admit.

    Parameters
    ----------
    limit
        Requests per minute, for all processes together.
    reserve
        Takes pieces out of the database.
    """

    def __init__(self, limit: int, reserve: Reserve) -> None:
        self._limit = limit
        self._reserve = reserve
        self._minute = -1
        self._granted: dict[str, int] = {}
        self._taken: dict[str, int] = {}  # by all processes, as far as this one knows
        self._waiting: dict[str, asyncio.Future[bool]] = {}
        self._fetching: asyncio.Task[None] | None = None

    def begin(self, minute: int) -> None:
        """Forget what was granted, because a new minute begins."""
        self._minute, self._granted, self._taken = minute, {}, {}

    def granted(self, key: str) -> int:
        """How many requests this process may admit in this minute, given its pieces."""
        return self._granted.get(key, 0)

    async def extend(self, key: str) -> bool:
        """Take another piece, and return whether there was one."""
        if self._taken.get(key, 0) >= self._limit:
            return False
        return await asyncio.shield(self._ask(key))

    def _ask(self, key: str) -> asyncio.Future[bool]:
        if key not in self._waiting:
            self._waiting[key] = asyncio.get_running_loop().create_future()
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch())
        return self._waiting[key]

    async def _fetch(self) -> None:
        """Take a piece for every waiting key, until none waits."""
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
        """Note what was taken for a key, and return whether anything was left."""
        if minute != self._minute:
            return True  # a new minute has begun, so this is a different window
        if taken is None:
            self._granted[key], self._taken[key] = self._limit, self._limit
            return True
        self._taken[key] = taken[key]
        granted = piece - max(0, taken[key] - self._limit)
        self._granted[key] = self._granted.get(key, 0) + max(0, granted)
        return granted > 0
