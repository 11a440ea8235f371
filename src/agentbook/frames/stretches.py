"""A session's events as stretches of time, each read page by page: how much is left of one, and where it can be halved."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow.compute as pc

from ..api.ids import is_persisted, milliseconds_of
from .load import Piece


@dataclass(slots=True)
class Stretch:
    """A part of a session's events: those with ids above `cursor`, up to and with `end`; None is open on that side."""

    session: Session
    start: str
    cursor: str | None
    end: str | None = None
    busy: bool = True
    split: bool = False  # it began at a made-up id
    pieces: list[Piece] = field(default_factory=list)


@dataclass(slots=True)
class Session:
    """What is known of a session: where reading begins, how much there is, and its stretches."""

    id: str
    begin: str | None
    splittable: bool = True
    total: int | None = None
    rows: int = 0
    newest_ms: int | None = None
    stretches: list[Stretch] = field(default_factory=list)
    open: int = 0
    pages: int = 0
    looked: bool = False  # for its newest event


def expected(stretch: Stretch) -> float:
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


def end_of(stretch: Stretch) -> int:
    return milliseconds_of(stretch.end) if stretch.end is not None else stretch.session.newest_ms or 0


def last_id_of(milliseconds: int) -> str:
    """The greatest UUIDv7 of a millisecond: all ids above it are of later ones, so nothing falls between two stretches."""
    digits = f"{milliseconds:012x}"
    return f"{digits[:8]}-{digits[8:]}-7fff-bfff-ffffffffffff"


def until(piece: Piece, end: str) -> Piece:
    """The rows of a piece up to and with the id `end`; they ascend."""
    count = pc.sum(pc.less_equal(pc.utf8_lower(piece.batch["id"]), end)).as_py() or 0
    problems = [problem for problem in piece.problems if problem.row is None or problem.row < count]
    return replace(piece, rows=count, batch=piece.batch.slice(0, count) if count else None, problems=problems)
