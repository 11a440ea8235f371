"""How the demo's rows are made: seeded ids and times, tables in YAML, bulk inserts.

A table in a YAML file maps the name of each row to its values. In place of an id stands
a name: ``owner: acme`` fills the column ``owner_id``, and ``unknown`` an id that
nothing has. In place of a time stands how many days ago it was: ``days`` is when the
row was created, ``updated_days`` when it was last changed, ``archived_days`` fills
``archived_at``. A column that ends in ``_json`` is named without its end.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
import yaml
from sqlalchemy import Connection, Table

from ..ids import id_at, instant_of_ms
from ..store import tables

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000

_RELEASE_HOUR = 7
# What a column that ends in `_id` names, if it is not an account.
_NAMED = {"workspace": "workspaces", "agent": "agents", "target": "workspace_agents", "skill": "skills"}

# Ids by table, then by name.
Ids = dict[str, dict[str, str]]


class SeededIds:
    """Makes ids, instants and random numbers from a seed.

    Equal seeds and equal calls give equal values.
    """

    def __init__(self, seed: object) -> None:
        self.rng = random.Random(str(seed))  # noqa: S311 - demo data must be repeatable; no secret is drawn from it

    def id(self, milliseconds: int) -> str:
        """A UUIDv7 for that millisecond."""
        bits = self.rng.getrandbits(74)
        return id_at(milliseconds, bits >> 62, bits.to_bytes(10, "big")[2:])

    def timestamps(self, created_ms: int, updated_ms: int | None = None) -> dict[str, str]:
        """The columns ``created_at`` and ``updated_at``; None means never updated."""
        return {"created_at": instant_of_ms(created_ms), "updated_at": instant_of_ms(updated_ms or created_ms)}

    def uuid(self) -> str:
        """A random UUID (version 4), for ids of objects outside this store."""
        bits = f"{self.rng.getrandbits(128):032x}"
        return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-a{bits[17:20]}-{bits[20:]}"


def to_milliseconds(moment: datetime) -> int:
    """A time-zone-aware moment as milliseconds since the epoch."""
    return int(moment.timestamp() * 1000)


def midnight(now_ms: int, days: int = 0) -> int:
    """The UTC midnight with which the day that many days ago began."""
    return now_ms - now_ms % DAY_MS - days * DAY_MS


def released_ms(now_ms: int, days: int) -> int:
    """When a version of that many days ago was published: at seven in the morning."""
    return midnight(now_ms, days) + _RELEASE_HOUR * HOUR_MS


@cache
def read_yaml(name: str) -> dict[str, Any]:
    """A YAML file of the demo."""
    text = files(__package__).joinpath(name).read_bytes()
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C loader is ten times as fast
    document: dict[str, Any] = yaml.load(text, Loader=loader)  # noqa: S506 - safe
    return document


def write_tables(connection: Connection, names: Sequence[str], now_ms: int) -> Ids:
    """Write the tables of YAML files in their order; return the ids of all rows."""
    entries = {name: rows for file in names for name, rows in read_yaml(file).items()}
    made = {
        name: {key: _made(name, key, values, now_ms) for key, values in rows.items()} for name, rows in entries.items()
    }
    # The ids are known first, because rows name each other.
    ids: Ids = {name: {key: row["id"] for key, row in rows.items()} for name, rows in made.items()}
    for name, rows in entries.items():
        for key, values in rows.items():
            columns = _columns(tables.metadata.tables[name], key, values, ids, now_ms)
            insert(connection, tables.metadata.tables[name], [made[name][key] | columns])
    return ids


def _made(table: str, key: str, values: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    """The row's id and times."""
    # A seed of its own, so that the other rows stay the same if one comes or goes.
    seeded = SeededIds(f"{table} {key}")
    created = midnight(now_ms, values["days"]) + seeded.rng.randrange(6 * HOUR_MS, 18 * HOUR_MS)
    updated = None
    if "updated_days" in values:
        updated = midnight(now_ms, values["updated_days"]) + seeded.rng.randrange(18 * HOUR_MS, 22 * HOUR_MS)
    return {"id": seeded.id(created), **seeded.timestamps(created, updated)}


def _columns(table: Table, key: str, values: Mapping[str, Any], ids: Ids, now_ms: int) -> dict[str, Any]:
    """The row's other columns."""
    # Copies of a credential share the seed of what they hold.
    seeded = SeededIds(f"{table.name} {values.get('copy_of', key)} holds")
    fake = f"{seeded.rng.getrandbits(32):08x}"
    row: dict[str, Any] = {"name": key} if "name" in table.c else {}
    for name, value in json.loads(json.dumps(values).replace("{fake}", fake)).items():
        if name in table.c:
            row[name] = value
        elif f"{name}_json" in table.c:
            row[f"{name}_json"] = msgspec.json.encode(value).decode()
        elif name.endswith("_days") and f"{name.removesuffix('_days')}_at" in table.c:
            if name != "updated_days":
                row[f"{name.removesuffix('_days')}_at"] = instant_of_ms(midnight(now_ms, value) + 12 * HOUR_MS)
        elif f"{name}_id" in table.c:
            row[f"{name}_id"] = _id(name, value, ids, seeded)
        elif name not in {"days", "copy_of", "has_auth_config", "also"}:
            raise ValueError(f"The table {table.name} has no column for {name!r} of {key!r}.")
    if "secret_sha256" in table.c:
        # A random digest: no secret has it, so nobody can sign in with a demo key.
        row["secret_sha256"] = f"{seeded.rng.getrandbits(256):064x}"
    if "auth_config_id" in table.c and values.get("has_auth_config", True):
        row["auth_config_id"] = seeded.uuid()
    return row


def _id(column: str, name: str, ids: Ids, seeded: SeededIds) -> str:
    """The id that a name stands for, or ``table/name`` where a column has several."""
    table, _, rest = name.partition("/")
    if name == "unknown":
        return seeded.uuid()
    return ids[table][rest] if table in ids else ids[_NAMED.get(column, "accounts")][name]


def insert(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert `rows`, which must all have the same keys."""
    if rows:
        connection.execute(table.insert(), rows)
