"""What is attached to a message: found in its text, and folded in a page.

A message is text, so an attachment is a part of it, as `model.attachments` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .sanitize import escape, visible


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
    """

    source: str
    code: str | None = None
    name: str = ""
    note: str = ""

    @property
    def size(self) -> str:
        """The size of an attachment in words."""
        return ", ".join(filter(None, (self.note, f"{len(self.code or ''):,} characters")))


_TITLE = re.compile(r"\*\*([^*\n]+)\*\*(?: \(([^\n]*)\))?")


def parts_of(message: str) -> list[Part]:
    r"""The parts of a message; their sources, joined by line breaks, are the message.

    Examples
    --------
    >>> parts = parts_of("Sum up:\n\n**a.csv** (2 rows)\n\n```csv\nid\n1\n2\n```")
    >>> parts[0].source, parts[1].name, parts[1].code, parts[1].size
    ('Sum up:\n', 'a.csv', 'id\n1\n2', '2 rows, 6 characters')
    """
    lines = message.split("\n")
    parts: list[Part] = []
    begin = end = 0  # of the words before the next block
    while end < len(lines):
        stop, code = _block_at(lines, end)
        title = _TITLE.fullmatch(lines[end - 2]) if end - 2 >= begin and not lines[end - 1] else None
        if stop == end or (code is None and title is None):
            end = max(stop, end + 1)
            continue
        first = end - 2 if title else end
        if first > begin:
            parts.append(Part("\n".join(lines[begin:first])))
        name, note = (title[1], title[2] or "") if title else ("", "")
        content = "\n".join(lines[end:stop]) if code is None else code
        parts.append(Part("\n".join(lines[first:stop]), content, name, note))
        begin = end = stop
    return [*parts, Part("\n".join(lines[begin:]))] if begin < len(lines) else parts


def _block_at(lines: list[str], start: int) -> tuple[int, str | None]:
    """Where a block of code or a table ends that begins here; and the code."""
    stop, line = start, lines[start]
    if line.startswith("|"):
        while stop < len(lines) and lines[stop].startswith("|"):
            stop += 1
        return stop, None
    ticks = len(line) - len(line.lstrip("`"))
    if ticks < 3 or "`" in line[ticks:]:
        return start, None
    stop += 1
    while stop < len(lines) and (not lines[stop].startswith("`" * ticks) or lines[stop].lstrip("`").strip()):
        stop += 1
    return min(stop + 1, len(lines)), "\n".join(lines[start + 1 : stop])


def said(message: str) -> str:
    """A message as it was sent, with what is attached to it folded.

    Without the summaries, its text is exactly the message: the page copies it.
    """
    html = "\n".join(map(_said, parts_of(visible(message))))
    return f'<div class="ab-said" dir="auto">{html}</div>'


def _said(part: Part) -> str:
    source = escape(part.source)
    return f'<details class="ab-file">{file_summary(part)}{source}</details>' if part.name else source


def file_summary(part: Part) -> str:
    """What remains of a folded attachment: name, size, and whether it is masked."""
    words, _, masked = part.size.partition("masked: ")
    *what, size = masked.split(", ") if masked else [""]
    badge = f' <span class="ab-badge" title="Masked: {escape(", ".join(what))}">masked</span>' if masked else ""
    return f"<summary><bdi><strong>{escape(part.name)}</strong></bdi> {escape(words + size)}{badge}</summary>"


def attached_html(attached: Mapping[int, str]) -> str:
    """What is attached to the message in the box, by number, to read and to remove."""
    return "".join(
        f'<div class="ab-attached"><details class="ab-file">{file_summary(part)}<pre>{escape(source)}</pre></details>'
        f'<button type="button" class="ab-button ab-new" data-file="{number}" aria-label="Remove {escape(part.name)}">'
        "×</button></div>"
        for number, source in attached.items()
        for part in parts_of(source)[:1]
    )
