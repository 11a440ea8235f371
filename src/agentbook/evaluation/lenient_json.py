"""The JSON objects within a text, found as promptfoo finds them.

The text is a reply, so its author may be hostile: a text that takes longer to read than
any genuine reply with some objects is rejected.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

import yaml

from . import javascript
from .files.source import YamlLoader

MAX_LENGTH = 100_000  # characters of an object
# Characters of everything that looks like an object but is not. Reading that many as
# YAML takes 10 s.
MAX_FAILED = 400_000
MAX_DEPTH = 64  # of text read as YAML, whose time grows with the square of its depth
_LETTER = re.compile(r"[a-zA-Z]")


class TooManyBraces(ValueError):
    """Searching for objects among so many braces would take minutes."""


class _Loader(YamlLoader):
    """Rejects aliases, because ten lines of them can expand beyond all memory."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "an alias", None)
        return super().compose_node(parent, index)


def find_objects(text: str) -> list[Any]:
    """Each ``{…}`` in a text that can be read leniently.

    Keys may be unquoted, ``//`` begins a comment, and closing braces may be missing at
    the end of the text.

    Raises
    ------
    TooManyBraces
        If too much text follows the braces that do not begin an object.

    Examples
    --------
    >>> find_objects('Here: {"a": 1} and {b: [2]}, {c: 3')
    [{'a': 1}, {'b': [2]}, {'c': 3}]
    """
    objects: list[Any] = []
    ends, depths = _match_braces(text), list(accumulate(map(_step, text), initial=0))
    failed, start = 0, text.find("{")
    while start >= 0:
        last = min(len(text), start + MAX_LENGTH)
        end = min(ends.get(start, last), last)
        closing = "}" * (depths[end] - depths[start])
        value = _parse(text[start:end] + closing)
        if value is None:
            failed += end - start
            if failed > MAX_FAILED:
                raise TooManyBraces("The reply has too many braces to look for JSON in it.")
        else:
            objects.append(value)
        start = text.find("{", start + 1 if value is None else end)
    return objects


def _step(char: str) -> int:
    return (char == "{") - (char == "}")


def _match_braces(text: str) -> dict[int, int]:
    """The position where each brace is closed; unclosed braces are left out."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for brace in re.finditer("[{}]", text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            ends[opened.pop()] = brace.end()
    return ends


def _parse(text: str) -> Any:
    """Parse a text as a mapping; None if it is not one."""
    try:
        return javascript.parse_json(text)
    except ValueError:
        pass
    if max(accumulate((char in "{[") - (char in "}]") for char in text)) > MAX_DEPTH:
        return None
    try:
        value = yaml.load("\n".join(map(_comment, text.split("\n"))), _Loader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _comment(line: str) -> str:
    """A line in which ``//`` outside quotation marks begins a YAML comment."""
    quote, backslashes, in_address = "", 0, False
    for position, char in enumerate(line):
        in_address = char != " " and (in_address or line.startswith("://", position))
        escaped = backslashes % 2
        backslashes = backslashes + 1 if char == "\\" else 0
        if quote:
            inside_word = char == "'" and _LETTER.match(line, position + 1)
            if char == quote and not escaped and not inside_word:
                quote = ""
        elif char == '"' or (char == "'" and not _LETTER.match(line[position - 1 : position])):
            quote = char
        elif line.startswith("//", position):
            if in_address:
                continue
            rest = line[position:].lstrip("/")
            return line[:position] + "#" * ((len(line) - position - len(rest)) // 2) + rest
    return line
