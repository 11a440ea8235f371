"""Ids and instants as the platform writes them, and the clock that they come from.

Every id is a UUIDv7 in its lower-case canonical form, so sorting ids as text sorts them
by time.
Every instant is stored and sent as ISO 8601 text in UTC with six decimals and a ``Z``
(``2026-10-03T08:15:00.000000Z``). The width is fixed, so instants sort as text too, on
SQLite and on PostgreSQL.
"""

from __future__ import annotations

import re
import secrets
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import uuid_utils

if TYPE_CHECKING:
    from sqlalchemy import Connection

_CANONICAL = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")


def new_id() -> str:
    """Return a new UUIDv7, greater than all earlier ones of this process."""
    return str(uuid_utils.uuid7())


def id_at(milliseconds: int, sequence: int, entropy: bytes) -> str:
    """Return a UUIDv7 for a given millisecond since the epoch.

    `sequence` (0..4095) orders ids within the millisecond. `entropy` is eight bytes.
    """
    low = int.from_bytes(entropy, "big") & ((1 << 62) - 1)
    text = f"{(milliseconds << 80) | (0x7 << 76) | ((sequence & 0xFFF) << 64) | (0b10 << 62) | low:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_id(text: str) -> bool:
    """Whether `text` is an id rather than a name.

    An id is a canonical UUID of any version or none (such as the nil UUID).
    """
    return _CANONICAL.match(text) is not None


def milliseconds_of(id_: str) -> int:
    """Return the millisecond since the epoch that a UUIDv7 carries."""
    return int(id_.replace("-", "")[:12], 16)


def instant(moment: datetime) -> str:
    """Format a time-zone-aware `moment` as on the wire."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def instant_of_ms(milliseconds: int) -> str:
    """Format a millisecond since the epoch as on the wire."""
    return instant(datetime.fromtimestamp(milliseconds / 1000, UTC))


def now() -> str:
    """Return the current instant as on the wire."""
    return instant(datetime.now(UTC))


class Clock:
    """The service's only source of time, ids and secrets.

    A seeded service, which must repeat its answers exactly, replaces this one object.
    """

    # With a seed, the same requests give the same ids and times (see `store.seeded`).
    seed: int | None = None

    def begin(self, db: Connection) -> None:
        """Called when a write begins on this connection; does nothing here."""

    def milliseconds(self) -> int:
        """Milliseconds since the epoch, now."""
        return time.time_ns() // 1_000_000

    def instant(self) -> str:
        """The current instant, as it is written on the wire."""
        return now()

    def new_id(self) -> str:
        """Return an id for anything but an event (`store.writer` makes event ids)."""
        return new_id()

    def part_id(self, parent_id: str, number: int) -> str:
        """Return an id for part `number` (from 0) of something, such as a tool run."""
        return self.new_id()

    def request_id(self) -> str:
        """Return an id for one request.

        Separate from `new_id`, so that polling does not change what is stored.
        """
        return new_id()

    def entropy(self) -> bytes:
        """Return eight bytes for the random part of an event's id."""
        return secrets.token_bytes(8)

    def secret(self) -> str:
        """Return a fresh 256-bit secret that is safe in a URL and in a header."""
        return secrets.token_urlsafe(32)
