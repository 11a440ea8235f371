"""Tests of differences between two spans, with sessions as the units.

The turns of a session resemble each other, so they are not independent: a test that
assumes independence mistakes chance for a change far too often (Cameron and Miller,
2015, "A Practitioner's Guide to Cluster-Robust Inference"). These are score tests: the
null hypothesis, that both spans are alike, gives the expected total of each session,
and the squared differences from it, pooled over the sessions of both spans, give the
variance. It is the variance of shuffling sessions between the spans, so it holds even
if one span has few sessions. The values of one session in both spans are correlated,
and that covariance is subtracted. Percentiles are compared by the share of values above
the percentile of both spans together (Mood's median test, for any percentile). Counts
are those of a compound Poisson process, in which sessions arrive independently, unless
the days of a span differ by more than that.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .statistic import aggregate, quantile_of, statistic_of
from .turns import Floats, Integers

MIN_SESSIONS = 2  # in each span
ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Sample:
    """Values of one span, each with the number of its session."""

    session: Integers
    value: Floats

    def per_session(self, stat: str) -> Sample:
        """One value for each session: a statistic of its values."""
        values = aggregate(pd.Series(self.value).groupby(self.session), stat)
        return Sample(values.index.to_numpy(np.int64), values.to_numpy(np.float64))

    def of(self, people: pd.Series) -> Sample:
        """The values with the numbers of those who had the sessions."""
        return Sample(people.reindex(self.session).to_numpy(np.int64), self.value)


def score_of_means(before: Sample, after: Sample) -> float:
    """The difference of two means in standard errors.

    NaN with fewer than two sessions in a span, or if all values are equal.

    Examples
    --------
    >>> before = Sample(np.arange(8), np.array([1.0, 2.0] * 4))
    >>> after = Sample(np.arange(8, 16), np.array([2.0, 3.0] * 4))
    >>> round(score_of_means(before, after), 2)
    2.83
    """
    if min(len(pd.unique(side.session)) for side in (before, after)) < MIN_SESSIONS:
        return math.nan
    expected = float(np.concatenate((before.value, after.value)).mean())
    sides = [_residuals(side, expected) for side in (before, after)]
    weights = [1 / len(side.value) for side in (before, after)]
    difference = float(after.value.mean() - before.value.mean())
    return _score(difference, sides, weights, [len(sessions) for sessions, _ in sides])


def score_of_stat(before: Sample, after: Sample, stat: str) -> float:
    """The difference of a statistic in standard errors; NaN for minimum and maximum."""
    quantile = quantile_of(stat)
    if stat == "mean":
        return score_of_means(before, after)
    if quantile is None or not len(before.value) or not len(after.value):
        return math.nan
    limit = statistic_of(np.concatenate((before.value, after.value)), stat)
    above = [Sample(side.session, (side.value > limit).astype(np.float64)) for side in (before, after)]
    return score_of_means(*above)


def score_of_counts(before: Sample, after: Sample, lengths: tuple[float, float], blocks: Floats) -> float:
    """The difference of two rates in standard errors; each value is a number of things.

    Sessions often come in waves, so that their number varies more than that of
    independent ones: the difference is also compared with those between the blocks of
    both spans, and the score nearer to zero is returned.

    Parameters
    ----------
    before, after : Sample
    lengths : tuple of float
        Those of the spans, in one unit.
    blocks : array of float, shape (2, n)
        Totals of n equal parts of each span.
    """
    sides = [_residuals(side, 0.0) for side in (before, after)]
    rates = [side.value.sum() / length for side, length in zip((before, after), lengths, strict=True)]
    z = _score(rates[1] - rates[0], sides, [1 / length for length in lengths], list(lengths))
    differences = blocks[1] / lengths[1] - blocks[0] / lengths[0]
    error = differences.std(ddof=1) / math.sqrt(len(differences))
    if math.isnan(z) or not error > 0:
        return z
    return min(z, _normal_of_t(differences.mean() / error, len(differences) - 1), key=abs)


def _normal_of_t(t: float, freedom: int) -> float:
    """The normal score that is as improbable as Student's t (Wallace, 1959)."""
    size = math.sqrt(freedom * math.log1p(t * t / freedom)) * (8 * freedom + 1) / (8 * freedom + 3)
    return math.copysign(size, t)


def _residuals(side: Sample, expected: float) -> tuple[Integers, Floats]:
    """The sessions of a span, and how far each total differs from the expected one."""
    sessions, number = np.unique(side.session, return_inverse=True)
    return sessions, np.bincount(number, side.value - expected, len(sessions)).astype(np.float64)


def _score(difference: float, sides: list[tuple[Integers, Floats]], weights: list[float], sizes: list[float]) -> float:
    """A difference in standard errors.

    `weights` turn the totals of a span into its mean or rate. `sizes` are the spans'
    parts of the variance: numbers of sessions, or lengths of time.
    """
    squares = sum(float(residuals @ residuals) for _, residuals in sides) / sum(sizes)
    variance = sum(squares * size * weight**2 for size, weight in zip(sizes, weights, strict=True))
    (first, totals), (second, later_totals) = sides
    _, here, there = np.intersect1d(first, second, assume_unique=True, return_indices=True)
    shared = 2 * float(totals[here] @ later_totals[there]) * weights[0] * weights[1]
    # The covariance can be most of the variance, but never all of it.
    variance = max(variance - shared, variance / 10)
    return difference / math.sqrt(variance) if variance > 0 else math.nan


def p_value(z: float) -> float:
    """The two-sided probability that chance gives a score this far from zero.

    Examples
    --------
    >>> round(p_value(1.96), 3)
    0.05
    """
    return math.erfc(abs(z) / math.sqrt(2))


def holm(p: Floats) -> Floats:
    """Probabilities corrected for multiple tests (Holm, 1979).

    NaN stays, and is not counted.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, np.nan, 0.03])).tolist()
    [0.03, 0.06, nan, 0.06]
    """
    corrected = np.full(len(p), np.nan)
    order = np.argsort(p, kind="stable")[: int(np.count_nonzero(~np.isnan(p)))]
    corrected[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)), 1)
    return corrected


def levels(p: Floats, p_holm: Floats, tests: Any) -> Floats:
    """The level at which Holm's procedure tests each of these probabilities.

    A range at 1 - level excludes "no change" exactly where `p_holm` is below 0.05. NaN
    where `p` is. `tests` is the number of tests that `p_holm` is corrected for.

    Examples
    --------
    >>> p = np.array([0.01, 0.04, 0.6])
    >>> levels(p, holm(p), 3).round(4).tolist()
    [0.0167, 0.025, 0.05]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        level = ALPHA * p / p_holm
    # A probability of 0 or, after the correction, 1 does not show how often it was
    # multiplied: the whole correction is always on the safe side.
    hidden = (p_holm >= 1) | (p_holm <= 0)
    return np.where(hidden, ALPHA / np.maximum(tests, 1), level)


@functools.lru_cache(maxsize=256)
def t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's distribution.

    Examples
    --------
    >>> [round(t_quantile(freedom), 3) for freedom in (1, 4, 30)]
    [12.706, 2.776, 2.042]
    """
    # As an angle, atan(t / sqrt(freedom)), it has the density of a power of the cosine.
    angle = np.linspace(0, math.pi / 2, 100_001)
    area = np.cumsum(np.cos((angle[1:] + angle[:-1]) / 2) ** (freedom - 1))
    return math.sqrt(freedom) * math.tan(np.interp(1 - ALPHA, area / area[-1], angle[1:]))
