"""The state of an explorer: its data, its selection, and what a page draws."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from .code import selection_code
from .columns import read_columns
from .conversation import OpenedConversation, open_conversation
from .crossfilter import Crossfilter
from .filters import Filters, parse_filters
from .source import Source, notebook_names, variable_of
from .views import TablePage, current_parts, fixed_parts, sentence, table_part


class ExplorerModel:
    """Holds the state of an explorer. Several threads may use it.

    Attributes
    ----------
    source : Source
    filters : Filters
        What is selected.
    opened : OpenedConversation or None
    """

    def __init__(self, source: Source, tz: str) -> None:
        self.tz = tz
        self.opened: OpenedConversation | None = None
        self._lock = threading.RLock()
        self._page = TablePage()
        self._version = 0  # version of the data: messages refer to turns and groups by position
        self._load(source)

    def _load(self, source: Source) -> None:
        self._crossfilter = Crossfilter(read_columns(source.checked, source.by, self.tz))
        self.source = source
        self._version += 1
        self._fixed = {"version": self._version, **fixed_parts(self._crossfilter, source)}

    @property
    def filters(self) -> Filters:
        return self._crossfilter.filters

    @property
    def outcomes(self) -> list[str | None]:
        """The names of the outcomes."""
        return self._crossfilter.columns.outcomes

    @property
    def groups(self) -> list[str | None]:
        """The names of the groups."""
        return self._crossfilter.columns.groups

    @property
    def selection(self) -> pd.DataFrame:
        """The selected turns, in the order of the table of turns."""
        with self._lock:
            return self.source.turns.iloc[self._crossfilter.selected()]

    @property
    def sentence(self) -> str:
        """How many turns are selected, in words."""
        with self._lock:
            return sentence(self._crossfilter.summary())

    def code(self, name: str | None = None) -> str:
        """The code for the selection, with the variable `name` or the notebook's."""
        with self._lock:
            return selection_code(self.filters, self.source, name or self._name(), self.tz)

    def _name(self) -> str:
        return variable_of(self.source.data, notebook_names()) or self.source.default_name

    def select(self, filters: Filters, shown: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Apply filters; what a page then draws that shows `shown` (see `current`)."""
        with self._lock:
            self._page.offset = 0
            self._crossfilter.apply(filters)
            return {"kind": "views", "current": self.current(shown)}

    def select_by_message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Apply the filters in a page's message; returns what the page then draws.

        A message about data that have been replaced changes nothing.

        Raises
        ------
        ValueError, TypeError, LookupError
            If the message is malformed; nothing has changed then.
        """
        with self._lock:
            filters = parse_filters(message["filters"], self.outcomes, self.groups)
            if not self._is_current(message):
                return self.select(self.filters)
            return self.select(filters, message.get("changes"))

    def _is_current(self, message: Mapping[str, Any]) -> bool:
        return bool(message.get("version", self._version) == self._version)

    def replace(self, source: Source) -> dict[str, Any]:
        """Show other turns with the same filters; returns what a page then draws."""
        with self._lock:
            before, filters = self.source, self.filters
            self._load(source)
            self._crossfilter.apply(filters)
            self.opened = None if self.opened is None else _moved(self.opened, before, source)
            parts = {"kind": "views", "fixed": self._fixed, "current": self.current(), "empty": source.emptiness}
            return {**parts, "conversation": self._conversation()["conversation"]}

    def turn_pages(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Sort the table or turn its pages; returns what a page then draws."""
        sort = "asked" if message.get("sort") == "asked" else "latency"
        page = TablePage(sort, bool(message.get("descending")), max(int(message.get("offset") or 0), 0))
        with self._lock:
            self._page = page
            return {"kind": "table", "table": table_part(self._crossfilter, self.source, page)}

    def open_by_message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Open the turn that a page's message names; returns what the page draws."""
        return self.open(int(message["row"])) if self._is_current(message) else self._conversation()

    def turn_of_message(self, message: Mapping[str, Any]) -> pd.DataFrame | None:
        """The turn that a page's message names, as a row; None if it is gone."""
        row, turns = int(message["row"]), self.source.turns
        return turns.iloc[[row]] if self._is_current(message) and 0 <= row < len(turns) else None

    def open(self, row: int) -> dict[str, Any]:
        """Read the conversation of a turn; returns what a page then draws.

        Must not be called on the toolkit's own thread.
        """
        source = self.source
        if not 0 <= row < len(source.turns):
            raise ValueError(f"There is no turn {row}.")
        opened = open_conversation(source, row, self.tz)  # without the lock: it may read from the platform
        with self._lock:
            self.opened = opened if source is self.source else self.opened
        return self._conversation()

    def close_conversation(self) -> dict[str, Any]:
        """Close the conversation; returns what a page then draws."""
        self.opened = None
        return self._conversation()

    def _conversation(self) -> dict[str, Any]:
        opened = self.opened
        if opened is None:
            return {"kind": "conversation", "conversation": None}
        parts = {"row": opened.row, "session": opened.session_id, "title": opened.title, "html": opened.html}
        return {"kind": "conversation", "conversation": parts}

    def current(self, shown: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What changes with the selection.

        With the `changes` of its views, a page says which of them it already shows;
        those are left out.
        """
        with self._lock:
            return current_parts(self._crossfilter, self.source, self._page, self._name(), shown)

    def snapshot(self) -> dict[str, Any]:
        """Everything a page needs to draw from scratch."""
        with self._lock:
            state = {"fixed": self._fixed, "current": self.current(), "empty": self.source.emptiness}
            return {**state, "conversation": self._conversation()["conversation"]}

    def static_content(self) -> tuple[dict[str, Any], dict[str, Any], OpenedConversation | None, str]:
        """The arguments of `explorer_html` before the uid."""
        with self._lock:
            return self._fixed, self.current(), self.opened, self.source.emptiness


def _moved(opened: OpenedConversation, before: Source, after: Source) -> OpenedConversation | None:
    """The conversation with its turn's position in newer data; None if it is gone."""
    turn = before.turns.iloc[opened.row]
    is_turn = (after.turns["session_id"] == turn["session_id"]) & (after.turns["turn"] == turn["turn"])
    rows = is_turn.to_numpy().nonzero()[0]
    return replace(opened, row=int(rows[0])) if len(rows) else None
