"""Periods of local time: which hour, day or week an instant falls into, and which periods lie between two.

Periods up to an hour follow the clock through a change of the offset (the hour that is lived twice is two periods, and one
that a change cuts into begins there); longer ones begin at local midnights, or at multiples of their length from the midnight
that began 1970.
"""

from __future__ import annotations

import re
from datetime import UTC, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset

QUARTER = pd.Timedelta(minutes=15)  # all offsets of today are multiples of it
HOUR = pd.Timedelta(hours=1)
DAY = pd.Timedelta(days=1)  # no change of the offset is larger
MOST_PERIODS = 1_000_000
# What pandas calls the offsets that begin or end a calendar period.
_CALENDAR = re.compile(r"\d*[WMQY]")
_PERIODS = {"MS": "M", "ME": "M", "QS": "Q", "QE": "Q", "YS": "Y", "YE": "Y"}


def zone_name(tz: str | tzinfo) -> str:
    """The IANA name of a time zone that is given by its name or as an object; a `ValueError` says what is none.

    Examples
    --------
    >>> zone_name(ZoneInfo("Europe/Berlin"))
    'Europe/Berlin'
    """
    name = tz if isinstance(tz, str) else _name_of(tz)
    if name is None:
        raise ValueError(
            f"tz must be an IANA name such as 'Europe/Berlin' or 'UTC', or a zone that has one (zoneinfo.ZoneInfo), not {tz!r}."
        )
    return zone(name).key


def _name_of(tz: object) -> str | None:
    if tz is UTC:
        return "UTC"
    name = getattr(tz, "key", None) or getattr(tz, "zone", None)  # of zoneinfo and of pytz
    return name if isinstance(name, str) and isinstance(tz, tzinfo) else None


def zone(tz: str) -> ZoneInfo:
    """The time zone of that IANA name, or a `ValueError` that says so."""
    try:
        return ZoneInfo(tz)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"There is no time zone {tz!r}: use an IANA name such as 'Europe/Berlin' or 'UTC'.") from None


def begins(instants: pd.Series, freq: str, tz: str) -> pd.Series:
    """The beginning of the period each instant falls into, in `tz`; null stays null.

    Examples
    --------
    >>> one = pd.Series(pd.to_datetime(["2026-10-03T22:30:00Z"]))
    >>> str(begins(one, "1D", "Europe/Berlin")[0])
    '2026-10-04 00:00:00+02:00'
    """
    return _begins(instants, _step(freq), tz)


def _begins(instants: pd.Series, step: pd.Timedelta | str, tz: str) -> pd.Series:
    local = instants.dt.tz_convert(zone(tz))
    naive = local.dt.tz_localize(None)
    if isinstance(step, pd.Timedelta):
        floored = naive.dt.floor(step)
        if step <= HOUR:
            began: pd.Series = local - (naive - floored)
            return _after_changes(began.astype(local.dtype), local, floored)
    else:
        floored = naive.dt.to_period(step).dt.start_time
    return _localize(pd.DatetimeIndex(floored), tz).to_series(index=instants.index)


def between(first: Any, last: Any, freq: str, tz: str) -> pd.DatetimeIndex:
    """The beginnings of all periods from the one that begins at `first` to the one that begins at `last`."""
    step = _step(freq)
    if isinstance(step, pd.Timedelta) and step <= HOUR:
        _check((last - first) / step, freq)
        return _steps(first, last, step, tz)
    begin, end = first.tz_localize(None), last.tz_localize(None)
    if isinstance(step, pd.Timedelta):
        _check((end - begin) / step, freq)
        return _multiples(begin, end, step, tz)
    return _localize(pd.DatetimeIndex(pd.period_range(begin, end, freq=step).start_time), tz)


def following(begin: Any, freq: str, tz: str) -> Any:
    """The beginning of the period after the one that begins at `begin`."""
    step, naive = _step(freq), begin.tz_localize(None)
    if isinstance(step, pd.Timedelta):
        if step > HOUR:
            return _multiples(naive, naive + 2 * step + DAY, step, tz)[1]
        return _steps(begin, begin + step + HOUR, step, tz)[1]
    return _localize(pd.DatetimeIndex([(pd.Period(naive, freq=step) + 1).start_time]), tz)[0]


def _step(freq: str) -> pd.Timedelta | str:
    """A fixed length, or the name of a calendar period."""
    unknown = ValueError(
        f"{freq!r} is no period: use one such as '15min', '1h', '1D', 'W' (Monday to Sunday), 'M', 'Q' or 'Y'."
    )
    try:
        offset: Any = to_offset(freq)
        length: Any = pd.Timedelta(offset)
    except (ValueError, TypeError):
        length = pd.NaT
    if isinstance(length, pd.Timedelta):
        if length <= pd.Timedelta(0):
            raise unknown
        return length
    try:
        period: Any = pd.Period("2026-01-01", freq=_PERIODS.get(freq, freq)) if _CALENDAR.match(str(freq)) else None
    except (ValueError, TypeError, AttributeError):
        period = None
    if period is None or period.freq.n != 1:
        raise unknown
    name: str = period.freqstr
    return name


def _after_changes(began: pd.Series, local: pd.Series, floored: pd.Series) -> pd.Series:
    """Where the offset changed since a period began, the period that began with the change instead."""
    crossed = (began.dt.tz_localize(None) != floored) & began.notna()
    if crossed.any():
        seconds = local[crossed].dt.tz_convert("UTC").dt.floor("s").dt.tz_convert(local.dt.tz)
        pairs = list(zip(began[crossed], seconds, strict=True))
        changes = {pair: _change_between(*pair) for pair in dict.fromkeys(pairs)}
        found = [changes[pair] for pair in pairs]
        began = began.where(~crossed, pd.Series(found, began.index[crossed], dtype=began.dtype).reindex(began.index))
    return began


def _change_between(low: pd.Timestamp, high: pd.Timestamp) -> pd.Timestamp:
    """The instant, to the second, from which the offset is that of `high`, which it is not at `low` yet."""
    while high - low > pd.Timedelta(seconds=1):
        middle = low + ((high - low) / 2).floor("s")
        low, high = (middle, high) if middle.utcoffset() != high.utcoffset() else (low, middle)
    return high


def _steps(first: Any, last: Any, step: pd.Timedelta, tz: str) -> pd.DatetimeIndex:
    """The beginnings of periods up to an hour."""
    plain = pd.date_range(first, last, freq=step)
    if (_begins(plain.to_series(), step, tz) == plain).all():
        return plain
    # A change of the offset lies between that is no multiple of the step.
    finer = pd.date_range(first, last, freq=min(step, QUARTER))
    return pd.DatetimeIndex(_begins(finer.to_series(), step, tz)).unique()


def _multiples(begin: Any, end: Any, step: pd.Timedelta, tz: str) -> pd.DatetimeIndex:
    """The beginnings of periods longer than an hour, between two times of the local clock."""
    # Where a change skips the beginning of a period, that period begins later than the clock is counted from.
    found = _localize(pd.date_range(begin.floor(step), end, freq=step), tz).unique()
    # Where it skips whole periods (a day, once, in Samoa), nothing begins.
    return found[(_begins(found.to_series(), step, tz) == found).to_numpy()]


def _check(count: float, freq: str) -> None:
    if count > MOST_PERIODS:
        raise ValueError(f"These events span {count:,.0f} periods of {freq!r}: choose a longer period, or fill=False.")


def _localize(naive: pd.DatetimeIndex, tz: str) -> pd.DatetimeIndex:
    # A midnight that is lived twice means the first; one that is skipped, the instant the clocks jump to.
    twice = np.ones(len(naive), np.bool_)
    return naive.tz_localize(zone(tz), ambiguous=twice, nonexistent="shift_forward").as_unit("us")
