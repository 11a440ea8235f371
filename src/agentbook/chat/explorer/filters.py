"""The selection in words, as the browser sends it, and as Python code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..._text import seconds
from ...frames.analysis.activity import WEEKDAYS
from ...frames.parse.schemas import STR
from ...frames.plot.style import join_names
from ..html.sanitize import visible
from .columns import HOURS
from .source import Source

NO_VALUE = "(unknown)"
_WIDTH = 88  # of code
MAX_SEARCH = 200  # characters that are searched for
DIMENSIONS = ("time", "latency", "hours", "outcomes", "groups", "text")
_FIELDS = {
    "time": ("since", "until"),
    "latency": ("min_latency_s", "max_latency_s"),
    "hours": ("hours",),
    "outcomes": ("outcomes",),
    "groups": ("groups",),
    "text": ("text",),
}


@dataclass(frozen=True, slots=True)
class Filters:
    """Which turns are selected; every condition has to hold.

    Attributes
    ----------
    since, until : Timestamp or None
        From `since` on, and before `until`, in whole milliseconds.
    min_latency_s, max_latency_s : float or None
        Seconds, both ends included.
    hours : tuple of int
        Hours of the week, 0 for Monday from midnight to 01:00; empty for all.
    outcomes, groups : tuple of str or None
        Names; None stands for turns without one; empty for all.
    text : str or None
        Words that the question and the reply have between them.
    """

    since: pd.Timestamp | None = None
    until: pd.Timestamp | None = None
    min_latency_s: float | None = None
    max_latency_s: float | None = None
    hours: tuple[int, ...] = ()
    outcomes: tuple[str | None, ...] = ()
    groups: tuple[str | None, ...] = ()
    text: str | None = None

    def __post_init__(self) -> None:
        low, high = self.min_latency_s, self.max_latency_s
        if low is not None and high is not None and low > high:
            raise ValueError(f"min_latency_s must not be above max_latency_s: {low:g} > {high:g}.")
        if any(hour not in range(HOURS) for hour in self.hours):
            raise ValueError(f"hours are hours of the week, 0 to {HOURS - 1}, not {self.hours}.")

    @property
    def active(self) -> list[str]:
        """The dimensions that are filtered."""
        return [name for name in DIMENSIONS if any(value not in (None, ()) for value in self.values(name))]

    def values(self, dimension: str) -> tuple[Any, ...]:
        """The values of one dimension's fields."""
        return tuple(getattr(self, field) for field in _FIELDS[dimension])

    def describe(self, by: str | None, tz: str) -> list[tuple[str, str]]:
        """Each filtered dimension and what it is narrowed to, in words."""
        words = {
            "time": lambda: f"asked {_span(self.since, self.until, tz)}",
            "latency": lambda: f"latency {_range(self.min_latency_s, self.max_latency_s)}",
            "hours": lambda: _hours(self.hours),
            "outcomes": lambda: f"outcome {_names(self.outcomes)}",
            "groups": lambda: f"{by or 'group'} {_names(self.groups)}",
            "text": lambda: f"with “{visible(self.text or '')}”",
        }
        return [(name, words[name]()) for name in self.active]


def parse_filters(data: Mapping[str, Any], outcomes: Sequence[str | None], groups: Sequence[str | None]) -> Filters:
    """The filters of a browser's message, in which names are positions.

    Ends are rounded so that code can state them: times to the second (to the
    millisecond in a short span), latencies to three digits.

    Raises
    ------
    ValueError, TypeError, LookupError
        If the message is malformed.
    """
    begin, end = data.get("begin"), data.get("end")
    unit = "ms" if begin is not None and end is not None and end - begin < 120_000 else "s"
    since, until = (
        None if ms is None else pd.Timestamp(int(ms), unit="ms", tz="UTC").round(unit) for ms in (begin, end)
    )
    low, high = (
        None if value is None else float(f"{float(value):.3g}") for value in (data.get("low"), data.get("high"))
    )
    hours = tuple(sorted({int(hour) for hour in data.get("hours", ())}))
    names = _at(outcomes, data, "outcomes"), _at(groups, data, "groups")
    return Filters(since, until, low, high, hours, *names, search_text(data.get("text")))


def search_text(text: Any) -> str | None:
    """What is searched for, with single spaces; None for nothing.

    Raises
    ------
    TypeError
        If it is not a text.

    Examples
    --------
    >>> search_text("  late  parcel "), search_text(" ")
    ('late parcel', None)
    """
    if text is not None and not isinstance(text, str):
        raise TypeError(f"text= is the words to search for, not {text!r:.80}.")
    return " ".join((text or "").split())[:MAX_SEARCH] or None


def has_words(turns: pd.DataFrame, text: str) -> pd.Series:
    """Which turns have each word in their question or their reply, in any case.

    Examples
    --------
    >>> turns = pd.DataFrame({"prompt": ["Where is my parcel?", None], "reply": "LATE"})
    >>> has_words(turns, "late parcel").to_list()
    [True, False]
    """
    found = pd.Series(True, turns.index)
    for word in text.split():
        either = pd.Series(False, turns.index)
        for name in _texts_in(turns):
            either |= turns[name].astype(STR).str.contains(word, case=False, regex=False, na=False).to_numpy(bool)
        found &= either
    return found


def _texts_in(turns: pd.DataFrame) -> list[str]:
    return [name for name in ("prompt", "reply") if name in turns]


def _at(names: Sequence[str | None], data: Mapping[str, Any], key: str) -> tuple[str | None, ...]:
    codes = sorted({int(code) for code in data.get(key, ())})
    if codes and codes[0] < 0:
        raise ValueError(f"A position in {key} is 0 or more, not {codes[0]}.")
    return tuple(names[code] for code in codes)


def filters_message(filters: Filters, outcomes: Sequence[str | None], groups: Sequence[str | None]) -> dict[str, Any]:
    """The filters as the browser knows them."""
    return {
        "begin": None if filters.since is None else round(filters.since.timestamp() * 1000),
        "end": None if filters.until is None else round(filters.until.timestamp() * 1000),
        "low": filters.min_latency_s,
        "high": filters.max_latency_s,
        "hours": list(filters.hours),
        "outcomes": [outcomes.index(name) for name in filters.outcomes if name in outcomes],
        "groups": [groups.index(name) for name in filters.groups if name in groups],
        "text": filters.text or "",
    }


def label(name: str | None) -> str:
    """A group's or an outcome's name as shown."""
    return NO_VALUE if name is None else visible(name)


def clock(moment: pd.Timestamp, tz: str) -> str:
    """A moment in local time, such as ``2026-09-21 14:03``."""
    local = moment.tz_convert(tz)
    return minute(local) + (f":{local.second:02}" if local.second else "")


def minute(local: pd.Timestamp) -> str:
    """A local time to the minute; strftime cannot handle years after 9999.

    Examples
    --------
    >>> minute(pd.Timestamp("2026-09-21T14:03:07"))
    '2026-09-21 14:03'
    """
    return f"{local.year:04}-{local.month:02}-{local.day:02} {local.hour:02}:{local.minute:02}"


def _span(since: pd.Timestamp | None, until: pd.Timestamp | None, tz: str) -> str:
    begin, end = ("" if moment is None else clock(moment, tz) for moment in (since, until))
    if not begin or not end:
        return f"from {begin}" if begin else f"before {end}"
    return f"{begin} to {end.removeprefix(begin[:11]) if end.startswith(begin[:11]) else end}"


def _range(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return f"{duration(low)} or more" if low is not None else f"up to {duration(high or 0.0)}"
    return f"{duration(low)} to {duration(high)}"


def duration(value: float) -> str:
    """A latency for people: ``40 ms``, ``5.4 s``, ``2 min 5 s``."""
    if value >= 600:
        return f"{value / 60:.0f} min"
    return f"{value * 1000:.0f} ms" if 0 < value < 0.0995 else seconds(value)


def _hours(hours: tuple[int, ...]) -> str:
    if len(hours) > 2:
        days = {hour // 24 for hour in hours}
        whole = len(days) == 1 and len(hours) == 24
        return WEEKDAYS[hours[0] // 24] if whole else f"{len(hours)} hours of the week"
    return " and ".join(f"{WEEKDAYS[hour // 24]} {hour % 24:02}:00" for hour in hours)


def _names(names: Iterable[str | None]) -> str:
    return join_names([label(name) for name in names])


# As Python code


def selection_code(filters: Filters, source: Source, name: str, tz: str) -> str:
    """A cell that makes the frame `selection` from the variable `name`.

    Names and texts are written as Python literals, so nothing in them can be code.
    """
    expression = source.expression.format(name=name)
    conditions = list(_conditions(filters, source))
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


def _conditions(filters: Filters, source: Source) -> Iterator[str]:
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
    for word in (filters.text or "").split():
        found = [
            f'turns["{name}"].str.contains({_text(word)}, case=False, regex=False, na=False)'
            for name in _texts_in(source.turns)
        ]
        yield "\n        | ".join(found) or "pd.Series(False, turns.index)"


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
