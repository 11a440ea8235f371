"""What is attached to a message: found in its text, and folded in a page.

A message is text, so an attachment is a part of it, as `model.attachments` writes it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from .sanitize import escape, visible

MAX_ROWS = 100  # of an attached table, as a page shows it


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a message: words, a block of code, or an attachment, which has a name.

    Attributes
    ----------
    source : str
        As it stands in the message.
    code : str or None
        What stands between the fences; None for words.
    name, note : str
        Of an attachment.
    kind : str
        The language of the block; ``|`` for a table in Markdown.
    """

    source: str
    code: str | None = None
    name: str = ""
    note: str = ""
    kind: str = ""

    @property
    def size(self) -> str:
        """The size of an attachment in words."""
        return ", ".join(filter(None, (self.note, f"{len(self.code or ''):,} characters")))


_CELL, _ESCAPED = re.compile(r"\|((?:[^|\\]|\\.)+)"), re.compile(r"\\([\\|])")  # of a table in Markdown
_NUMBER = re.compile(r"[-+−]?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?\s?%?", re.IGNORECASE)
# A block of code, which may have a title, or a table that has one.
_PART = re.compile(
    r"""^(?:\*\*(?P<name>[^*\n]+)\*\*(?:[ ]\((?P<note>[^\n]*)\))?\n\n)?
    (?: (?P<fence>`{3,})(?P<kind>[^`\n]*)(?:\n(?P<code>.*?))??(?:\n(?P=fence)`*[^\S\n]*$|\Z)
      | (?(name)(?P<table>\|[^\n]*(?:\n\|[^\n]*)*)|(?!)) )""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)


def parts_of(message: str) -> list[Part]:
    r"""The parts of a message; their sources, joined by line breaks, are the message.

    Examples
    --------
    >>> parts = parts_of("Sum up:\n\n**a.csv** (2 rows)\n\n```csv\nid\n1\n2\n```")
    >>> parts[0].source, parts[1].name, parts[1].code, parts[1].size
    ('Sum up:\n', 'a.csv', 'id\n1\n2', '2 rows, 6 characters')
    """
    parts: list[Part] = []
    begin = 0  # of the words before the next part
    for match in _PART.finditer(message):
        if match.start() > begin:
            parts.append(Part(message[begin : match.start() - 1]))
        code, kind = (match["code"] or "", match["kind"].strip()) if match["fence"] else (match["table"], "|")
        parts.append(Part(match[0], code, match["name"] or "", match["note"] or "", kind))
        begin = match.end() + 1
    return [*parts, Part(message[begin:])] if begin <= len(message) else parts


def said(message: str) -> str:
    """A message as it was sent, with what is attached to it folded.

    With the sources of the attachments instead of those, its text is exactly the
    message: the page copies it.
    """
    parts = parts_of(visible(message))
    html = "\n".join(file_html(part, live=True) if part.name else escape(part.source) for part in parts)
    return f'<div class="ab-said" dir="auto">{html}</div>'


def file_html(part: Part, *, live: bool = False) -> str:
    """An attachment, folded: name, size, whether it is masked, and what it contains.

    For a live panel, it carries its source.
    """
    words, _, masked = part.size.partition("masked: ")
    *what, size = masked.split(", ") if masked else [""]
    details = f"Masked: {escape(', '.join(what))}"
    badge = f' <span class="ab-badge" title="{details}">masked</span>' if masked else ""
    summary = (
        f"<summary><bdi><strong>{escape(part.name)}</strong></bdi> <bdi>{escape(words + size)}</bdi>{badge}</summary>"
    )
    note = f'<div class="ab-masked">{details}</div>' if masked else ""
    source = f' data-source="{escape(part.source)}"' if live else ""
    return f'<details class="ab-file"{source}>{summary}{note}{_content(part)}</details>'


@lru_cache(maxsize=32)  # while a reply streams, its question is drawn with it
def _content(part: Part) -> str:
    """What is attached, a table as a table."""
    lines = re.split(r"\r\n?|\n", part.code or "")
    if part.kind == "csv":
        with suppress(csv.Error):  # of a cell that nobody could read
            return _table(list(csv.reader(f"{line}\n" for line in lines)))
    if part.kind == "|":
        rows = [[_ESCAPED.sub(r"\1", cell.strip()) for cell in _CELL.findall(line)] for line in lines]
        return _table([row for n, row in enumerate(rows) if n != 1 or set("".join(row)) - set("-:")])
    return f'<pre tabindex="0">{escape(part.code or "")}</pre>'


def _table(rows: list[list[str]]) -> str:
    """Rows of texts, the first of which are titles; columns of numbers to the right."""
    more = f"<p>{len(rows) - MAX_ROWS - 1:,} more rows</p>" if len(rows) > MAX_ROWS + 1 else ""
    titles, *shown = rows[: MAX_ROWS + 1]
    filled = [(n, text.strip()) for row in shown for n, text in enumerate(row) if text.strip()]
    numbers = {n for n, _ in filled} - {n for n, text in filled if not _NUMBER.fullmatch(text)}
    html = _row(titles, "th", numbers) + "".join(_row(row, "td", numbers) for row in shown)
    return f'<div class="ab-md"><div class="ab-table" tabindex="0"><table>{html}</table></div>{more}</div>'


def _row(texts: list[str], tag: str, numbers: set[int]) -> str:
    # A sign stays before its number, also where words run from right to left.
    style = ' class="ab-right"' + (' dir="ltr"' if tag == "td" else "")
    cells = (f"<{tag}{style if n in numbers else ''}>{escape(text)}</{tag}>" for n, text in enumerate(texts))
    return f"<tr>{''.join(cells)}</tr>"


def attached_html(attached: Mapping[int, str]) -> str:
    """What is attached to the message in the box, by number, to read and to remove."""
    return "".join(
        f'<div class="ab-attached">{file_html(part, live=True)}'
        f'<button type="button" class="ab-button ab-new" data-file="{number}" aria-label="Remove {escape(part.name)}">'
        "×</button></div>"
        for number, source in attached.items()
        for part in parts_of(source)[:1]
    )
