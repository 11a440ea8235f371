"""The state of an explorer, and what a page and a saved notebook draw of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ..._text import around, count_text, title
from ..html.sanitize import visible
from .columns import NO_TIME, Integers, TurnColumns, local_times, read_columns
from .conversation import OpenedConversation, open_conversation
from .crossfilter import MAX_GROUPS, Crossfilter, rounded
from .filters import Filters, duration, filters_message, has_words, label, minute, parse_filters, selection_code
from .source import Source, notebook_names, variable_of

PAGE_ROWS = 50
MAX_PREVIEW, MAX_QUESTION = 60, 160  # characters


class ExplorerModel:
    """Holds the state of an explorer. Several threads may use it.

    Attributes
    ----------
    source : Source
    opened : OpenedConversation or None
    """

    def __init__(self, source: Source, tz: str) -> None:
        self.tz = tz
        self.opened: OpenedConversation | None = None
        self._lock = threading.RLock()
        self._sort, self._descending, self._offset = "latency", True, 0  # of the table; or "asked"
        self._version = 0  # version of the data: messages refer to turns and groups by position
        self._load(source)

    def _load(self, source: Source) -> None:
        self._crossfilter = Crossfilter(
            read_columns(source.checked, source.by, self.tz), lambda text: has_words(source.turns, text).to_numpy(bool)
        )
        self.source = source
        self._version += 1
        columns = self.columns
        self._fixed = {
            "version": self._version,
            "axes": self._crossfilter.axes.message(),
            "outcomes": [label(name) for name in columns.outcomes],
            "failing": columns.failing.tolist(),
            "groups": [label(name) for name in columns.groups[:MAX_GROUPS]],
            "more_groups": max(len(columns.groups) - MAX_GROUPS, 0),
            "by": visible(source.by or ""),
            "tz": columns.tz,
            "texts": "prompt" in source.turns,
            "incomplete": visible(source.incompleteness),
        }

    @property
    def columns(self) -> TurnColumns:
        """The turns as arrays."""
        return self._crossfilter.columns

    @property
    def selection(self) -> pd.DataFrame:
        """The selected turns, in the order of the table of turns."""
        with self._lock:
            return self.source.turns.iloc[self._crossfilter.selected()]

    @property
    def sentence(self) -> str:
        """How many turns are selected, and how they went."""
        with self._lock:
            summary = self._crossfilter.summary()
        turns, everything = summary["turns"], summary["all"]
        count = count_text(turns, "turn") if turns == everything else f"{turns:,} of {count_text(everything, 'turn')}"
        parts = [f"{count} in {count_text(summary['sessions'], 'session')}"]
        if summary["p50"] is not None:
            parts += [f"median {duration(summary['p50'])}", f"95th percentile {duration(summary['p95'])}"]
        return ", ".join([*parts, f"{summary['failed']:,} failed"])

    def code(self, name: str | None = None) -> str:
        """The code for the selection, with the variable `name` or the notebook's."""
        name = name or variable_of(self.source.data, notebook_names()) or self.source.default_name
        with self._lock:
            return selection_code(self._crossfilter.filters, self.source, name, self.tz)

    def select(self, filters: Filters, shown: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Apply filters; what a page then draws that shows `shown` (see `current`)."""
        with self._lock:
            self._offset = 0
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
            filters = parse_filters(message["filters"], self.columns.outcomes, self.columns.groups)
            if not self._is_current(message):
                return self.select(self._crossfilter.filters)
            return self.select(filters, message.get("changes"))

    def _is_current(self, message: Mapping[str, Any]) -> bool:
        return bool(message.get("version", self._version) == self._version)

    def replace(self, source: Source) -> dict[str, Any]:
        """Show other turns with the same filters; returns what a page then draws."""
        with self._lock:
            before, filters = self.source, self._crossfilter.filters
            self._load(source)
            self._crossfilter.apply(filters)
            self.opened = None if self.opened is None else _moved(self.opened, before, source)
            return {"kind": "views", **self.snapshot()}

    def turn_pages(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Sort the table or turn its pages; returns what a page then draws."""
        sort = "asked" if message.get("sort") == "asked" else "latency"
        offset = max(int(message.get("offset") or 0), 0)
        with self._lock:
            self._sort, self._descending, self._offset = sort, bool(message.get("descending")), offset
            return {"kind": "table", "table": self._table()}

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
        return {
            "kind": "conversation",
            "conversation": opened
            and {"row": opened.row, "session": opened.session_id, "title": opened.title, "html": opened.html},
        }

    def snapshot(self) -> dict[str, Any]:
        """Everything a page needs to draw from scratch."""
        with self._lock:
            state = {"fixed": self._fixed, "current": self.current(), "empty": self.source.emptiness}
            return {**state, "conversation": self._conversation()["conversation"]}

    def static_content(self) -> tuple[dict[str, Any], dict[str, Any], OpenedConversation | None, str]:
        """The arguments of `explorer_html` before the uid."""
        with self._lock:
            return self._fixed, self.current(), self.opened, self.source.emptiness

    # What changes with the selection, as plain values

    def current(self, shown: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What changes with the selection.

        With the `changes` of its views, a page says which of them it already shows;
        those are left out.
        """
        with self._lock:
            crossfilter, columns = self._crossfilter, self.columns
            views: dict[str, Callable[[], Any]] = {
                "heat": crossfilter.heat,
                "latency": lambda: {**crossfilter.latency(), "dots": self._dots()},
                "outcomes": crossfilter.outcomes,
                "groups": crossfilter.groups,
            }
            changes = {view: crossfilter.changes[view] for view in views}
            return {
                "filters": filters_message(crossfilter.filters, columns.outcomes, columns.groups[:MAX_GROUPS]),
                "chips": crossfilter.filters.describe(self.source.by, columns.tz),
                "summary": crossfilter.summary(),
                "sentence": self.sentence,
                "code": self.code(),
                "table": self._table(),
                "changes": changes,
                **{view: count() for view, count in views.items() if shown is None or shown.get(view) != changes[view]},
            }

    def _table(self) -> dict[str, Any]:
        """A page of the table of the selected turns."""
        columns, rows = self.columns, self._crossfilter.table_rows(self._sort, descending=self._descending)
        self._offset = min(self._offset, max(len(rows) - 1, 0) // PAGE_ROWS * PAGE_ROWS)
        part = rows[self._offset : self._offset + PAGE_ROWS]
        times, texts = local_times(columns.at_ms[part], columns.tz), self._hits(columns.row[part])
        return {
            "sort": self._sort,
            "descending": self._descending,
            "offset": self._offset,
            "total": len(rows),
            "rows": [
                {
                    "row": int(columns.row[index]),
                    "asked": "" if columns.at_ms[index] == NO_TIME else minute(moment),
                    "group": label(columns.groups[columns.group[index]]),
                    "outcome": int(columns.outcome[index]),
                    "latency": rounded(columns.latency_s[[index]])[0],
                    "text": text,
                }
                for index, moment, text in zip(part, times, texts, strict=True)
            ],
        }

    def _dots(self) -> list[list[Any]]:
        """For each turn drawn alone: row, moment, latency, outcome, group, question."""
        columns, rows = self.columns, self._crossfilter.dots()
        numbers = (columns.row, columns.at_ms, np.round(columns.latency_s, 3), columns.outcome)
        groups = (label(columns.groups[group]) for group in columns.group[rows])
        texts = self._questions(columns.row[rows], MAX_PREVIEW)
        return [list(dot) for dot in zip(*(array[rows].tolist() for array in numbers), groups, texts, strict=True)]

    def _hits(self, rows: Integers) -> Sequence[str]:
        """The beginnings of questions; in a search, where its first word occurs."""
        questions, text = self._questions(rows, MAX_QUESTION), self._crossfilter.filters.text
        if text is None:
            return questions
        word, turns, hits = text.split()[0], self.source.turns, []
        for row, question in zip(rows, questions, strict=True):
            hit = question
            for name in ("prompt", "reply") if word.casefold() not in question.casefold() else ():
                found = turns[name].iloc[row] if name in turns else None
                if isinstance(found, str) and word.casefold() in found.casefold():
                    part = visible("".join(around(found, word, MAX_PREVIEW, MAX_QUESTION)))
                    hit = f"{'Reply: ' if name == 'reply' else ''}{part}"
                    break
            hits.append(hit)
        return hits

    def _questions(self, rows: Integers, length: int) -> Sequence[str]:
        """The beginnings of questions, each on one line."""
        if "prompt" not in self.source.turns:
            return [""] * len(rows)
        texts = self.source.turns["prompt"].iloc[rows]
        return [visible(title(text, length)) if isinstance(text, str) else "" for text in texts]


def _moved(opened: OpenedConversation, before: Source, after: Source) -> OpenedConversation | None:
    """The conversation with its turn's position in newer data; None if it is gone."""
    turn = before.turns.iloc[opened.row]
    is_turn = (after.turns["session_id"] == turn["session_id"]) & (after.turns["turn"] == turn["turn"])
    rows = is_turn.to_numpy().nonzero()[0]
    return replace(opened, row=int(rows[0])) if len(rows) else None
