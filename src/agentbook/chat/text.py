"""Text checks shared by messages, prompts and inputs."""

from __future__ import annotations

import os
from typing import Any


def check_text(text: Any, label: str = "The message") -> str:
    """`text`, if it can be sent to the platform.

    Parameters
    ----------
    text : str
    label : str
        How the error message begins.

    Raises
    ------
    TypeError
        If `text` is not a string.
    ValueError
        If it is not valid Unicode, such as half an emoji: no request can carry it.

    Examples
    --------
    >>> check_text("Where is my order?")
    'Where is my order?'
    >>> check_text(5)
    Traceback (most recent call last):
    TypeError: The message must be a string, not int: pass a str.
    """
    if not isinstance(text, str):
        is_path = isinstance(text, os.PathLike)
        advice = 'pass its content, path.read_text(encoding="utf-8")' if is_path else "pass a str"
        raise TypeError(f"{label} must be a string, not {type(text).__name__}: {advice}.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{label} is not valid Unicode and cannot be sent: character {error.start} is "
            f"{text[error.start]!a}, half of a character that was cut or wrongly decoded. "
            'Fix it at its source, or replace it with a "?": text.encode("utf-8", "replace").decode().'
        ) from None
    return text


def replace_surrogates(text: str) -> str:
    """`text` with a question mark for each half of a surrogate pair.

    Broken JSON may contain such halves, and UTF-8 cannot encode them.

    Examples
    --------
    >>> replace_surrogates("cut \\ud83d")
    'cut ?'
    >>> replace_surrogates("complete \\U0001f600") == "complete \\U0001f600"
    True
    """
    return text.encode("utf-8", "replace").decode("utf-8")
