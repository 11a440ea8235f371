"""Brings a store up to date: loads what is new, writes it as parts, and commits it.

A commit replaces the manifest. A sync that is killed leaves the manifest of its last
commit, and perhaps parts that it does not name. The next sync removes those first, so
no event is ever stored twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
from msgspec.structs import replace

from ...api.connection import Connection
from ...api.endpoints import sessions as endpoint
from ...api.errors import AgentbookError
from ...api.event_ids import is_persisted, milliseconds_of
from ..history.catalog import Catalog
from ..load.loader import ListLoad, Loader, Steps, drive, shielded
from ..load.progress import Progress
from ..parse.frame import FrameBuilder
from ..parse.parsed_page import ParsedPage
from ..parse.problems import MAX_PROBLEMS, Problem
from . import parts
from .cursors import count_late, new_rows, next_cursor, rows_without_id, split_at_overlap
from .freshness import Freshness
from .manifest import Manifest, Part, SessionCursor, save
from .memory import EventsInMemory
from .sources import Sources
from .storage import Storage
from .tables import read_catalog, write_catalog

if TYPE_CHECKING:
    import pandas as pd

# Rows between two commits. Up to twice as many are held in memory, and would be loaded
# again after a kill: more rows arrive while the previous ones are being written.
COMMIT_ROWS = 250_000
_NO_ROWS = parts.SCHEMA.empty_table()


@dataclass(slots=True)
class SyncReport:
    """What a sync did.

    Attributes
    ----------
    events, late : int
        New events, and how many of them have a lower id than one that was stored
        before.
    sessions, unchanged, requests : int
        Sessions synced, how many of them were not read because a list shows them as
        unchanged, and requests made.
    failed : dict
        Session id to why it could not be read.
    problems : DataFrame
        Values that could not be read as the specification describes them: session_id,
        row, field, problem, raw; at most 100 rows, `problem_count` counts all.
    """

    events: int = 0
    late: int = 0
    sessions: int = 0
    unchanged: int = 0
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


def sync_store(
    storage: Storage,
    manifest: Manifest,
    client: Connection,
    *,
    sessions: Any,
    workspace: Any,
    account: Any,
    progress: bool | None,
    overlap_s: float,
    full: bool,
) -> SyncReport:
    """Sync a store while holding its lock; the arguments are those of `Store.sync`."""
    sources = Sources.of(
        client, manifest, lambda key: read_catalog(storage, manifest.histories[key]),
        sessions=sessions, workspace=workspace, account=account,
    )  # fmt: skip
    parts.remove_orphans(storage, manifest)
    sync = Sync(
        client, manifest, sources, Commits(storage, manifest), overlap_s=overlap_s, full=full,
        stored_ids=lambda session: parts.stored_ids(storage, manifest, session),
    )  # fmt: skip
    with Progress(progress) as bar:
        drive(sync.steps(bar), client.run)
    return sync.report


class Sync:
    """One sync.

    Parameters
    ----------
    client : Connection
        Only its address is used here: the caller that drives `steps` makes the
        requests.
    manifest : Manifest
    sources : Sources
        The sessions to sync.
    commits : Commits or EventsInMemory
        Where new events go.
    stored_ids : callable
        Returns all ids of a session that are stored, ascending.
    overlap_s, full
        As for `Store.sync`.
    begin : str, optional
        The id to start after in sessions that are not stored yet.
    refused : mapping, optional
        Sessions that were refused, with their ``updated_us`` of then. They are not read
        until a list shows another.

    Attributes
    ----------
    report : SyncReport
    errors : dict
        Session id to why it could not be read.
    """

    def __init__(
        self,
        client: Connection,
        manifest: Manifest,
        sources: Sources,
        commits: Commits | EventsInMemory,
        *,
        stored_ids: Callable[[str], list[str]],
        overlap_s: float,
        full: bool = False,
        begin: str | None = None,
        refused: Mapping[str, int | None] | None = None,
    ) -> None:
        self._client = client
        self._manifest = manifest
        self._sources = sources
        self._commits = commits
        self._stored_ids = stored_ids
        self._overlap_ms = int(overlap_s * 1000)
        self._freshness = Freshness(manifest, sources, self._overlap_ms, full)
        self._full = full
        self._begin = begin
        self._refused = refused or {}
        self._positions: dict[str, _Position] = {}
        self.report = SyncReport()
        self.errors: dict[str, AgentbookError] = {}

    def steps(self, bar: Progress) -> Steps[None]:
        """Read the lists, then the sessions that have changed."""
        yield from self._sources.steps(bar)
        sessions = self._sources.updated_us
        self._positions = {
            session: self._start_of(session)
            for session, updated_us in sessions.items()
            if not (self._freshness.is_current(session) or self._is_refused(session, updated_us))
        }
        self.report.sessions = len(sessions)
        self.report.unchanged = len(sessions) - len(self._positions)
        with self._commits:
            loads = [
                ListLoad(session, endpoint.events(session, from_id=position.after))
                for session, position in self._positions.items()
            ]
            loader = Loader(
                loads, FrameBuilder("events"), self._add_rest, lambda rows, total: bar.add(rows),
                on_part=self._add_part, is_unchanged=self._is_unchanged, part_rows=COMMIT_ROWS,
            )  # fmt: skip
            try:
                yield loader
            finally:
                with shielded():
                    self._finish(loads, loader.requests)

    def _is_refused(self, session: str, updated_us: int | None) -> bool:
        return session in self._refused and self._refused[session] == updated_us

    def _finish(self, loads: Sequence[ListLoad], requests: int) -> None:
        """Commit what has arrived, whatever happened to the rest."""
        self.report.requests = requests + self._sources.requests
        self.errors = {load.key: load.error for load in loads if load.error is not None}
        self.report.failed = {session: str(error) for session, error in self.errors.items()}
        for load in loads:
            if load.pieces and not load.complete:
                self._add_part(load)
        self._commits.wait()
        for load in loads:
            if load.complete and (cursor := self._commits.cursor_of(load.key)) is not None:
                marked = self._freshness.mark(load.key, cursor)
                if marked != cursor:
                    self._commits.add(load.key, _NO_ROWS, marked)
            self._manifest.failed.pop(load.key, None)
        self._manifest.failed.update(self.report.failed)
        self._manifest.platform = self._client.base_url
        self._manifest.synced_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._manifest.workspaces = list(dict.fromkeys([*self._manifest.workspaces, *self._sources.workspaces]))
        self._commits.write_rest(self._sources.read)

    def _start_of(self, session: str) -> _Position:
        """Where to load a session from."""
        cursor = self._manifest.sessions.get(session)
        if cursor is None:
            return _Position(self._begin, [])
        reload = self._full or cursor.reload
        if not reload and (cursor.before is None or not cursor.recent or self._covers_overlap(cursor)):
            return _Position(cursor.before, cursor.recent)
        ids = self._stored_ids(session)
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
        """Add what has arrived of an unfinished session, as if the sync ended there."""
        position, cursor, loaded = self._positions[load.key], self._manifest.sessions.get(load.key), load.loaded_up_to
        # Nothing may be missing before a cursor.
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
            self.report.add_problems(session, rows_without_id(table))
        table = new_rows(table, session, position.stored)
        if table.num_rows:
            self.report.events += table.num_rows
            self.report.late += count_late(table, position.stored)
            self._freshness.learn(session, table)
        if cursor is None or table.num_rows or cursor.reload:
            fresh = next_cursor(table, position.after, position.stored, self._overlap_ms)
            self._positions[session] = _Position(fresh.before, fresh.recent)
            is_listed = session in self._sources.listed or (cursor is not None and cursor.listed)
            self._commits.add(session, table, replace(fresh, listed=is_listed))


class Commits:
    """Writes new events in the background, while further sessions are loaded.

    A context manager; `write_rest` writes the rest at the end.
    """

    def __init__(self, storage: Storage, manifest: Manifest) -> None:
        self._storage = storage
        self._manifest = manifest
        self._tables: list[tuple[str, Any]] = []
        self._cursors: dict[str, SessionCursor] = {}
        self._submitted: dict[str, SessionCursor] = {}  # with the latest commit
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
            self._submitted = self._cursors
            self._tables, self._cursors, self._rows = [], {}, 0

    def wait(self) -> None:
        """Wait for the latest commit, and raise its error."""
        latest, self._latest = self._latest, None
        if latest is not None:
            latest.result()

    def cursor_of(self, session: str) -> SessionCursor | None:
        """How far a session has been read, including everything that was added."""
        return self._cursors.get(session) or self._submitted.get(session) or self._manifest.sessions.get(session)

    def write_rest(self, catalogs: Mapping[str, Catalog]) -> None:
        """Commit these catalogs, and what was added since the latest commit."""
        histories, replaced = self._manifest.histories, {table.name for table in self._manifest.tables}
        for account, catalog in catalogs.items():
            histories[account] = write_catalog(self._storage, catalog, histories.get(account))
        self._commit(self._tables, self._cursors)
        for name in sorted(replaced - {table.name for table in self._manifest.tables}):
            self._storage.remove(name)

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
        # Compression and disk writes release the interpreter, so two at a time are
        # twice as fast.
        with ThreadPoolExecutor(2, thread_name_prefix="agentbook-store") as pool:
            return list(pool.map(lambda job: parts.write(self._storage, *job), sorted(jobs, key=lambda job: job[0])))


__all__ = ["COMMIT_ROWS", "Commits", "Sync", "SyncReport", "sync_store"]
