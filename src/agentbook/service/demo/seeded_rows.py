"""Seeded ids and instants, inserts, and the summary, for all writers of demo data."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Table

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000

_LOW_62 = (1 << 62) - 1


@dataclass(frozen=True, slots=True)
class DemoSummary:
    """What was written.

    Attributes
    ----------
    account_id, account_name : str
        The account that a local key acts as.
    users, workspaces, agents : mapping of str to str
        Ids by name, for all accounts.
    counts : mapping of str to int
        Rows by noun: sessions, events, credentials, contexts ...
    first_at, last_at : str or None
        When the first and the last session started, as written on the wire.
    """

    account_id: str
    account_name: str
    users: Mapping[str, str]
    workspaces: Mapping[str, str]
    agents: Mapping[str, str]
    counts: Mapping[str, int]
    first_at: str | None
    last_at: str | None


class SeededIds:
    """Makes ids, instants and random numbers from a seed.

    Equal seeds and equal calls give equal values. Everything random in the demo data
    comes from `rng`.
    """

    def __init__(self, seed: object) -> None:
        self.rng = random.Random(str(seed))  # noqa: S311 - demo data must be repeatable; no secret is drawn from it
        self._second = -1
        self._text = ""

    def id(self, milliseconds: int) -> str:
        """A UUIDv7 for that millisecond.

        Has the format of `agentbook.service.ids.id_at`, but is several times as fast.
        """
        bits = self.rng.getrandbits(74)
        time, low = f"{milliseconds:012x}", f"{0x7000_8000000000000000 | (bits >> 62) << 64 | bits & _LOW_62:020x}"
        return f"{time[:8]}-{time[8:]}-{low[:4]}-{low[4:8]}-{low[8:]}"

    def instant(self, milliseconds: int) -> str:
        """That millisecond in the format of `agentbook.service.ids.instant`."""
        second, rest = divmod(milliseconds, 1000)
        if second != self._second:
            self._second = second
            self._text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._text}.{rest:03d}000Z"

    def timestamps(self, created_ms: int, updated_ms: int | None = None) -> dict[str, str]:
        """The columns ``created_at`` and ``updated_at``; None means never updated."""
        return {"created_at": self.instant(created_ms), "updated_at": self.instant(updated_ms or created_ms)}

    def uuid(self) -> str:
        """A random UUID (version 4), for ids of objects outside this store."""
        bits = f"{self.rng.getrandbits(128):032x}"
        return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-a{bits[17:20]}-{bits[20:]}"


def to_milliseconds(moment: datetime) -> int:
    """A time-zone-aware moment as milliseconds since the epoch."""
    return int(moment.timestamp() * 1000)


def insert(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert `rows`, which must all have the same keys in the same order."""
    if rows:
        insert_tuples(connection, table, tuple(rows[0]), [tuple(row.values()) for row in rows])


def insert_tuples(
    connection: Connection, table: Table, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Insert tuples with the driver's ``executemany``.

    This is several times as fast as an `sqlalchemy.Insert` of mappings.
    """
    if not rows:
        return
    mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"
    # The names come from our own tables, and the values are bound.
    statement = f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({', '.join([mark] * len(columns))})"  # noqa: S608
    connection.exec_driver_sql(statement, rows)


def as_json(value: object) -> str:
    """JSON text in the format of the ``*_json`` columns."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
