"""Test inputs, however a person has them: a list, a column, or lines pasted from somewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..text import sendable


def read_inputs(given: Any) -> list[str]:
    r"""The inputs as texts, in order, each once; what is empty or missing is left out.

    Parameters
    ----------
    given : str, iterable of str, Series or DataFrame
        A text is one input a line, with or without the bullets and numbers that lists are pasted with. A DataFrame must have a
        column ``input``.

    Raises
    ------
    ValueError
        If there is none, one is no valid Unicode, a frame has no such column, or the text is the name of a file.
    TypeError
        If something in it is no text.

    Examples
    --------
    >>> read_inputs("What is a session?\n\n- Where are my keys?\n- Where are my keys?\n")
    ['What is a session?', 'Where are my keys?']
    >>> read_inputs(["one\ninput of two lines", "another"])
    ['one\ninput of two lines', 'another']
    """
    if isinstance(given, str) and _is_file(given):
        raise ValueError(f"{given!r} is a file, not an input: give what is in it, such as Path({given!r}).read_text().")
    each = lines(given) if isinstance(given, str) else _each(given)
    found = [text for text in map(_text, each) if text]
    if not found:
        raise ValueError("There are no inputs: give a list of texts, a pasted text with one a line, or a column.")
    return list(dict.fromkeys(found))


def _is_file(text: str) -> bool:
    """Whether this is a table's or a text's name rather than a question: a single word that is a file here."""
    try:
        return len(text.split()) == 1 and Path(text.strip()).is_file()
    except (OSError, ValueError):  # too long, or no name
        return False


def lines(text: str) -> list[str]:
    """The inputs of a pasted text: one a line."""
    return [stripped for line in text.splitlines() if (stripped := _unlisted(line.strip()))]


def _unlisted(line: str) -> str:
    marker, _, rest = line.partition(" ")
    numbered = marker[:-1].isdigit() and marker[-1:] in (".", ")")
    return rest.strip() if rest and (marker in ("-", "*", "•") or numbered) else line


def _each(given: Any) -> Iterable[Any]:
    if hasattr(given, "columns"):
        if "input" not in given.columns:
            has = ", ".join(map(str, given.columns))
            raise ValueError(
                f"A frame of inputs needs a column 'input'; it has {has or 'none'}. Give one of its columns: frame[name]."
            )
        given = given["input"]
    if hasattr(given, "dropna"):
        given = given.dropna().tolist()
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise TypeError(f"Inputs must be texts, a column or lines, not {type(given).__name__}.")
    return given


def _text(value: Any) -> str:
    return sendable(value, f"The input {value!r}").strip()
