"""Columns of sessions, added to their events or turns to group by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from ...api.span import normalize
from ..tabular import events_of, frame_of
from .arguments import require
from .turns import rows_at

COLUMNS = ("workspace_id", "agent_id")


def with_sessions(events: Any, sessions: Any, columns: str | Sequence[str] | None = None) -> pd.DataFrame:
    """The events with columns of their sessions, to group by.

    Parameters
    ----------
    events : DataFrame, History, or any other table
        Events, turns or any other frame with a ``session_id``.
    sessions : DataFrame, History, Listing, or any other table
        One row per session with ``session_id`` or ``id``: a loaded list of sessions, or
        ``ab.session_log.sessions()``.
    columns : str or sequence of str, optional
        Columns of `sessions` to add. Default: ``workspace_id`` and ``agent_id``, as far
        as it has them.

    Returns
    -------
    DataFrame
        The rows and the ``attrs`` of `events`. Added values are null for unknown
        sessions, and replace a column of the same name. ``attrs["agentbook"]
        ["unlabelled"]`` counts the rows without a row in `sessions`.

    Raises
    ------
    ValueError
        If a column is missing (the message names it), or if `sessions` has a session
        twice with different values.
    TypeError
        If an argument is not a table; the message names the call that makes one.

    Notes
    -----
    Events do not carry their workspace or agent; sessions carry their workspace.
    Specification: "Resources and their fields", Session event; Session.

    Examples
    --------
    >>> events = pd.DataFrame({"session_id": ["s1", "s2", "s1"]})
    >>> sessions = pd.DataFrame({"id": ["s1"], "workspace_id": ["w1"]})
    >>> with_sessions(events, sessions)["workspace_id"].fillna("?").to_list()
    ['w1', '?', 'w1']
    """
    events = events_of(events, caller="with_sessions")
    sessions = frame_of(sessions, caller="with_sessions (sessions)", resource="sessions")
    key = "session_id" if "session_id" in sessions else "id"
    if columns is None:
        names = [name for name in COLUMNS if name in sessions]
    else:
        names = [columns] if isinstance(columns, str) else list(dict.fromkeys(columns))
    if key in names:
        raise ValueError(f"with_sessions looks up sessions by {key!r}: columns= names other columns to add.")
    require(events, "session_id", caller="with_sessions")
    require(sessions, key, *names, caller="with_sessions (sessions)")
    if not names:
        raise ValueError(
            f"with_sessions finds none of {', '.join(COLUMNS)} in the frame of sessions: name others with columns=."
        )
    labels = sessions[[key, *names]].dropna(subset=key).drop_duplicates()
    repeated = labels[key].duplicated()
    if repeated.any():
        raise ValueError(
            f"The frame of sessions has {labels.loc[repeated, key].iloc[0]!r} twice, "
            f"with different values of {', '.join(names)}."
        )
    rows = _rows_of(events["session_id"], labels[key])
    labelled: pd.DataFrame = events.assign(
        **{name: rows_at(labels[name], rows).set_axis(events.index) for name in names}
    )
    labelled.attrs = {
        **events.attrs,
        "agentbook": {**events.attrs.get("agentbook", {}), "unlabelled": int((rows < 0).sum())},
    }
    return labelled


def _rows_of(sessions: pd.Series, known: pd.Series) -> Any:
    """The position of each session among those known; -1 for an unknown one.

    The case of UUIDs does not matter: loads write them in lower case, and a list of
    sessions has them as the platform does.
    """
    rows = pd.Index(known).get_indexer(pd.Index(sessions))
    missing = (rows < 0) & sessions.notna().to_numpy()
    if missing.any():
        in_lower_case = pd.Index([normalize(str(session)) for session in known])
        codes, distinct = pd.factorize(sessions[missing])
        missing_ids = pd.Index([normalize(str(session)) for session in distinct])
        if in_lower_case.is_unique:
            rows[missing] = in_lower_case.get_indexer(missing_ids)[codes]
    return rows
