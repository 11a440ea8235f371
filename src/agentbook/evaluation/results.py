"""The results of an evaluation: one row per cell, as JSON, a page and JUnit XML.

The HTML page has no scripts, and failures first and open. Continuous-integration
systems show the XML.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import jinja2

from .._text import clip, visible
from ..events.turns import how_incomplete
from .check import check_data
from .files.cells import Cell
from .model import Grade
from .statistics import compare_variants, describe
from .template import literal_of

_ORDER = {"error": 0, "failed": 1, "passed": 2}


# Characters that XML 1.0 cannot contain.
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
        return clip(" – ".join(filter(None, (case.description, values))) or f"case {self.cell.number + 1}", 160)

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
                "pass": grade.passed,
                "score": grade.score,
                "reason": grade.reason,
                "componentResults": [
                    {
                        "pass": part.passed,
                        "score": part.points,
                        "reason": part.reason,
                        "assertion": part.check and check_data(part.check),
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

    def verdict(self) -> list[str]:
        """What the comparison of the prompts with the first one shows, in sentences."""
        import pandas as pd

        names = list(self.by_prompt())
        if len(names) < 2:
            return []
        cells = [
            {
                "variant": row.cell.prompt.label, "input": row.cell.number, "run_at": None, "latency_s": row.latency_s,
                "status": "answered", "passed": None if row.grade.error is not None else row.grade.passed,
            }
            for row in self.rows
        ]  # fmt: skip
        return describe(compare_variants(pd.DataFrame(cells, dtype=object), ["passed"], names[0]), names[0])

    def as_data(self) -> dict[str, Any]:
        """The results in promptfoo's format, as far as it has the same fields."""
        rows = [row.as_data() for row in self.rows]
        stats = {"successes": self.count("passed"), "failures": self.count("failed"), "errors": self.count("error")}
        results = {"version": 3, "results": rows, "stats": stats}
        return {"results": results, "metadata": {"description": self.description, **self.facts}}


def flatten(parts: Iterable[Grade]) -> list[Grade]:
    """Grades, each followed by its parts."""
    return [each for part in parts for each in (part, *flatten(part.parts))]


# The page


def html_report(results: Results) -> str:
    """The page, for light and dark and for narrow screens.

    Examples
    --------
    >>> "0 of 0 passed" in html_report(Results([]))
    True
    """
    page = jinja2.Environment(autoescape=True, finalize=_shown)
    page.globals |= {"clip": clip, "flatten": flatten, "how_incomplete": how_incomplete}
    return page.from_string(files(__package__).joinpath("results.html").read_text("utf-8")).render(
        title=results.description or "Evaluation",
        results=results,
        prompts={
            label: sorted(rows, key=lambda row: _ORDER[row.status]) for label, rows in results.by_prompt().items()
        },
    )


def _shown(value: Any) -> Any:
    """What the page shows of a value: hidden characters are written out."""
    return visible(value) if type(value) is str else value


# JUnit


@dataclass(frozen=True, slots=True)
class Case:
    """A case of a JUnit file: `text` says more than the one line of `message`."""

    name: str
    status: str  # passed, failed, error or skipped
    message: str = ""
    text: str = ""
    seconds: float | None = None


def junit(name: str, suites: Mapping[str, Sequence[Case]]) -> str:
    """A JUnit file, which continuous-integration systems show.

    Examples
    --------
    >>> print(junit("checks", {}).splitlines()[1])
    <testsuites name="checks" tests="0" failures="0" errors="0" skipped="0" />
    """
    root = ET.Element("testsuites", _counts([case for cases in suites.values() for case in cases], name))
    for label, cases in suites.items():
        suite = ET.SubElement(root, "testsuite", _counts(cases, " ".join(label.split())[:120]))
        for case in cases:
            _add_case(suite, case)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def junit_xml(results: Results) -> str:
    """A suite per prompt and a case per cell, with the reasons for failures."""
    suites = {label: [_case(row) for row in rows] for label, rows in results.by_prompt().items()}
    return junit(results.description or "agentbook eval", suites)


def _case(row: Row) -> Case:
    repeat = f" (repeat {row.cell.repeat})" if row.cell.repeat > 1 else ""
    parts = [f"{part.check.label}: {part.reason}" for part in row.grade.parts if part.check and not part.passed]
    return Case(
        f"{row.title}{repeat}",
        row.status,
        row.grade.error or row.grade.reason or "",
        "\n".join([*parts, "", "Reply:", row.reply or "none"]),
        row.latency_s,
    )


def _counts(cases: Sequence[Case], name: str) -> dict[str, str]:
    counts = {"failures": "failed", "errors": "error", "skipped": "skipped"}
    return {
        "name": _text(name),
        "tests": str(len(cases)),
        **{key: str(sum(case.status == status for case in cases)) for key, status in counts.items()},
    }


def _add_case(suite: ET.Element, case: Case) -> None:
    attributes = {"name": _text(case.name), "classname": suite.get("name", "")}
    if case.seconds is not None:
        attributes["time"] = f"{case.seconds:.3f}"
    element = ET.SubElement(suite, "testcase", attributes)
    if case.status != "passed":
        tag = "failure" if case.status == "failed" else case.status
        ET.SubElement(element, tag, {"message": _text(case.message)}).text = _text(case.text)


def _text(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)
