"""`Finding`, the result of a check, and the numbers of versions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from .._text import visible

State = Literal["ok", "note", "wrong"]
_MARKS = {"ok": "ok   ", "note": "note ", "wrong": "WRONG"}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Attributes
    ----------
    state : {"ok", "note", "wrong"}
        A note is worth knowing but does no harm. ``wrong`` makes the command exit with
        code 1.
    about : str
        The subject of the check, as in the table of the manual's troubleshooting page.
    message : str
        What was found, and why if that matters.
    advice : str
        What to do.
    """

    state: State
    about: str
    message: str
    advice: str = ""

    def __str__(self) -> str:
        line = f"{_MARKS[self.state]}  {self.about}: {self.message}"
        return visible(f"{line}\n       → {self.advice}" if self.advice else line)


def numbers(text: str) -> tuple[int, ...]:
    """The numbers of a version: ``(4, 6, 6)`` for ``"4.6.6"``."""
    return tuple(map(int, re.findall(r"\d+", text)))
