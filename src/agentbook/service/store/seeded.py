"""Seeded stores: the same requests in the same order give the same ids and secrets.

The seed is stored when the store is created. Its clock stands still between writes and
advances by a second with each write. The time is a row in the store, so it continues
after a restart, and two processes never use the same instant. What is created at an
instant depends only on the seed, the instant and how much was created at it before, so
reading changes nothing.

For tutorials and tests only: anyone who knows the seed knows every secret.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, insert, select, text, update

from .. import ids
from ..errors import OperatorError
from ..ids import Clock
from .tables import accounts, meta

STEP_MS = 1000
BEGINNING = datetime(2026, 10, 1, 9, tzinfo=UTC)

_ADVANCE = text(
    "UPDATE meta SET value = CAST(CAST(value AS BIGINT) + :step AS TEXT) WHERE name = 'clock' RETURNING value"
)


@dataclass(frozen=True, slots=True)
class Seeding:
    """How to create a store; `now` (time-zone aware) is its first instant."""

    seed: int
    now: datetime = BEGINNING


class SeededClock(Clock):
    """Time, ids and secrets of a seeded store."""

    def __init__(self, seed: int, milliseconds: int) -> None:
        self.seed = seed
        # Replaced as a whole: the writer thread advances the time while others read it.
        self._now = (milliseconds, itertools.count())
        self._requests = itertools.count()

    def begin(self, db: Connection) -> None:
        """Advance the time for a write; rolled back with it if it fails."""
        self._now = (int(db.execute(_ADVANCE, {"step": STEP_MS}).scalar_one()), itertools.count())

    def milliseconds(self) -> int:
        """Return the current instant in milliseconds since the epoch."""
        return self._now[0]

    def instant(self) -> str:
        """Return the current instant as on the wire."""
        return ids.instant_of_ms(self._now[0])

    def new_id(self) -> str:
        """Return the next id of this instant."""
        milliseconds, counter = self._now
        number = next(counter)
        return ids.id_at(milliseconds, number, self._bytes("id", milliseconds, number)[:8])

    def part_id(self, parent_id: str, number: int) -> str:
        """Return an id that depends only on the parent and the number."""
        return ids.id_at(ids.milliseconds_of(parent_id), number + 1, self._bytes("part", parent_id, number)[:8])

    def request_id(self) -> str:
        """Return the next request's id.

        Separate from other ids, so that polling does not change what is stored.
        """
        number = next(self._requests)
        return ids.id_at(self._now[0], number, self._bytes("request", number)[:8])

    def entropy(self) -> bytes:
        """Return the random part of the next event's id."""
        milliseconds, counter = self._now
        return self._bytes("event", milliseconds, next(counter))[:8]

    def secret(self) -> str:
        """Return the next secret of this instant."""
        milliseconds, counter = self._now
        secret = self._bytes("secret", milliseconds, next(counter))
        return base64.urlsafe_b64encode(secret).rstrip(b"=").decode()

    def _bytes(self, *facts: object) -> bytes:
        return hashlib.sha256("|".join(map(str, (self.seed, *facts))).encode()).digest()


def open_clock(engine: Engine, seeding: Seeding | None) -> Clock:
    """Return the clock of an opened store: its own if it is seeded, else the system's.

    Raises `OperatorError` if `seeding` does not match the store.
    """
    with engine.execution_options(agentbook_begin="IMMEDIATE").begin() as db:
        seed = _fact(db, "seed")
        if seed is None and seeding is None:
            return Clock()
        if seed is None:
            assert seeding is not None
            _seed(db, seeding)
            seed = str(seeding.seed)
        elif seeding is not None and seed != str(seeding.seed):
            raise OperatorError(
                f"This store was created with the seed {seed}; use that seed, or another --data directory."
            )
        return SeededClock(int(seed), int(_fact(db, "clock") or 0))


def _seed(db: Connection, seeding: Seeding) -> None:
    if db.execute(select(accounts.c.id).limit(1)).first() is not None:
        raise OperatorError("This store was created without a seed; use --seed with another --data directory.")
    now = int(seeding.now.timestamp() * 1000)
    db.execute(insert(meta), [{"name": "seed", "value": str(seeding.seed)}, {"name": "clock", "value": str(now)}])
    db.execute(update(meta).where(meta.c.name == "created_at").values(value=ids.instant_of_ms(now)))


def _fact(db: Connection, name: str) -> str | None:
    value: str | None = db.execute(select(meta.c.value).where(meta.c.name == name)).scalar()
    return value
