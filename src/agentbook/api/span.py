"""Spans: ``since=``, ``until=``, ``tz=`` and ``from_id=``, wherever they are taken.

`parse_span` reads the ends of a span, `parse_instant` a time, `parse_length` a length
of time. They accept what people have at hand: texts, `datetime` and its subclass
`pandas.Timestamp`, dates, `timedelta`, and NumPy's forms of these.

Ids of persisted events are times too: they are UUIDs of version 7, which sort by time,
and their first 48 bits are the millisecond of their creation. Draft events have ids of
another form, which cannot be cursors. Specification: "Resources and their fields",
Session event; "Events", rule 2.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from numbers import Number
from typing import Any
from zoneinfo import ZoneInfo

from .calls import ref
from .errors import invalid_argument

_UNITS = {
    "us": "microseconds", "microsecond": "microseconds", "ms": "milliseconds", "millisecond": "milliseconds",
    "s": "seconds", "sec": "seconds", "second": "seconds", "m": "minutes", "min": "minutes", "minute": "minutes",
    "h": "hours", "hr": "hours", "hour": "hours", "d": "days", "day": "days", "w": "weeks", "week": "weeks",
}  # fmt: skip
_PART = r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)"  # "7d", "1.5 hours"
_LENGTH = re.compile(rf"\s*(?:{_PART}\s*)+")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_V7 = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True)
class Span:
    """The time from `since` on and before `until`, in UTC; None leaves an end open."""

    since: datetime | None = None
    until: datetime | None = None

    def __bool__(self) -> bool:
        return self.since is not None or self.until is not None

    def contains(self, moments: Any) -> Any:
        """Whether a moment, or each of a `pandas.Series`, is in the span; null is not.

        True if both ends are open.
        """
        inside = True if self.since is None else moments >= self.since
        return inside if self.until is None else inside & (moments < self.until)

    def details(self) -> dict[str, str]:
        """The ends in ISO 8601, for a frame's provenance."""
        ends = {"since": self.since, "until": self.until}
        return {name: moment.isoformat() for name, moment in ends.items() if moment is not None}


def parse_span(
    since: Any,
    until: Any = None,
    tz: str | tzinfo | None = None,
    *,
    now: datetime | None = None,
    names: tuple[str, str] = ("since", "until"),
) -> Span:
    """The span of ``since=`` and ``until=``.

    Parameters
    ----------
    since, until : str, datetime, date or timedelta, optional
        Instants, such as ``"2026-10-03T09:00:00Z"``; dates, such as ``"2026-10-03"``,
        which begin at midnight in `tz`; times without a zone, on the clock of `tz`; or
        lengths of time before `now`, such as ``"30d"``. None leaves an end open.
    tz : str or tzinfo, optional
        Time zone of dates and clock times; default UTC.
    now : datetime, optional
        From when lengths of time count back; default the present. `pandas.NaT`, the
        latest of no times, leaves such an end open.
    names : tuple of str
        What messages call the two ends.

    Raises
    ------
    ValueError
        If an end is neither a time nor a length of time, `since` is not before `until`,
        or `tz` is unknown.

    Examples
    --------
    >>> parse_span("7d", now=datetime(2026, 10, 8, tzinfo=UTC)).since
    datetime.datetime(2026, 10, 1, 0, 0, tzinfo=datetime.timezone.utc)
    >>> parse_span("2026-10-08", "2026-10-01")
    Traceback (most recent call last):
    ...
    ValueError: since must be before until, and 2026-10-08 00:00 UTC is not before ...
    """
    begin, end = (_end_of_span(value, tz, now, name) for value, name in zip((since, until), names, strict=True))
    if begin is not None and end is not None and begin >= end:
        raise ValueError(
            f"{names[0]} must be before {names[1]}, and {begin:%Y-%m-%d %H:%M} UTC is not before {end:%Y-%m-%d %H:%M} UTC: "
            "swap them, or leave one out."
        )
    return Span(begin, end)


def _end_of_span(value: Any, tz: str | tzinfo | None, now: datetime | None, name: str) -> datetime | None:
    plain = _plain(value)
    if plain is None:
        return None
    if isinstance(plain, timedelta) or (isinstance(plain, str) and _LENGTH.fullmatch(plain)):
        length = parse_length(value, name)
        if now is not None and now != now:  # NaT
            return None
        try:
            return (datetime.now(UTC) if now is None else now) - length
        except (OverflowError, ValueError):
            raise ValueError(f"{name} goes back {length}, before the year 1: leave it out, or choose less.") from None
    return parse_instant(value, name, tz, alternative=", or a length of time such as '7d'")


def parse_instant(value: Any, name: str, tz: str | tzinfo | None = None, *, alternative: str = "") -> datetime:
    """A time in UTC. Dates, and times without a zone, are on the clock of `tz`.

    Of a clock time that `tz` repeats, the first is meant; one that it skips is as long
    after the change as it would have been. The default of `tz` is UTC. A `ValueError`
    calls the argument by `name` if `value` is not a time.

    Examples
    --------
    >>> print(parse_instant("2026-10-03 09:00", "since", "Europe/Berlin"))
    2026-10-03 07:00:00+00:00
    """
    original, value = value, _plain(value)
    unit = ""
    if isinstance(value, Number):
        unit = ": a number has no unit (for seconds since 1970, write datetime.fromtimestamp(..., UTC))"
    elif isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = datetime.fromisoformat(value.strip())
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        raise ValueError(
            f"{name} must be a time such as '2026-11-01T00:00:00Z'{alternative}, not {original!r:.200}{unit}."
        )
    try:
        return (value.replace(tzinfo=zone(tz or "UTC")) if value.tzinfo is None else value).astimezone(UTC)
    except (OverflowError, ValueError) as error:
        if tz is not None:
            zone(tz)  # says if it is the zone that is wrong
        raise ValueError(
            f"{name} must be in the years 1 to 9999, and {original!r:.200} is not in UTC: {error}."
        ) from None


def parse_length(value: Any, name: str) -> timedelta:
    """A length of time. A `ValueError` calls the argument by `name` if it is not one.

    Examples
    --------
    >>> parse_length("1h30min", "after")
    datetime.timedelta(seconds=5400)
    """
    original, value = value, _plain(value)
    if isinstance(value, str) and _LENGTH.fullmatch(value):
        with contextlib.suppress(OverflowError, TypeError):  # the latter for an unknown unit
            parts = re.findall(_PART, value)
            value = sum((timedelta(**{_unit(unit): float(number)}) for number, unit in parts), timedelta())
    if not isinstance(value, timedelta) or value < timedelta(0):
        is_number = isinstance(value, Number) or (isinstance(value, str) and re.fullmatch(r"\s*[+-]?[\d.]+\s*", value))
        unit = ": a number has no unit, write '7D'" if is_number else ""
        raise ValueError(f"{name} must be a length of time such as '30min' or '7D', not {original!r:.200}{unit}.")
    return value


def zone(tz: str | tzinfo) -> ZoneInfo:
    """A time zone by its IANA name, or of an object that has one.

    Raises a `ValueError` if it is not a time zone with a name, or unknown.

    Examples
    --------
    >>> zone("Europe/Berlin").key, zone(UTC).key
    ('Europe/Berlin', 'UTC')
    """
    name: Any = tz
    if isinstance(tz, tzinfo):
        name = "UTC" if tz is UTC else getattr(tz, "key", None) or getattr(tz, "zone", None)  # zoneinfo, pytz
    if not isinstance(name, str):
        raise ValueError(
            f"tz must be an IANA name such as 'Europe/Berlin' or 'UTC', or a zone that has one (zoneinfo.ZoneInfo), not {tz!r}."
        )
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"Unknown time zone {name!r}: use an IANA name such as 'Europe/Berlin' or 'UTC'.") from None


def _unit(text: str) -> str:
    """The argument of `timedelta` for a unit; "" if unknown. "M" may be a month."""
    name = "" if text in ("M", "MS") else text.lower()
    return _UNITS.get(name) or _UNITS.get(name.removesuffix("s"), "")


def _plain(value: Any) -> Any:
    """The value in the types of `datetime`; what is no time (NaT) as a text."""
    if type(value).__module__ == "numpy" and not getattr(value, "shape", True):
        kind = type(value).__name__
        if kind not in ("datetime64", "timedelta64"):
            value = value.item()
        elif value.dtype.name == kind:  # without a unit
            return 0
        else:
            value = value.astype(f"{kind}[us]").item() or "NaT"
    if isinstance(value, date | timedelta | float) and value != value:
        return "NaT"
    convert = getattr(value, "to_pytimedelta", None)
    if isinstance(value, datetime) and hasattr(value, "to_pydatetime"):
        return value.to_pydatetime(warn=False)
    return convert() if callable(convert) and isinstance(value, timedelta) else value


def is_persisted(event_id: object) -> bool:
    """Whether an id belongs to a persisted event, and so can be a cursor.

    Examples
    --------
    >>> is_persisted("0199a0b2-0000-7000-8000-000000000000"), is_persisted("draft-1")
    (True, False)
    """
    return isinstance(event_id, str) and _V7.fullmatch(event_id) is not None


def normalize(session: str) -> str:
    """The id of a session as this package writes it: a UUID in lower case."""
    return session.lower() if _UUID.fullmatch(session) else session


def milliseconds_of(event_id: str) -> int:
    """The time of a persisted id, in milliseconds since the epoch (UTC)."""
    return int(event_id.replace("-", "")[:12], 16)


def first_id_of(milliseconds: int) -> str:
    """The smallest UUIDv7 of a millisecond, counted from the epoch.

    Examples
    --------
    >>> first_id_of(1)
    '00000000-0001-7000-8000-000000000000'
    """
    clipped = min(max(milliseconds, 0), (1 << 48) - 1)
    return str(uuid.UUID(int=(clipped << 80) | (0x7 << 76) | (0b10 << 62)))


def first_id_at(moment: datetime) -> str:
    """The smallest UUIDv7 of an instant; as ``from_id``, it means "since then".

    Examples
    --------
    >>> first_id_at(datetime.fromisoformat("2026-11-01T00:00Z"))
    '01a19467-e800-7000-8000-000000000000'
    """
    return first_id_of(int(moment.timestamp() * 1000))


def last_id_before(moment: datetime) -> str:
    """The greatest UUIDv7 before the millisecond of an instant.

    Examples
    --------
    >>> last_id_before(datetime.fromisoformat("2026-11-01T00:00Z"))
    '01a19467-e7ff-7fff-bfff-ffffffffffff'
    """
    milliseconds = min(max(int(moment.timestamp() * 1000), 1), 1 << 48) - 1
    return str(uuid.UUID(int=(milliseconds << 80) | (0x7FFF << 64) | 0xBFFF_FFFF_FFFF_FFFF))


def id_span(operation: str, since: Any, until: Any = None) -> tuple[str | None, str | None]:
    """The id after which a span begins, and the greatest one in it; None for an end.

    Raises
    ------
    InvalidInput
        If an end is not a time; the message names `operation`.
    """
    try:
        span = parse_span(since, until)
    except ValueError as error:
        raise invalid_argument(operation, str(error)) from None
    begin = None if span.since is None else first_id_at(span.since)
    return begin, None if span.until is None else last_id_before(span.until)


def check_cursor(from_id: Any, operation: str = "sessions.events") -> str | None:
    """`from_id`, or the id of the event that it is, if it can be a cursor.

    Raises
    ------
    InvalidInput
        If it is not the id of a persisted event; the message names `operation`.

    Examples
    --------
    >>> check_cursor("0199a0b2-0000-7000-8000-000000000000")
    '0199a0b2-0000-7000-8000-000000000000'
    >>> check_cursor("draft-5-t1")
    Traceback (most recent call last):
    ...
    agentbook.api.errors.InvalidInput: sessions.events: from_id must be the id ...
    """
    if isinstance(from_id, Mapping | uuid.UUID):
        from_id = ref(from_id)
    if from_id is None or (isinstance(from_id, str) and _UUID.fullmatch(from_id)):
        return from_id
    raise invalid_argument(
        operation,
        f"from_id must be the id of a persisted event, not {from_id!r:.80}: ids of drafts are not cursors. Pass "
        "the id of an event of the list, the last_id of a stream, or since= with a time.",
    )
