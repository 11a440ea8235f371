"""Replies and their grades: what asserts return and how they add up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .model import Assertion, Permissions


class CaseError(Exception):
    """An assert that could not run: its cell fails with an error and scores 0."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent answered.

    Attributes
    ----------
    text : str
    latency_ms, cost : float or None
        Milliseconds and dollars; None if they are not known.
    prompt : str
        The message it answers.
    """

    text: str
    latency_ms: float | None = None
    cost: float | None = None
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class Services:
    """Services that some asserts need in addition to the reply.

    Attributes
    ----------
    ask_judge : callable or None
        Takes a message and returns the judge's reply. Called on a worker thread.
    embed : callable or None
        Takes texts and returns their vectors.
    folder : Path
        The folder of the file.
    allowed : Permissions
        What the file may use besides the files in it.
    """

    ask_judge: Callable[[str], str] | None = None
    embed: Callable[[Sequence[str]], Sequence[Sequence[float]]] | None = None
    folder: Path = field(default_factory=Path)
    allowed: Permissions = field(default_factory=Permissions)


@dataclass(frozen=True, slots=True)
class Grade:
    """The outcome of an assert, of a set of them, or of a whole cell.

    Attributes
    ----------
    passed : bool
    score : float
    reason : str
        Why it failed; for a judge, always the judge's reason.
    assertion : Assertion or None
        None for a cell.
    parts : tuple of Grade
        The grades of a set's or cell's asserts, in order.
    metrics : mapping of str to float
        Scores by the name in ``metric``, averaged by weight.
    error : str or None
        Why a cell could not be graded.
    """

    passed: bool
    score: float
    reason: str = ""
    assertion: Assertion | None = None
    parts: tuple[Grade, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None


NO_ASSERTS = Grade(True, 1.0, "no asserts")


def combine(
    parts: Sequence[tuple[Assertion, Grade]], threshold: float | None, assertion: Assertion | None = None
) -> Grade:
    """The grade of several asserts: the weighted mean of their scores.

    It passes if none failed, or, with a threshold, if the score reaches it.

    Parameters
    ----------
    parts : sequence of (Assertion, Grade)
    threshold : float or None
        0 counts as a threshold too: the cell then always passes.
    assertion : Assertion, optional
        The set that they form.

    Examples
    --------
    >>> yes, no = (Grade(passed, float(passed)) for passed in (True, False))
    >>> parts = [(Assertion("contains", weight=3), yes), (Assertion("regex"), no)]
    >>> combine(parts, 0.7).score
    0.75
    """
    total = sum(assertion.weight for assertion, _ in parts)
    score = sum(grade.score * assertion.weight for assertion, grade in parts) / total if total > 0 else 0.0
    failed = next(((each, grade) for each, grade in reversed(parts) if not grade.passed), None)
    named = f"{failed[0].metric}: " if failed is not None and failed[0].metric else ""
    reason = "" if failed is None else f"{named}{failed[1].reason}"
    passed = not any(not grade.passed for _, grade in parts)
    if threshold is not None:
        passed = score >= threshold
        reason = (
            ""
            if passed
            else f"score {score:.2f} is below the threshold {threshold:g}" + (f": {reason}" if reason else "")
        )
    return Grade(passed, score, reason, assertion, tuple(grade for _, grade in parts), metrics=_metrics(parts))


def _metrics(parts: Sequence[tuple[Assertion, Grade]]) -> dict[str, float]:
    totals: dict[str, tuple[float, float]] = {}
    for assertion, grade in parts:
        named: dict[str, Any] = {assertion.metric: grade.score} if assertion.metric else {}
        for name, score in {**grade.metrics, **named}.items():
            total, weight = totals.get(name, (0.0, 0.0))
            totals[name] = total + score * assertion.weight, weight + assertion.weight
    return {name: total / weight if weight > 0 else 0.0 for name, (total, weight) in totals.items()}
