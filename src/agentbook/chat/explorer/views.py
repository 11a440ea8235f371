"""What the browser draws, and what a saved notebook shows, as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._text import title
from ...frames.plot.style import count_text
from ..html.sanitize import visible
from .code import selection_code
from .columns import NO_TIME, Integers, local_times
from .crossfilter import MAX_GROUPS, Crossfilter
from .filters import duration, filters_message, label, minute
from .source import Source

PAGE_ROWS = 50
MAX_PREVIEW, MAX_QUESTION = 60, 160  # characters


@dataclass(slots=True)
class TablePage:
    """Which part of the table of turns is shown, in which order."""

    sort: str = "latency"  # or "asked"
    descending: bool = True
    offset: int = 0


def fixed_parts(crossfilter: Crossfilter, source: Source) -> dict[str, Any]:
    """What never changes: axes and names."""
    columns = crossfilter.columns
    return {
        "axes": crossfilter.axes.message(),
        "outcomes": [label(name) for name in columns.outcomes],
        "failing": columns.failing.tolist(),
        "groups": [label(name) for name in columns.groups[:MAX_GROUPS]],
        "more_groups": max(len(columns.groups) - MAX_GROUPS, 0),
        "by": visible(source.by or ""),
        "tz": columns.tz,
        "texts": "prompt" in source.turns,
        "incomplete": visible(source.incompleteness),
    }


def current_parts(
    crossfilter: Crossfilter, source: Source, page: TablePage, name: str, shown: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What changes with the selection.

    `shown` are the ``changes`` of what a page shows already; a view that has not
    changed since is left out.
    """
    columns, filters = crossfilter.columns, crossfilter.filters
    summary = crossfilter.summary()
    views: dict[str, Callable[[], Any]] = {
        "heat": crossfilter.heat,
        "latency": lambda: {**crossfilter.latency(), "dots": _dots(crossfilter, source)},
        "outcomes": crossfilter.outcomes,
        "groups": crossfilter.groups,
    }
    changes = {view: crossfilter.changes(view) for view in views}
    return {
        "filters": filters_message(filters, columns.outcomes, columns.groups[:MAX_GROUPS]),
        "chips": filters.describe(source.by, columns.tz),
        "summary": summary,
        "sentence": sentence(summary),
        "code": selection_code(filters, source, name, columns.tz),
        "table": table_part(crossfilter, source, page),
        "changes": changes,
        **{view: count() for view, count in views.items() if shown is None or shown.get(view) != changes[view]},
    }


def table_part(crossfilter: Crossfilter, source: Source, page: TablePage) -> dict[str, Any]:
    """A page of the table of the selected turns."""
    rows = crossfilter.table_rows(page.sort, descending=page.descending)
    page.offset = min(page.offset, max(len(rows) - 1, 0) // PAGE_ROWS * PAGE_ROWS)
    part = rows[page.offset : page.offset + PAGE_ROWS]
    columns = crossfilter.columns
    times = local_times(columns.at_ms[part], columns.tz)
    return {
        "sort": page.sort,
        "descending": page.descending,
        "offset": page.offset,
        "total": len(rows),
        "rows": [
            {
                "row": int(columns.row[index]),
                "asked": "" if columns.at_ms[index] == NO_TIME else minute(moment),
                "group": label(columns.groups[columns.group[index]]),
                "outcome": int(columns.outcome[index]),
                "latency": _number(columns.latency_s[index]),
                "text": text,
            }
            for index, moment, text in zip(
                part, times, _questions(source, columns.row[part], MAX_QUESTION), strict=True
            )
        ],
    }


def _dots(crossfilter: Crossfilter, source: Source) -> list[list[Any]]:
    """For each turn drawn alone: row, moment, latency, outcome, group and question."""
    columns, rows = crossfilter.columns, crossfilter.dots()
    texts = _questions(source, columns.row[rows], MAX_PREVIEW)
    numbers = (columns.row, columns.at_ms, np.round(columns.latency_s, 3), columns.outcome, columns.group)
    values = zip(*(array[rows].tolist() for array in numbers), texts, strict=True)
    names = columns.groups
    return [[row, at, latency, outcome, label(names[group]), text] for row, at, latency, outcome, group, text in values]


def _questions(source: Source, rows: Integers, length: int) -> Sequence[str]:
    """The beginnings of questions, each on one line."""
    if "prompt" not in source.turns:
        return [""] * len(rows)
    return [_preview(text, length) for text in source.turns["prompt"].iloc[rows]]


def _preview(text: Any, length: int) -> str:
    return visible(title(text, length)) if isinstance(text, str) else ""


def sentence(summary: dict[str, Any]) -> str:
    """How many turns are selected, and how they went."""
    turns, everything = summary["turns"], summary["all"]
    count = count_text(turns, "turn") if turns == everything else f"{turns:,} of {count_text(everything, 'turn')}"
    parts = [f"{count} in {count_text(summary['sessions'], 'session')}"]
    if summary["p50"] is not None:
        parts.append(f"median {duration(summary['p50'])}")
        parts.append(f"95th percentile {duration(summary['p95'])}")
    parts.append(f"{summary['failed']:,} failed")
    return ", ".join(parts)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 3)
