"""The tables of a history in a store: workspaces, sessions, agents and credentials.

Each is one Parquet file, ``tables/sessions-….parquet``, which the manifest names. The
secrets of credentials were masked before they came here.
"""

from __future__ import annotations

import uuid
import zlib
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa

from ..export import to_arrow
from ..history.catalog import RESOURCES, Catalog, concat
from ..parse.frame import to_frame, to_pandas
from ..parse.ids import normalize
from .manifest import TABLES, Manifest, StoredHistory, Table
from .storage import Storage, StoreError


def write_catalog(storage: Storage, catalog: Catalog, before: StoredHistory | None) -> StoredHistory:
    """Write the tables that differ from the previous ones."""
    stored = {} if before is None else before.tables
    tables = {name: _write(storage, name, getattr(catalog, name), stored.get(name)) for name in RESOURCES}
    return StoredHistory(tables, catalog.missing, catalog.listed)


def _write(storage: Storage, name: str, frame: pd.DataFrame, before: Table | None) -> Table:
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(to_arrow(frame).replace_schema_metadata(None), sink, compression="zstd")
    data = sink.getvalue()
    size, crc32 = data.size, zlib.crc32(data)
    if before is not None and (before.size, before.crc32) == (size, crc32):
        return before
    table = Table(f"{TABLES}/{name}-{uuid.uuid4().hex}.parquet", len(frame), size, crc32)
    storage.write(table.name, memoryview(data))
    return table


def read_catalog(storage: Storage, stored: StoredHistory) -> Catalog:
    """The catalog of a stored history."""
    frames: dict[str, Any] = {name: _read(storage, table) for name, table in stored.tables.items()}
    return Catalog(**frames, missing=dict(stored.missing), listed=list(stored.listed))


def damage_of(storage: Storage, table: Table) -> str | None:
    """How a table's file differs from what was written; None if it does not."""
    data = storage.read(table.name)
    if data is None:
        return "missing"
    return None if zlib.crc32(data) == table.crc32 else "damaged: its bytes are not those that were written"


def _read(storage: Storage, table: Table) -> pd.DataFrame:
    import pyarrow.parquet as pq

    data = storage.read(table.name)
    if data is None:
        raise FileNotFoundError(storage.full_path(table.name))
    if zlib.crc32(data) != table.crc32:
        raise StoreError(
            f"The store's {storage.full_path(table.name)} is damaged. store.verify(repair=True) removes it, and the next "
            "sync reads its lists again."
        )
    return to_pandas(pq.read_table(pa.BufferReader(data)))


def whole_catalog(storage: Storage, manifest: Manifest) -> Catalog:
    """The catalogs of all histories as one; a session in none has only its id."""
    catalogs = [read_catalog(storage, stored) for stored in manifest.histories.values()]
    frames: dict[str, Any] = {
        name: _joined(name, [getattr(catalog, name) for catalog in catalogs]) for name in RESOURCES
    }
    joined = Catalog(
        **frames,
        missing={name: reason for catalog in catalogs for name, reason in catalog.missing.items()},
    )
    known = {normalize(session) for session in joined.sessions["id"].dropna()}
    others = [session for session in manifest.sessions if session not in known]
    if others:
        rows = msgspec.json.encode({"items": [{"id": session} for session in others]})
        joined.sessions = concat([joined.sessions, to_frame("sessions", [rows])])
        joined.missing["names"] = (
            f"{len(others):,} sessions were synced without their lists: store.sync(client, account=...) reads these"
        )
    return joined


def _joined(resource: str, frames: list[pd.DataFrame]) -> pd.DataFrame:
    return concat([to_frame(resource, []), *frames]).drop_duplicates("id", ignore_index=True)


__all__ = ["damage_of", "read_catalog", "whole_catalog", "write_catalog"]
