"""Checks a page of events for repeated or unordered ids and for other sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .content import to_json
from .parsed_page import ParsedPage
from .problems import Problem


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
            page.problems.append(Problem(row, "id", problem, to_json(event_id)))


def check_session_ids(session_id: str, page: ParsedPage) -> None:
    """Add a problem for each event of another session."""
    if not page.rows:
        return
    session_ids = page.batch["session_id"]
    for row in pc.indices_nonzero(pc.not_equal(session_ids, session_id)).to_pylist():
        problem = "an event of a session that was not asked for"
        page.problems.append(Problem(row, "session_id", problem, to_json(session_ids[row].as_py())))


def all_in_order(pages: Sequence[ParsedPage]) -> bool:
    """Whether no page has an id out of order or an event of another session.

    Checks all pages at once, which is faster than `check_page` for each.
    """
    filled = [page for page in pages if page.rows]
    if not filled:
        return True
    starts = np.cumsum([0, *(page.rows for page in filled)])[:-1]
    ids = pa.chunked_array([page.batch["id"] for page in filled]).combine_chunks()
    if ids.null_count:
        return False
    backwards = pc.less_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)
    backwards[starts[1:] - 1] = False
    runs = pc.run_end_encode(pa.chunked_array([page.batch["session_id"] for page in filled]).combine_chunks())
    expected = [page.context["session_id"] for page in filled]
    return not backwards.any() and len(runs.values) == len(filled) and runs.values.to_pylist() == expected


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
