"""A session's events as stretches of time, each read page by page: how much is left of one, and where it can be halved."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow.compute as pc

from ...api.event_ids import is_persisted, milliseconds_of
from ..parse.frame import ParsedPage


@dataclass(slots=True, eq=False)
class IdRange:
    """A part of a session's events: those with ids above `cursor`, up to and with `end`; None is open on that side.

    `pieces` are those up to `cursor`; `done` says that there are no more.
    """

    session: Session
    start: str
    cursor: str | None
    end: str | None = None
    busy: bool = True
    split: bool = False  # it began at a made-up id
    done: bool = False
    pieces: list[ParsedPage] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Session:
    """What is known of a session: where reading begins, how much there is, and its stretches."""

    id: str
    begin: str | None
    splittable: bool = True
    total: int | None = None
    rows: int = 0
    newest_ms: int | None = None
    stretches: list[IdRange] = field(default_factory=list)
    pages: int = 0
    looked: bool = False  # for its newest event
    from_start: bool = field(init=False)  # so that what has come can be held against the total

    def __post_init__(self) -> None:
        self.from_start = self.begin is None

    def pieces(self) -> list[ParsedPage]:
        """What has arrived, in the order of ids; without gaps only where all its stretches are done."""
        return [piece for one in sorted(self.stretches, key=lambda one: one.start) for piece in one.pieces]

    @property
    def missing(self) -> bool:
        """Whether less has come than its first page announced, as far as that can be told."""
        return self.total is not None and self.from_start and len(self.stretches) == 1 and self.rows < self.total

    @property
    def reached(self) -> str | None:
        """The id up to which all has arrived."""
        return next((one.cursor for one in sorted(self.stretches, key=lambda one: one.start) if not one.done), None)

    def take_beginning(self) -> list[ParsedPage]:
        """The pieces before the first gap. They are the session's no more, which from then on begins after them."""
        taken: list[ParsedPage] = []
        for stretch in sorted(self.stretches, key=lambda one: one.start):
            taken += stretch.pieces
            stretch.pieces = []
            if not stretch.done:
                break
            self.stretches.remove(stretch)
        self.begin = next((last for piece in reversed(taken) if (last := last_of(piece))), self.begin)
        return taken


def expected(stretch: IdRange) -> float:
    """Rows still to come in a stretch, by the session's density so far; 0 where it cannot be halved."""
    session = stretch.session
    if (
        session.newest_ms is None
        or not session.splittable
        or stretch.cursor is None
        or not is_persisted(stretch.cursor)
    ):
        return 0.0
    span = end_of(stretch) - milliseconds_of(stretch.cursor)
    if session.total is not None and session.total > session.rows:
        left_ms = sum(
            max(end_of(one) - milliseconds_of(one.cursor), 0)
            for one in session.stretches
            if one.cursor is not None and is_persisted(one.cursor)
        )
        return span * (session.total - session.rows) / max(left_ms, 1)
    return float(span)  # nothing says how many: the longest is halved, down to two seconds


def end_of(stretch: IdRange) -> int:
    return milliseconds_of(stretch.end) if stretch.end is not None else stretch.session.newest_ms or 0


def last_id_of(milliseconds: int) -> str:
    """The greatest UUIDv7 of a millisecond: all ids above it are of later ones, so nothing falls between two stretches."""
    digits = f"{milliseconds:012x}"
    return f"{digits[:8]}-{digits[8:]}-7fff-bfff-ffffffffffff"


def until(piece: ParsedPage, end: str) -> ParsedPage:
    """The rows of a piece up to and with the id `end`; they ascend."""
    return _first(piece, pc.sum(pc.less_equal(pc.utf8_lower(piece.batch["id"]), end)).as_py() or 0)


def with_the_last(piece: ParsedPage) -> ParsedPage:
    """The rows of a piece up to its last id: those after it, which have none, come again with the next page."""
    ids = piece.batch["id"]
    return piece if ids[-1].is_valid else _first(piece, len(ids) - pc.index(pc.is_valid(ids[::-1]), True).as_py())


def last_of(piece: ParsedPage) -> str | None:
    """The last id of a piece; None where it has none."""
    if not piece.rows:
        return None
    ids = piece.batch["id"]
    last: str | None = ids[-1].as_py()
    return last if last is not None or ids.null_count == len(ids) else ids.drop_null()[-1].as_py()


def _first(piece: ParsedPage, count: int) -> ParsedPage:
    problems = [problem for problem in piece.problems if problem.row is None or problem.row < count]
    return replace(piece, rows=count, batch=piece.batch.slice(0, count) if count else None, problems=problems)
