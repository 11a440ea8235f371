"""The store's Parquet files: ``events/day=2026-10-03/group=5/part-….parquet``, zstd, one schema.

The day is that of the event's id, in UTC. The group is a checksum of the session's id, so that all of a session lies in one
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
from .manifest import Part
from .storage import TEMPORARY, Storage, StoreError

ROOT = "events"
SCHEMA = arrow_schema(schema_of("events"))
# What Hive, Spark, DuckDB and Arrow read as null.
_NO_DAY = "__HIVE_DEFAULT_PARTITION__"
_NAME = re.compile(rf"{ROOT}/day=([^/]+)/group=(\d+)/part-[0-9a-f]+\.parquet")
_REPEATED = ["session_id", "type", "author_type", "author_id", "author_name", "content", "extra"]
_ONE_DAY = 86_400_000_000  # microseconds
_FIRST_DAY = -719_162  # of the calendar, counted from 1970


def group_of(session: str, groups: int) -> int:
    """The group of a session: stable across machines and versions."""
    return zlib.crc32(session.encode()) % groups


def key_of(name: str) -> tuple[str, int] | None:
    """The day and group of a part's name; None for a file that is no part."""
    found = _NAME.fullmatch(name)
    return None if found is None else (found[1], int(found[2]))


def place_in(part: Part) -> tuple[str, int]:
    """The day and group of a part."""
    return key_of(part.name) or ("", -1)


def is_ours(name: str) -> bool:
    """Whether a file is one that a store wrote: a part, or one that was being written."""
    return key_of(name) is not None or name.rpartition("/")[2].startswith(TEMPORARY)


def partitioned(table: Any, group: int) -> Iterator[tuple[str, Any]]:
    """The rows of one group by day: directory and table."""
    at = pc.coalesce(table["at"], table["created_at"]).cast(pa.int64())
    days = pc.fill_null(at, -(2**62)).to_numpy(zero_copy_only=False) // _ONE_DAY
    if len(days) and (days[1:] < days[:-1]).any():
        order = np.argsort(days, kind="stable")
        table, days = table.take(pa.array(order)), days[order]
    cuts = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(days)]
    for start, end in itertools.pairwise(cuts):
        if end > start:
            number = int(days[start])
            day = _NO_DAY if number < _FIRST_DAY else str(datetime.date(1970, 1, 1) + datetime.timedelta(days=number))
            yield f"{ROOT}/day={day}/group={group}", table.slice(start, end - start)


def write(place: Storage, directory: str, table: Any) -> Part:
    """One part, safe on disk."""
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(
        table, sink, compression="zstd", use_dictionary=_REPEATED, column_encoding={"id": "DELTA_BYTE_ARRAY"},
        row_group_size=262_144, write_page_checksum=True,
    )  # fmt: skip
    data = sink.getvalue()
    name = f"{directory}/part-{uuid.uuid4().hex}.parquet"
    place.write(name, memoryview(data))
    return Part(name, table.num_rows, data.size, zlib.crc32(data))


def read(place: Storage, parts: Sequence[Part], columns: Sequence[str] | None = None, condition: Any = None) -> Any:
    """The rows of some parts as one table, in the order of the parts."""
    if not parts:
        empty = SCHEMA.empty_table()
        return empty if columns is None else empty.select(list(columns))
    try:
        return dataset(place, parts).to_table(columns=None if columns is None else list(columns), filter=condition)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        found = first_wrong(place, parts)
        raise found or StoreError(f"A part of the store {place.show('')} cannot be read: {error}.") from error


def wrong_with(place: Storage, part: Part) -> str | None:
    """What is wrong with a part's file; None if it is as it was written."""
    data = place.read(part.name)
    if data is None:
        return "missing"
    if zlib.crc32(data) != part.crc32:
        return f"damaged: {len(data):,} bytes that are not those that were written ({part.size:,})"
    return None


def first_wrong(place: Storage, parts: Iterable[Part]) -> FileNotFoundError | StoreError | None:
    """The error of the first of these parts that is not as it was written; None where all are."""
    for part in parts:
        problem = wrong_with(place, part)
        if problem == "missing":
            return FileNotFoundError(place.show(part.name))
        if problem is not None:
            return StoreError(
                f"The store's {place.show(part.name)} is {problem}. store.verify() names all such files; "
                "store.verify(repair=True) forgets them, and the next sync reads their sessions again."
            )
    return None


def dataset(place: Storage, parts: Iterable[Part]) -> Any:
    """Some parts as a `pyarrow.dataset.Dataset`; nothing is read yet."""
    import pyarrow.dataset as ds

    checked = ds.ParquetFileFormat(
        default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    )
    return ds.dataset([place.show(part.name) for part in parts], SCHEMA, format=checked, filesystem=place.arrow())


def ordered(table: Any) -> Any:
    """The table by session and id."""
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
