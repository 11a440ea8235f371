"""Stores that repeat themselves: the same requests in the same order give the same ids, times and secrets.

Such a store was begun with a seed, which is one of the facts it keeps about itself, and stays so for whoever opens it. Its
clock stands still between writes and is moved on by a second with each: the time is a row of the store, so it goes on where
it was after a restart, and with two processes at once no instant is given out twice. What is made up at an instant depends
on the seed, the instant and how many things were made up at it before, and on nothing else, so reading changes nothing.

For tutorials and tests alone: whoever knows the seed knows every secret.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, insert, select, text, update

from .. import ids
from ..clock import Clock
from ..errors import OperatorError
from .tables import accounts, meta

STEP_MS = 1000
BEGINNING = datetime(2026, 10, 1, 9, tzinfo=UTC)

_ADVANCE = text(
    "UPDATE meta SET value = CAST(CAST(value AS BIGINT) + :step AS TEXT) WHERE name = 'clock' RETURNING value"
)


@dataclass(frozen=True, slots=True)
class Seeding:
    """How a store is to begin: `now` (time zone aware) is its first instant."""

    seed: int
    now: datetime = BEGINNING


class SeededClock(Clock):
    """Time, ids and secrets of a seeded store."""

    repeats = True

    def __init__(self, seed: int, milliseconds: int) -> None:
        self.seed = seed
        # One object, replaced whole: the writer's thread moves the time while others read it.
        self._now = (milliseconds, itertools.count())
        self._requests = itertools.count()

    def begin(self, db: Connection) -> None:
        """A write begins: it has an instant of its own, which is taken back with it if it fails."""
        self._now = (int(db.execute(_ADVANCE, {"step": STEP_MS}).scalar_one()), itertools.count())

    def milliseconds(self) -> int:
        """The present instant, in milliseconds since the epoch."""
        return self._now[0]

    def instant(self) -> str:
        """The present instant as the wire writes it."""
        return ids.instant_of_ms(self._now[0])

    def new_id(self) -> str:
        """The next id of this instant."""
        milliseconds, made = self._now
        number = next(made)
        return ids.id_at(milliseconds, number, self._bytes("id", milliseconds, number)[:8])

    def part_id(self, whole: str, number: int) -> str:
        """Depends on the whole alone, so it does not matter what else goes on in the meantime."""
        return ids.id_at(ids.milliseconds_of(whole), number + 1, self._bytes("part", whole, number)[:8])

    def request_id(self) -> str:
        """The next request's id; apart from all others, so that polling changes nothing that is stored."""
        number = next(self._requests)
        return ids.id_at(self._now[0], number, self._bytes("request", number)[:8])

    def entropy(self) -> bytes:
        """The random part of the next event's id."""
        milliseconds, made = self._now
        return self._bytes("event", milliseconds, next(made))[:8]

    def secret(self) -> str:
        """The next secret of this instant. Whoever knows the seed can work it out."""
        milliseconds, made = self._now
        made_up = self._bytes("secret", milliseconds, next(made))
        return base64.urlsafe_b64encode(made_up).rstrip(b"=").decode()

    def _bytes(self, *facts: object) -> bytes:
        return hashlib.sha256("|".join(map(str, (self.seed, *facts))).encode()).digest()


def clock_of(engine: Engine, seeding: Seeding | None) -> Clock:
    """The clock of an opened store: its own where it was begun with a seed, or is begun with one now; else the system's.

    Raises `OperatorError` where `seeding` does not fit the store.
    """
    with engine.execution_options(agentbook_begin="IMMEDIATE").begin() as db:
        kept = _fact(db, "seed")
        if kept is None and seeding is None:
            return Clock()
        if kept is None:
            assert seeding is not None
            _begin(db, seeding)
            kept = str(seeding.seed)
        elif seeding is not None and kept != str(seeding.seed):
            raise OperatorError(
                f"This store was begun with the seed {kept}; use that one, or another --data directory."
            )
        return SeededClock(int(kept), int(_fact(db, "clock") or 0))


def _begin(db: Connection, seeding: Seeding) -> None:
    if db.execute(select(accounts.c.id).limit(1)).first() is not None:
        raise OperatorError("This store was begun without a seed; --seed needs a --data directory of its own.")
    now = int(seeding.now.timestamp() * 1000)
    db.execute(insert(meta), [{"name": "seed", "value": str(seeding.seed)}, {"name": "clock", "value": str(now)}])
    db.execute(update(meta).where(meta.c.name == "created_at").values(value=ids.instant_of_ms(now)))


def _fact(db: Connection, name: str) -> str | None:
    found: str | None = db.execute(select(meta.c.value).where(meta.c.name == name)).scalar()
    return found
