# ruff: noqa: E501 - a sentence of a reply is one line
"""Numbers as an answer: a sentence with the result, a table, and a footnote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ....engines.run_limits import RUN_FAILURES
from .periods import WEEKDAYS, Period
from .question import EXAMPLES, MEASURES, TIME_DIMENSIONS, Question

Row = Mapping[str, Any]
_MAX_ROWS = 40


def sort_rows(question: Question, rows: Iterable[Row]) -> list[Row]:
    """The rows to show: times in chronological order, everything else by size.

    Rows without a label are omitted, and the rest is limited to the question's `top`.
    """
    labelled = [row for row in rows if row["label"] not in {None, ""}]
    labelled.sort(key=lambda row: _chronological(str(row["label"])))
    if question.order is not None or question.dimension not in TIME_DIMENSIONS:
        labelled.sort(key=lambda row: value(question, row), reverse=question.order != "least")
    return labelled[: question.top] if question.top else labelled


def _chronological(label: str) -> tuple[int, str]:
    return (WEEKDAYS.index(label.lower()) if label.lower() in WEEKDAYS else -1, label)


def value(question: Question, row: Row) -> float:
    """The number in a row that the question asks for."""
    if question.measure == "latency":
        return float(row["median"] or 0.0)
    if question.measure == "failure_rate":
        return 100.0 * int(row["failed"]) / int(row["n"]) if row["n"] else 0.0
    return float(row["n"] or 0)


def with_unit(question: Question, number: float) -> str:
    """A number with its unit."""
    if question.measure == "latency":
        return f"{number:.1f} s"
    return f"{number:.1f} %" if question.measure == "failure_rate" else f"{round(number):,}"


def one_number(question: Question, total: Row, earlier: tuple[Period, Row] | None) -> str:
    """The answer to a question without a dimension.

    `earlier` is the previous period and its total.
    """
    number, noun = value(question, total), MEASURES[question.measure].noun
    when, amount = _when(question.period), with_unit(question, number)
    if question.measure == "latency":
        if not total["n"]:
            return f"No message was answered {when}, so there is no waiting time to tell."
        text = f"The median waiting time {when} was **{amount}** over {total['n']:,} answered messages; 95 % were answered within {float(total['p95']):.1f} s."
    elif question.measure == "failure_rate":
        text = f"**{amount}** of turns failed {when}: {int(total['failed']):,} of {int(total['n']):,}."
    else:
        text = f"**{amount} {_inflect(noun, number)}** {when}."
    if earlier is not None:
        period, before = earlier[0], value(question, earlier[1])
        text += (
            f" In {period.label} ({period}) it was {with_unit(question, before)}{_change(question, number, before)}."
        )
    return text


def breakdown(question: Question, rows: Sequence[Row], total: Row, title: str) -> str:
    """The answer to a question with a dimension; its column is called `title`."""
    noun, total_value = MEASURES[question.measure].noun, value(question, total)
    when = _when(question.period)
    if not rows:
        return f"There are no {noun} {when}."
    if question.order or question.dimension not in TIME_DIMENSIONS:
        number = value(question, rows[0])
        verb = "comes last" if question.order == "least" else "leads"
        lead = f"**{_label(question, rows[0])}** {verb} with {with_unit(question, number)}"
        lead += "" if _is_ratio(question) else f" {_inflect(noun, number)}"
        lead += f" {when}"
    else:
        lead = f"{noun.capitalize()} by {title} {when}"
    overall = with_unit(question, total_value)
    overall = f"over everything it is {overall}" if _is_ratio(question) else f"{overall} in all"
    return f"{lead}; {overall}.\n\n{_table(question, rows, total_value, title)}"


def _is_ratio(question: Question) -> bool:
    """Whether the groups' numbers do not add up to the total."""
    return question.measure in {"latency", "failure_rate"}


def _table(question: Question, rows: Sequence[Row], total: float, title: str) -> str:
    head, cells = [title, MEASURES[question.measure].noun, "share"], _share_cells
    if question.measure == "latency":
        head, cells = [title, "median", "95 % within", "answered"], _latency_cells
    elif question.measure == "failure_rate":
        head, cells = [title, "failure rate", "failed", "turns"], _failure_cells
    text = markdown_table(head, [[_label(question, row), *cells(row, total)] for row in rows[:_MAX_ROWS]])
    return text + (f"\n\n({len(rows) - _MAX_ROWS} more rows.)" if len(rows) > _MAX_ROWS else "")


def _latency_cells(row: Row, total: float) -> list[str]:
    return [f"{float(row['median']):.1f} s", f"{float(row['p95']):.1f} s", f"{int(row['n']):,}"]


def _failure_cells(row: Row, total: float) -> list[str]:
    rate = 100.0 * int(row["failed"]) / int(row["n"]) if row["n"] else 0.0
    return [f"{rate:.1f} %", f"{int(row['failed']):,}", f"{int(row['n']):,}"]


def _share_cells(row: Row, total: float) -> list[str]:
    return [f"{int(row['n']):,}", f"{100 * int(row['n']) / total:.1f} %" if total else ""]


def comparison(
    question: Question, rows: tuple[Sequence[Row], Sequence[Row]], totals: tuple[Row, Row], title: str
) -> str:
    """Two periods side by side, and what changed most.

    `rows` and `totals` are those of the question's period and of the one to compare
    with.
    """
    noun, period, against = MEASURES[question.measure].noun, question.period, question.against or Period()
    now, then = (value(question, total) for total in totals)
    lead = f"**{with_unit(question, now)}** {_inflect(noun, now)} {_when(period)} against **{with_unit(question, then)}** {_when(against)}{_change(question, now, then)}."
    by_label: dict[str, list[float | None]] = {}
    # A group without sessions has a count of 0, but no waiting time.
    absent = None if _is_ratio(question) else 0.0
    for side, side_rows in enumerate(rows):
        for row in side_rows:
            if row["label"] not in {None, ""}:
                by_label.setdefault(_label(question, row), [absent, absent])[side] = value(question, row)
    groups = sorted(by_label.items(), key=lambda group: -_distance(*group[1]))
    if not groups:
        return lead
    label, (after, before) = groups[0]
    if after is not None and before is not None:
        lead += (
            f" What changed most is **{label}**: {with_unit(question, after)} against {with_unit(question, before)}."
        )
    head = [title, f"{period.label} ({period})", f"{against.label} ({against})", "change"]
    body = [
        [label, _or_dash(question, after), _or_dash(question, before), _signed(question, after, before)]
        for label, (after, before) in groups[:_MAX_ROWS]
    ]
    return f"{lead}\n\n{markdown_table(head, body)}"


def _distance(a: float | None, b: float | None) -> float:
    return -1.0 if a is None or b is None else abs(a - b)


def _or_dash(question: Question, number: float | None) -> str:
    return "–" if number is None else with_unit(question, number)


def _signed(question: Question, after: float | None, before: float | None) -> str:
    if after is None or before is None:
        return "–"
    return f"{after - before:+,.1f}" if _is_ratio(question) else f"{round(after - before):+,}"


def turns(question: Question, rows: Sequence[Row]) -> str:
    """Single turns, the slowest or fastest first."""
    if not rows:
        return f"No message was answered {_when(question.period)}."
    extreme, first = "fastest" if question.order == "least" else "slowest", rows[0]
    lead = f"The {extreme} answer {_when(question.period)} took **{float(first['seconds']):.1f} s** ({first['agent']} in {first['workspace']})."
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
    """What was counted, when and where."""
    where = f"the workspace {question.workspace}"
    if not question.workspace:
        where = f"workspaces of {account} that are open to the whole organization"
    parts = [f"Counted: {MEASURES[question.measure].counted}", f"in {where}"]
    if question.agent:
        parts.append(f"of the agent {question.agent}")
    if question.session_type:
        parts.append(f"in sessions of type `{question.session_type}`")
    is_unfinished = question.period.end is not None and question.period.end > now
    so_far = f", so far: the history reaches to {now:%Y-%m-%d %H:%M}" if is_unfinished else ""
    return f"*{', '.join(parts)}. Period: {question.period} (UTC){so_far}.*"


def not_understood() -> str:
    """The reply to a question that the agent does not understand: what it can count."""
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
    match question.dimension:
        case "hour":
            return f"{label}:00"
        case "week":
            return f"week of {label}"
        case "kind" if label == "error":
            return "other errors"
        case "kind" if label in RUN_FAILURES:
            return RUN_FAILURES[label].message.replace("WORKSPACE", "<SCOPE>").replace("{name}", "…")
    return label


def _when(period: Period) -> str:
    """How a sentence names a period, with its dates unless the name has them."""
    if str(period) in period.label or period.start is period.end is None:
        return period.label
    return f"{period.label} ({period})"


def _inflect(noun: str, number: float) -> str:
    """A noun in the singular or plural."""
    if round(number) != 1:
        return noun
    return {"replies": "reply", "agents": "agent"}.get(noun, noun.removesuffix("s"))


def _change(question: Question, now: float, then: float) -> str:
    if not then:
        return ""
    if question.measure == "failure_rate":
        return f" ({now - then:+.1f} points since)"
    percent = 100 * (now - then) / then
    return f" ({percent:+.0f} %)" if round(percent) else " (no change)"
