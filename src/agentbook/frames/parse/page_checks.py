"""What a page of a session may not hold: an id twice or out of order, an event of another session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .frame import ParsedPage
from .json_columns import Problem


def check_page(session: str, piece: ParsedPage) -> None:
    """Note what a page of this session may not hold: an id twice or out of order, an event of another session."""
    if not piece.rows:
        return
    check_session_ids(session, piece)
    ids = piece.batch["id"]
    if (backwards := out_of_order(ids)) is not None:
        for row in pc.indices_nonzero(backwards).to_pylist():
            one = ids[row].as_py()
            said = "out of order: the platform was asked for ascending ids"
            if pc.any(pc.equal(ids[:row], one)).as_py():
                said = "this id came twice"
            piece.problems.append(Problem(row, "id", said, msgspec.json.encode(one).decode()))


def check_session_ids(session: str, piece: ParsedPage) -> None:
    """Note events of another session."""
    named = piece.batch["session_id"]
    other = pc.not_equal(named, session)
    if pc.any(other).as_py():
        for row in pc.indices_nonzero(other).to_pylist():
            raw = msgspec.json.encode(named[row].as_py()).decode()
            piece.problems.append(Problem(row, "session_id", "an event of a session that was not asked for", raw))


def all_in_order(pieces: Sequence[ParsedPage]) -> bool:
    """Whether no piece holds an id out of order or a row of another session, by one look at all of them."""
    full = [piece for piece in pieces if piece.rows]
    if not full:
        return True
    starts = np.cumsum([0, *(piece.rows for piece in full)])[:-1]
    ids = pa.chunked_array([piece.batch["id"] for piece in full]).combine_chunks()
    if ids.null_count:
        return False
    backwards = pc.less_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)
    backwards[starts[1:] - 1] = False
    runs = pc.run_end_encode(pa.chunked_array([piece.batch["session_id"] for piece in full]).combine_chunks())
    told = [piece.context["session_id"] for piece in full]
    return not backwards.any() and len(runs.values) == len(full) and runs.values.to_pylist() == told


def out_of_order(ids: Any) -> Any:
    """Which ids are not greater than the one before, as flags; None if all are. Missing ids are passed over."""
    filled = pc.fill_null_forward(ids) if ids.null_count else ids
    backwards = pc.less_equal(filled[1:], filled[:-1])
    if ids.null_count:
        backwards = pc.and_(pc.fill_null(backwards, False), pc.is_valid(ids)[1:])
    if not pc.any(backwards).as_py():
        return None
    return pa.concat_arrays([pa.array([False]), *getattr(backwards, "chunks", [backwards])])
