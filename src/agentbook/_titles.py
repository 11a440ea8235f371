"""Titles of sessions and previews of messages: a person's first words, on one line."""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_TITLE = 60
MAX_READ = 200_000  # characters of a message that are searched for words
MAX_NAME = 500  # characters of a bold line that may be the name of an attachment
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_BOLD_LINE = re.compile(r"\*\*(?P<name>.+?)\*\*(?: \(.*\))?$")  # as it appears above an attachment
_BLOCK = re.compile(r"^(?:#{1,6}|>|[-*+])\s+")
_BOLD = re.compile(r"(?<!\w)\*\*(?=\S)(.+?)(?<=\S)\*\*(?!\w)")
_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_MARKS = ("\n", "*", "`", "#", ">", "|", "~")


def shorten(text: str, length: int = MAX_TITLE) -> str:
    """The beginning of a text, on one line.

    Examples
    --------
    >>> shorten("What   is\\na turn?", 9)
    'What is…'
    """
    line = " ".join(text[: 20 * length].split())
    if len(line) <= length:
        return line
    cut = line[:length].rsplit(" ", 1)[0]
    return f"{cut.rstrip('.,;: ')}…"


def title(text: str, length: int = MAX_TITLE) -> str:
    r"""The first words of a message, without its attachments and its markup.

    A table or a code block counts only if there is nothing else. The title is then its
    name, or its first line.

    Examples
    --------
    >>> title("**orders** (1 rows)\n\n```csv\nid,n\na,1\n```\n\nWhich is **late**?")
    'Which is late?'
    >>> title("**orders.csv**\n\n| id |\n| --- |\n| a |")
    'orders.csv'
    >>> title("```sql\nSELECT 1\n```")
    'SELECT 1'
    """
    if not any(mark in text[:MAX_READ] for mark in _MARKS):
        return shorten(text, length)
    words: list[str] = []
    others: list[str] = []
    for line, is_attached in _lines(text[:MAX_READ]):
        (others if is_attached else words).append(_BLOCK.sub("", line, count=1))
        if sum(map(len, words)) > 2 * length:
            break
    line = shorten(" ".join(words or others[:1]) or text, 2 * length + 1)
    return shorten(_CODE.sub(r"\1", _BOLD.sub(r"\1", line)), length)


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """The lines with words, and whether each belongs to an attachment or its name."""
    fence = ""  # of the code block that is open
    heading: re.Match[str] | None = None  # a bold line, whose meaning depends on the next line
    for line in map(str.strip, text.split("\n")):
        mark = _FENCE.match(line)
        is_attached = bool(fence or mark or line.startswith("|"))
        if heading is not None and line:
            yield (heading["name"], True) if is_attached else (heading[0], False)
            heading = None
        if fence:
            is_end = mark is not None and mark[1].startswith(fence) and line.strip(fence[0]) == ""
            if is_end:
                fence = ""
            elif line:
                yield line, True
        elif mark is not None:
            fence = mark[1]
        elif len(line) <= MAX_NAME and (bold := _BOLD_LINE.match(line)):
            heading = bold
        elif line.strip("|-: "):
            yield line, is_attached
    if heading is not None:
        yield heading[0], False
