"""The selection in words, as the browser sends it, and as Python code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ...frames.analysis.activity import WEEKDAYS
from ...frames.plot.style import join_names
from ..html.durations import seconds
from ..html.sanitize import visible
from .columns import HOURS

NO_VALUE = "(unknown)"
DIMENSIONS = ("time", "latency", "hours", "outcomes", "groups")
_FIELDS = {
    "time": ("since", "until"),
    "latency": ("min_latency_s", "max_latency_s"),
    "hours": ("hours",),
    "outcomes": ("outcomes",),
    "groups": ("groups",),
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
    """

    since: pd.Timestamp | None = None
    until: pd.Timestamp | None = None
    min_latency_s: float | None = None
    max_latency_s: float | None = None
    hours: tuple[int, ...] = ()
    outcomes: tuple[str | None, ...] = ()
    groups: tuple[str | None, ...] = ()

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
    if not all(0 <= hour < HOURS for hour in hours):
        raise ValueError(f"Hours of the week are 0 to {HOURS - 1}.")
    return Filters(since, until, low, high, hours, _at(outcomes, data, "outcomes"), _at(groups, data, "groups"))


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
    begin = "" if since is None else clock(since, tz)
    end = "" if until is None else clock(until, tz)
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
