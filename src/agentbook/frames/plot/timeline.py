"""One session as bars: what each step of a turn took, as far as persisted events tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..analysis.event_columns import read
from ..analysis.turns import assign
from ..load.session_ids import session_ids
from .chart import listed

MOST_TURNS = 200
MOST_BARS = 4_000


def bars_of(events: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """What each bar of a timeline spans: from the event before it in its turn to its own, in seconds since the question."""
    reading = read(events, what="turn_timeline")
    number = assign(reading).turn + 1
    at = reading.events["created_at"].reset_index(drop=True)
    kinds = [reading.fails, reading.done & reading.has_text, reading.done]
    rows = pd.DataFrame({"turn": number, "step": np.select(kinds, ["failure", "reply", "subtask"], ""), "at": at})
    rows["before"] = rows.groupby("turn")["at"].shift().fillna(rows["at"])
    rows = rows[(rows["step"] != "") & ~reading.opens]
    late = table[table["replied_at"].isna()]
    since = at.groupby(number).max().reindex(late["turn"]).reset_index(drop=True)
    waiting = pd.DataFrame({"turn": late["turn"].reset_index(drop=True), "step": "waiting", "before": since})
    waiting["at"] = pd.Series(at.max(), waiting.index, dtype=at.dtype)
    rows = pd.concat([rows, waiting], ignore_index=True) if len(waiting) else rows
    began = table.set_index("turn")["asked_at"].fillna(at.groupby(number).min())
    begin = began.reindex(rows["turn"]).set_axis(rows.index)
    rows["from_s"] = (rows["before"] - begin).dt.total_seconds()
    rows["to_s"] = (rows["at"] - begin).dt.total_seconds()
    rows = rows[rows["to_s"].notna() & (rows["turn"] <= MOST_TURNS)].sort_values(["turn", "from_s", "to_s"])
    columns = {"turn": "int64", "step": "str", "from_s": "float64", "to_s": "float64"}
    return rows[list(columns)].astype(columns).reset_index(drop=True)


def one_session(events: pd.DataFrame, session: Any) -> pd.DataFrame:
    """The events of the session that is meant, or a `ValueError` that says which there are."""
    sessions = events["session_id"].dropna().unique()
    if session is None:
        if len(sessions) > 1:
            raise ValueError(
                f"The frame holds {len(sessions):,} sessions: say which, as session_id={str(sessions[0])!r}."
            )
        return events
    named = [session] if isinstance(session, str) and session in sessions else session_ids(None, session)
    if len(named) != 1:
        raise ValueError(f"turn_timeline draws one session, and session_id= names {len(named):,}.")
    session_id = named[0]
    if session_id not in sessions:
        raise ValueError(f"The frame has no session {session_id!r}; it has {listed([str(one) for one in sessions])}.")
    return events[events["session_id"] == session_id]


__all__ = ["MOST_BARS", "MOST_TURNS", "bars_of", "one_session"]
