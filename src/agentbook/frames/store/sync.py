"""Bringing a store up to date: what is new is fetched, written as parts, and then said in the manifest.

A sync that is killed leaves the manifest of the last commit, and perhaps parts that it does not name: the next sync removes
those before anything else, so no event is ever there twice.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ...api.client import Client
from ...api.ids import is_persisted, milliseconds_of
from ..fetch import Fetch
from ..load import MOST_PROBLEMS, FrameBuilder, Piece
from ..order import not_ascending
from ..progress import Progress
from ..wire import Problem
from . import parts
from .manifest import Cursor, Manifest, save
from .place import Place

if TYPE_CHECKING:
    import pandas as pd

COMMIT_ROWS = 500_000  # at most so many rows are fetched again after a kill, and held in memory


@dataclass(slots=True)
class SyncReport:
    """What a sync did.

    Attributes
    ----------
    events, late : int
        New events; of them those with an id below one that was stored before.
    sessions, requests : int
        Sessions asked for, requests made.
    failed : dict
        Session id to why it could not be read.
    problems : DataFrame
        What could not be read as the specification says: session_id, row, field, problem, raw; at most 100 rows,
        `problem_count` counts all.
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

    def note(self, session: str, problems: Sequence[Problem]) -> None:
        self.problem_count += len(problems)
        for problem in problems[: max(MOST_PROBLEMS - len(self._problems), 0)]:
            raw = problem.raw if problem.raw is None or len(problem.raw) <= 200 else problem.raw[:199] + "…"
            self._problems.append(
                {
                    "session_id": session,
                    "row": problem.row,
                    "field": problem.field,
                    "problem": problem.problem,
                    "raw": raw,
                }
            )


class Sync:
    """One sync, under the store's lock."""

    def __init__(self, place: Place, manifest: Manifest, client: Client, overlap_s: float, full: bool) -> None:
        self._place = place
        self._manifest = manifest
        self._client = client
        self._overlap_ms = int(overlap_s * 1000)
        self._full = full
        self._fresh: list[tuple[str, Any]] = []
        self._rows = 0
        self._known: dict[str, list[str]] = {}  # ids that are stored already, after where reading began
        self._begun: dict[str, str | None] = {}
        self._ahead: dict[str, Cursor] = {}
        self.report = SyncReport()

    def run(self, sessions: Sequence[str], progress: bool | None) -> None:
        clean(self._place, self._manifest)
        self.report.sessions = len(sessions)
        self._begun = {session: self._begin(session) for session in sessions}
        with Progress(progress) as bar:
            fetch = Fetch(self._client, self._begun, self._arrived, bar.add, known=self._nothing_new)
            try:
                fetch.run()
            finally:
                self.report.requests = fetch.requests
                self.report.failed = dict(fetch.problems)
                # What is whole is kept, whatever became of the others.
                for session in sessions:
                    self._manifest.failed.pop(session, None)
                self._manifest.failed.update(fetch.problems)
                self._manifest.platform = self._client.base_url
                self.commit(datetime.now(UTC))

    def _begin(self, session: str) -> str | None:
        """The id to read on from, with the ids known after it in `_known`."""
        cursor = self._manifest.sessions.get(session)
        if cursor is None:
            self._known[session] = []
            return None
        if not (self._full or cursor.whole):
            self._known[session] = cursor.recent
            if cursor.before is None or not cursor.recent or self._reaches(cursor):
                return cursor.before
        stored = stored_ids(self._place, self._manifest, session)
        begin, recent = (None, stored) if self._full or cursor.whole else _window(stored, self._overlap_ms, None)
        self._known[session] = recent
        return begin

    def _reaches(self, cursor: Cursor) -> bool:
        """Whether a cursor goes back as far as this sync's overlap."""
        last = next((one for one in reversed(cursor.recent) if is_persisted(one)), None)
        return (
            last is None
            or cursor.before is None
            or not is_persisted(cursor.before)
            or milliseconds_of(cursor.before) < milliseconds_of(last) - self._overlap_ms
        )

    def _nothing_new(self, session: str, ids: list[str | None]) -> bool:
        return ids == self._known[session] and session in self._manifest.sessions

    def _arrived(self, session: str, pieces: list[Piece]) -> None:
        known = self._known.pop(session)
        previous = self._manifest.sessions.get(session)
        builder = FrameBuilder("events")
        for piece in pieces:
            self.report.note(session, piece.problems)
            if piece.rows:
                builder.keep(replace(piece, problems=[]))
        ids: list[str] = []
        if builder.rows:
            table = builder.to_arrow()
            if table["id"].null_count:
                self.report.note(session, _nameless(table))
            table = _only_new(table, session, known)
            ids = table["id"].to_pylist()
            if table.num_rows:
                self._fresh.append((session, table))
                self._rows += table.num_rows
                self.report.events += table.num_rows
                if known:
                    self.report.late += sum(one.lower() < known[-1].lower() for one in ids)
        if previous is None or ids or previous.whole:
            merged = sorted({*known, *ids}, key=str.lower)
            self._ahead[session] = Cursor(*_window(merged, self._overlap_ms, self._begun[session]))
        if self._rows >= COMMIT_ROWS:
            self.commit(None)

    def commit(self, moment: datetime | None) -> None:
        """Write what has arrived, then say so. `moment` is when the sync ended, None while it goes on."""
        self._manifest.parts += self._write()
        self._manifest.sessions.update(self._ahead)
        if moment is not None:
            self._manifest.synced_at = moment.isoformat(timespec="seconds")
        save(self._place, self._manifest)
        self._fresh, self._ahead, self._rows = [], {}, 0

    def _write(self) -> list[Any]:
        groups: dict[int, list[Any]] = {}
        for session, table in self._fresh:
            groups.setdefault(parts.group_of(session, self._manifest.groups), []).append(table)
        jobs = [
            (directory, table)
            for group, tables in sorted(groups.items())
            for directory, table in parts.partitioned(_joined(tables), group)
        ]
        # Compression and the disk leave the interpreter alone: two at a time is twice as fast.
        with ThreadPoolExecutor(2, thread_name_prefix="agentbook-store") as pool:
            return list(pool.map(lambda job: parts.write(self._place, *job), jobs))


def clean(place: Place, manifest: Manifest) -> int:
    """Remove what an interrupted change left behind; how many files that were."""
    named = {part.name for part in manifest.parts}
    left = [name for name in place.files(parts.ROOT) if name not in named and parts.is_ours(name)]
    for name in left:
        place.remove(name)
    return len(left)


def stored_ids(place: Place, manifest: Manifest, session: str) -> list[str]:
    """All ids of a session that are in the store, ascending."""
    group = parts.group_of(session, manifest.groups)
    mine = [part for part in manifest.parts if (parts.key_of(part.name) or ("", -1))[1] == group]
    table = parts.read(place, mine, ["id"], pc.field("session_id") == session)
    return sorted((one for one in table["id"].to_pylist() if one is not None), key=str.lower)


def _window(ids: list[str], overlap_ms: int, before: str | None) -> tuple[str | None, list[str]]:
    """Where to read on from next time, and the ids known after that. `ids` ascend and all stand after `before`."""
    last = next((one for one in reversed(ids) if is_persisted(one)), None)
    if last is None:
        return before, ids
    since = milliseconds_of(last) - overlap_ms
    # Ids ascend, and with them their milliseconds; one of another form stands where its text puts it.
    cut = bisect.bisect_left(ids, True, key=lambda one: is_persisted(one) and milliseconds_of(one) >= since)
    while cut and not is_persisted(ids[cut - 1]):
        cut -= 1
    return (ids[cut - 1], ids[cut:]) if cut else (before, ids)


def _only_new(table: Any, session: str, known: list[str]) -> Any:
    """The rows that are this session's and not in the store yet, each id once."""
    keep = pc.and_(pc.fill_null(pc.equal(table["session_id"], session), False), pc.is_valid(table["id"]))
    if known:
        keep = pc.and_(keep, pc.invert(pc.is_in(table["id"], pa.array(known, table["id"].type))))
    if not pc.all(keep).as_py():
        table = table.filter(keep)
    if not_ascending(table["id"]) is not None:
        first: dict[str, int] = {}
        for row, one in enumerate(table["id"].to_pylist()):
            first.setdefault(one, row)
        table = table.take(pa.array(sorted(first.values())))
    return table


def _nameless(table: Any) -> list[Problem]:
    """What is said of rows without an id: they are not stored, since nothing tells them from their repeats."""
    rows = pc.indices_nonzero(pc.is_null(table["id"])).to_pylist()
    return [
        Problem(row, "id", "not stored: without an id it cannot be told from its repeats", _json(table.slice(row, 1)))
        for row in rows
    ]


def _json(row: Any) -> str:
    return json.dumps({name: value for name, value in row.to_pylist()[0].items() if value is not None}, default=str)


def _joined(tables: list[Any]) -> Any:
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


__all__ = ["COMMIT_ROWS", "Sync", "SyncReport", "clean", "stored_ids"]
