"""How well a judge agrees with people, and what that means for its pass rates."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from .experiment import Answer

LEVEL = 0.05


@dataclass(frozen=True, slots=True, repr=False)
class Calibration:
    """A judge's verdicts compared with labels by people.

    Attributes
    ----------
    right_passes, wrong_passes : int
        Replies that passed, and that people found good or bad.
    right_failures, wrong_failures : int
        Replies that failed, and that people found bad or good.
    design_effects : tuple of float
        Of the labels and of all verdicts: how many times their variance is that of
        independent replies, because the turns of a session resemble each other.

    Examples
    --------
    >>> calibration = Calibration(18, 1, 9, 2)
    >>> round(calibration.sensitivity, 2), round(calibration.specificity, 2)
    (0.9, 0.9)
    >>> round(calibration.correct(0.7, 100)[0], 2)
    0.75
    >>> Calibration(18, 10, 0, 0)
    Calibration(18, 10, 0, 0): The judge passed every reply, also the 10 that people ...
    """

    right_passes: int
    wrong_passes: int
    right_failures: int
    wrong_failures: int
    design_effects: tuple[float, float] = field(default=(1.0, 1.0), compare=False)

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

    @property
    def warning(self) -> str:
        """Why its pass rates say nothing, in a sentence; empty if they do."""
        passes = self.right_passes + self.wrong_passes
        if not self.good or not self.bad:
            kind = "bad" if self.good else "good"
            return f"People found no reply {kind}, so nothing is known about such replies: label some of them too."
        if passes == self.labels:
            return (
                f"The judge passed every reply, also the {self.bad:,} that people found bad: it cannot tell them apart."
            )
        if not passes:
            return f"The judge passed no reply, not even the {self.good:,} that people found good: it cannot tell them apart."
        if self.sensitivity + self.specificity <= 1:
            return "The judge agrees with people no more than chance would: change its rubric or its agent."
        return ""

    def __repr__(self) -> str:
        return f"Calibration{astuple(self)[:4]}{': ' * bool(self.warning)}{self.warning}"

    def correct(self, rate: float, replies: int) -> tuple[float, float, float]:
        """The share of good replies behind a pass rate, with a 95 % interval.

        The rate p becomes (p + specificity - 1) / (sensitivity + specificity - 1).
        The interval includes the error of the calibration, and is as wide as the
        likeness of the turns of a session asks for.

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
        # Lang and Reiczigel (2014): a perfect calibration on few labels, or a perfect
        # pass rate of few replies, is not certain.
        z = NormalDist().inv_cdf(1 - LEVEL / 2)
        known_good, known_bad = (n / self.design_effects[0] for n in (self.good, self.bad))
        judged = replies / self.design_effects[1]
        passed = (judged * rate + z**2 / 2) / (judged + z**2)
        sensitivity, of_good = (known_good * self.sensitivity + 1) / (known_good + 2), known_good + 2
        specificity, of_bad = (known_bad * self.specificity + 1) / (known_bad + 2), known_bad + 2
        power = sensitivity + specificity - 1
        if not power > 0:
            return min(1.0, max(0.0, share)), 0.0, 1.0
        centre = (passed + specificity - 1) / power
        spread = (
            centre * sensitivity * (1 - sensitivity) / of_good,
            (1 - centre) * specificity * (1 - specificity) / of_bad,
        )
        variance = passed * (1 - passed) / (judged + z**2) + centre * spread[0] + (1 - centre) * spread[1]
        reach = z * math.sqrt(variance) / power
        centre += 2 * z**2 * (spread[0] - spread[1])
        share, low, high = (min(1.0, max(0.0, each)) for each in (share, centre - reach, centre + reach))
        return share, min(low, share), max(high, share)


def calibration(
    scores: Any,
    labels: Any,
    *,
    check: str | None = None,
    question: str | None = None,
    split: str | None = None,
    seed: int = 0,
) -> Calibration:
    """How well a check, such as a judge's rubric, agrees with people's labels.

    Parameters
    ----------
    scores : DataFrame
        From `score`. Those of sessions are compared with labels of sessions.
    labels : DataFrame, path or Store
        As for `with_labels`; of several raters, what most of them said counts.
    check : str, optional
        The check's name. Default: the only one.
    question : str, optional
        A yes-or-no question, whose yes means a good reply. Default: the only one.
    split : {"dev", "test"}, optional
        Half of the sessions: change the rubric until it agrees on ``"dev"``, and then
        see on ``"test"`` how well it really does. Default: all.
    seed : int
        Another seed splits the sessions differently.

    Returns
    -------
    Calibration
        Sensitivity, specificity and kappa; ``correct(rate, replies)`` corrects a pass
        rate by them, and ``warning`` says why that would be in vain, such as for a
        judge that always says yes.

    Raises
    ------
    ValueError
        If there is no such check or question, or nothing has a verdict and a label.

    Examples
    --------
    >>> history = ab.load_history(client, "acme")
    >>> scores = ab.score(history, {"short": ab.checks.length(max=80)})
    >>> labels = history.turns[["session_id", "message_id"]].assign(question="solved")
    >>> labels = labels.assign(rater="ada", value=scores["passed"].to_numpy())
    >>> ab.calibration(scores, labels).agreement
    1.0
    """
    from ..frames.analysis.arguments import require
    from ..frames.labels import BOOL, YES, labels_of, verdicts
    from ..frames.tabular import frame_of

    table = frame_of(scores, caller="calibration")
    require(table, "session_id", "check", "passed", caller="calibration")
    table = table.assign(message_id=table.get("message_id"))  # those of sessions have none
    table = table[table["check"] == _only(check, table["check"], "check")]
    found = labels_of(labels, "calibration")
    found = found[found["kind"] == BOOL]
    found = found[found["question"] == _only(question, found["question"], "yes-or-no question")]
    said = table["message_id"].map(verdicts(found)).fillna(table["session_id"].map(verdicts(found)))
    if "message_id" not in scores:
        found = found[found["message_id"].isna()]
    of_sessions = table["session_id"].map(verdicts(found.assign(target=found["session_id"])))
    said = said.where(table["message_id"].notna(), of_sessions)  # a lab knows the session alone
    pairs = table.assign(good=said == YES)[said.notna() & table["passed"].notna()]
    pairs = pairs[[is_in(split, session, seed) for session in pairs["session_id"]]]
    if pairs.empty:
        raise ValueError(
            "Nothing has both a verdict and a label: label the turns or sessions that were scored, or more of them."
        )
    right, judged = pairs["passed"].astype(bool) == pairs["good"], table[table["passed"].notna()]
    of_labels = _design_effect(right, pairs["session_id"])
    effects = of_labels, _design_effect(judged["passed"].astype(bool), judged["session_id"])
    return replace(calibrate(zip(pairs["passed"].astype(bool), pairs["good"], strict=True)), design_effects=effects)


def _design_effect(values: pd.Series, sessions: pd.Series) -> float:
    """The variance of a share of clusters by that of independent values."""
    mean, count, clusters = values.mean(), len(values), sessions.nunique()
    if mean in (0, 1) or clusters < 2:  # how alike they are does not show
        return count / clusters
    sums = (values - mean).groupby(sessions.to_numpy()).sum()
    return max(1.0, float((sums**2).sum() * clusters / (clusters - 1) / (count * mean * (1 - mean))))


def _only(name: str | None, names: pd.Series, noun: str) -> str:
    """The name of a check or question; the only one by default."""
    known = sorted(set(names))
    if name in known or (name is None and len(known) == 1):
        return name or str(known[0])
    there = ", ".join(known) or "none"
    raise ValueError(f"{f'Name the {noun}' if name is None else f'There is no {noun} {name!r}'}; there are: {there}.")


def is_in(split: str | None, session: str | None, seed: int) -> bool:
    """Whether a session is in a half; halves do not change as more are labelled."""
    from ..frames.labels import share

    if split not in (None, "dev", "test"):
        raise ValueError(f"split is 'dev', 'test' or None, not {split!r}.")
    return split is None or (share(seed, "split", session) < 0.5) == (split == "dev")


def labelled(answers: Iterable[Answer], check: str) -> list[tuple[bool, bool]]:
    """Verdict and label of the replies that have both, by the name of a check."""
    pairs = [(answer.verdicts[check].passed, answer.thumb) for answer in answers if check in answer.verdicts]
    return [(passed, thumb) for passed, thumb in pairs if passed is not None and thumb is not None]


def calibrate(pairs: Iterable[tuple[bool, bool]]) -> Calibration:
    """The calibration of a judge from pairs of verdict and label."""
    counts = {(verdict, label): 0 for verdict in (True, False) for label in (True, False)}
    for pair in pairs:
        counts[pair] += 1
    return Calibration(counts[True, True], counts[True, False], counts[False, False], counts[False, True])
