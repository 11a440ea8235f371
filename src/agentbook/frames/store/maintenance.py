"""Maintenance of a store: joining its files, checking them, removing what is damaged.

All of it needs the store's lock, except checking a store that cannot be written.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from . import parts
from .manifest import Manifest, Part, SessionCursor, StoredHistory, save
from .reader import Reader
from .storage import Storage, StoreBusy, StoreError
from .tables import damage_of


def compact(storage: Storage, manifest: Manifest) -> tuple[int, int]:
    """Join the files of each day and group; returns their number before and after."""
    parts.remove_orphans(storage, manifest)
    by_directory: dict[str, list[Part]] = {}
    for part in manifest.parts:
        by_directory.setdefault(part.name.rpartition("/")[0], []).append(part)
    before, joined, replaced = len(manifest.parts), list[Part](), list[Part]()
    for directory, members in by_directory.items():
        if len(members) == 1:
            joined += members
        else:
            table = parts.sort_events(parts.read(storage, members)).unify_dictionaries().combine_chunks()
            joined.append(parts.write(storage, directory, table))
            replaced += members
    if replaced:
        manifest.parts = joined
        save(storage, manifest)
        for part in replaced:
            storage.remove(part.name)
    return before, len(joined)


def check(storage: Storage, manifest: Manifest, *, locked: bool = True) -> tuple[list[tuple[str, str]], list[Part]]:
    """Pairs of file and problem, and the parts that are missing or damaged.

    Without `locked`, another process may be changing the store meanwhile.
    """
    orphan = "left by an interrupted change; the next sync removes it"
    if not locked:
        orphan = "belongs to a change that is in progress, or to an interrupted one that the next sync removes"
    stray = parts.stray_files(storage, manifest)
    problems: list[tuple[str, str]] = []
    damaged: list[Part] = []
    ids: list[Any] = []
    for part in manifest.parts:
        problem = _damage_of(storage, part)
        if problem is None:
            table = parts.read(storage, [part], ["id", "session_id"])
            ids += table["id"].chunks
            sessions = pc.unique(table["session_id"]).to_pylist()
            if any(
                parts.group_of(session, manifest.groups) != parts.partition_of(part.name)[1] for session in sessions
            ):
                problem = "holds sessions of another group"
        if problem is not None:
            problems.append((part.name, problem))
            damaged.append(part)
    problems += [(name, orphan if parts.written_by_store(name) else "not written by the store") for name in stray]
    problems += [(table.name, problem) for table in manifest.tables if (problem := damage_of(storage, table))]
    if ids:
        counts = pc.value_counts(pa.chunked_array(ids).drop_null())
        repeated = pc.sum(pc.greater(counts.field("counts"), 1)).as_py()
        if repeated:
            problems.append(("events", f"{repeated:,} ids are stored more than once"))
    return problems, damaged


def verify(storage: Storage, reader: Reader, *, repair: bool, wait_s: float) -> pd.DataFrame:
    """The problems by file; with `repair`, what is damaged is removed."""
    try:
        with storage.lock(wait_s):
            manifest = reader.load_manifest()
            problems, damaged = check(storage, manifest)
            if repair:
                remove_damaged(storage, manifest, damaged)
    except StoreError as error:
        if repair or isinstance(error, StoreBusy):
            raise
        # A store that cannot be written can still be checked.
        problems = reader.read(lambda manifest: check(storage, manifest, locked=False)[0])
    return pd.DataFrame(problems, columns=["file", "problem"]).astype("str")


def _damage_of(storage: Storage, part: Part) -> str | None:
    try:
        return parts.damage_of(storage, part)
    except StoreError as error:
        return str(error)


def _is_broken(storage: Storage, history: StoredHistory) -> bool:
    return any(damage_of(storage, table) is not None for table in history.tables.values())


def remove_damaged(storage: Storage, manifest: Manifest, damaged: list[Part]) -> None:
    """Drop these parts, and damaged tables; the next sync reads their content again."""
    groups = {parts.partition_of(part.name)[1] for part in damaged}
    manifest.parts = [part for part in manifest.parts if part not in damaged]
    for session in manifest.sessions:
        if parts.group_of(session, manifest.groups) in groups:
            manifest.sessions[session] = SessionCursor(reload=True)
    broken = [history for history in manifest.histories.values() if _is_broken(storage, history)]
    for history in broken:
        history.tables, history.listed = {}, []
    if damaged or broken:
        save(storage, manifest)
    parts.remove_orphans(storage, manifest)


__all__ = ["check", "compact", "remove_damaged", "verify"]
