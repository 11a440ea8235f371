"""Periods of local time: hours, days, weeks and longer.

Periods up to an hour follow changes of the UTC offset: a repeated hour is two periods,
and a change within a period starts a new one. Longer periods start at local midnights,
or at multiples of their length since the start of 1970.
"""

from __future__ import annotations

import re
from datetime import tzinfo
from typing import Any

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset

from ...api.span import zone

QUARTER = pd.Timedelta(minutes=15)  # all present UTC offsets are multiples of it
_FIRST_YEAR = pd.Timestamp("0001-01-01")
HOUR = pd.Timedelta(hours=1)
DAY = pd.Timedelta(days=1)  # no change of the UTC offset is larger
MAX_PERIODS = 1_000_000
_CALENDAR = re.compile(r"\d*[WMQY]")
# pandas' names for offsets that start or end a calendar period.
_PERIODS = {"MS": "M", "ME": "M", "QS": "Q", "QE": "Q", "YS": "Y", "YE": "Y"}


def zone_in(tz: str | tzinfo | None, frame: pd.DataFrame) -> str:
    """The IANA name of `tz`; without one, of the zone of the frame's history, else UTC.

    Examples
    --------
    >>> zone_in(None, pd.DataFrame())
    'UTC'
    """
    return zone(frame.attrs.get("agentbook", {}).get("tz") or "UTC" if tz is None else tz).key


def local_text(moment: Any, tz: str, format: str = "%Y-%m-%d %H:%M") -> str:
    """A time on the clock of a zone, with the zone's name.

    A time that the zone would put outside the years 1 to 9999 is shown in UTC.

    Examples
    --------
    >>> local_text(pd.Timestamp("2026-10-03T22:30Z"), "Europe/Berlin")
    '2026-10-04 00:30 Europe/Berlin'
    """
    moment = pd.Timestamp(moment)
    try:
        local = moment.tz_convert(zone(tz))
        return f"{local:{format}} {tz}"
    except (OverflowError, ValueError):
        return f"{moment.tz_convert('UTC'):{format}} UTC"


def period_starts(moments: pd.Series, freq: str, tz: str) -> pd.Series:
    """The start of the period of each moment, in `tz`; null stays null.

    Examples
    --------
    >>> moments = pd.Series(pd.to_datetime(["2026-10-03T22:30:00Z"]))
    >>> str(period_starts(moments, "1D", "Europe/Berlin")[0])
    '2026-10-04 00:00:00+02:00'
    """
    return _period_starts(moments, _step(freq), tz)


def _period_starts(moments: pd.Series, step: pd.Timedelta | str, tz: str) -> pd.Series:
    local = moments.dt.tz_convert(zone(tz))
    try:
        naive = local.dt.tz_localize(None)
        is_in_years = not naive.min() < _FIRST_YEAR  # which is false of NaT
    except OverflowError:
        is_in_years = False
    if not is_in_years:
        raise ValueError(
            f"Times from {moments.min()} to {moments.max()} are not all within the years 1 to 9999 in {tz!r}: use "
            "tz='UTC', or leave out the ends with since= and until=."
        )
    if isinstance(step, pd.Timedelta):
        floored = naive.dt.floor(step)
        if step <= HOUR:
            starts: pd.Series = local - (naive - floored)
            return _at_offset_changes(starts.astype(local.dtype), local, floored)
    else:
        floored = naive.dt.to_period(step).dt.start_time
    return localize(pd.DatetimeIndex(floored), tz).to_series(index=moments.index)


def period_range(first: Any, last: Any, freq: str, tz: str) -> pd.DatetimeIndex:
    """The starts of all periods from the one at `first` to the one at `last`."""
    step = _step(freq)
    if isinstance(step, pd.Timedelta) and step <= HOUR:
        _check_count(first, last, step, freq)
        return _short_periods(first, last, step, tz)
    begin, end = first.tz_localize(None), last.tz_localize(None)
    if isinstance(step, pd.Timedelta):
        _check_count(begin, end, step, freq)
        return _long_periods(begin, end, step, tz)
    return localize(pd.DatetimeIndex(pd.period_range(begin, end, freq=step).start_time), tz)


def next_period(start: Any, freq: str, tz: str) -> Any:
    """The start of the period after the one at `start`."""
    step, naive = _step(freq), start.tz_localize(None)
    if isinstance(step, pd.Timedelta):
        if step > HOUR:
            return _long_periods(naive, naive + 2 * step + DAY, step, tz)[1]
        return _short_periods(start, start + step + HOUR, step, tz)[1]
    return localize(pd.DatetimeIndex([(pd.Period(naive, freq=step) + 1).start_time]), tz)[0]


def _step(freq: str) -> pd.Timedelta | str:
    """The fixed length of a period, or the name of a calendar period."""
    unknown = ValueError(
        f"{freq!r} is not a period: use one such as '15min', '1h', '1D', 'W' (Monday to Sunday), 'M', 'Q' or 'Y'."
    )
    try:
        offset: Any = to_offset(freq)
        # pandas 3.0 cannot convert a Day to a Timedelta.
        length: Any = pd.Timedelta(days=offset.n) if isinstance(offset, pd.offsets.Day) else pd.Timedelta(offset)
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


def _at_offset_changes(starts: pd.Series, local: pd.Series, floored: pd.Series) -> pd.Series:
    """The starts, moved to the change of the UTC offset if one has occurred since."""
    crossed = (starts.dt.tz_localize(None) != floored) & starts.notna()
    if crossed.any():
        seconds = local[crossed].dt.tz_convert("UTC").dt.floor("s").dt.tz_convert(local.dt.tz)
        pairs = list(zip(starts[crossed], seconds, strict=True))
        changes = {pair: _offset_change(*pair) for pair in dict.fromkeys(pairs)}
        moved = pd.Series([changes[pair] for pair in pairs], starts.index[crossed], dtype=starts.dtype)
        starts = starts.where(~crossed, moved.reindex(starts.index))
    return starts


def _offset_change(low: pd.Timestamp, high: pd.Timestamp) -> pd.Timestamp:
    """The second after `low` from which the UTC offset is that of `high`."""
    while high - low > pd.Timedelta(seconds=1):
        middle = low + ((high - low) / 2).floor("s")
        low, high = (middle, high) if middle.utcoffset() != high.utcoffset() else (low, middle)
    return high


def _short_periods(first: Any, last: Any, step: pd.Timedelta, tz: str) -> pd.DatetimeIndex:
    """The starts of periods up to an hour."""
    regular = pd.date_range(first, last, freq=step)
    if (_period_starts(regular.to_series(), step, tz) == regular).all():
        return regular
    # The UTC offset changes in between, by an amount that is not a multiple of the
    # step.
    finer = pd.date_range(first, last, freq=min(step, QUARTER))
    return pd.DatetimeIndex(_period_starts(finer.to_series(), step, tz)).unique()


def _long_periods(begin: Any, end: Any, step: pd.Timedelta, tz: str) -> pd.DatetimeIndex:
    """The starts of periods longer than an hour, between two local times."""
    # If a change of the UTC offset skips the start of a period, the period starts
    # later.
    starts = localize(pd.date_range(begin.floor(step), end, freq=step), tz).unique()
    # If it skips whole periods, as when Samoa skipped a day, they do not exist.
    return starts[(_period_starts(starts.to_series(), step, tz) == starts).to_numpy()]


def _check_count(begin: Any, end: Any, step: pd.Timedelta, freq: str) -> None:
    # Centuries have too many nanoseconds to divide, and pandas 3.0 rounds 1 ns to 0 s.
    count = (end - begin).total_seconds() / max(step.total_seconds(), 1e-9)
    if count > MAX_PERIODS:
        raise ValueError(
            f"These events span {count:,.0f} periods of {freq!r}, from {begin:%Y-%m-%d} to {end:%Y-%m-%d}: choose a "
            "longer period, a span with since= and until=, or fill=False."
        )


def localize(naive: pd.DatetimeIndex, tz: str) -> pd.DatetimeIndex:
    """Midnights in a time zone.

    A repeated midnight means the first one; a skipped one, the end of the skipped time.
    """
    first = np.ones(len(naive), np.bool_)
    return naive.tz_localize(zone(tz), ambiguous=first, nonexistent="shift_forward").as_unit("us")
