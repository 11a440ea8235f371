"""What a notebook shows of a list: its first rows, their count, and how to load it.

Showing a list never makes a request: a notebook must not wait for a rate limit, or end
in an error, because it shows a variable. The rows are those of the first page, once
something has fetched it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

from .api.page import Page
from .api.record import Record, shown_field

if TYPE_CHECKING:
    from .frames.parse.schemas import Column

MAX_ROWS = 10
MAX_COLUMNS = 7
MAX_CHARACTERS = 60
_HIDDEN_KINDS = ("json", "masked")
_CELL = "text-align:left;white-space:nowrap"


def listing_html(title: str, page: Page | None, total: int | None, resource: str, *, awaited: bool = False) -> str:
    """A list as HTML: the first rows of its first page.

    Parameters
    ----------
    title : str
        The operation and its parameters.
    page : Page or None
        The first page; None if it has not been fetched yet.
    total : int or None
        The number of items; None if it is not known.
    resource : str
        Names the schema that chooses the columns.
    awaited : bool
        Whether the methods of the list are awaited.
    """
    load = "await listing.to_pandas()" if awaited else "listing.to_pandas()"
    count = "await listing.count()" if awaited else "len(listing)"
    hint = f"Load all of it: <code>{load}</code>"
    if page is None:
        return (
            f"<p><b>{escape(title)}</b>: nothing is fetched yet. {hint}. Count it: <code>{count}</code>. "
            f"First ten: <code>{'await ' if awaited else ''}listing[:10].to_pandas()</code></p>"
        )
    records = list(islice(page.records(), MAX_ROWS))
    size = f"{len(page):,} or more items" if total is None else f"{total:,} item{'' if total == 1 else 's'}"
    shown = f", the first {len(records)} of them here" if total is None or total > len(records) else ""
    table = _table(records, resource) if records else ""
    return f"<p><b>{escape(title)}</b>: {size}{shown}</p>{table}<p>{hint}</p>"


def _table(records: Sequence[Record], resource: str) -> str:
    from .frames.parse.schemas import schema_of

    shown = [column for column in schema_of(resource).columns if _is_shown(column, records)]
    own_id = [column for column in shown if column.name == "id"]
    # Last, because a narrow page shows only the first columns.
    columns = [column for column in shown if column.name != "id"][: MAX_COLUMNS - 1] + own_id
    head = "".join(f'<th style="{_CELL}">{escape(column.name)}</th>' for column in columns)
    rows = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{escape(_cell(column, record))}</td>' for column in columns) + "</tr>"
        for record in records
    )
    # MathJax ignores these classes, as in pandas' tables: dollar signs stay text.
    table = f'<table class="tex2jax_ignore mathjax_ignore"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<div style="overflow-x:auto;max-width:100%">{table}</div>'


def _is_shown(column: Column, records: Sequence[Record]) -> bool:
    """Whether a column fits into a short table: no objects, and no other items' ids."""
    if column.wire is None or column.kind in _HIDDEN_KINDS or (column.kind == "id" and column.name != "id"):
        return False
    return any(_value(column, record) is not None for record in records)


def _value(column: Column, record: Record) -> Any:
    value: Any = record
    for name in (column.wire or "").split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _cell(column: Column, record: Record) -> str:
    value = _value(column, record)
    if value is None:
        return ""
    text = shown_field((column.wire or "").rpartition(".")[2], value)
    if isinstance(value, str) and text == repr(value):
        text = value[:16].replace("T", " ") if column.kind == "time" else " ".join(value.split())
    return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…"


__all__ = ["listing_html"]
