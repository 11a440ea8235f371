"""Ids and instants as the platform writes them.

Every id is a UUIDv7 in its lower-case canonical form, so sorting ids as text sorts them
by time.
Every instant is stored and sent as ISO 8601 text in UTC with six decimals and a ``Z``
(``2026-10-03T08:15:00.000000Z``). The width is fixed, so instants sort as text too, on
SQLite and on PostgreSQL.
"""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime

import uuid_utils

_CANONICAL = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")


def new_id() -> str:
    """Return a new UUIDv7, greater than all earlier ones of this process."""
    return str(uuid_utils.uuid7())


def id_at(milliseconds: int, sequence: int, entropy: bytes | None = None) -> str:
    """Return a UUIDv7 for a given millisecond since the epoch.

    `sequence` (0..4095) orders ids within the millisecond. `entropy` is eight bytes
    for reproducible ids; None draws them at random.
    """
    low = int.from_bytes(entropy or secrets.token_bytes(8), "big") & ((1 << 62) - 1)
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


def sequence_of(id_: str) -> int:
    """Return the number that orders a UUIDv7 within its millisecond (0..4095)."""
    return int(id_[15:18], 16)


def instant(moment: datetime) -> str:
    """Format a time-zone-aware `moment` as on the wire."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def instant_of_ms(milliseconds: int) -> str:
    """Format a millisecond since the epoch as on the wire."""
    return instant(datetime.fromtimestamp(milliseconds / 1000, UTC))


def now() -> str:
    """Return the current instant as on the wire."""
    return instant(datetime.now(UTC))
