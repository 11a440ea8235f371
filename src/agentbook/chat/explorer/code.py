"""The Python code that selects the same turns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pandas as pd

from .filters import Filters
from .source import Source

_WIDTH = 88


def selection_code(filters: Filters, source: Source, name: str, tz: str) -> str:
    """A cell that makes the frame `selection` from the variable `name`.

    Names and texts are written as Python literals, so nothing in them can be code.
    """
    expression = source.expression.format(name=name)
    conditions = list(_conditions(filters, source, tz))
    needs_time = any("asked_at" in condition or "hour_of_week" in condition for condition in conditions)
    lines = []
    if any("pd." in condition for condition in conditions):
        lines.append("import pandas as pd")
    if "ab." in expression:
        lines.append("import agentbook as ab")
    lines += [""] if lines else []
    if expression != "turns":
        lines.append(f"turns = {expression}")
    if needs_time:
        lines.append(f"asked_at = {_asked_at(source.turns)}")
    if filters.hours:
        lines.append(f"local = asked_at.dt.tz_convert({_text(tz)})")
        lines.append("hour_of_week = local.dt.day_of_week * 24 + local.dt.hour")
    if filters.outcomes:
        lines.append(f"outcome = {_outcome(source.turns)}")
    lines.append(_subscript(conditions))
    lines.append("selection")
    return "\n".join(lines) + "\n"


def _conditions(filters: Filters, source: Source, tz: str) -> Iterator[str]:
    if filters.since is not None:
        yield f"asked_at >= pd.Timestamp({_text(filters.since.isoformat())})"
    if filters.until is not None:
        yield f"asked_at < pd.Timestamp({_text(filters.until.isoformat())})"
    if filters.min_latency_s is not None:
        yield f'turns["latency_s"] >= {filters.min_latency_s!r}'
    if filters.max_latency_s is not None:
        yield f'turns["latency_s"] <= {filters.max_latency_s!r}'
    if filters.hours:
        yield f"hour_of_week.isin({_literal(filters.hours)})"
    if filters.outcomes:
        yield _one_of("outcome", filters.outcomes)
    if filters.groups and source.by is not None:
        column = f"turns[{_text(source.by)}]"
        text = column if isinstance(source.turns[source.by].dtype, pd.StringDtype) else f'{column}.astype("str")'
        yield _one_of(text, filters.groups)


def _one_of(values: str, names: Iterable[str | None]) -> str:
    names = tuple(names)
    known = [name for name in names if name is not None]
    condition = f"{values}.isin({_literal(known)})"
    if None not in names:
        return condition
    return f"{condition} | {values}.isna()" if known else f"{values}.isna()"


def _asked_at(turns: pd.DataFrame) -> str:
    return 'turns["asked_at"].fillna(turns["replied_at"])' if "replied_at" in turns else 'turns["asked_at"]'


def _outcome(turns: pd.DataFrame) -> str:
    status = 'turns["status"].astype("str")'
    return f'turns["failure"].astype("str").fillna({status})' if "failure" in turns else status


def _subscript(conditions: list[str]) -> str:
    if not conditions:
        return "selection = turns"
    if len(conditions) == 1 and len(conditions[0]) < _WIDTH - 20 and "\n" not in conditions[0]:
        return f"selection = turns[{conditions[0]}]"
    joined = "\n    & ".join(f"({condition})" for condition in conditions)
    return f"selection = turns[\n    {joined}\n]"


def _text(value: object) -> str:
    """A value as a literal, in the quotes that formatters prefer."""
    literal = repr(value)
    return f'"{literal[1:-1]}"' if literal.startswith("'") and '"' not in literal else literal


def _literal(values: Iterable[object]) -> str:
    """A list as a literal, on several lines if it is long."""
    lines = [""]
    for value in values:
        text = f"{_text(value)}, "
        if lines[-1] and len(lines[-1]) + len(text) > _WIDTH - 8:
            lines.append("")
        lines[-1] += text
    if len(lines) == 1:
        return f"[{lines[0].removesuffix(', ')}]"
    inner = "\n".join(f"        {line.rstrip()}" for line in lines)
    return f"[\n{inner}\n    ]"
