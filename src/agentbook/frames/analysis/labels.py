"""What events do not say themselves: the workspace and the agent of their session, brought in from a frame of sessions."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from .validate import require

COLUMNS = ("workspace_id", "agent_id")


def with_sessions(
    events: pd.DataFrame, sessions: pd.DataFrame, columns: str | Sequence[str] | None = None
) -> pd.DataFrame:
    """The events with columns of the sessions they belong to, to count by.

    Parameters
    ----------
    events : DataFrame
        Events, or turns or any other frame with a ``session_id``.
    sessions : DataFrame
        One row per session with ``session_id`` or ``id``: a loaded list of sessions, or ``ab.session_log.sessions()``.
    columns : str or sequence of str, optional
        Which of its columns; default: ``workspace_id`` and ``agent_id``, as far as it has them.

    Returns
    -------
    DataFrame
        The rows and the ``attrs`` of `events`. Values are null for sessions that `sessions` does not have, and replace a
        column of that name. ``attrs["agentbook"]["unlabelled"]`` counts the rows without a row in `sessions`.

    Raises
    ------
    ValueError
        A column is missing (the message names it), or `sessions` has a session twice with different values.

    Notes
    -----
    An event does not say its workspace or agent, a session says its workspace.
    Specification: "Resources and their fields", Session event; Session.

    Examples
    --------
    >>> events = pd.DataFrame({"session_id": ["s1", "s2", "s1"]})
    >>> sessions = pd.DataFrame({"id": ["s1"], "workspace_id": ["w1"]})
    >>> with_sessions(events, sessions)["workspace_id"].fillna("?").to_list()
    ['w1', '?', 'w1']
    """
    require(sessions, what="with_sessions (sessions)")
    key = "session_id" if "session_id" in sessions else "id"
    if columns is None:
        wanted = [name for name in COLUMNS if name in sessions]
    else:
        wanted = [columns] if isinstance(columns, str) else list(dict.fromkeys(columns))
    if key in wanted:
        raise ValueError(f"with_sessions finds sessions by {key!r}: columns= names what else the events get.")
    require(events, "session_id", what="with_sessions")
    require(sessions, key, *wanted, what="with_sessions (sessions)")
    if not wanted:
        raise ValueError(f"with_sessions found neither of {', '.join(COLUMNS)} in the frame of sessions: say columns=.")
    known = sessions[[key, *wanted]].dropna(subset=key).drop_duplicates()
    twice = known[key].duplicated()
    if twice.any():
        raise ValueError(
            f"The frame of sessions has {known.loc[twice, key].iloc[0]!r} twice, with different values of {', '.join(wanted)}."
        )
    row = known.set_index(key).index.get_indexer(pd.Index(events["session_id"]))
    added = {
        name: pd.Series(pd.api.extensions.take(known[name].array, row, allow_fill=True), events.index)
        for name in wanted
    }
    labelled = events.assign(**added)
    labelled.attrs = {
        **events.attrs,
        "agentbook": {**events.attrs.get("agentbook", {}), "unlabelled": int((row < 0).sum())},
    }
    return labelled
