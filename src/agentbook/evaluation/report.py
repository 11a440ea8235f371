"""Results as one HTML page without scripts: failures first and open."""

from __future__ import annotations

import html
from collections.abc import Iterable
from importlib.resources import files
from string import Template

from .._text import visible
from ..events.turns import how_incomplete
from .grade import Grade
from .results import Results, Row, flatten

_ORDER = {"error": 0, "failed": 1, "passed": 2}
_WORDS = {"error": "Error", "failed": "Failed", "passed": "Passed"}


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
        _part("Why", grade.error or grade.reason) if row.status != "passed" else "",
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
