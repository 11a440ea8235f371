"""Results as one HTML page without scripts, and as JUnit XML.

The page has failures first and open. Continuous-integration systems show the XML.
"""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from importlib.resources import files
from string import Template

from .._text import visible
from ..events.turns import how_incomplete
from .grade import Grade
from .results import Results, Row, flatten

_ORDER = {"error": 0, "failed": 1, "passed": 2}
_WORDS = {"error": "Error", "failed": "Failed", "passed": "Passed"}


# Characters that XML 1.0 cannot contain.
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def html_report(results: Results) -> str:
    """The page, for light and dark and for narrow screens.

    Examples
    --------
    >>> "0 of 0 passed" in html_report(Results([]))
    True
    """
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in results.facts.items())
    return Template(files(__package__).joinpath("report.html").read_text("utf-8")).substitute(
        title=escape(results.description or "Evaluation"),
        state="failed" if results.failures else "passed",
        passed=results.count("passed"),
        total=len(results.rows),
        failed=results.count("failed"),
        errors=results.count("error"),
        facts=facts,
        prompts="".join(_prompt(label, rows) for label, rows in results.by_prompt().items()),
    )


def escape(text: str) -> str:
    """A text as HTML that shows it literally."""
    return html.escape(visible(text))


def _prompt(label: str, rows: list[Row]) -> str:
    passed = sum(row.status == "passed" for row in rows)
    name = " ".join(label.split())
    ordered = sorted(rows, key=lambda row: _ORDER[row.status])
    heading = f"<h2>{escape(name if len(name) <= 200 else name[:199] + '…')}</h2>"
    return f"<section>{heading}<p>{passed} of {len(rows)} passed</p>{''.join(map(_row, ordered))}</section>"


def _row(row: Row) -> str:
    grade = row.grade
    is_open = " open" if row.status != "passed" else ""
    repeat = f" (repeat {row.cell.repeat})" if row.cell.repeat > 1 else ""
    finish = how_incomplete(row.finish_reason)
    latency = "" if row.latency_s is None else f" · {row.latency_s:.2f} s"
    parts = [
        _part("Why", grade.error or grade.reason or "") if row.status != "passed" else "",
        f"<h3>Asserts</h3><ul>{''.join(_asserts(grade.parts))}</ul>" if grade.parts else "",
        _part("Reply" if finish is None else f"Reply ({finish})", row.reply or "none"),
        _part("Prompt", row.message),
    ]
    return (
        f"<details{is_open}><summary><b class='{row.status}'>{_WORDS[row.status]}</b>"
        f"<span class='name'>{escape(row.title + repeat)}</span>"
        f"<span class='score'>{grade.score:.2f}{latency}</span></summary><div class='body'>{''.join(parts)}</div></details>"
    )


def _asserts(parts: Iterable[Grade]) -> Iterable[str]:
    for part in flatten(parts):
        if part.check is not None:
            word = "passed" if part.passed else "failed"
            reason = f" – {escape(part.reason)}" if part.reason else ""
            yield f"<li><span class='{word}'>{word}</span> {escape(part.check.label)} ({part.points:.2f}){reason}</li>"


def _part(title: str, text: str) -> str:
    return f"<h3>{escape(title)}</h3><pre>{escape(text)}</pre>"


# JUnit


def junit_xml(results: Results) -> str:
    """A suite per prompt and a case per cell, with the reasons for failures.

    Examples
    --------
    >>> print(junit_xml(Results([])).splitlines()[1])
    <testsuites name="agentbook eval" tests="0" failures="0" errors="0" />
    """
    root = ET.Element("testsuites", _counts(list(results.rows), results.description or "agentbook eval"))
    for label, rows in results.by_prompt().items():
        suite = ET.SubElement(root, "testsuite", _counts(rows, " ".join(label.split())[:120]))
        for row in rows:
            _add_case(suite, row)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _counts(rows: list[Row], name: str) -> dict[str, str]:
    return {
        "name": _text(name),
        "tests": str(len(rows)),
        "failures": str(sum(row.status == "failed" for row in rows)),
        "errors": str(sum(row.status == "error" for row in rows)),
    }


def _add_case(suite: ET.Element, row: Row) -> None:
    repeat = f" (repeat {row.cell.repeat})" if row.cell.repeat > 1 else ""
    attributes = {"name": _text(f"{row.title}{repeat}"), "classname": suite.get("name", "")}
    if row.latency_s is not None:
        attributes["time"] = f"{row.latency_s:.3f}"
    case = ET.SubElement(suite, "testcase", attributes)
    if row.status != "passed":
        tag = "error" if row.status == "error" else "failure"
        outcome = ET.SubElement(case, tag, {"message": _text(row.grade.error or row.grade.reason or "")})
        parts = [f"{part.check.label}: {part.reason}" for part in row.grade.parts if part.check and not part.passed]
        outcome.text = _text("\n".join([*parts, "", "Reply:", row.reply or "none"]))


def _text(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)
