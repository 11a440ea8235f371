"""Where an explorer's turns and conversations come from."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..._text import ipython_shell
from ...frames.analysis.arguments import group_of, require, with_instants
from ...frames.analysis.paths import paths
from ...frames.analysis.steps import steps
from ...frames.analysis.turns import is_sessions, is_turns, turns
from ...frames.history import History
from ...frames.plot.style import join_names
from ...frames.tabular import events_of, frame_of
from .columns import REQUIRED

if TYPE_CHECKING:
    from ...client import AsyncClient, Client

# Columns to group by: the first that the turns have is used.
_GROUPS = ("agent", "agent_id", "workspace", "workspace_id", "author_type")


@dataclass(frozen=True, slots=True)
class Source:
    """Turns, and where to read the conversation around one.

    Attributes
    ----------
    data : History or DataFrame
        What the explorer was made from.
    turns : DataFrame
        As `data` has them, so that a selection has the same columns.
    checked : DataFrame
        The turns with instants in UTC and pandas' own dtypes.
    by : str or None
        The column of the groups.
    expression : str
        How code gets the turns from the variable ``{name}``.
    default_name : str
        The name for `data` in code if it has none.
    """

    data: Any
    turns: pd.DataFrame
    checked: pd.DataFrame
    by: str | None
    events: pd.DataFrame | None
    client: Client | AsyncClient | None
    expression: str
    default_name: str

    @property
    def incompleteness(self) -> str:
        """What is missing from the history, in a sentence; empty if it is complete."""
        if not isinstance(self.data, History) or not self.data.missing:
            return ""
        return (
            f"This history is not complete: it lacks {join_names(list(self.data.missing))}. history.missing says why."
        )

    @property
    def emptiness(self) -> str:
        """Why there is nothing to explore, and what to do; empty if there are turns."""
        if len(self.turns):
            return ""
        if isinstance(self.data, History):
            text = f"The history of {self.data.title} has {self.data.hint or 'no turns'}."
            return f"{text} {self.incompleteness}".rstrip()
        return "These frames hold no turns: load more sessions, or an earlier span, with ab.load_history(client)."


def source_of(data: Any, *, events: Any, client: Any, by: str | None) -> Source:
    """The source of a `History`, of events, or of the result of `turns`.

    Raises
    ------
    TypeError
        If `data` is not tabular.
    ValueError
        If a column is missing; the message names it.
    """
    expression = "{name}" if isinstance(data, pd.DataFrame) else "{name}.to_pandas()"
    table, name = frame_of(data, caller="Explorer", resource="turns"), "turns"
    if is_sessions(table):
        raise ValueError(
            "Explorer shows turns, and these are sessions: pass the turns, as in "
            "ab.Explorer(ab.with_scores(history, scores), events=history.turn_events, by='passed')."
        )
    if isinstance(data, History):
        expression, name, events = "{name}.turns", "history", data.turn_events if events is None else events
    elif not is_turns(table):
        expression, name, events = "ab.turns({name}, texts=True)", "events", table if events is None else events
        table = turns(table, texts=True)
    if events is not None:
        events = events_of(events, caller="Explorer (events)")
        require(events, "id", "session_id", "type", caller="Explorer (events)")
    require(table, *REQUIRED, caller="Explorer")
    if by == "path" and by not in table and events is not None:
        table = paths(table, steps=steps(events, contents=False), each=True)
        expression = f"ab.paths({expression}, steps=ab.steps({'events' if name == 'turns' else '{name}'}), each=True)"
    if by is not None:
        group_of(by, caller="Explorer", frame=table)
    by = by or next((column for column in _GROUPS if column in table), None)
    checked = with_instants(table, "asked_at", "replied_at", caller="Explorer")
    return Source(data, table, checked, by, events, client, expression, name)


def variable_of(data: Any, namespace: Mapping[str, Any]) -> str | None:
    """The name of the notebook's variable that holds `data`; None if there is none.

    Examples
    --------
    >>> variable_of(NAMES := [1], {"_": NAMES, "history": NAMES})
    'history'
    """
    for name, value in tuple(namespace.items()):
        if value is data and not name.startswith("_") and name.isidentifier() and not keyword.iskeyword(name):
            return name
    return None


def notebook_names() -> Mapping[str, Any]:
    """The variables of the notebook; empty outside one."""
    names: Mapping[str, Any] = getattr(ipython_shell(), "user_ns", {})
    return names
