"""Periods of local time: which hour, day or week an instant falls into, and which periods lie between two.

Periods up to an hour follow the clock through a change of the offset (the hour that is lived twice is two periods);
longer ones begin at local midnights or multiples of their length from there.
"""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset

HOUR = pd.Timedelta(hours=1)
MOST_PERIODS = 1_000_000
# What pandas calls the offsets that begin or end a calendar period.
_PERIODS = {"MS": "M", "ME": "M", "QS": "Q", "QE": "Q", "YS": "Y", "YE": "Y"}


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
    step, local = _step(freq), instants.dt.tz_convert(zone(tz))
    naive = local.dt.tz_localize(None)
    if isinstance(step, pd.Timedelta):
        floored = naive.dt.floor(step)
        if step <= HOUR:
            began: pd.Series = local - (naive - floored)
            return began.astype(local.dtype)
    else:
        floored = naive.dt.to_period(step).dt.start_time
    return _localize(pd.DatetimeIndex(floored), tz).to_series(index=instants.index)


def between(first: Any, last: Any, freq: str, tz: str) -> pd.DatetimeIndex:
    """The beginnings of all periods from the one that begins at `first` to the one that begins at `last`."""
    step = _step(freq)
    if isinstance(step, pd.Timedelta) and step <= HOUR:
        _check((last - first) / step, freq)
        return pd.date_range(first, last, freq=step)
    begin, end = first.tz_localize(None), last.tz_localize(None)
    if isinstance(step, pd.Timedelta):
        _check((end - begin) / step, freq)
        return _localize(pd.date_range(begin, end, freq=step), tz)
    return _localize(pd.DatetimeIndex(pd.period_range(begin, end, freq=step).start_time), tz)


def following(begin: Any, freq: str, tz: str) -> Any:
    """The beginning of the period after the one that begins at `begin`."""
    step, naive = _step(freq), begin.tz_localize(None)
    if isinstance(step, pd.Timedelta):
        return begin + step if step <= HOUR else _localize(pd.DatetimeIndex([naive + step]), tz)[0]
    return _localize(pd.DatetimeIndex([(pd.Period(naive, freq=step) + 1).start_time]), tz)[0]


def _step(freq: str) -> pd.Timedelta | str:
    """A fixed length, or the name of a calendar period."""
    try:
        offset: Any = to_offset(freq)
        return pd.Timedelta(offset)
    except (ValueError, TypeError):
        pass
    try:
        period: Any = pd.Period("2026-01-01", freq=_PERIODS.get(freq, freq))
    except (ValueError, TypeError, AttributeError):
        period = None
    if period is None or period.freq.n != 1:
        raise ValueError(
            f"{freq!r} is no period: use one such as '15min', '1h', '1D', 'W' (Monday to Sunday), 'M', 'Q' or 'Y'."
        )
    name: str = period.freqstr
    return name


def _check(count: float, freq: str) -> None:
    if count > MOST_PERIODS:
        raise ValueError(f"These events span {count:,.0f} periods of {freq!r}: choose a longer period, or fill=False.")


def _localize(naive: pd.DatetimeIndex, tz: str) -> pd.DatetimeIndex:
    # A midnight that is lived twice means the first; one that is skipped, the instant the clocks jump to.
    twice = np.ones(len(naive), np.bool_)
    return naive.tz_localize(zone(tz), ambiguous=twice, nonexistent="shift_forward").as_unit("us")
