"""How many requests of each minute a process may admit, if several share a limit.

For each minute, the database has a row for each key or address. By one upsert, a
process takes a piece of the requests in that row, and counts its own requests against
that piece. So most requests need no query.

A piece is a hundredth of what is left, and at least one request, so the pieces become
smaller toward the end of a minute. Together, the processes never admit more requests
than the limit. They may admit fewer, because a process may not use all that it took: at
most a hundredth of the limit for each other process, and nothing for limits below 200.
While the database does not answer, each process counts for itself.

A minute is that of the process's own clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.postgresql import insert

from ..store.tables import request_windows

PIECES = 100

log = logging.getLogger("agentbook.service")

TakePiece = Callable[[int, str, int], int]  # of a minute, for a key; returns what has been taken in all


def take_piece(db: Connection, minute: int, key: str, piece: int) -> int:
    """Take some of a key's requests; returns how many have been taken in all.

    If that is more than the limit, they were no longer there, or not all of them.
    """
    upsert = insert(request_windows).values(minute=minute, counted=key, taken=piece)
    taken = request_windows.c.taken + upsert.excluded.taken
    upsert = upsert.on_conflict_do_update(index_elements=["minute", "counted"], set_={"taken": taken})
    total = int(db.execute(upsert.returning(request_windows.c.taken)).scalar_one())
    if total == piece:  # the first of this minute
        is_old = request_windows.c.minute < minute - 1
        old = select(request_windows.c.counted).where(is_old).with_for_update(skip_locked=True)
        db.execute(delete(request_windows).where(is_old, request_windows.c.counted.in_(old)))
    return total


@dataclass(slots=True)
class _Share:
    """What this process may admit for a key, and what all have taken."""

    granted: int = 0
    taken: int = 0
    fetching: asyncio.Task[None] | None = None


@dataclass(slots=True)
class RequestQuota:
    """What this process may admit of each limit.

    Parameters
    ----------
    take
        Takes a piece out of the database, in a thread.
    """

    take: TakePiece
    _minute: int = -1
    _shares: dict[str, _Share] = field(default_factory=dict)

    async def reserve(self, minute: int, key: str, limit: int, count: int) -> int:
        """Return how many requests may be admitted (see `cluster.Reserve`)."""
        if minute != self._minute:
            self._minute, self._shares = minute, defaultdict(_Share)
        share = self._shares[key]
        while share.granted <= count and share.taken < limit:
            if share.fetching is None:
                share.fetching = asyncio.create_task(self._fetch(share, minute, key, limit))
            await asyncio.shield(share.fetching)
        return share.granted

    async def _fetch(self, share: _Share, minute: int, key: str, limit: int) -> None:
        piece = max(1, (limit - share.taken) // PIECES)
        try:
            share.taken = await asyncio.to_thread(self.take, minute, key, piece)
            share.granted += max(0, piece - max(0, share.taken - limit))
        except Exception:
            log.warning("the request windows cannot be read; this process counts for itself", exc_info=True)
            share.granted = share.taken = limit
        finally:
            share.fetching = None
