"""Time, ids and secrets: the one seam through which the service learns anything that is not in a request or the store.

Everything the service makes up comes from a `Clock`, so a service that must repeat itself replaces this one object.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from . import ids

if TYPE_CHECKING:
    from sqlalchemy import Connection


class Clock:
    """The real thing: the system's clock, random ids, random secrets."""

    repeats = False  # whether the same requests give the same ids and times (see `store.seeded`)
    seed = 0

    def begin(self, db: Connection) -> None:
        """A write begins on this connection. Time passes by itself: nothing to do."""

    def milliseconds(self) -> int:
        """Milliseconds since the epoch, now."""
        return time.time_ns() // 1_000_000

    def instant(self) -> str:
        """The present instant as the wire writes it."""
        return ids.now()

    def new_id(self) -> str:
        """An id for anything that is not an event (events get theirs inside the commit, see `store.writer`)."""
        return ids.new_id()

    def part_id(self, whole: str, number: int) -> str:
        """An id for the part of this number (from 0) of something that has an id, such as a tool run of a turn."""
        return self.new_id()

    def request_id(self) -> str:
        """An id for one request; apart from `new_id`, so that polling changes nothing that is stored."""
        return ids.new_id()

    def entropy(self) -> bytes:
        """Eight bytes for the random part of an event's id."""
        return secrets.token_bytes(8)

    def secret(self) -> str:
        """A fresh secret of 256 bits, in characters that are safe in a URL and in a header."""
        return secrets.token_urlsafe(32)
