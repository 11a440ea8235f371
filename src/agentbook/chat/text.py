"""What can be sent as a message, a prompt or an input: a text that is valid Unicode. The one place that says so."""

from __future__ import annotations

import os
from typing import Any


def sendable(text: Any, what: str = "The message") -> str:
    """`text`, if it is one that the platform can be sent.

    Parameters
    ----------
    text : str
    what : str
        What it is, for the error's first words.

    Raises
    ------
    TypeError
        If it is no text.
    ValueError
        If it is no valid Unicode, such as an emoji cut in half: no request can carry that.

    Examples
    --------
    >>> sendable("Where is my order?")
    'Where is my order?'
    >>> sendable(5)
    Traceback (most recent call last):
    TypeError: The message must be a text, not int: write it as a str.
    """
    if not isinstance(text, str):
        is_path = isinstance(text, os.PathLike)
        how = 'give what is in it, path.read_text(encoding="utf-8")' if is_path else "write it as a str"
        raise TypeError(f"{what} must be a text, not {type(text).__name__}: {how}.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{what} is no valid Unicode: character {error.start} is {text[error.start]!a}, half of a character that was cut or "
            'wrongly decoded, and cannot be sent. Mend it at its source, or put a "?" there: '
            'text.encode("utf-8", "replace").decode().'
        ) from None
    return text


def whole(text: str) -> str:
    """`text` with a question mark for each half of a surrogate pair, which broken JSON may hold and UTF-8 cannot carry.

    Examples
    --------
    >>> whole("cut \\ud83d"), whole("whole \\U0001f600") == "whole \\U0001f600"
    ('cut ?', True)
    """
    return text.encode("utf-8", "replace").decode("utf-8")
