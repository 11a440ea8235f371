"""Brings a store, or a watch's history, up to date: loads what is new, and commits it.

Specification: "Resources and their fields", Session; "Events", rules 1 and 2.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from ...api.calls import ListCall, ref
from ...api.connection import Connection
from ...api.endpoints import sessions as endpoint
from ...api.errors import AgentbookError
from ...api.pagination import warn_incomplete
from ...api.span import Span, is_persisted, milliseconds_of, normalize
from ..history.catalog import Catalog, CatalogLoad
from ..history.load import sessions_within
from ..load.loader import ListLoad, Loader, Progress
from ..load.session_ids import session_ids
from ..parse.problems import MAX_PROBLEMS, Problem
from .files import SCHEMA, Cursor, Manifest

OVERLAP_MS = 5_000  # how far before a session's last event it is read again: some are written late
COMMIT_ROWS = 250_000  # rows between two commits: so many are held in memory, and loaded again after a kill
_SAME_US = 100_000  # between a reply and the change of its session in the same transaction


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
    changed, removed : int
        Events that were edited on the platform, and sessions that were deleted there.
        Only a full sync looks for these.
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
    changed: int = 0
    removed: int = 0
    problem_count: int = 0
    _problems: list[dict[str, Any]] = field(default_factory=list, repr=False)

    @property
    def problems(self) -> pd.DataFrame:
        return pd.DataFrame(self._problems, columns=["session_id", "row", "field", "problem", "raw"])

    def add_problems(self, session: str, problems: Iterable[Problem]) -> None:
        """Count problems, and list them up to the limit."""
        for problem in problems:
            self.problem_count += 1
            if len(self._problems) < MAX_PROBLEMS:
                self._problems.append({"session_id": session, **problem.described()})


# -- which sessions ----------------------------------------------------------------


class Sources:
    """The sessions of a sync: those of accounts, workspaces and a list, and others.

    Attributes
    ----------
    updated_us : dict
        Each session's ``updated_at`` in microseconds since 1970; None if no list shows
        it. Filled by `read`, like the other attributes.
    listed : set of str
        Sessions of workspaces that are kept up to date.
    listed_us, latest_us : int
        When the lists were requested, and the latest change that they show.
    catalogs : dict
        Those that were read, by account.
    complete : bool
        Whether no list lacks anything.
    """

    def __init__(
        self,
        catalogs: Mapping[str, CatalogLoad],
        workspaces: Iterable[str] = (),
        listing: ListCall | None = None,
        sessions: Iterable[str] = (),
        span: Span = Span(),  # noqa: B008 - it cannot be changed
    ) -> None:
        self.workspaces = list(workspaces)
        self.updated_us: dict[str, int | None] = {}
        self.listed: set[str] = set()
        self.listed_us = self.latest_us = 0
        self.catalogs: dict[str, Catalog] = {}
        self.complete = True
        self._calls = {name: endpoint.list_(name) for name in self.workspaces} if listing is None else {"": listing}
        self._lists = Loader("sessions", self._calls)
        self._loads, self._sessions, self._span = catalogs, sessions, span

    @classmethod
    def of(
        cls, client: Connection, manifest: Manifest, known: Mapping[str, Catalog], *,
        sessions: Any, workspace: Any, account: Any,
    ) -> Sources:  # fmt: skip
        """The sources of a sync by its arguments; by default, those of the store."""
        if sum(argument is not None for argument in (sessions, workspace, account)) > 1:
            raise ValueError("Pass sessions, or workspace= for those of a workspace, or account= for a whole history.")

        def catalog(key: str) -> CatalogLoad:
            return CatalogLoad(client, key or None, known=known.get(key))

        if account is not None:
            return cls({ref(account): catalog(ref(account))})
        if workspace is not None:
            return cls({}, [ref(workspace)])
        if sessions is not None:
            list_call = getattr(sessions, "list_call", None)  # of a `Listing`: shows when each session changed
            if isinstance(list_call, ListCall) and list_call.resource == "sessions":
                return cls({}, listing=list_call)
            return cls({}, sessions=session_ids(client, sessions))
        others = [session for session, cursor in manifest.sessions.items() if not cursor.listed]
        if not (manifest.histories or manifest.workspaces or others):
            return cls({"": catalog("")})
        return cls({key: catalog(key) for key in manifest.histories}, manifest.workspaces, sessions=others)

    @property
    def requests(self) -> int:
        """Requests that were answered."""
        return self._lists.requests + sum(load.requests for load in self._loads.values())

    def read(self, client: Connection, bar: Progress) -> None:
        """Read the lists; raises the error of one that cannot be read."""
        self.listed_us = int(time.time() * 1e6)
        for key, load in self._loads.items():
            self.catalogs[key] = load.read(bar)
            self._add(self.catalogs[key].sessions, is_listed=True)
            self.complete &= not any(part.startswith(("sessions", "some of")) for part in self.catalogs[key].missing)
        self._lists.load(client._run, bar)
        for key in self._calls:
            if problem := self._lists.problem_of(key):
                warn_incomplete("sessions.list", problem)
                self.complete = False
        self._add(self._lists.frame(), is_listed=bool(self.workspaces))
        for session in self._sessions:
            self.updated_us.setdefault(session, None)
        self.latest_us = max((moment for moment in self.updated_us.values() if moment is not None), default=0)

    def _add(self, frame: pd.DataFrame, *, is_listed: bool) -> None:
        rows = frame[frame["id"].isin(sessions_within(frame, self._span))]
        ids = [normalize(session) for session in rows["id"]]
        moments = zip(rows["updated_at"].astype("int64").tolist(), rows["updated_at"].notna(), strict=True)
        self.updated_us.update(zip(ids, (moment if is_known else None for moment, is_known in moments), strict=True))
        if is_listed:
            self.listed.update(ids)


# -- the sync ----------------------------------------------------------------------


@dataclass
class Sync:
    """One sync.

    Parameters
    ----------
    client : Connection
    manifest : Manifest
    sources : Sources
        The sessions to sync.
    stored_ids : callable
        Returns all ids of these sessions that are stored, ascending.
    commit : callable
        Called with new events by session, after the cursors in the manifest were
        advanced; at the end too, with what else is new in the manifest. In a full sync,
        with all events of the sessions.
    full : bool
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

    client: Connection
    manifest: Manifest
    sources: Sources
    stored_ids: Callable[[list[str]], dict[str, list[str]]]
    commit: Callable[[list[tuple[str, Any]]], None]
    full: bool = False
    begin: str | None = None
    refused: Mapping[str, int | None] = field(default_factory=dict)
    report: SyncReport = field(default_factory=SyncReport, init=False)
    errors: dict[str, AgentbookError] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        # Where each session that is read begins, and the later ids that are stored.
        self._positions: dict[str, tuple[str | None, list[str]]] = {}
        self._tables: list[tuple[str, Any]] = []  # not committed yet, like the next two
        self._rows = 0
        self._cursors: dict[str, Cursor] = {}
        self._is_committing = False

    def run(self, bar: Progress) -> None:
        """Read the lists, then the sessions that have changed."""
        self.sources.read(self.client, bar)
        sessions = self.sources.updated_us
        changed = [session for session, updated_us in sessions.items() if not self._is_current(session, updated_us)]
        self.report.sessions, self.report.unchanged = len(sessions), len(sessions) - len(changed)
        self._positions = self._positions_of(changed)
        loader = Loader(
            "events",
            {session: endpoint.events(session, from_id=after) for session, (after, _) in self._positions.items()},
            strict=True,
            on_complete=self._add,
            on_part=self._add_part,
            part_rows=COMMIT_ROWS,
        )
        loads = loader.loads.values()
        try:
            loader.load(self.client._run, bar, (AgentbookError,))
        finally:
            # Whatever happened to the rest, what has arrived is committed. But after a
            # commit that failed, the manifest is not what is on disk.
            self.report.requests = loader.requests + self.sources.requests
            self.errors = {load.key: load.error for load in loads if load.error is not None}
            for load in loads:
                if load.pieces and not load.complete and not self._is_committing:
                    self._add_part(load)
            if not self._is_committing:
                self._finish({load.key for load in loads if load.complete})

    # -- where to begin ---------------------------------------------------------------

    def _is_current(self, session: str, updated_us: int | None) -> bool:
        """Whether a session needs not be read: unchanged, or still refused."""
        if session in self.refused and self.refused[session] == updated_us:
            return True
        cursor = self.manifest.sessions.get(session)
        is_same = cursor is not None and updated_us is not None and cursor.updated_us == updated_us
        return is_same and not self.full and self.manifest.shows_replies is True

    def _positions_of(self, sessions: list[str]) -> dict[str, tuple[str | None, list[str]]]:
        cursors = self.manifest.sessions
        known = {session: cursors[session] for session in sessions if session in cursors and not self.full}
        positions = {session: (cursor.before, cursor.recent) for session, cursor in known.items()}
        again = [session for session in sessions if session in cursors and not any(positions.get(session, ()))]
        positions |= {session: (None, ids) for session, ids in self.stored_ids(again).items()}
        return {session: positions.get(session, (self.begin, [])) for session in sessions}

    # -- what arrived -----------------------------------------------------------------

    def _add_part(self, load: ListLoad) -> None:
        """Add what has arrived of an unfinished session, as if the sync ended there."""
        # Nothing may be missing before a cursor.
        stored, loaded = self._positions[load.key][1], load.loaded_up_to
        if not self.full and (not stored or (loaded is not None and stored[-1].lower() <= loaded.lower())):
            self._add(load)

    def _add(self, load: ListLoad) -> None:
        """Add what has arrived of a session."""
        session, pieces = load.key, load.pop_pieces()
        if not (pieces or load.complete):
            return
        for piece in pieces:
            self.report.add_problems(session, piece.problems)
        table = pa.Table.from_batches([piece.batch for piece in pieces if piece.rows], SCHEMA)
        self.report.add_problems(session, _rows_without_id(table))
        after, stored = self._positions[session]
        table, ids = _new_rows(table, session, [] if self.full else stored)
        if ids:
            self._tables.append((session, table))
            self._rows += len(ids)
        known = set(stored)
        if ids := [each for each in ids if each not in known]:
            self.report.events += len(ids)
            self.report.late += sum(each.lower() < stored[-1].lower() for each in ids) if stored else 0
            self._observe(session, table)
        before = self._cursors.get(session) or self.manifest.sessions.get(session)
        if ids or before is None or self.full:
            after, recent = _split_at_overlap(sorted([*stored, *ids], key=str.lower), after)
            self._positions[session] = after, recent
            is_listed = session in self.sources.listed or (before is not None and before.listed)
            self._cursors[session] = Cursor(after, recent, listed=is_listed)
        if self._rows >= COMMIT_ROWS:
            self._commit_arrived()

    def _commit_arrived(self) -> None:
        self._is_committing = True
        self.manifest.sessions.update(self._cursors)
        self.commit(self._tables)
        self._is_committing = False
        self._tables, self._rows, self._cursors = [], 0, {}

    def _finish(self, complete: set[str]) -> None:
        manifest, sources = self.manifest, self.sources
        self.report.failed = {session: str(error) for session, error in self.errors.items()}
        manifest.failed = {key: reason for key, reason in manifest.failed.items() if key not in self._positions}
        manifest.failed.update(self.report.failed)
        manifest.platform = self.client.base_url
        manifest.synced_at = datetime.now(UTC).isoformat(timespec="seconds")
        manifest.workspaces = list(dict.fromkeys([*manifest.workspaces, *sources.workspaces]))
        for session in complete:
            cursor, updated_us = self._cursors.get(session) or manifest.sessions[session], sources.updated_us[session]
            # A platform may show a change before its events: then it is read once more.
            is_settled = updated_us is not None and sources.listed_us - updated_us > OVERLAP_MS * 1000
            is_listed = cursor.listed or session in sources.listed
            self._cursors[session] = replace(cursor, updated_us=updated_us if is_settled else None, listed=is_listed)
        self._commit_arrived()

    # -- whether `updated_at` can be trusted ------------------------------------------

    def _observe(self, session: str, rows: Any) -> None:
        """Compare a session's latest new event with what its list shows.

        The specification does not say when a session's ``updated_at`` changes. So a
        platform is trusted only if its sessions changed with their latest replies, and
        never again once an event came later than its session's change.
        """
        latest = rows.slice(rows.num_rows - 1)
        last_us, author = latest["at"].cast(pa.int64())[0].as_py(), latest["author_type"][0].as_py()
        updated_us = self.sources.updated_us[session]
        if updated_us is None or last_us is None:
            return
        is_question = author is not None and author != "agent"
        # Another session changed later: the list is not older than this event.
        if updated_us + OVERLAP_MS * 1000 < last_us <= self.sources.latest_us:
            self.manifest.shows_replies = False
        elif self.manifest.shows_replies is None and not is_question and updated_us >= last_us - _SAME_US:
            self.manifest.shows_replies = True


def _split_at_overlap(ids: list[str], after: str | None) -> tuple[str | None, list[str]]:
    """Where to load from next time, and the ids stored after that.

    `ids` ascend, and all come after the id `after`.
    """
    newest = next((event_id for event_id in reversed(ids) if is_persisted(event_id)), None)
    if newest is None:
        return after, ids
    since, cut = milliseconds_of(newest) - OVERLAP_MS, len(ids)
    # An id of another form is placed by its text, and is no cursor.
    while cut and (not is_persisted(ids[cut - 1]) or milliseconds_of(ids[cut - 1]) >= since):
        cut -= 1
    return (ids[cut - 1], ids[cut:]) if cut else (after, ids)


def _new_rows(table: Any, session: str, stored: list[str]) -> tuple[Any, list[str]]:
    """The rows of this session that are not stored yet, each id once; and their ids."""
    known, rows = {None, *stored}, dict[str, int]()
    is_own = pc.equal(table["session_id"], session).to_pylist()
    for row, (event_id, own) in enumerate(zip(table["id"].to_pylist(), is_own, strict=True)):
        if own and event_id not in known:
            rows.setdefault(event_id, row)
    return table if len(rows) == table.num_rows else table.take(pa.array([*rows.values()], pa.int64())), [*rows]


def _rows_without_id(table: Any) -> list[Problem]:
    """The problems of rows without an id, which are not stored."""
    problems = []
    for row in [row for row, flag in enumerate(pc.is_null(table["id"]).to_pylist()) if flag]:
        values = {name: value for name, value in table.slice(row, 1).to_pylist()[0].items() if value is not None}
        reason = "not stored: without an id, repeats of it cannot be recognized"
        problems.append(Problem(row, "id", reason, json.dumps(values, default=str)))
    return problems
