"""`agentbook doctor`: looks for common problems, the most basic first.

`environment` examines the packages and JupyterLab, `trial` imports everything and
starts an embedded service in a temporary folder, `language_model` asks the models of
the embedded service, and `platform` examines the address, the connection and the
credential. Checks never change anything, and never show a secret.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from .._packages import blamed, described, mend
from .._text import visible

__all__ = ["Finding", "examine"]

_CHECKS = (
    "environment.packages",
    "environment.jupyterlab",
    "trial.imports",
    "trial.service",
    "language_model.answers",
    "platform.connection",
)


State = Literal["ok", "note", "wrong"]


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
        line = f"{'WRONG' if self.state == 'wrong' else self.state:5}  {self.about}: {self.message}"
        return visible(f"{line}\n       → {self.advice}" if self.advice else line)


def numbers(text: str) -> tuple[int, ...]:
    """The numbers of a version: ``(4, 6, 6)`` for ``"4.6.6"``."""
    return tuple(map(int, re.findall(r"\d+", text)))


def examine() -> list[Finding]:
    """What all checks found, the most basic first.

    Returns
    -------
    list of Finding
        Including what is in order. If a check itself fails, that is a finding too;
        nothing is raised.

    Notes
    -----
    Specification: "Authentication" and "Errors", for the platform's replies.

    Examples
    --------
    >>> examine()[0].about
    'agentbook'
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other packages' warnings would mix with the findings
        return [finding for check in _CHECKS for finding in _safely(*check.split("."))]


def _safely(module: str, check: str) -> Iterator[Finding]:
    """The findings of a check, whose module is imported only now: that may fail too."""
    try:
        yield from getattr(import_module(f".{module}", __name__), check)()
    except Exception as error:
        # Show only the error's type: its message might contain an address with a
        # password.
        names = blamed(error)
        source = f" in {described(names)}" if names else ""
        message = f"could not be checked ({type(error).__name__}{source})"
        advice = mend(names) if names else "Please report this; the other checks are not affected."
        yield Finding("wrong", module.replace("_", " "), message, advice)
