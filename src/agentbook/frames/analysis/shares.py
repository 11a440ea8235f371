"""Shares with an interval that knows what was independent, and what was more likely.

The turns of a session resemble each other, and a list that was not drawn at random has
weights. Both are expressed as a number of independent draws that would tell as much,
from which the interval is Wilson's (Dean and Pagano, 2015, "Evaluating Confidence
Interval Methods for Binomial Proportions in Clustered Surveys").
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .turns import Floats, Integers

_Z = 1.959963984540054  # of a 95 % interval
_FEW = 10


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
        How many rows of all there are each row stands for. Default: the same of each.

    Returns
    -------
    share, low, high : ndarray of float64

    Examples
    --------
    >>> hit, one = np.array([1.0, 0, 0, 0, 0, 0, 0, 0]), np.zeros(8, np.int64)
    >>> [round(float(each[0]), 3) for each in shares(hit, one, np.arange(8))]
    [0.125, 0.02, 0.495]
    """
    weight = np.ones(len(hit)) if weight is None else weight
    total = np.bincount(group, weight)
    share: Floats = np.bincount(group, weight * hit) / total
    # Per session, how far it is from what the share would make of it.
    place, pairs = pd.factorize(group * (session.max(initial=0) + 1) + session)
    of = pairs // (session.max(initial=0) + 1)
    apart = np.bincount(place, weight * (hit - share[group]))
    count = np.bincount(of)
    variance = np.bincount(of, apart**2) / total**2 * count / np.maximum(count - 1, 1)
    # Few sessions with hits tell too little of how much sessions differ.
    alike = total**2 / np.bincount(of, np.bincount(place, weight) ** 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        draws = share * (1 - share) / variance
    hits = np.bincount(of, np.bincount(place, hit) > 0)
    low, high = wilson(share, np.where(hits < _FEW, np.fmin(draws, alike), np.fmin(draws, np.bincount(group))))
    return share, np.where(share > 0, low, 0.0), np.where(share < 1, high, 1.0)


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
