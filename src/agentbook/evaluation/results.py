"""The results of a lab file: a row per question, as JSON, a page and JUnit XML.

The HTML page has no scripts, and failures first and open. Continuous-integration
systems show the XML.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import jinja2

from .._text import clip, visible
from ..events.turns import how_incomplete
from .experiment import Answer, pending
from .model import Grade
from .statistics import VERDICTS, describe

if TYPE_CHECKING:
    import pandas as pd

    from .lab import Lab
    from .run import Plan

_ORDER = {"error": 0, "failed": 1, "passed": 2}
_NOT_SENT = "The question was not sent."
_OF_ANSWER = ("reply", "latency_s", "cost", "session_id", "version", "model", "tokens", "finish_reason")

# Characters that XML 1.0 cannot contain.
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def status_of(answer: Answer, checks: Sequence[str]) -> str:
    """passed, failed, or error: there is no reply, or a check could not decide."""
    if answer.status != "answered":
        return "error"
    passed = answer.passed(checks)
    is_open = passed is None and any(pending(answer.verdicts.get(name)) for name in checks)
    return "error" if is_open else "failed" if passed is False else "passed"


@dataclass(frozen=True, slots=True)
class Row:
    """One question: its reply and its grades.

    Attributes
    ----------
    answer : Answer
    checks : sequence of str
        Names of the checks.
    """

    answer: Answer
    checks: Sequence[str] = ()

    @property
    def title(self) -> str:
        """What people call the question."""
        repeat = f" (repeat {self.answer.repeat})" if self.answer.repeat > 1 else ""
        return f"{clip(' '.join(self.answer.input.split()), 160)}{repeat}"

    @property
    def status(self) -> str:
        """passed, failed or error."""
        return status_of(self.answer, self.checks)

    @property
    def reply(self) -> str | None:
        """The reply; None if there is none."""
        return self.answer.reply

    @property
    def grades(self) -> dict[str, Grade]:
        """The grades of the checks that apply, by name."""
        found = {name: self.answer.verdicts.get(name, Grade.undecided(_NOT_SENT)) for name in self.checks}
        return {name: grade for name, grade in found.items() if grade.passed is not None or grade.error is not None}

    @property
    def reason(self) -> str:
        """Why it did not pass; empty if it did."""
        if self.answer.status != "answered":
            return self.answer.reason or _NOT_SENT
        bad = ((name, each) for name, each in self.grades.items() if not each.passed)
        return "; ".join(
            f"{name}: {each.error or each.reason}" if each.error or each.reason else name for name, each in bad
        )

    def as_data(self) -> dict[str, Any]:
        """The row as plain data, ready for JSON."""
        answer = self.answer
        return {
            **{"variant": answer.variant, "input": answer.input, "repeat": answer.repeat, "message": answer.question},
            **{"values": dict(answer.row), "status": self.status, "reason": self.reason or None},
            **{name: getattr(answer, name) for name in _OF_ANSWER},
            "turns": [{"message": turn.prompt, "reply": turn.text} for turn in answer.turns],
            "checks": {name: grade.as_data() for name, grade in self.grades.items()},
        }


@dataclass(frozen=True, slots=True)
class Results:
    """The rows of an evaluation, variant by variant.

    Attributes
    ----------
    rows : sequence of Row
    title : str
    facts : mapping of str to str
        The agent, the judges and the like.
    baseline : str or None
        The variant with which the others are compared.
    comparison : DataFrame or None
        As `PromptLab.compare_variants`; None with one variant.
    is_worse : bool
        Whether a variant passes less often than the baseline, beyond noise.
    """

    rows: Sequence[Row]
    title: str = "Evaluation"
    facts: Mapping[str, str] = field(default_factory=dict)
    baseline: str | None = None
    comparison: pd.DataFrame | None = None
    is_worse: bool = False

    @classmethod
    def of(cls, lab: Lab, plan: Plan, against: str | None = None) -> Results:
        """The results of a lab's run."""
        checks, answers = list(lab.all_checks), lab.answers_by_key
        rows = [Row(answers.get(key) or Answer(*key, status="stopped"), checks) for key in plan.keys]
        baseline, comparison, is_worse = against or next(iter(lab.variants)), None, False
        if len(lab.variants) > 1:
            comparison = lab.compare_variants(baseline)
            if checks:
                passed = lab.compare_variants(baseline, metrics="passed")
                is_worse = bool((passed["verdict"] == VERDICTS[1]).any())
        judges = {grade.judge for row in rows for grade in row.grades.values() if grade.judge}
        known = {**lab.place, "judge": "; ".join(sorted(judges)) or None, "run": lab.run_id}
        facts = {name: each for name, each in known.items() if each is not None}
        return cls(rows, lab.path.stem if lab.path else "Evaluation", facts, baseline, comparison, is_worse)

    def count(self, status: str) -> int:
        """The number of rows with this status."""
        return sum(row.status == status for row in self.rows)

    @property
    def pass_rate(self) -> float:
        """The share of rows that passed; errors count as failed. 1 without rows."""
        return self.count("passed") / len(self.rows) if self.rows else 1.0

    @property
    def failures(self) -> list[Row]:
        """The rows that failed or could not be graded."""
        return [row for row in self.rows if row.status != "passed"]

    def by_variant(self) -> dict[str, list[Row]]:
        """The rows of each variant, by its name."""
        groups: dict[str, list[Row]] = {}
        for row in self.rows:
            groups.setdefault(row.answer.variant, []).append(row)
        return groups

    def verdict(self) -> list[str]:
        """What the comparison of the variants shows, in sentences."""
        return [] if self.comparison is None else describe(self.comparison, str(self.baseline))

    def as_data(self) -> dict[str, Any]:
        """The results as plain data, ready for JSON."""
        comparison = [] if self.comparison is None else json.loads(self.comparison.to_json(orient="records"))
        counts = {status: self.count(status) for status in _ORDER}
        return {
            **self.facts,
            **{"title": self.title, "pass_rate": self.pass_rate, **counts, "verdict": self.verdict()},
            **{"baseline": self.baseline, "comparison": comparison, "results": [row.as_data() for row in self.rows]},
        }


# The page


def html_report(results: Results) -> str:
    """The page, for light and dark and for narrow screens.

    Examples
    --------
    >>> "0 of 0 passed" in html_report(Results([]))
    True
    """
    page = jinja2.Environment(autoescape=True, finalize=_shown)
    page.globals |= {"clip": clip, "how_incomplete": how_incomplete}
    return page.from_string(files(__package__).joinpath("results.html").read_text("utf-8")).render(
        results=results,
        variants={
            label: sorted(rows, key=lambda row: _ORDER[row.status]) for label, rows in results.by_variant().items()
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
    """A suite per variant and a case per question, with the reasons for failures."""
    return junit(results.title, {label: list(map(_case, rows)) for label, rows in results.by_variant().items()})


def _case(row: Row) -> Case:
    return Case(
        row.title, row.status, row.reason, f"{row.reason}\n\nReply:\n{row.reply or 'none'}", row.answer.latency_s
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
