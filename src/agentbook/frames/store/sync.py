"""Bringing a store up to date: what is new is loaded, written as parts, then committed.

A commit replaces the manifest. A sync that is killed leaves the manifest of its last
commit, and perhaps parts that it does not name. The next sync removes those first, so
no event is ever stored twice.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...api.connection import Connection
from ...api.endpoints import sessions as endpoint
from ...api.event_ids import is_persisted, milliseconds_of
from ..load.drivers import fetch_pages, shielded
from ..load.id_ranges import ListLoad
from ..load.page_loader import PageLoader
from ..load.progress import Progress
from ..parse.frame import FrameBuilder, ParsedPage
from ..parse.page_checks import out_of_order
from ..parse.problems import MAX_PROBLEMS, Problem
from . import parts
from .manifest import Manifest, Part, SessionCursor, save
from .storage import Storage

if TYPE_CHECKING:
    import pandas as pd

# Rows between two commits. Up to twice as many are held in memory, and loaded again
# after a kill: those that arrive while the ones before them are being written.
COMMIT_ROWS = 250_000


@dataclass(slots=True)
class SyncReport:
    """What a sync did.

    Attributes
    ----------
    events, late : int
        New events, and how many of them have an id below one that was stored before.
    sessions, requests : int
        Sessions synced, requests made.
    failed : dict
        Session id to why it could not be read.
    problems : DataFrame
        What could not be read as the specification says: session_id, row, field,
        problem, raw; at most 100 rows, `problem_count` counts all.
    """

    events: int = 0
    late: int = 0
    sessions: int = 0
    requests: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    problem_count: int = 0
    _problems: list[dict[str, Any]] = field(default_factory=list, repr=False)

    @property
    def problems(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(self._problems, columns=["session_id", "row", "field", "problem", "raw"])

    def add_problems(self, session: str, problems: Sequence[Problem]) -> None:
        """Count problems, and list them up to the limit."""
        self.problem_count += len(problems)
        for problem in problems[: max(MAX_PROBLEMS - len(self._problems), 0)]:
            raw = problem.raw if problem.raw is None or len(problem.raw) <= 200 else problem.raw[:199] + "…"
            row = {"row": problem.row, "field": problem.field, "problem": problem.problem, "raw": raw}
            self._problems.append({"session_id": session, **row})


@dataclass(slots=True)
class _Position:
    """A session is loaded after the id `after`; `stored` are the later stored ids."""

    after: str | None
    stored: list[str]


class Sync:
    """One sync, under the store's lock.

    Parameters
    ----------
    storage : Storage
    manifest : Manifest
    client : Connection
    overlap_s : float
        As for `Store.sync`.
    full : bool
        As for `Store.sync`.
    """

    def __init__(self, storage: Storage, manifest: Manifest, client: Connection, overlap_s: float, full: bool) -> None:
        self._storage = storage
        self._manifest = manifest
        self._client = client
        self._overlap_ms = int(overlap_s * 1000)
        self._full = full
        self._positions: dict[str, _Position] = {}
        self._commits = Commits(storage, manifest)
        self.report = SyncReport()

    def run(self, sessions: Sequence[str], progress: bool | None) -> None:
        """Sync the sessions."""
        parts.remove_orphans(self._storage, self._manifest)
        self.report.sessions = len(sessions)
        self._positions = {session: self._start_of(session) for session in sessions}
        with Progress(progress) as bar, self._commits:
            loads = [
                ListLoad(session, endpoint.events(session, from_id=position.after))
                for session, position in self._positions.items()
            ]
            loader = PageLoader(
                loads, FrameBuilder("events"), self._add_rest, lambda rows, total: bar.add(rows),
                on_part=self._add_part, is_unchanged=self._is_unchanged, part_rows=COMMIT_ROWS,
            )  # fmt: skip
            try:
                fetch_pages(loader, self._client.run)
            finally:
                with shielded():
                    self._finish(loads, loader.requests)

    def _finish(self, loads: Sequence[ListLoad], requests: int) -> None:
        """Commit what has arrived, whatever became of the rest."""
        self.report.requests = requests
        self.report.failed = {load.key: str(load.error) for load in loads if load.error is not None}
        for load in loads:
            if load.ranges and not load.complete:
                self._add_part(load)
        self._commits.wait()
        for load in loads:
            self._manifest.failed.pop(load.key, None)
        self._manifest.failed.update(self.report.failed)
        self._manifest.platform = self._client.base_url
        self._manifest.synced_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._commits.write_rest()

    def _start_of(self, session: str) -> _Position:
        """Where to load a session from."""
        cursor = self._manifest.sessions.get(session)
        if cursor is None:
            return _Position(None, [])
        reload = self._full or cursor.reload
        if not reload and (cursor.before is None or not cursor.recent or self._covers_overlap(cursor)):
            return _Position(cursor.before, cursor.recent)
        ids = parts.stored_ids(self._storage, self._manifest, session)
        return _Position(None, ids) if reload else _Position(*split_at_overlap(ids, self._overlap_ms, None))

    def _covers_overlap(self, cursor: SessionCursor) -> bool:
        """Whether a cursor goes back as far as this sync's overlap."""
        newest = next((event_id for event_id in reversed(cursor.recent) if is_persisted(event_id)), None)
        return (
            newest is None
            or cursor.before is None
            or not is_persisted(cursor.before)
            or milliseconds_of(cursor.before) < milliseconds_of(newest) - self._overlap_ms
        )

    def _is_unchanged(self, load: ListLoad, ids: Callable[[], list[str | None]]) -> bool:
        return load.key in self._manifest.sessions and ids() == self._positions[load.key].stored

    def _add_rest(self, load: ListLoad) -> None:
        """Add all that has arrived of a complete session."""
        self._add(load.key, load.pop_pieces())

    def _add_part(self, load: ListLoad) -> None:
        """Add what has arrived of a session under way, as if the sync ended there."""
        position, cursor, loaded = self._positions[load.key], self._manifest.sessions.get(load.key), load.loaded_up_to
        # A cursor comes after all that is stored: nothing may be missing before it.
        stored = position.stored
        after_stored = not stored or (loaded is not None and stored[-1].lower() <= loaded.lower())
        if after_stored and not (self._full or (cursor is not None and cursor.reload)):
            pieces = load.pop_pieces()
            if pieces:
                self._add(load.key, pieces)

    def _add(self, session: str, pieces: list[ParsedPage]) -> None:
        position, cursor = self._positions[session], self._manifest.sessions.get(session)
        for piece in pieces:
            self.report.add_problems(session, piece.problems)
        table = pa.Table.from_batches([piece.batch for piece in pieces if piece.rows], parts.SCHEMA)
        if table["id"].null_count:
            self.report.add_problems(session, _rows_without_id(table))
        table = _new_rows(table, session, position.stored)
        if table.num_rows:
            self.report.events += table.num_rows
            self.report.late += _count_late(table, position.stored)
        if cursor is None or table.num_rows or cursor.reload:
            cursor = next_cursor(table, position.after, position.stored, self._overlap_ms)
            self._positions[session] = _Position(cursor.before, cursor.recent)
            self._commits.add(session, table, cursor)


class Commits:
    """Writes new events in the background, while further sessions are loaded.

    A context manager; `write_rest` writes what is left at the end.
    """

    def __init__(self, storage: Storage, manifest: Manifest) -> None:
        self._storage = storage
        self._manifest = manifest
        self._tables: list[tuple[str, Any]] = []
        self._cursors: dict[str, SessionCursor] = {}
        self._rows = 0
        self._latest: Future[None] | None = None

    def __enter__(self) -> Self:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="agentbook-commit")
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def add(self, session: str, table: Any, cursor: SessionCursor) -> None:
        """Add rows of a session, and how far it was read with them."""
        if table.num_rows:
            self._tables.append((session, table))
        self._cursors[session] = cursor
        self._rows += table.num_rows
        if self._rows >= COMMIT_ROWS:
            self.wait()
            self._latest = self._pool.submit(self._commit, self._tables, self._cursors)
            self._tables, self._cursors, self._rows = [], {}, 0

    def wait(self) -> None:
        """Wait for the latest commit, and raise its error."""
        latest, self._latest = self._latest, None
        if latest is not None:
            latest.result()

    def write_rest(self) -> None:
        """Commit what was added since the latest commit."""
        self._commit(self._tables, self._cursors)

    def _commit(self, tables: list[tuple[str, Any]], cursors: dict[str, SessionCursor]) -> None:
        self._manifest.parts += self._write(tables)
        self._manifest.sessions.update(cursors)
        save(self._storage, self._manifest)

    def _write(self, tables: list[tuple[str, Any]]) -> list[Part]:
        by_directory: dict[str, list[Any]] = {}
        for session, table in tables:
            for directory, rows in parts.split_by_day(table, parts.group_of(session, self._manifest.groups)):
                by_directory.setdefault(directory, []).append(rows)
        jobs = [(directory, pa.concat_tables(rows).unify_dictionaries()) for directory, rows in by_directory.items()]
        # Compression and the disk do not hold the interpreter: two at a time are twice
        # as fast.
        with ThreadPoolExecutor(2, thread_name_prefix="agentbook-store") as pool:
            return list(pool.map(lambda job: parts.write(self._storage, *job), sorted(jobs, key=lambda job: job[0])))


def next_cursor(table: Any, after: str | None, stored: list[str], overlap_ms: int) -> SessionCursor:
    """How far a session is read once these new rows are stored.

    Parameters
    ----------
    table : pyarrow.Table
        The new rows, in the order of their ids.
    after : str or None
        The id after which the session was loaded.
    stored : list of str
        The later ids stored before, ascending.
    overlap_ms : int
        How much the next sync loads again, in milliseconds.
    """
    appended = not stored or (table.num_rows > 0 and stored[-1].lower() < (table["id"][0].as_py() or "").lower())
    if appended and table.num_rows and not table["at"].null_count:
        at = table["at"].cast(pa.int64()).to_numpy()
        if (at[1:] >= at[:-1]).all():  # the common case: no list of all ids
            cut = int(np.searchsorted(at, at[-1] - 1000 * overlap_ms))
            if cut or not stored:
                return SessionCursor(table["id"][cut - 1].as_py() if cut else after, table["id"][cut:].to_pylist())
    ids = sorted({*stored, *table["id"].to_pylist()}, key=str.lower)
    return SessionCursor(*split_at_overlap(ids, overlap_ms, after))


def split_at_overlap(ids: list[str], overlap_ms: int, after: str | None) -> tuple[str | None, list[str]]:
    """Where to load from next time, and the ids stored after that.

    `ids` ascend, and all come after the id `after`.
    """
    newest = next((event_id for event_id in reversed(ids) if is_persisted(event_id)), None)
    if newest is None:
        return after, ids
    since = milliseconds_of(newest) - overlap_ms
    # Ids ascend, and with them their milliseconds; one of another form is where its
    # text puts it.
    cut = bisect.bisect_left(
        ids, True, key=lambda event_id: is_persisted(event_id) and milliseconds_of(event_id) >= since
    )
    while cut and not is_persisted(ids[cut - 1]):
        cut -= 1
    return (ids[cut - 1], ids[cut:]) if cut else (after, ids)


def _count_late(table: Any, stored: list[str]) -> int:
    """How many rows have an id below one that was stored before."""
    return pc.sum(pc.less(pc.utf8_lower(table["id"]), stored[-1].lower())).as_py() if stored else 0


def _new_rows(table: Any, session: str, stored: list[str]) -> Any:
    """The rows of this session that are not in the store yet, each id once."""
    keep = pc.and_(pc.fill_null(pc.equal(table["session_id"], session), False), pc.is_valid(table["id"]))
    if stored:
        keep = pc.and_(keep, pc.invert(pc.is_in(table["id"], pa.array(stored, table["id"].type))))
    if not pc.all(keep).as_py():
        table = table.filter(keep)
    if out_of_order(table["id"]) is not None:
        first_rows: dict[str, int] = {}
        for row, event_id in enumerate(table["id"].to_pylist()):
            first_rows.setdefault(event_id, row)
        table = table.take(pa.array(sorted(first_rows.values())))
    return table


def _rows_without_id(table: Any) -> list[Problem]:
    """The problems of rows without an id, which are not stored."""
    rows = pc.indices_nonzero(pc.is_null(table["id"])).to_pylist()
    return [
        Problem(row, "id", "not stored: without an id it cannot be told from its repeats", _json(table.slice(row, 1)))
        for row in rows
    ]


def _json(row: Any) -> str:
    return json.dumps({name: value for name, value in row.to_pylist()[0].items() if value is not None}, default=str)


__all__ = ["COMMIT_ROWS", "Commits", "Sync", "SyncReport", "next_cursor", "split_at_overlap"]
