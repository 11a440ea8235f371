"""Which turn runs next, and in which process.

The turns of a session run one after another, in the order of their messages. If one
process has the store to itself, its queues are in memory. If several share it, a row of
``pending_turns`` names its owner, the process that runs the turn. The first pending
turn of a session belongs to the process that accepted the message. A later one belongs
to nobody, until the process that ends the previous turn takes it. A turn that is due
but that nobody owns is taken by the first process that finds it. That happens when a
process has stopped, or accepted the message when it was about to stop.

A process owns its turns for as long as its lease lasts (see `cluster.lease`). After
that, another process ends them with a failure, once: they may already have had effects,
so they are not run again. An outcome is stored only by the owner, in the transaction
that removes the row, so every turn has exactly one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, insert, select

from ..cluster.lease import NOW
from ..store import Transaction, events
from ..store.tables import pending_turns

_CLAIMED_AT_ONCE = 16
_ENDED_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class PendingTurn:
    """A turn that was accepted and has not ended."""

    session_id: str
    task_id: str
    message_id: str
    text: str


class TurnQueue:
    """The turns of a process that has its store to itself.

    Parameters
    ----------
    start
        Called on the loop with a turn that is the first of its session.
    """

    def __init__(self, start: Callable[[PendingTurn], None]) -> None:
        self._start = start
        self._waiting: dict[str, deque[PendingTurn]] = {}  # behind the running turn of each session

    def add(self, tx: Transaction, turn: PendingTurn, *, goes_on: bool) -> None:
        """Store a turn; it starts after the commit, or after those before it.

        Unless this process `goes_on`, nobody owns the turn until another process takes
        it.
        """
        tx.db.execute(insert(pending_turns), _row(tx, turn))
        tx.after_commit(lambda: self._enqueue(turn))

    def remove(self, tx: Transaction, turn: PendingTurn, *, goes_on: bool) -> bool:
        """End a turn; whether it was this process's, and its outcome is to be stored.

        Unless it `goes_on`, the process takes no further turns.
        """
        tx.db.execute(delete(pending_turns).where(pending_turns.c.task_id == turn.task_id))
        return True

    def next(self, session_id: str) -> PendingTurn | None:
        """The turn of the session to run now; called on the loop, after a commit.

        None if there is none: a later one starts by itself.
        """
        queue = self._waiting[session_id]
        if queue:
            return queue.popleft()
        del self._waiting[session_id]
        return None

    def interrupted(self, db: Connection) -> list[PendingTurn]:
        """The turns that nobody is running any more, oldest first."""
        rows = db.execute(select(pending_turns).order_by(pending_turns.c.message_id))
        return [PendingTurn(row.session_id, row.task_id, row.message_id, "") for row in rows]

    def remove_interrupted(self, tx: Transaction, turn: PendingTurn, *, expired: bool = False) -> bool:
        """End a turn that was interrupted; False if it was not."""
        return self.remove(tx, turn, goes_on=False)

    def count_waiting(self, db: Connection) -> int:
        """How many turns wait for a turn of their session that this process runs."""
        return sum(len(queue) for queue in self._waiting.values())

    def clear(self, session_id: str) -> None:
        """Forget what is waiting in a session, because the service is stopping."""
        self._waiting.pop(session_id, None)

    def _enqueue(self, turn: PendingTurn) -> None:
        queue = self._waiting.get(turn.session_id)
        if queue is not None:
            queue.append(turn)
            return
        self._waiting[turn.session_id] = deque()
        self._start(turn)


class SharedTurnQueue(TurnQueue):
    """The turns that this process owns, if several processes share one PostgreSQL.

    Parameters
    ----------
    start
        Called on the loop with a turn that this process owns from now on.
    process_id
        Names the process.
    """

    def __init__(self, start: Callable[[PendingTurn], None], process_id: str) -> None:
        super().__init__(start)
        self._process_id = process_id
        self._next: dict[str, PendingTurn] = {}

    def add(self, tx: Transaction, turn: PendingTurn, *, goes_on: bool) -> None:
        row = _row(tx, turn)
        values = (row["task_id"], turn.session_id, turn.message_id, row["created_at"], turn.session_id)
        owner = self._process_id if goes_on else None
        if tx.execute(_INSERT, (*values, owner)).scalar() is not None:
            tx.after_commit(lambda: self._start(turn))

    def remove(self, tx: Transaction, turn: PendingTurn, *, goes_on: bool) -> bool:
        if not goes_on:
            return bool(tx.execute(_DELETE, (turn.task_id, self._process_id)).rowcount)
        parameters = (turn.task_id, self._process_id, self._process_id, turn.session_id, turn.task_id)
        ended = tx.execute(_DELETE_AND_TAKE_NEXT, parameters).one()
        if ended.task_id is not None:
            tx.finish_inserting()
            next_turn = _with_text(tx.db, PendingTurn(turn.session_id, ended.task_id, ended.message_id, ""))
            tx.after_commit(lambda: self._next.update({turn.session_id: next_turn}))
        return bool(ended.is_ours)

    def next(self, session_id: str) -> PendingTurn | None:
        return self._next.pop(session_id, None)

    def interrupted(self, db: Connection, *, expired: bool = False) -> list[PendingTurn]:
        """The turns whose owner has stopped; if `expired`, also of owners that died."""
        return _turns(db.exec_driver_sql(f"{_ORPHANS} ORDER BY message_id LIMIT {_ENDED_AT_ONCE}", (expired,)))

    def remove_interrupted(self, tx: Transaction, turn: PendingTurn, *, expired: bool = False) -> bool:
        """End a turn of another process; False if that process is alive after all."""
        is_orphan = tx.db.exec_driver_sql(f"{_ORPHANS} AND task_id = %s FOR UPDATE", (expired, turn.task_id)).first()
        if is_orphan is not None:
            tx.execute("DELETE FROM pending_turns WHERE task_id = ?", (turn.task_id,))
        return is_orphan is not None

    def claim(self, tx: Transaction) -> None:
        """Take and start turns that are due but that nobody owns."""
        claimed = _turns(tx.execute(_CLAIM, (self._process_id,)))
        if claimed:
            tx.finish_inserting()
        for turn in claimed:
            tx.after_commit(partial(self._start, _with_text(tx.db, turn)))

    def owned(self, db: Connection) -> list[PendingTurn]:
        """The turns of this process, with their texts."""
        rows = db.execute(select(pending_turns).where(pending_turns.c.owner == self._process_id))
        return [_with_text(db, turn) for turn in _turns(rows)]

    def count_waiting(self, db: Connection) -> int:
        return int(db.exec_driver_sql(_COUNT_WAITING, (self._process_id,)).scalar_one())


_INSERT = (
    "INSERT INTO pending_turns (task_id, session_id, message_id, created_at, owner) VALUES (?, ?, ?, ?, "
    "CASE WHEN EXISTS (SELECT 1 FROM pending_turns WHERE session_id = ?) THEN NULL ELSE ? END) RETURNING owner"
)
_COUNT_WAITING = (
    "SELECT count(*) FROM pending_turns AS turn WHERE owner IS NULL AND EXISTS "
    "(SELECT 1 FROM pending_turns AS earlier WHERE earlier.session_id = turn.session_id AND earlier.owner = %s)"
)
_DELETE = "DELETE FROM pending_turns WHERE task_id = ? AND owner = ?"
# All parts of a statement see the rows as they were before it.
_DELETE_AND_TAKE_NEXT = (
    f"WITH ended AS ({_DELETE} RETURNING task_id), next_turn AS ("  # noqa: S608 - constants
    "UPDATE pending_turns SET owner = ? WHERE owner IS NULL AND EXISTS (SELECT 1 FROM ended) AND task_id = "
    "(SELECT task_id FROM pending_turns WHERE session_id = ? AND task_id <> ? ORDER BY message_id LIMIT 1) "
    "RETURNING task_id, message_id) SELECT EXISTS (SELECT 1 FROM ended) AS is_ours, task_id, message_id "
    "FROM (SELECT 1) AS always LEFT JOIN next_turn ON true"
)
# Two processes that look at the same time take different rows. No earlier turn of the
# session can appear.
_CLAIM = (
    "UPDATE pending_turns SET owner = ? WHERE owner IS NULL AND task_id = ANY (ARRAY ("  # noqa: S608 - constants
    "SELECT task_id FROM pending_turns AS turn WHERE owner IS NULL AND NOT EXISTS ("
    "SELECT 1 FROM pending_turns AS earlier "
    "WHERE earlier.session_id = turn.session_id AND earlier.message_id < turn.message_id) "
    f"LIMIT {_CLAIMED_AT_ONCE} FOR UPDATE SKIP LOCKED)) RETURNING session_id, task_id, message_id"
)
_ORPHANS = (
    "SELECT session_id, task_id, message_id FROM pending_turns WHERE owner IS NOT NULL AND NOT EXISTS "  # noqa: S608 - constants
    f"(SELECT 1 FROM processes WHERE processes.id = owner AND (lease_until > {NOW} OR NOT %s))"
)


def _row(tx: Transaction, turn: PendingTurn) -> dict[str, str]:
    return {
        "task_id": turn.task_id,
        "session_id": turn.session_id,
        "message_id": turn.message_id,
        "created_at": tx.clock.instant(),
    }


def _turns(rows: Any) -> list[PendingTurn]:
    return [PendingTurn(row.session_id, row.task_id, row.message_id, "") for row in rows]


class _Content(msgspec.Struct):
    text: str


class _Message(msgspec.Struct):
    content: _Content


def _with_text(db: Connection, turn: PendingTurn) -> PendingTurn:
    json_text = events.json_text(db, turn.session_id, turn.message_id)
    text = msgspec.json.decode(json_text, type=_Message).content.text
    return PendingTurn(turn.session_id, turn.task_id, turn.message_id, text)
