"""Test inputs: from a list, from a column, or from lines pasted from somewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..text import check_text

# The form has one input per line; it shows a line break within an input as this sign.
BREAK = "⏎"


def read_inputs(inputs: Any) -> list[str]:
    r"""The inputs as strings in order, without repeats and empty ones.

    Parameters
    ----------
    inputs : str, iterable of str, Series or DataFrame
        A string holds one input per line; the bullets and numbers of pasted lists are
        removed. A DataFrame needs a column ``input``.

    Raises
    ------
    ValueError
        If there are no inputs, one is not valid Unicode, a frame has no such column, or
        the string is the name of a file.
    TypeError
        If an input is not a string.

    Examples
    --------
    >>> read_inputs("What is a session?\n\n- Where is my key?\n- Where is my key?\n")
    ['What is a session?', 'Where is my key?']
    >>> read_inputs(["one\ninput of two lines", "another"])
    ['one\ninput of two lines', 'another']
    """
    if isinstance(inputs, str) and _is_file(inputs):
        raise ValueError(f"{inputs!r} is a file, not an input: pass its content, such as Path({inputs!r}).read_text().")
    values = _lines(inputs) if isinstance(inputs, str) else _values(inputs)
    texts = [text for value in values if (text := check_text(value, f"The input {value!r}").strip())]
    if not texts:
        raise ValueError("There are no inputs: pass a list of strings, a text with one input per line, or a column.")
    return list(dict.fromkeys(texts))


def parse_inputs(text: str) -> list[str]:
    """The inputs in a text area, one per line; there may be none."""
    return list(dict.fromkeys(line.replace(BREAK, "\n") for line in _lines(text)))


def format_inputs(inputs: Iterable[str]) -> str:
    """Inputs as the text that `parse_inputs` reads."""
    return "\n".join(text.replace("\n", BREAK) for text in inputs)


def _is_file(text: str) -> bool:
    """Whether a string is the name of a file rather than a question."""
    try:
        return len(text.split()) == 1 and Path(text.strip()).is_file()
    except (OSError, ValueError):  # too long, or not a name
        return False


def _lines(text: str) -> list[str]:
    return [stripped for line in text.splitlines() if (stripped := _strip_bullet(line.strip()))]


def _strip_bullet(line: str) -> str:
    marker, _, rest = line.partition(" ")
    numbered = marker[:-1].isdigit() and marker[-1:] in (".", ")")
    return rest.strip() if rest and (marker in ("-", "*", "•") or numbered) else line


def _values(inputs: Any) -> Iterable[Any]:
    if hasattr(inputs, "columns"):
        if "input" not in inputs.columns:
            columns = ", ".join(map(str, inputs.columns)) or "none"
            raise ValueError(
                f"A frame of inputs needs a column 'input'; it has {columns}. Pass one of its columns: frame[name]."
            )
        inputs = inputs["input"]
    if hasattr(inputs, "dropna"):
        inputs = inputs.dropna().tolist()
    if isinstance(inputs, Mapping) or not isinstance(inputs, Iterable):
        raise TypeError(f"Inputs must be strings, a column or lines, not {type(inputs).__name__}.")
    return inputs
