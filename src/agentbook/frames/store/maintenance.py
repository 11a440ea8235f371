"""Keeping a store in order: joining its files, checking them, forgetting what is damaged. Under the store's lock, but for a
check where nothing may be written."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from . import parts
from .manifest import Cursor, Manifest, Part, save
from .storage import Storage, StoreError
from .sync import clean


def compact(place: Storage, manifest: Manifest) -> tuple[int, int]:
    """Join the files of each day and group into one; the numbers of files before and after."""
    clean(place, manifest)
    by_directory: dict[str, list[Part]] = {}
    for part in manifest.parts:
        by_directory.setdefault(part.name.rpartition("/")[0], []).append(part)
    before, joined, old = len(manifest.parts), [], list[Part]()
    for directory, some in by_directory.items():
        if len(some) == 1:
            joined += some
        else:
            table = parts.ordered(parts.read(place, some)).unify_dictionaries().combine_chunks()
            joined.append(parts.write(place, directory, table))
            old += some
    if old:
        manifest.parts = joined
        save(place, manifest)
        for part in old:
            place.remove(part.name)
    return before, len(joined)


def check(place: Storage, manifest: Manifest, *, alone: bool = True) -> tuple[list[tuple[str, str]], list[Part]]:
    """What is wrong, as pairs of file and problem; and the parts that are missing or damaged.

    Unless `alone`, the lock is not held, and another process may be changing the store.
    """
    unnamed = "left by an interrupted change; the next sync removes it"
    if not alone:
        unnamed = "of a change that is under way, or was interrupted; then the next sync removes it"
    there = place.files(parts.ROOT)
    found: list[tuple[str, str]] = []
    damaged: list[Part] = []
    ids: list[Any] = []
    for part in manifest.parts:
        problem = _wrong_with(place, part)
        if problem is None:
            table = parts.read(place, [part], ["id", "session_id"])
            ids.append(table["id"])
            sessions = pc.unique(table["session_id"]).to_pylist()
            if any(parts.group_of(one, manifest.groups) != parts.place_in(part)[1] for one in sessions):
                problem = "holds sessions of another group"
        if problem is not None:
            found.append((part.name, problem))
            damaged.append(part)
    named = {part.name for part in manifest.parts}
    for name in sorted(set(there) - named):
        what = unnamed if parts.is_ours(name) else "not the store's"
        found.append((name, what))
    if ids:
        counts = pc.value_counts(pa.chunked_array([chunk for one in ids for chunk in one.chunks]).drop_null())
        twice = pc.sum(pc.greater(counts.field("counts"), 1)).as_py()
        if twice:
            found.append(("events", f"{twice:,} ids are there more than once"))
    return found, damaged


def _wrong_with(place: Storage, part: Part) -> str | None:
    try:
        return parts.wrong_with(place, part)
    except StoreError as error:
        return str(error)


def forget(place: Storage, manifest: Manifest, damaged: list[Part]) -> None:
    """Go on without these parts: the next sync reads the sessions of their groups from the beginning."""
    groups = {parts.place_in(part)[1] for part in damaged}
    manifest.parts = [part for part in manifest.parts if part not in damaged]
    for session in manifest.sessions:
        if parts.group_of(session, manifest.groups) in groups:
            manifest.sessions[session] = Cursor(whole=True)
    if damaged:
        save(place, manifest)
    clean(place, manifest)


__all__ = ["check", "compact", "forget"]
