# ruff: noqa: E501 - a pattern is one line
"""Periods of time as people name them, in UTC.

A period is half open: it includes `start` and excludes `end`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

DAY = timedelta(days=1)
MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december")  # fmt: skip
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_UNITS = {"hour": timedelta(hours=1), "day": DAY, "week": 7 * DAY, "month": 30 * DAY}
_NUMBERS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "ten": 10, "twelve": 12, "fourteen": 14, "thirty": 30}  # fmt: skip


class NoSuchDate(ValueError):
    """A question names a date that does not exist; the message is for the reader."""


@dataclass(frozen=True, slots=True)
class Period:
    """A period. A bound of None is open. `label` is what the question calls it."""

    start: datetime | None = None
    end: datetime | None = None
    label: str = "over the whole history"

    def before(self) -> Period | None:
        """The period of the same length just before; None if this one is open."""
        if self.start is None or self.end is None:
            return None
        return Period(self.start - (self.end - self.start), self.start, f"the {self._length()} before")

    def _length(self) -> str:
        if self.start is None or self.end is None:
            return "time"
        length = self.end - self.start
        for name, unit in (("week", 7 * DAY), ("day", DAY)):
            if length == unit:
                return name
        return f"{length // DAY} days" if length >= DAY else f"{length // timedelta(hours=1)} hours"

    def __str__(self) -> str:
        if self.start is None and self.end is None:
            return "the whole history"
        if self.start is None or self.end is None:
            return f"since {_format(self.start)}" if self.start else f"before {_format(self.end)}"
        last = self.end - timedelta(microseconds=1)
        if self.start.time() != time() or self.end.time() != time():
            return f"{self.start:%Y-%m-%d %H:%M} to {self.end:%Y-%m-%d %H:%M}"
        first_day, last_day = f"{self.start:%Y-%m-%d}", f"{last:%Y-%m-%d}"
        return first_day if first_day == last_day else f"{first_day} to {last_day}"


def _format(moment: datetime | None) -> str:
    if moment is None:
        return "ever"
    return f"{moment:%Y-%m-%d}" if moment.time() == time() else f"{moment:%Y-%m-%d %H:%M}"


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _days(first: date, count: int, label: str) -> Period:
    return Period(_midnight(first), _midnight(first) + count * DAY, label)


def _month(year: int, month: int, label: str) -> Period:
    next_month = (year + month // 12, month % 12 + 1)
    return Period(datetime(year, month, 1, tzinfo=UTC), datetime(*next_month, 1, tzinfo=UTC), label)


_MONTH = "|".join(f"{name}|{name[:3]}" for name in MONTHS)
_WEEKDAY = "|".join(WEEKDAYS)
_DATE = rf"\d{{4}}-\d{{1,2}}-\d{{1,2}}|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?(?:{_MONTH})\b(?:,? \d{{4}})?|(?:{_MONTH}) \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}})?"
_POINT = rf"{_DATE}|(?:last )?(?:{_WEEKDAY})|yesterday|today|(?:{_MONTH})\b(?: \d{{4}})?|last week|last month"


def _month_number(text: str) -> int:
    return next(number for number, name in enumerate(MONTHS, 1) if text.startswith(name[:3]))


def _point(text: str, now: datetime) -> Period:
    """The day, week or month that a text names."""
    text = text.strip()
    if match := re.fullmatch(r"(\d{4})-(\d{1,2})-(\d{1,2})", text):
        return _day(int(match[1]), int(match[2]), int(match[3]), text)
    if match := re.fullmatch(
        rf"(?:(\d{{1,2}})(?:st|nd|rd|th)? (?:of )?({_MONTH})|({_MONTH}) (\d{{1,2}})(?:st|nd|rd|th)?)(?:,? (\d{{4}}))?",
        text,
    ):
        day, month = int(match[1] or match[4]), _month_number(match[2] or match[3])
        if match[5]:
            return _day(int(match[5]), month, day, text)
        this_year = _day(now.year, month, day, text)
        is_past = this_year.start is not None and this_year.start <= now
        return this_year if is_past else _day(now.year - 1, month, day, text)
    if match := re.fullmatch(rf"(?:last )?({_WEEKDAY})", text):
        days_ago = (now.weekday() - WEEKDAYS.index(match[1])) % 7 or (7 if text.startswith("last") else 0)
        return _days(now.date() - days_ago * DAY, 1, text)
    if match := re.fullmatch(rf"({_MONTH})(?: (\d{{4}}))?", text):
        month = _month_number(match[1])
        year = int(match[2]) if match[2] else now.year - (month > now.month)
        if not 1 <= year <= 9998:
            raise NoSuchDate(f"“{text}” is not a month I can look up.")
        return _month(year, month, f"in {MONTHS[month - 1].title()} {year}")
    return _NAMED[text](now)


def _day(year: int, month: int, day: int, text: str) -> Period:
    try:
        return _days(date(year, month, day), 1, f"on {date(year, month, day):%Y-%m-%d}")
    except (ValueError, OverflowError):
        raise NoSuchDate(f"“{text}” is not a date in the calendar.") from None


def _this_week(now: datetime) -> date:
    return now.date() - now.weekday() * DAY


def _last_month(now: datetime) -> Period:
    last = now.replace(day=1) - DAY
    return _month(last.year, last.month, "last month")


_NAMED: dict[str, Callable[[datetime], Period]] = {
    "today": lambda now: _days(now.date(), 1, "today"),
    "yesterday": lambda now: _days(now.date() - DAY, 1, "yesterday"),
    "this week": lambda now: _days(_this_week(now), 7, "this week"),
    "last week": lambda now: _days(_this_week(now) - 7 * DAY, 7, "last week"),
    "this month": lambda now: _month(now.year, now.month, "this month"),
    "last month": lambda now: _last_month(now),
    "this year": lambda now: Period(datetime(now.year, 1, 1, tzinfo=UTC), datetime(now.year + 1, 1, 1, tzinfo=UTC), "this year"),
}  # fmt: skip


def _last_units(match: re.Match[str], now: datetime) -> Period:
    count = _NUMBERS.get(match[1] or "") or int(match[1] or 1)
    if not 1 <= count <= 5000:
        raise NoSuchDate(f"“{match[0]}” is further than I can look.")
    unit = match[2].removesuffix("s")
    label = f"in the last {count} {unit}s" if count > 1 else f"in the last {unit}"
    if unit == "hour":
        return Period(now - count * _UNITS[unit], now + timedelta(microseconds=1), label)
    # Whole days, including today.
    days = count * _UNITS[unit] // DAY
    return _days(now.date() - (days - 1) * DAY, days, label)


def _between(match: re.Match[str], now: datetime) -> Period:
    first, last = _point(match[1], now), _point(match[2], now)
    if first.start is None or last.end is None or last.end <= first.start:
        raise NoSuchDate(f"“{match[0]}” ends before it begins.")
    return Period(first.start, last.end, f"from {_format(first.start)} to {_format(last.end - DAY)}")


def _since(match: re.Match[str], now: datetime) -> Period:
    start = _point(match[1], now).start
    return Period(start, None, f"since {_format(start)}")


def _after(match: re.Match[str], now: datetime) -> Period:
    end = _point(match[1], now).end
    return Period(end, None, f"since {_format(end)}")


def _until(match: re.Match[str], now: datetime) -> Period:
    start = _point(match[1], now).start
    return Period(None, start, f"before {_format(start)}")


# The pattern that matches earliest in the text wins; among equals, the first.
_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], datetime], Period]], ...] = (
    (re.compile(rf"\b(?:between|from) ({_POINT}) (?:and|to|until|till) ({_POINT})"), _between),
    (re.compile(rf"\bsince ({_POINT})"), _since),
    (re.compile(rf"\bafter ({_POINT})"), _after),
    (re.compile(rf"\b(?:before|until|till) ({_POINT})"), _until),
    (re.compile(rf"\b(?:in |over |during |for )?(?:the )?(?:last|past|previous) (?:(\d{{1,6}}|{'|'.join(_NUMBERS)}) )?(hours?|days|weeks|months|day)\b"), _last_units),
    (re.compile(r"\b(?:in |during |of |for )?(?:the )?(this week|last week|this month|last month|this year|today|yesterday)\b"), lambda match, now: _NAMED[match[1]](now)),
    (re.compile(r"\b(?:in |during |of |for )?(?:the )?(?:(previous|current) (week|month))\b"), lambda match, now: _NAMED[f"{'last' if match[1] == 'previous' else 'this'} {match[2]}"](now)),
    (re.compile(rf"\b(?:on |for )?({_DATE})"), lambda match, now: _point(match[1], now)),
    (re.compile(rf"\b(?:on |last )((?:last )?(?:{_WEEKDAY}))\b"), lambda match, now: _point(match[0].removeprefix("on "), now)),
    (re.compile(rf"\b(?:in|during|of|for|this|last) ((?:{_MONTH})\b(?: \d{{4}}\b)?)"), lambda match, now: _point(match[1], now)),
)  # fmt: skip


def find_periods(text: str, now: datetime) -> tuple[list[Period], str]:
    """The periods that a lower-case text names, in order, and the text without them.

    Raises
    ------
    NoSuchDate
        The text names a date that does not exist.

    Examples
    --------
    >>> now = datetime(2026, 11, 20, 15, tzinfo=UTC)
    >>> periods, rest = find_periods("messages by agent last week", now)
    >>> str(periods[0]), rest
    ('2026-11-09 to 2026-11-15', 'messages by agent ')
    """
    periods: list[Period] = []
    while True:
        matches = [(match, read) for pattern, read in _PATTERNS if (match := pattern.search(text)) is not None]
        if not matches:
            return periods, text
        match, read = min(matches, key=lambda pair: pair[0].start())
        periods.append(read(match, now))
        text = f"{text[: match.start()]} {text[match.end() :]}".replace("  ", " ")
