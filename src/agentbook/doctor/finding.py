"""What a check found, and how versions are compared."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "note", "wrong"]
_MARKS = {"ok": "ok   ", "note": "note ", "wrong": "WRONG"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    state : {"ok", "note", "wrong"}
        A note is worth knowing and stops nobody; one that is wrong makes the command end with exit code 1.
    about : str
        What was looked at: the name in the troubleshooting page's table.
    found : str
        What is so, and where it matters why.
    advice : str
        What to do.
    """

    state: State
    about: str
    found: str
    advice: str = ""

    def __str__(self) -> str:
        line = f"{_MARKS[self.state]}  {self.about}: {self.found}"
        return f"{line}\n       → {self.advice}" if self.advice else line


def version(name: str) -> str | None:
    """The installed version of a distribution; None where it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version, for comparison: ``"4.6.6"`` is ``(4, 6, 6)``."""
    found = []
    for part in text.split("."):
        digits = "".join(character for character in part if character.isdigit())
        if not digits:
            break
        found.append(int(digits))
    return tuple(found)
