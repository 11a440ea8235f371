"""The service's only source of time, ids and secrets.

A seeded service, which must repeat its answers exactly, replaces this one object.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from . import ids

if TYPE_CHECKING:
    from sqlalchemy import Connection


class Clock:
    """The system's clock, random ids and random secrets."""

    # Whether the same requests give the same ids and times (see `store.seeded`).
    repeats = False
    seed = 0

    def begin(self, db: Connection) -> None:
        """Called when a write begins on this connection; does nothing here."""

    def milliseconds(self) -> int:
        """Milliseconds since the epoch, now."""
        return time.time_ns() // 1_000_000

    def instant(self) -> str:
        """The current instant, as it is written on the wire."""
        return ids.now()

    def new_id(self) -> str:
        """Return an id for anything but an event (`store.writer` makes event ids)."""
        return ids.new_id()

    def part_id(self, parent_id: str, number: int) -> str:
        """Return an id for part `number` (from 0) of something, such as a tool run."""
        return self.new_id()

    def request_id(self) -> str:
        """Return an id for one request.

        Separate from `new_id`, so that polling does not change what is stored.
        """
        return ids.new_id()

    def entropy(self) -> bytes:
        """Return eight bytes for the random part of an event's id."""
        return secrets.token_bytes(8)

    def secret(self) -> str:
        """Return a fresh 256-bit secret that is safe in a URL and in a header."""
        return secrets.token_urlsafe(32)
