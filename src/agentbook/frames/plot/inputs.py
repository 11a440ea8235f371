"""The input of a chart, from anything tabular: the turns in a span, or one session."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

import pandas as pd

from ..analysis.arguments import require, rows_in, span_in, warn_if_empty, with_instants, zone_in
from ..analysis.turns import turns_of
from ..load.session_ids import session_ids
from .style import join_names, shortened

# Columns that identify a turn for people, with their labels in a tooltip.
_IDENTITY = {"workspace": "workspace", "agent": "agent", "session": "session", "author": "asked by"}
_OR_ID = {"workspace": "workspace_id", "agent": "agent_id", "session": "session_id", "author": "author_type"}


def turns_within(
    data: Any, *columns: str, since: Any, until: Any, tz: str | tzinfo | None = None, caller: str
) -> pd.DataFrame:
    """The turns of events, of a `History` or of a frame of turns, asked in a span.

    A `ValueError` names the `columns` that are missing; an `EmptyWarning` says what to
    do if there are no turns.
    """
    table = turns_of(data, caller=caller)
    require(table, "asked_at", *columns, caller=caller)
    table = with_instants(table, "asked_at", "replied_at", caller=caller)
    tz = zone_in(tz, table)
    return rows_in(span_in(table, "asked_at", since, until, tz=tz), table, table["asked_at"], caller=caller)


def turn_labels(table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """What a tooltip says about each turn: columns, and their labels.

    The names of the session, agent, workspace and person if the frame has them, else
    ids; and the shortened question.
    """
    columns, labels = {}, {}
    for name, label in _IDENTITY.items():
        column = name if name in table else _OR_ID[name]
        if column in table:
            columns[name], labels[name] = table[column].astype("str"), label
    if "turn" in table:
        columns["turn_number"], labels["turn_number"] = table["turn"], "turn"
    if "link" in table:
        columns["link"], labels["link"] = table["link"], "link"
    if "prompt" in table:
        columns["question"], labels["question"] = shortened(table["prompt"]), "question"
    return pd.DataFrame(columns, index=table.index), labels


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
