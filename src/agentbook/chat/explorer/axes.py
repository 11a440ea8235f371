"""The axes of latency over time: which cell of the plane each turn falls into."""

from __future__ import annotations

from calendar import month_abbr
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...api.span import zone
from ...frames.analysis.arguments import localize
from .columns import NO_TIME, Floats, Integers, TurnColumns, local_times

MAX_PERIODS = 96
BANDS = 32  # of latency; with MAX_PERIODS, at most some three thousand cells
MAX_TICKS = 9
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_YEAR = 365 * _DAY
_MONDAY = 4 * _DAY  # 1970 began on a Thursday
_LENGTHS = (
    *(n * _SECOND for n in (1, 5, 15, 30)),
    *(n * _MINUTE for n in (1, 5, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28, 56, 112, 365)),
)
_LATENCIES = (0.001, 0.01, 0.1, 0.3, 1, 3, 10, 30, 60, 180, 600, 1800, 3600, 4 * 3600, 86_400)


@dataclass(frozen=True, slots=True)
class Axes:
    """Periods of equal length, and bands of latency on a logarithmic scale.

    Attributes
    ----------
    begin_ms, length_ms, periods
        The periods: the start of the first, the length of each, and their number.
    low_s, high_s : float
        The ends of the latencies, above 0.
    """

    begin_ms: int
    length_ms: int
    periods: int
    low_s: float
    high_s: float
    tz: str

    def period_of(self, at_ms: Integers) -> Integers:
        """The period of each moment; -1 without one."""
        return np.where(at_ms == NO_TIME, -1, (at_ms - self.begin_ms) // self.length_ms)

    def band_of(self, latency_s: Floats) -> Integers:
        """The band of each latency; -1 without one."""
        known = ~np.isnan(latency_s)
        low, high = np.log10(self.low_s), np.log10(self.high_s)
        share = (np.log10(np.maximum(np.where(known, latency_s, 1.0), self.low_s)) - low) / (high - low)
        return np.where(known, np.clip((share * BANDS).astype(np.int64), 0, BANDS - 1), -1)

    def message(self) -> dict[str, Any]:
        """The axes as the browser draws them."""
        return {
            "begin": self.begin_ms,
            "length": self.length_ms,
            "periods": self.periods,
            "low": self.low_s,
            "high": self.high_s,
            "bands": BANDS,
            "period": period_name(self.length_ms),
            "tz": self.tz,
            "time_ticks": self._time_ticks(),
            "latency_ticks": [[at, latency_name(at)] for at in _LATENCIES if self.low_s <= at <= self.high_s],
        }

    def _time_ticks(self) -> list[tuple[int, str]]:
        all_ms = self.length_ms * self.periods
        step = next((ms for ms in _LENGTHS if all_ms / ms <= MAX_TICKS), -(-all_ms // (MAX_TICKS * _YEAR)) * _YEAR)
        begin, end = local_times(np.array([self.begin_ms, self.begin_ms + all_ms]), self.tz)
        if step < _DAY:
            first = pd.Timestamp(_floor(self.begin_ms, step, _offset_ms(begin)), unit="ms", tz="UTC")
            ticks = pd.date_range(first, end.tz_convert("UTC"), freq=pd.Timedelta(step, "ms")).tz_convert(zone(self.tz))
        else:
            # Not with `date_range`: pandas 3.0 cannot step by centuries.
            days = np.arange(np.datetime64(begin.date()), np.datetime64(end.date()) + 1, step // _DAY)
            ticks = localize(pd.DatetimeIndex(days.astype("datetime64[ms]")), self.tz)
        return [(round(tick.timestamp() * 1000), _tick_name(tick, step)) for tick in ticks if begin <= tick <= end]


def axes_of(columns: TurnColumns) -> Axes:
    """The axes that show all turns."""
    at = columns.at_ms[columns.at_ms != NO_TIME]
    first, last = (int(at.min()), int(at.max())) if len(at) else (0, 0)
    offset = _offset_ms(local_times(np.array([first]), columns.tz)[0])
    length = next((length for length in _LENGTHS if (last - first) / length < MAX_PERIODS - 1), 0)
    length = length or -(-(last - first) // (MAX_PERIODS - 1) // _DAY) * _DAY
    begin = _floor(first, length, offset)
    low, high = _latency_ends(columns.latency_s)
    return Axes(begin, length, (last - begin) // length + 1, low, high, columns.tz)


def _latency_ends(latency_s: Floats) -> tuple[float, float]:
    above_zero = latency_s[latency_s > 0]
    if not len(above_zero):
        return 0.1, 10.0
    # A platform's times are in milliseconds: anything shorter is not a latency.
    low, high = max(float(above_zero.min()), 0.001), max(float(above_zero.max()), 0.002)
    low, high = 10 ** (np.floor(np.log10(low) * 4) / 4), 10 ** (np.ceil(np.log10(high) * 8 + 0.1) / 8)
    return (float(low), float(high)) if high / low >= 8 else (float(high) / 8, float(high))


def _offset_ms(local: pd.Timestamp) -> int:
    offset = local.utcoffset()
    return 0 if offset is None else round(offset.total_seconds() * 1000)


def _floor(ms: int, length: int, offset_ms: int) -> int:
    """The start of the period that a moment is in: local midnights, and Mondays."""
    shift = _MONDAY if length % (7 * _DAY) == 0 else 0
    return (ms + offset_ms - shift) // length * length - offset_ms + shift


def period_name(length_ms: int) -> str:
    """The length of a period in words.

    Examples
    --------
    >>> period_name(21_600_000), period_name(86_400_000)
    ('6 hours', 'day')
    """
    for unit, name in ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute"), (_SECOND, "second")):
        if length_ms >= unit:
            count = round(length_ms / unit)
            return name if count == 1 else f"{count} {name}s"
    return f"{length_ms} ms"


def latency_name(value: float) -> str:
    """A tick of the latency axis, such as ``3 s`` or ``10 min``."""
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if value >= unit:
            return f"{value / unit:g} {name}"
    return f"{value:g} s" if value >= 0.1 else f"{value * 1000:g} ms"


def _tick_name(tick: pd.Timestamp, step_ms: int) -> str:
    # Not with strftime, which cannot handle years after 9999.
    month = month_abbr[tick.month]
    if step_ms >= 300 * _DAY:
        return f"{month} {tick.year}"
    if step_ms >= _DAY or (tick.hour, tick.minute, tick.second) == (0, 0, 0):
        return f"{tick.day} {month}"
    return f"{tick.hour:02}:{tick.minute:02}" + (f":{tick.second:02}" if step_ms < _MINUTE else "")
