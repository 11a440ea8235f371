"""The results of an evaluation: one row per cell, and how many passed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .check import Check, check_data
from .files.cells import Cell
from .files.write import literal_of
from .grade import Grade


@dataclass(frozen=True, slots=True)
class Row:
    """One cell: its question, its reply and its grade.

    Attributes
    ----------
    cell : Cell
    message : str
        The rendered prompt.
    reply : str or None
        None if the agent did not answer; `error` says why.
    grade : Grade
    latency_s : float or None
        Seconds.
    session_id, version : str or None
        The session of the question, and the version of the agent that answered.
    cost : float or None
        In the currency of the prices; None if it is not known.
    finish_reason : str or None
        Why the model stopped writing, such as ``"length"``; None if it is not known.
    """

    cell: Cell
    message: str
    reply: str | None
    grade: Grade
    latency_s: float | None = None
    session_id: str | None = None
    version: str | None = None
    cost: float | None = None
    finish_reason: str | None = None

    @property
    def title(self) -> str:
        """What people call the case: its description, or its values."""
        case = self.cell.case
        values = ", ".join(
            f"{name}={' '.join(str(literal_of(value)).split())[:60]}" for name, value in case.vars.items()
        )
        text = " – ".join(part for part in (case.description, values) if part) or f"case {self.cell.number + 1}"
        return text if len(text) <= 160 else f"{text[:159]}…"

    @property
    def status(self) -> str:
        """passed, failed or error."""
        return "error" if self.grade.error is not None else "passed" if self.grade.passed else "failed"

    def as_data(self) -> dict[str, Any]:
        """The row in promptfoo's format, as far as it has the same fields."""
        grade, case = self.grade, self.cell.case
        return {
            "testIdx": self.cell.number,
            "promptIdx": self.cell.prompt_number,
            "vars": dict(case.vars),
            "prompt": {"raw": self.message, "label": self.cell.prompt.label},
            "response": {"output": self.reply, **({"finishReason": self.finish_reason} if self.finish_reason else {})},
            "latencyMs": None if self.latency_s is None else round(self.latency_s * 1000),
            "cost": self.cost,
            "success": grade.passed is True,
            "score": grade.score,
            "namedScores": dict(grade.metrics),
            "failureReason": {"passed": 0, "failed": 1, "error": 2}[self.status],
            "error": grade.error or (None if grade.passed else grade.reason),
            "sessionId": self.session_id,
            "version": self.version,
            "gradingResult": {
                "pass": grade.passed is True,
                "score": grade.score,
                "reason": grade.reason,
                "componentResults": [
                    {
                        "pass": part.passed is True,
                        "score": part.points,
                        "reason": part.reason,
                        "assertion": _assertion(part.check),
                    }
                    for part in flatten(grade.parts)
                ],
            },
        }


@dataclass(frozen=True, slots=True)
class Results:
    """The rows of an evaluation, case by case.

    Attributes
    ----------
    rows : sequence of Row
    description : str or None
        The file's description.
    facts : mapping of str to str
        The agent, the judge and the like.
    """

    rows: Sequence[Row]
    description: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)

    def count(self, status: str) -> int:
        """The number of cells with this status."""
        return sum(row.status == status for row in self.rows)

    @property
    def pass_rate(self) -> float:
        """The share of cells that passed; errors count as failed. 1 without cells."""
        return self.count("passed") / len(self.rows) if self.rows else 1.0

    @property
    def failures(self) -> list[Row]:
        """The cells that failed or could not be graded."""
        return [row for row in self.rows if row.status != "passed"]

    def by_prompt(self) -> dict[str, list[Row]]:
        """The rows of each prompt, by its label."""
        groups: dict[str, list[Row]] = {}
        for row in self.rows:
            groups.setdefault(row.cell.prompt.label, []).append(row)
        return groups

    def as_json(self) -> str:
        """The results in promptfoo's format, as far as it has the same fields."""
        rows = [row.as_data() for row in self.rows]
        stats = {"successes": self.count("passed"), "failures": self.count("failed"), "errors": self.count("error")}
        results = {"version": 3, "results": rows, "stats": stats}
        data = {"results": results, "metadata": {"description": self.description, **self.facts}}
        return json.dumps(data, ensure_ascii=False, indent=1)


def _assertion(assertion: Check | None) -> dict[str, Any] | None:
    return None if assertion is None else check_data(assertion)


def flatten(parts: Iterable[Grade]) -> list[Grade]:
    """Grades, each followed by its parts."""
    return [each for part in parts for each in (part, *flatten(part.parts))]
