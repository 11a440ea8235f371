"""Selects the session of a frame that a chart shows."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ..analysis.selection import warn_if_empty
from ..load.session_ids import session_ids
from .style import join_names


def one_session(events: pd.DataFrame, session: Any, *, caller: str) -> pd.DataFrame:
    """The events of one session; else a `ValueError` lists the available sessions."""
    warn_if_empty(events, caller=caller)
    sessions = events["session_id"].dropna().unique()
    if session is None:
        if len(sessions) > 1:
            raise ValueError(
                f"The frame holds {len(sessions):,} sessions: choose one, such as session_id={str(sessions[0])!r}."
            )
        return events
    ids = [session] if isinstance(session, str) and session in sessions else session_ids(None, session)
    if len(ids) != 1:
        raise ValueError(f"{caller} draws one session, and session_id= names {len(ids):,}.")
    if ids[0] not in sessions:
        raise ValueError(f"The frame has no session {ids[0]!r}; it has {join_names([str(name) for name in sessions])}.")
    return events[events["session_id"] == ids[0]]
