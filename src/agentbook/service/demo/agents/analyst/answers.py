# ruff: noqa: E501 - sentences and patterns read better whole
"""Numbers as an answer: a sentence that says the result, a table, and a line that says what was counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ....engines.run_limits import RUN_FAILURES
from .periods import WEEKDAYS, Period
from .question import EXAMPLES, MEASURES, TIME_DIMENSIONS, Question

Row = Mapping[str, Any]
_MOST_ROWS = 40


def ordered(question: Question, rows: Iterable[Row]) -> list[Row]:
    """Rows in the order in which they are shown: time in its order, everything else by size; cut to the top."""
    found = [row for row in rows if row["label"] not in {None, ""}]
    chronological = question.order is None and question.dimension in TIME_DIMENSIONS
    found.sort(key=lambda row: _place_in_time(str(row["label"])))
    if not chronological:
        found.sort(key=lambda row: value(question, row), reverse=question.order != "least")
    return found[: question.top] if question.top else found


def _place_in_time(label: str) -> tuple[int, str]:
    return (WEEKDAYS.index(label.lower()) if label.lower() in WEEKDAYS else -1, label)


def value(question: Question, row: Row) -> float:
    """The number of a row that the question is about."""
    if question.measure == "latency":
        return float(row["median"] or 0.0)
    if question.measure == "failure_rate":
        return 100.0 * int(row["failed"]) / int(row["n"]) if row["n"] else 0.0
    return float(row["n"] or 0)


def shown(question: Question, number: float) -> str:
    """A number with its unit."""
    if question.measure == "latency":
        return f"{number:.1f} s"
    return f"{number:.1f} %" if question.measure == "failure_rate" else f"{round(number):,}"


def one_number(question: Question, total: Row, earlier: tuple[Period, Row] | None) -> str:
    """The answer to a question without a breakdown."""
    number, noun = value(question, total), MEASURES[question.measure].noun
    if question.measure == "latency":
        if not total["n"]:
            return f"No message was answered {_when(question.period)}, so there is no waiting time to tell."
        text = f"The median waiting time {_when(question.period)} was **{shown(question, number)}** over {total['n']:,} answered messages; 95 % were answered within {float(total['p95']):.1f} s."
    elif question.measure == "failure_rate":
        text = f"**{shown(question, number)}** of turns failed {_when(question.period)}: {int(total['failed']):,} of {int(total['n']):,}."
    else:
        text = f"**{shown(question, number)} {_counted(noun, number)}** {_when(question.period)}."
    if earlier is not None:
        text += f" In {earlier[0].label} ({earlier[0]}) it was {shown(question, value(question, earlier[1]))}{_change(question, number, value(question, earlier[1]))}."
    return text


def breakdown(question: Question, rows: Sequence[Row], total: Row, title: str) -> str:
    """The answer to a question with a dimension."""
    noun, of_all = MEASURES[question.measure].noun, value(question, total)
    if not rows:
        return f"There are no {noun} {_when(question.period)}."
    first = rows[0]
    if question.order or question.dimension not in TIME_DIMENSIONS:
        lead = f"**{_label(question, first)}** {'comes last' if question.order == 'least' else 'leads'} with {shown(question, value(question, first))}"
        lead += "" if question.measure in {"latency", "failure_rate"} else f" {_counted(noun, value(question, first))}"
        lead += f" {_when(question.period)}"
    else:
        lead = f"{noun.capitalize()} by {title} {_when(question.period)}"
    lead += f"; {_overall(question, of_all)}."
    return f"{lead}\n\n{_table(question, rows, of_all, title)}"


def _overall(question: Question, of_all: float) -> str:
    if question.measure in {"latency", "failure_rate"}:
        return f"over everything it is {shown(question, of_all)}"
    return f"{shown(question, of_all)} in all"


def _table(question: Question, rows: Sequence[Row], of_all: float, title: str) -> str:
    cells = rows[:_MOST_ROWS]
    if question.measure == "latency":
        head, body = (
            [title, "median", "95 % within", "answered"],
            [
                [
                    _label(question, row),
                    f"{float(row['median']):.1f} s",
                    f"{float(row['p95']):.1f} s",
                    f"{int(row['n']):,}",
                ]
                for row in cells
            ],
        )
    elif question.measure == "failure_rate":
        head, body = (
            [title, "failure rate", "failed", "turns"],
            [
                [
                    _label(question, row),
                    shown(question, value(question, row)),
                    f"{int(row['failed']):,}",
                    f"{int(row['n']):,}",
                ]
                for row in cells
            ],
        )
    else:
        head, body = (
            [title, MEASURES[question.measure].noun, "share"],
            [
                [_label(question, row), f"{int(row['n']):,}", f"{100 * int(row['n']) / of_all:.1f} %" if of_all else ""]
                for row in cells
            ],
        )
    text = markdown_table(head, body)
    return text + (f"\n\n({len(rows) - _MOST_ROWS} more rows.)" if len(rows) > _MOST_ROWS else "")


def comparison(
    question: Question, rows: tuple[Sequence[Row], Sequence[Row]], totals: tuple[Row, Row], title: str
) -> str:
    """Two periods side by side, and what changed most."""
    noun, against = MEASURES[question.measure].noun, question.against or Period()
    now, then = (value(question, total) for total in totals)
    lead = f"**{shown(question, now)}** {_counted(noun, now)} {_when(question.period)} against **{shown(question, then)}** {_when(against)}{_change(question, now, then)}."
    by_label: dict[str, list[float | None]] = {}
    # No sessions is a count of nought, but no waiting time at all.
    absent = None if question.measure in {"latency", "failure_rate"} else 0.0
    for side, found in enumerate(rows):
        for row in found:
            if row["label"] not in {None, ""}:
                by_label.setdefault(_label(question, row), [absent, absent])[side] = value(question, row)
    body = sorted(by_label.items(), key=lambda item: -_distance(*item[1]))
    if not body:
        return lead
    label, (after, before) = body[0]
    if after is not None and before is not None:
        lead += f" What changed most is **{label}**: {shown(question, after)} against {shown(question, before)}."
    head = [title, f"{question.period.label} ({question.period})", f"{against.label} ({against})", "change"]
    lines = [
        [name, _side(question, a), _side(question, b), _signed(question, a, b)] for name, (a, b) in body[:_MOST_ROWS]
    ]
    return f"{lead}\n\n{markdown_table(head, lines)}"


def _distance(a: float | None, b: float | None) -> float:
    return -1.0 if a is None or b is None else abs(a - b)


def _side(question: Question, number: float | None) -> str:
    return "–" if number is None else shown(question, number)


def _signed(question: Question, a: float | None, b: float | None) -> str:
    if a is None or b is None:
        return "–"
    return f"{a - b:+,.1f}" if question.measure in {"latency", "failure_rate"} else f"{round(a - b):+,}"


def turns(question: Question, rows: Sequence[Row]) -> str:
    """Single turns, slowest (or fastest) first."""
    if not rows:
        return f"No message was answered {_when(question.period)}."
    word = "fastest" if question.order == "least" else "slowest"
    lead = f"The {word} answer {_when(question.period)} took **{float(rows[0]['seconds']):.1f} s** ({rows[0]['agent']} in {rows[0]['workspace']})."
    body = [
        [
            f"{float(row['seconds']):.1f} s",
            str(row["at"])[:19].replace("T", " "),
            str(row["agent"]),
            str(row["workspace"]),
            f"`{row['session_id']}`",
        ]
        for row in rows
    ]
    return f"{lead}\n\n{markdown_table(['waited', 'asked at (UTC)', 'agent', 'workspace', 'session'], body)}"


def footnote(question: Question, account: str, now: datetime) -> str:
    """What was counted, when and where, so that nobody has to guess."""
    where = (
        f"workspaces of {account} that are open to the whole organization"
        if not question.workspace
        else f"the workspace {question.workspace}"
    )
    parts = [f"Counted: {MEASURES[question.measure].counted}", f"in {where}"]
    if question.agent:
        parts.append(f"of the agent {question.agent}")
    if question.session_type:
        parts.append(f"in sessions of type `{question.session_type}`")
    unfinished = question.period.end is not None and question.period.end > now
    so_far = f", so far: the history reaches to {now:%Y-%m-%d %H:%M}" if unfinished else ""
    return f"*{', '.join(parts)}. Period: {question.period} (UTC){so_far}.*"


def not_understood() -> str:
    """What the agent says when it does not understand: what it can count."""
    nouns = ", ".join(dict.fromkeys(measure.noun for measure in MEASURES.values()))
    examples = "\n".join(f"- {example}" for example in EXAMPLES)
    return (
        f"I did not find anything in that which I can count. I count {nouns}; by agent, workspace, person or key, session type, "
        f"hour, weekday, day, week or month; in any period; in one workspace or of one agent. For example:\n\n{examples}"
    )


def markdown_table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A Markdown table. The first column is text, the others are numbers."""
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    lines += [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in body]
    return "\n".join(lines)


def _label(question: Question, row: Row) -> str:
    label = str(row["label"])
    if question.dimension == "hour":
        return f"{label}:00"
    if question.dimension == "week":
        return f"week of {label}"
    if question.dimension == "kind" and label == "error":
        return "other errors"
    if question.dimension == "kind":
        return (
            label
            if label not in RUN_FAILURES
            else RUN_FAILURES[label].message.replace("WORKSPACE", "<SCOPE>").replace("{name}", "…")
        )
    return label


def _when(period: Period) -> str:
    return (
        period.label
        if str(period) in period.label or period.start is period.end is None
        else f"{period.label} ({period})"
    )


def _counted(noun: str, number: float) -> str:
    if round(number) != 1:
        return noun
    return {"replies": "reply", "agents": "agent"}.get(noun, noun.removesuffix("s"))


def _change(question: Question, now: float, then: float) -> str:
    if not then:
        return ""
    if question.measure == "failure_rate":
        return f" ({now - then:+.1f} points since)"
    return f" ({100 * (now - then) / then:+.0f} %)" if round(100 * (now - then) / then) else " (no change)"
