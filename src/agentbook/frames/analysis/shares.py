"""Shares with an interval that knows what was independent, and what was more likely.

The turns of a session resemble each other, and a list that was not drawn at random has
weights. Both are expressed as a number of independent draws that would tell as much,
from which the interval is Wilson's (Dean and Pagano, 2015, "Evaluating Confidence
Interval Methods for Binomial Proportions in Clustered Surveys").
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from .turns import Integers

Floats = npt.NDArray[np.float64]
_Z = 1.959963984540054  # of a 95 % interval


def shares(hit: Floats, group: Integers, session: Integers, weight: Floats | None = None) -> tuple[Floats, ...]:
    """The share of each group that hits, and its 95 % interval.

    Parameters
    ----------
    hit : ndarray of float64
        From 0 to 1, a value per row.
    group : ndarray of int64
        The number of the row's group, from 0; every number occurs.
    session : ndarray of int64
        The number of its session: rows of different sessions are independent.
    weight : ndarray of float64, optional
        How many rows of what was drawn from each row stands for, 1 or more. Where all
        are 1, the rows are all there are.

    Returns
    -------
    share, low, high : ndarray of float64

    Examples
    --------
    >>> hit, one = np.array([1.0, 0, 0, 0, 0, 0, 0, 0]), np.zeros(8, np.int64)
    >>> [round(float(each[0]), 3) for each in shares(hit, one, np.arange(8))]
    [0.125, 0.02, 0.495]
    """
    drawn, weight = weight is not None, np.ones(len(hit)) if weight is None else weight
    total = np.bincount(group, weight)
    share: Floats = np.bincount(group, weight * hit) / total
    # Per session, how far it is from what the share would make of it.
    place, pairs = pd.factorize(group * (session.max(initial=0) + 1) + session)
    of = pairs // (session.max(initial=0) + 1)
    apart = np.bincount(place, weight * (hit - share[group]) * np.sqrt(1 - 1 / weight if drawn else 1.0))
    count = np.bincount(of)
    variance = np.bincount(of, apart**2) / total**2 * count / np.maximum(count - 1, 1)
    # Without hits, or with hits in one session, the variance says too little.
    alike = total**2 / np.bincount(of, np.bincount(place, weight) ** 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        draws = np.where(variance > 0, np.minimum(share * (1 - share) / variance, alike), alike)
    low, high = wilson(share, draws)
    is_all = drawn & (np.bincount(group, weight > 1) == 0)
    return share, np.where(is_all, share, low), np.where(is_all, share, high)


def wilson(share: Any, count: Any) -> tuple[Any, Any]:
    """Wilson's 95 % interval of a share of `count` independent draws.

    Examples
    --------
    >>> [round(float(end), 3) for end in wilson(0.5, 10)]
    [0.237, 0.763]
    """
    centre, scale = share + _Z**2 / (2 * count), 1 + _Z**2 / count
    reach = _Z * np.sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    return np.maximum((centre - reach) / scale, 0), np.minimum((centre + reach) / scale, 1)
