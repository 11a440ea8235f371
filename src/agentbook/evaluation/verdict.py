"""What is judged, and the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Subject:
    """A reply, and what a check may know about it.

    Attributes
    ----------
    reply, question : str
    latency_s : float or None
        Seconds from sending to the reply.
    values : mapping of str to object
        The columns of the input.
    cost : float or None
        In the currency of the prices.
    name : str
        What the lab calls the input.
    """

    reply: str
    question: str = ""
    latency_s: float | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    cost: float | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a check. If it could not decide, `passed` is None.

    Attributes
    ----------
    passed : bool or None
    score : float or None
    error : str or None
        Why it could not decide.
    reason : str or None
        Of a judge.
    judge : str or None
        Who judged: the agent, its version, and the version of the judge's prompt.
    """

    passed: bool | None
    score: float | None = None
    error: str | None = None
    reason: str | None = None
    judge: str | None = field(default=None, repr=False)

    def as_data(self) -> dict[str, Any]:
        """The verdict as plain data, ready for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}
