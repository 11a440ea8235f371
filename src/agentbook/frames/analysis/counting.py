"""Events as what is counted: when, in which session, what each does to a turn, and the columns to count by."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .event_columns import Reading
from .validate import require


def counted(reading: Reading, groups: list[str], *, what: str) -> pd.DataFrame:
    """One row per event with its instant, its session, what it does, and the columns to count by."""
    events = reading.events
    rows = pd.DataFrame(
        {
            # In brackets, so that no column to group by has such a name.
            "(at)": events["created_at"].reset_index(drop=True),
            "(session)": reading.session,
            "(opens)": reading.opens,
            "(replies)": reading.done & reading.has_text & ~reading.opens,
            "(fails)": reading.fails,
        }
    )
    for name in groups:
        if name in ("initiator_type", "initiator_id") and name not in events:
            rows[name] = _initiators(reading, name.replace("initiator", "author"), what)
        else:
            require(events, name, what=what)
            rows[name] = events[name].reset_index(drop=True)
    return rows


def _initiators(reading: Reading, column: str, what: str) -> pd.Series:
    """Who wrote the first message of each event's session."""
    require(reading.events, column, what=what)
    opening = np.flatnonzero(reading.opens)
    session, first = np.unique(reading.session[opening], return_index=True)
    row_of = np.full(len(reading.sessions), -1, np.int64)
    row_of[session] = opening[first]
    values = reading.events[column].array
    return pd.Series(pd.api.extensions.take(values, row_of[reading.session], allow_fill=True))


__all__ = ["counted"]
