"""Reproducible ids and instants: everything random in the demo comes from one seeded generator."""

from __future__ import annotations

import random
from datetime import UTC, datetime

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000

_LOW_62 = (1 << 62) - 1


class Mint:
    """Makes ids and instants from a seed. Equal seeds make equal ones, in the same order."""

    def __init__(self, seed: object) -> None:
        self.rng = random.Random(str(seed))  # noqa: S311 - demo data must repeat itself; no secret is drawn from it
        self._second = -1
        self._text = ""

    def id(self, milliseconds: int) -> str:
        """A UUIDv7 of that millisecond, as `agentbook.service.ids.id_at` makes it, several times as fast."""
        drawn = self.rng.getrandbits(74)
        time, low = f"{milliseconds:012x}", f"{0x7000_8000000000000000 | (drawn >> 62) << 64 | drawn & _LOW_62:020x}"
        return f"{time[:8]}-{time[8:]}-{low[:4]}-{low[4:8]}-{low[8:]}"

    def instant(self, milliseconds: int) -> str:
        """That millisecond as the wire writes it (see `agentbook.service.ids.instant`)."""
        second, rest = divmod(milliseconds, 1000)
        if second != self._second:
            self._second = second
            self._text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._text}.{rest:03d}000Z"

    def uuid(self) -> str:
        """A random UUID (version 4): for ids of things that this store does not hold."""
        bits = f"{self.rng.getrandbits(128):032x}"
        return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-a{bits[17:20]}-{bits[20:]}"


def milliseconds(moment: datetime) -> int:
    """A time-zone-aware moment as milliseconds since the epoch."""
    return int(moment.timestamp() * 1000)
