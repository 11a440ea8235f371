"""The store's Parquet files: ``events/day=2026-10-03/group=5/part-….parquet``.

They are compressed with zstd and have one schema. The day is that of the event's id, in
UTC. The group is derived from a checksum of the session's id, so a session lies in one
group, however many days it spans.
"""

from __future__ import annotations

import datetime
import itertools
import re
import uuid
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..parse.columns import arrow_schema
from ..parse.ids import parse_ids
from ..parse.schemas import schema_of
from .manifest import DIRECTORY, NO_DAY, PART_NAME, ROOT, TABLE_NAME, TABLES, Manifest, Part
from .storage import TEMPORARY_PREFIX, Storage, StoreError

SCHEMA = arrow_schema(schema_of("events"))
_NAME = re.compile(PART_NAME)
_TABLE = re.compile(TABLE_NAME)
# The manifest, too, is written under a temporary name, in the store's own folder.
_UNFINISHED = re.compile(rf"^(?:(?:{DIRECTORY}|{TABLES})/)?{re.escape(TEMPORARY_PREFIX)}[0-9a-f]{{32}}\Z")
_DICTIONARY_COLUMNS = ["session_id", "type", "author_type", "author_id", "author_name", "content", "extra"]
_DAY_US = 86_400_000_000
_FIRST_DAY = -719_162  # the first day of Python's calendar, in days since 1970


def group_of(session: str, groups: int) -> int:
    """The group of a session: stable across machines and versions."""
    return zlib.crc32(session.encode()) % groups


def partition_of(name: str) -> tuple[str, int]:
    """The day and group of a part by its name; ``("", -1)`` if it is not a part."""
    match = _NAME.match(name)
    return ("", -1) if match is None else (match[1], int(match[2]))


def written_by_store(name: str) -> bool:
    """Whether a store wrote this file: a part, a table, or an incomplete file."""
    return any(pattern.match(name) for pattern in (_NAME, _TABLE, _UNFINISHED))


def stray_files(storage: Storage, manifest: Manifest) -> list[str]:
    """Files in a store's folders that do not belong to it, and those it left behind."""
    names = {part.name for part in manifest.parts} | {table.name for table in manifest.tables}
    strays = [name for folder in (ROOT, TABLES) for name in storage.files(folder) if name not in names]
    return sorted([*strays, *filter(written_by_store, storage.files("", deep=False))])


def split_by_day(table: Any, group: int) -> Iterator[tuple[str, Any]]:
    """The rows of one group by day, as pairs of directory and table."""
    at = pc.coalesce(table["at"], table["created_at"]).cast(pa.int64())
    days = pc.fill_null(at, -(2**62)).to_numpy(zero_copy_only=False) // _DAY_US
    if len(days) and (days[1:] < days[:-1]).any():
        order = np.argsort(days, kind="stable")
        table, days = table.take(pa.array(order)), days[order]
    cuts = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(days)]
    for start, end in itertools.pairwise(cuts):
        if end > start:
            number = int(days[start])
            day = NO_DAY if number < _FIRST_DAY else str(datetime.date(1970, 1, 1) + datetime.timedelta(days=number))
            yield f"{ROOT}/day={day}/group={group}", table.slice(start, end - start)


def write(storage: Storage, directory: str, table: Any) -> Part:
    """Write one part, safely to disk."""
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(
        table, sink, compression="zstd", use_dictionary=_DICTIONARY_COLUMNS,
        column_encoding={"id": "DELTA_BYTE_ARRAY"}, row_group_size=262_144, write_page_checksum=True,
    )  # fmt: skip
    data = sink.getvalue()
    name = f"{directory}/part-{uuid.uuid4().hex}.parquet"
    storage.write(name, memoryview(data))
    return Part(name, table.num_rows, data.size, zlib.crc32(data))


def read(storage: Storage, parts: Sequence[Part], columns: Sequence[str] | None = None, condition: Any = None) -> Any:
    """The rows of some parts as one table, in the order of the parts."""
    if not parts:
        empty = SCHEMA.empty_table()
        return empty if columns is None else empty.select(list(columns))
    try:
        return dataset(storage, parts).to_table(columns=None if columns is None else list(columns), filter=condition)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise first_damage(storage, parts) or StoreError(
            f"A part of the store {storage.full_path('')} cannot be read: {error}."
        ) from error


def dataset(storage: Storage, parts: Iterable[Part]) -> Any:
    """Some parts as a `pyarrow.dataset.Dataset`; nothing is read yet."""
    import pyarrow.dataset as ds

    checked = ds.ParquetFileFormat(
        default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    )
    paths = [storage.full_path(part.name) for part in parts]
    return ds.dataset(paths, SCHEMA, format=checked, filesystem=storage.arrow_filesystem())


def damage_of(storage: Storage, part: Part) -> str | None:
    """How a part's file differs from what was written; None if it does not."""
    data = storage.read(part.name)
    if data is None:
        return "missing"
    if zlib.crc32(data) != part.crc32:
        return f"damaged: its {len(data):,} bytes are not the {part.size:,} that were written"
    return None


def first_damage(storage: Storage, parts: Iterable[Part]) -> FileNotFoundError | StoreError | None:
    """The error of the first damaged part; None if there is none."""
    for part in parts:
        damage = damage_of(storage, part)
        if damage == "missing":
            return FileNotFoundError(storage.full_path(part.name))
        if damage is not None:
            return StoreError(
                f"The store's {storage.full_path(part.name)} is {damage}. store.verify() lists all such files; "
                "store.verify(repair=True) removes them, and the next sync reads their sessions again."
            )
    return None


def remove_orphans(storage: Storage, manifest: Manifest) -> None:
    """Remove the files that an interrupted change left behind."""
    for name in stray_files(storage, manifest):
        if written_by_store(name):
            storage.remove(name)


def stored_ids(storage: Storage, manifest: Manifest, session: str) -> list[str]:
    """All ids of a session that are in the store, ascending."""
    group = group_of(session, manifest.groups)
    candidates = [part for part in manifest.parts if partition_of(part.name)[1] == group]
    table = read(storage, candidates, ["id"], pc.field("session_id") == session)
    return sorted(table["id"].drop_null().to_pylist(), key=str.lower)


def sort_events(table: Any) -> Any:
    """The rows sorted by session and id."""
    if table.num_rows < 2:
        return table
    encoded = table["session_id"].combine_chunks().dictionary_encode()
    rank = np.empty(len(encoded.dictionary), np.int64)
    rank[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(rank))
    session = rank[encoded.indices.to_numpy()]
    high, low, valid = parse_ids(table["id"])
    same = session[1:] == session[:-1]
    later = (high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] >= low[:-1]))
    if valid.all():
        if bool(((session[1:] > session[:-1]) | (same & later)).all()):
            return table
        return table.take(pa.array(np.lexsort((low, high, session))))
    ids = np.empty(table.num_rows, np.int64)
    ids[pc.sort_indices(table["id"]).to_numpy()] = np.arange(table.num_rows)
    return table.take(pa.array(np.lexsort((ids, session))))
