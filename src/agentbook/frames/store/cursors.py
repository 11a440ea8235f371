"""How far sessions have been read: where to continue, and which rows are new."""

from __future__ import annotations

import bisect
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...api.event_ids import is_persisted, milliseconds_of
from ..parse.page_checks import out_of_order
from ..parse.problems import Problem
from .manifest import SessionCursor


def next_cursor(table: Any, after: str | None, stored: list[str], overlap_ms: int) -> SessionCursor:
    """How far a session has been read once these new rows are stored.

    Parameters
    ----------
    table : pyarrow.Table
        The new rows, in the order of their ids.
    after : str or None
        The id after which the session was loaded.
    stored : list of str
        The later ids that were already stored, ascending.
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
    # Ids ascend, and so do their milliseconds; an id of another form is placed by its
    # text.
    cut = bisect.bisect_left(
        ids, True, key=lambda event_id: is_persisted(event_id) and milliseconds_of(event_id) >= since
    )
    while cut and not is_persisted(ids[cut - 1]):
        cut -= 1
    return (ids[cut - 1], ids[cut:]) if cut else (after, ids)


def count_late(table: Any, stored: list[str]) -> int:
    """How many rows have a lower id than one that was stored before."""
    return pc.sum(pc.less(pc.utf8_lower(table["id"]), stored[-1].lower())).as_py() if stored else 0


def new_rows(table: Any, session: str, stored: list[str]) -> Any:
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


def rows_without_id(table: Any) -> list[Problem]:
    """The problems of rows without an id, which are not stored."""
    rows = pc.indices_nonzero(pc.is_null(table["id"])).to_pylist()
    return [
        Problem(row, "id", "not stored: without an id, repeats of it cannot be recognized", _json(table.slice(row, 1)))
        for row in rows
    ]


def _json(row: Any) -> str:
    return json.dumps({name: value for name, value in row.to_pylist()[0].items() if value is not None}, default=str)


__all__ = ["count_late", "new_rows", "next_cursor", "rows_without_id", "split_at_overlap"]
