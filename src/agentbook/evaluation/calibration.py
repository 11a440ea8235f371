"""How well a judge agrees with people, and what that means for its pass rates."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .answers import Answer

LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Calibration:
    """A judge's verdicts compared with labels by people.

    Attributes
    ----------
    right_passes, wrong_passes : int
        Replies that passed, and that people found good or bad.
    right_failures, wrong_failures : int
        Replies that failed, and that people found bad or good.

    Examples
    --------
    >>> calibration = Calibration(18, 1, 9, 2)
    >>> round(calibration.sensitivity, 2), round(calibration.specificity, 2)
    (0.9, 0.9)
    >>> round(calibration.correct(0.7, 100)[0], 2)
    0.75
    """

    right_passes: int
    wrong_passes: int
    right_failures: int
    wrong_failures: int

    @property
    def labels(self) -> int:
        """The number of replies with a verdict and a label."""
        return self.right_passes + self.wrong_passes + self.right_failures + self.wrong_failures

    @property
    def good(self) -> int:
        """The number of replies that people found good."""
        return self.right_passes + self.wrong_failures

    @property
    def bad(self) -> int:
        """The number of replies that people found bad."""
        return self.right_failures + self.wrong_passes

    @property
    def sensitivity(self) -> float:
        """The share of good replies that the judge passes; NaN without any."""
        return self.right_passes / self.good if self.good else math.nan

    @property
    def specificity(self) -> float:
        """The share of bad replies that the judge fails; NaN without any."""
        return self.right_failures / self.bad if self.bad else math.nan

    @property
    def agreement(self) -> float:
        """The share of labels with which the verdicts agree; NaN without any."""
        return (self.right_passes + self.right_failures) / self.labels if self.labels else math.nan

    @property
    def kappa(self) -> float:
        """Cohen's kappa: agreement beyond chance, at most 1; NaN if undefined."""
        if not self.labels:
            return math.nan
        passes = (self.right_passes + self.wrong_passes) / self.labels
        good = self.good / self.labels
        chance = passes * good + (1 - passes) * (1 - good)
        return (self.agreement - chance) / (1 - chance) if chance < 1 else math.nan

    def correct(self, rate: float, replies: int) -> tuple[float, float, float]:
        """The share of good replies behind a pass rate, with a 95 % interval.

        The rate p becomes (p + specificity - 1) / (sensitivity + specificity - 1).
        The interval includes the error of the calibration.

        Parameters
        ----------
        rate : float
            The share of replies that the judge passed.
        replies : int
            The number of replies that it judged.

        Returns
        -------
        tuple of float
            Share, low, high; NaN if the judge is no better than chance.
        """
        power = self.sensitivity + self.specificity - 1
        if not power > 0 or not replies:
            return math.nan, math.nan, math.nan
        share = (rate + self.specificity - 1) / power
        # Computed from the shares with 1 added to both sides (Agresti and Coull): a
        # perfect calibration on few labels is not certain.
        variance = (
            _variance(rate, replies)
            + (1 - share) ** 2 * _variance(self.specificity, self.bad)
            + share**2 * _variance(self.sensitivity, self.good)
        ) / power**2
        reach = NormalDist().inv_cdf(1 - LEVEL / 2) * math.sqrt(variance)
        return min(1.0, max(0.0, share)), max(0.0, share - reach), min(1.0, share + reach)


def _variance(share: float, count: int) -> float:
    smoothed = (share * count + 1) / (count + 2)
    return smoothed * (1 - smoothed) / (count + 2)


def labelled(answers: Iterable[Answer], check: str) -> list[tuple[bool, bool]]:
    """Verdict and label of the replies that have both, by the name of a check."""
    return [
        (grade.passed, answer.thumb)
        for answer in answers
        if (grade := answer.verdicts.get(check)) and grade.passed is not None and answer.thumb is not None
    ]


def calibrate(pairs: Iterable[tuple[bool, bool]]) -> Calibration:
    """The calibration of a judge from pairs of verdict and label."""
    counts = {(verdict, label): 0 for verdict in (True, False) for label in (True, False)}
    for pair in pairs:
        counts[pair] += 1
    return Calibration(counts[True, True], counts[True, False], counts[False, False], counts[False, True])
