"""The periods of a chart's time axis."""

from __future__ import annotations

import pandas as pd

# Periods to choose from: length, and name in the subtitle. "M" is used for longer
# spans.
_PERIODS = {
    "15min": ("15min", "15 minutes"),
    "1h": ("1h", "hour"),
    "6h": ("6h", "6 hours"),
    "1D": ("1D", "day"),
    "W": ("7D", "week"),
}
_MAX_PERIODS = 60  # more points than this make a noisy line


def default_period(moments: pd.Series) -> str:
    """The shortest period from 15 minutes to a month that makes at most 60.

    Examples
    --------
    >>> default_period(pd.Series(pd.to_datetime(["2026-10-01", "2026-10-20"])))
    '1D'
    """
    span = moments.max() - moments.min()
    if pd.isna(span):
        return "1h"
    return next((freq for freq, (length, _) in _PERIODS.items() if span / pd.Timedelta(length) <= _MAX_PERIODS), "M")


def period_name(freq: str) -> str:
    """The name of a period.

    Examples
    --------
    >>> period_name("1D"), period_name("2h")
    ('day', '2h')
    """
    return {**{key: name for key, (_, name) in _PERIODS.items()}, "M": "month"}.get(freq, freq)
