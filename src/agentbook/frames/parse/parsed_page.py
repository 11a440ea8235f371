"""A parsed page: which of its rows to keep, and whether its ids are as requested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from .problems import Problem


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """A parsed page: a record batch of its rows (None if it has none), and problems."""

    rows: int
    batch: Any
    problems: list[Problem]
    context: Mapping[str, Any]
    readable: bool = True


def keep_rows(piece: ParsedPage, keep: list[bool] | None) -> ParsedPage:
    """The rows of a piece flagged in `keep`, with their problems; None keeps all."""
    if keep is None:
        return piece
    numbers = {row: number for number, row in enumerate(row for row, flag in enumerate(keep) if flag)}
    problems = [
        problem if problem.row is None else replace(problem, row=numbers[problem.row])
        for problem in piece.problems
        if problem.row is None or problem.row in numbers
    ]
    rows = len(numbers)
    return replace(piece, rows=rows, batch=piece.batch.filter(pa.array(keep)) if rows else None, problems=problems)


def check_page(session_id: str, page: ParsedPage) -> None:
    """Add a problem for each repeated or unordered id and each foreign event."""
    check_session_ids(session_id, page)
    if not page.rows:
        return
    ids = page.batch["id"]
    if (flags := out_of_order(ids)) is not None:
        for row in pc.indices_nonzero(flags).to_pylist():
            event_id = ids[row].as_py()
            repeated = pc.any(pc.equal(ids[:row], event_id)).as_py()
            problem = "this id came twice" if repeated else "out of order: the platform was asked for ascending ids"
            page.problems.append(Problem(row, "id", problem, msgspec.json.encode(event_id).decode()))


def check_session_ids(session_id: str, page: ParsedPage) -> None:
    """Add a problem for each event of another session."""
    if not page.rows:
        return
    session_ids = page.batch["session_id"]
    for row in pc.indices_nonzero(pc.not_equal(session_ids, session_id)).to_pylist():
        problem = "an event of a session that was not asked for"
        page.problems.append(
            Problem(row, "session_id", problem, msgspec.json.encode(session_ids[row].as_py()).decode())
        )


def out_of_order(ids: Any) -> Any:
    """Flags for ids that are not greater than the one before; None if all ascend.

    Null ids are skipped.
    """
    filled = pc.fill_null_forward(ids) if ids.null_count else ids
    backwards = pc.less_equal(filled[1:], filled[:-1])
    if ids.null_count:
        backwards = pc.and_(pc.fill_null(backwards, False), pc.is_valid(ids)[1:])
    if not pc.any(backwards).as_py():
        return None
    return pa.concat_arrays([pa.array([False]), *getattr(backwards, "chunks", [backwards])])
