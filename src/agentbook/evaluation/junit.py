"""Results as JUnit XML, which continuous-integration systems show."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from .results import Results, Row

# Characters that XML 1.0 cannot contain.
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
        outcome = ET.SubElement(case, tag, {"message": _text(row.grade.error or row.grade.reason)})
        parts = [f"{part.check.label}: {part.reason}" for part in row.grade.parts if part.check and not part.passed]
        outcome.text = _text("\n".join([*parts, "", "Reply:", row.reply or "none"]))


def _text(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)
