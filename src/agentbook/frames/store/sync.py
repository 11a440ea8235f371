"""Bringing a store up to date: what is new is fetched, written as parts, and then said in the manifest.

A sync that is killed leaves the manifest of the last commit, and perhaps parts that it does not name: the next sync removes
those before anything else, so no event is ever there twice.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...api.connection import Connection
from ...api.endpoints import sessions as api
from ...api.event_ids import is_persisted, milliseconds_of
from ..load.id_ranges import ListLoad
from ..load.interrupts import shielded
from ..load.page_loader import PageLoader, fetch_pages
from ..load.progress import Progress
from ..parse.frame import FrameBuilder, ParsedPage
from ..parse.page_checks import out_of_order
from ..parse.problems import MAX_PROBLEMS, Problem
from . import parts
from .manifest import Cursor, Manifest, save
from .storage import Storage

if TYPE_CHECKING:
    import pandas as pd

# Rows between two commits. Twice as many are held in memory, and fetched again after a kill: those that arrive while the ones
# before them are being written.
COMMIT_ROWS = 250_000


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
        for problem in problems[: max(MAX_PROBLEMS - len(self._problems), 0)]:
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

    def __init__(self, place: Storage, manifest: Manifest, client: Connection, overlap_s: float, full: bool) -> None:
        self._place = place
        self._manifest = manifest
        self._client = client
        self._overlap_ms = int(overlap_s * 1000)
        self._full = full
        self._fresh: list[tuple[str, Any]] = []
        self._rows = 0
        self._under_way: Future[None] | None = None  # the last commit
        self._pool: ThreadPoolExecutor | None = None
        self._known: dict[str, list[str]] = {}  # ids that are stored already, after where reading began
        self._begun: dict[str, str | None] = {}
        self._ahead: dict[str, Cursor] = {}
        self.report = SyncReport()

    def run(self, sessions: Sequence[str], progress: bool | None) -> None:
        clean(self._place, self._manifest)
        self.report.sessions = len(sessions)
        self._begun = {session: self._begin(session) for session in sessions}
        with Progress(progress) as bar, ThreadPoolExecutor(1, thread_name_prefix="agentbook-commit") as self._pool:
            loads = [ListLoad(session, api.events(session, from_id=begin)) for session, begin in self._begun.items()]
            loader = PageLoader(
                loads, FrameBuilder("events"), self._arrived, lambda rows, total: bar.add(rows),
                on_part=self._take_part, is_unchanged=self._nothing_new, part_rows=COMMIT_ROWS,
            )  # fmt: skip
            try:
                fetch_pages(loader, self._client.run)
            finally:
                with shielded():
                    self._close(loads, loader.requests)

    def _close(self, loads: Sequence[ListLoad], requests: int) -> None:
        """Write down what has come, whatever became of the rest."""
        self.report.requests = requests
        self.report.failed = {load.key: str(load.error) for load in loads if load.error is not None}
        for load in loads:
            if load.ranges and not load.complete:
                self._take_part(load)
        self._settle()
        for load in loads:
            self._manifest.failed.pop(load.key, None)
        self._manifest.failed.update(self.report.failed)
        self._manifest.platform = self._client.base_url
        self._manifest.synced_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._write_down(self._fresh, self._ahead)

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

    def _nothing_new(self, load: ListLoad, ids: Callable[[], list[str | None]]) -> bool:
        return load.key in self._manifest.sessions and ids() == self._known[load.key]

    def _arrived(self, load: ListLoad) -> None:
        self._take(load.key, load.pop_pieces())
        del self._known[load.key]

    def _take_part(self, load: ListLoad) -> None:
        """Take what has come of a session under way, as a sync that ended there would have."""
        known, reached, cursor = self._known[load.key], load.loaded_up_to, self._manifest.sessions.get(load.key)
        # A cursor stands after all that is stored: nothing may be left out before it.
        after_all = not known or (reached is not None and known[-1].lower() <= reached.lower())
        if after_all and not (self._full or (cursor is not None and cursor.whole)):
            pieces = load.pop_pieces()
            if pieces:
                self._take(load.key, pieces)

    def _take(self, session: str, pieces: list[ParsedPage]) -> None:
        known = self._known[session]
        previous = self._manifest.sessions.get(session)
        for piece in pieces:
            self.report.note(session, piece.problems)
        table = pa.Table.from_batches([piece.batch for piece in pieces if piece.rows], parts.SCHEMA)
        if table["id"].null_count:
            self.report.note(session, _nameless(table))
        table = _only_new(table, session, known)
        if table.num_rows:
            self._fresh.append((session, table))
            self._rows += table.num_rows
            self.report.events += table.num_rows
        if previous is None or table.num_rows or previous.whole:
            cursor = self._ahead[session] = self._cursor(session, table, known)
            self._begun[session], self._known[session] = cursor.before, cursor.recent
        if self._rows >= COMMIT_ROWS:
            self.commit()

    def _cursor(self, session: str, table: Any, known: list[str]) -> Cursor:
        """Where to read on from next time, once these new rows are stored."""
        begun = self._begun[session]
        behind = not known or (table.num_rows > 0 and known[-1].lower() < (table["id"][0].as_py() or "").lower())
        if behind and table.num_rows and not table["at"].null_count:
            at = table["at"].cast(pa.int64()).to_numpy()
            if (at[1:] >= at[:-1]).all():  # the plain case: no list of all the ids
                cut = int(np.searchsorted(at, at[-1] - 1000 * self._overlap_ms))
                if cut or not known:
                    return Cursor(table["id"][cut - 1].as_py() if cut else begun, table["id"][cut:].to_pylist())
        ids = table["id"].to_pylist()
        if known:
            self.report.late += sum(one.lower() < known[-1].lower() for one in ids)
        return Cursor(*_window(sorted({*known, *ids}, key=str.lower), self._overlap_ms, begun))

    def commit(self) -> None:
        """Have what has arrived written, and then said, while further sessions arrive."""
        self._settle()
        assert self._pool is not None
        self._under_way = self._pool.submit(self._write_down, self._fresh, self._ahead)
        self._fresh, self._ahead, self._rows = [], {}, 0

    def _settle(self) -> None:
        """Wait for the last commit; what went wrong in it is raised here."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()

    def _write_down(self, fresh: list[tuple[str, Any]], ahead: dict[str, Cursor]) -> None:
        self._manifest.parts += self._write(fresh)
        self._manifest.sessions.update(ahead)
        save(self._place, self._manifest)

    def _write(self, fresh: list[tuple[str, Any]]) -> list[Any]:
        found: dict[str, list[Any]] = {}
        for session, table in fresh:
            for directory, rows in parts.partitioned(table, parts.group_of(session, self._manifest.groups)):
                found.setdefault(directory, []).append(rows)
        jobs = [
            (directory, pa.concat_tables(tables).unify_dictionaries()) for directory, tables in sorted(found.items())
        ]
        # Compression and the disk leave the interpreter alone: two at a time is twice as fast.
        with ThreadPoolExecutor(2, thread_name_prefix="agentbook-store") as pool:
            return list(pool.map(lambda job: parts.write(self._place, *job), jobs))


def clean(place: Storage, manifest: Manifest) -> int:
    """Remove what an interrupted change left behind; how many files that were."""
    named = {part.name for part in manifest.parts}
    left = [name for name in place.files(parts.ROOT) if name not in named and parts.is_ours(name)]
    for name in left:
        place.remove(name)
    return len(left)


def stored_ids(place: Storage, manifest: Manifest, session: str) -> list[str]:
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
    if out_of_order(table["id"]) is not None:
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


__all__ = ["COMMIT_ROWS", "Sync", "SyncReport", "clean", "stored_ids"]
