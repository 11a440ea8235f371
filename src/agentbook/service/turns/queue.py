"""Which turn runs next: the rows of ``pending_turns``.

The turns of a session run one after another, in the order of their messages. A row
names the process that runs the turn, its owner. The first pending turn of a session
belongs to the process that accepted the message, and a later one to nobody, until the
process that ends the turn before takes it. A turn that is due and that nobody owns is
taken by a process that looks for one: a process has stopped, or accepted the message
when it was about to stop.

A turn whose owner has died ends with a failure, once: it may already have had effects,
so it is not run again. An outcome is stored only by the owner, in the transaction that
removes the row, so every turn has exactly one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection, exists, select

from ..store import Transaction
from ..store.tables import pending_turns

_COLUMNS = "session_id, task_id, message_id"
_INSERT = "INSERT INTO pending_turns (session_id, task_id, message_id, created_at, owner) VALUES (?, ?, ?, ?, ?)"
_FIRST = f"SELECT {_COLUMNS} FROM pending_turns WHERE session_id = ? ORDER BY message_id LIMIT 1"  # noqa: S608 - constants
_TAKE = "UPDATE pending_turns SET owner = ? WHERE task_id = ?"
_earlier = pending_turns.alias()
_DELETE = "DELETE FROM pending_turns WHERE task_id = ? AND owner = ?"


@dataclass(frozen=True, slots=True)
class PendingTurn:
    """A turn that was accepted and has not ended."""

    session_id: str
    task_id: str
    message_id: str


class TurnQueue:
    """The turns that wait in the store.

    Parameters
    ----------
    process_id
        Names this process as an owner.
    start
        Called on the loop with a turn that this process owns from now on.

    Attributes
    ----------
    is_draining : bool
        Whether this process takes no further turns.
    """

    def __init__(self, process_id: str, start: Callable[[PendingTurn], None]) -> None:
        self._process_id = process_id
        self._start = start
        self.is_draining = False

    def add(self, tx: Transaction, turn: PendingTurn) -> None:
        """Store a turn; it starts after the commit, or after those before it."""
        is_first = not self.is_draining and tx.execute(_FIRST, (turn.session_id,)).fetchone() is None
        owner = self._process_id if is_first else None
        tx.execute(_INSERT, (turn.session_id, turn.task_id, turn.message_id, tx.clock.instant(), owner))
        if is_first:
            tx.after_commit(partial(self._start, turn))

    def remove(self, tx: Transaction, turn: PendingTurn, owner: str | None = None) -> bool:
        """End a turn of this process, or of `owner`; returns False if it has ended.

        The next turn of its session starts after the commit.
        """
        if not tx.execute(_DELETE, (turn.task_id, owner or self._process_id)).rowcount:
            return False
        following = tx.execute(_FIRST, (turn.session_id,)).fetchone()
        if following is not None and not self.is_draining:
            self._take(tx, PendingTurn(*following))
        return True

    def take_waiting(self, tx: Transaction) -> None:
        """Take the turns that are due and that nobody owns."""
        for turn in self.waiting(tx.db):
            self._take(tx, turn)

    def waiting(self, db: Connection) -> list[PendingTurn]:
        """The turns that are due and that nobody owns; none for one that drains."""
        has_earlier = exists().where(
            _earlier.c.session_id == pending_turns.c.session_id, _earlier.c.message_id < pending_turns.c.message_id
        )
        return [] if self.is_draining else _turns(db, pending_turns.c.owner.is_(None), ~has_earlier)

    def interrupted(self, db: Connection, living: Collection[str]) -> list[tuple[PendingTurn, str]]:
        """The turns, with their owners, of processes that are not among the living."""
        rows = db.execute(select(pending_turns).where(pending_turns.c.owner.not_in([*living, self._process_id])))
        return [(PendingTurn(row.session_id, row.task_id, row.message_id), row.owner) for row in rows]

    def owned(self, db: Connection) -> list[PendingTurn]:
        """The turns of this process."""
        return _turns(db, pending_turns.c.owner == self._process_id)

    def _take(self, tx: Transaction, turn: PendingTurn) -> None:
        tx.execute(_TAKE, (self._process_id, turn.task_id))
        tx.after_commit(partial(self._start, turn))


def _turns(db: Connection, *conditions: Any) -> list[PendingTurn]:
    rows = db.execute(select(pending_turns).where(*conditions).order_by(pending_turns.c.message_id))
    return [PendingTurn(row.session_id, row.task_id, row.message_id) for row in rows]
