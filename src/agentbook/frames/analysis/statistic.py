"""The names of statistics that tables and charts show: ``stat="p95"``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..._text import nearest

STATS = ("p50", "p90", "p95", "p99", "mean", "min", "max")
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?)")


def check_stat(stat: Any, *, caller: str, others: Sequence[str] = ()) -> str:
    """The name of a statistic.

    ``"p95"`` is a percentile, from p0 to p99.9...; ``"median"`` is ``"p50"``. An
    unknown name raises a `ValueError`, which also names the `others` that the caller
    accepts.

    Examples
    --------
    >>> check_stat("median", caller="latency")
    'p50'
    >>> check_stat("95%", caller="latency")
    Traceback (most recent call last):
    ...
    ValueError: latency has no stat '95%' (did you mean 'p95'?): choose 'p50', ...
    """
    if stat == "median":
        return "p50"
    if isinstance(stat, str) and (stat in STATS or _PERCENTILE.fullmatch(stat)):
        return stat
    match = nearest(stat, [*others, *STATS]) if isinstance(stat, str) else None
    hint = f" (did you mean {match!r}?)" if match else ""
    raise ValueError(
        f"{caller} has no {'value' if others else 'stat'} {stat!r}{hint}: choose "
        f"{''.join(f'{name!r}, ' for name in others)}'p50', 'p95' or another percentile, 'mean', 'min' or 'max'."
    )


def quantile_of(stat: str) -> float | None:
    """The quantile of a percentile's name, linearly interpolated; None for others.

    Examples
    --------
    >>> quantile_of("p95"), quantile_of("p99.9"), quantile_of("mean")
    (0.95, 0.999, None)
    """
    match = _PERCENTILE.fullmatch(stat)
    return None if match is None else round(float(match[1]) / 100, 9)


def aggregate(values: Any, stat: str) -> Any:
    """A statistic of a series, or of each group of a grouped one.

    Examples
    --------
    >>> values = pd.Series([1.0, 2.0, 6.0])
    >>> float(aggregate(values, "mean")), float(aggregate(values, "p50"))
    (3.0, 2.0)
    """
    quantile = quantile_of(stat)
    if quantile is not None:
        return values.quantile(quantile)
    return getattr(values, stat)()


def statistic_of(values: Any, stat: str) -> float:
    """A statistic of an array of numbers; NaN if it is empty."""
    return float(aggregate(pd.Series(values, dtype="float64"), stat)) if len(values) else np.nan
