"""`lab.judge`: agents as judges, compared with people and with themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from ...api.calls import ref
from ...evaluation.answers import Answer
from ...evaluation.asking import Follow
from ...evaluation.calibration import Calibration, calibrate, calibration, is_in, labelled
from ...evaluation.judging import Judges, judge_missing
from ...evaluation.preference import compare_pairs, estimate_preference
from ...events import loop

if TYPE_CHECKING:
    from .lab import Lab


class LabJudge:
    """The judges of a lab.

    Examples
    --------
    >>> lab = ab.PromptLab(client, agent="acme~scribe", workspace="acme~playground")
    >>> lab.judge.calibration("polite")
    Traceback (most recent call last):
    ...
    ValueError: There is no check 'polite'; there are: none yet.
    """

    def __init__(self, lab: Lab, follow: Follow | None) -> None:
        self._lab = lab
        self._follow = follow

    def run(self) -> pd.DataFrame:
        """Ask the judges for missing verdicts; a run does so by itself.

        Returns
        -------
        DataFrame
            The lab's `results`.
        """
        loop.run(judge_missing(self._lab, self._judges()), operation="lab.judge.run")
        return self._lab.results

    def _judges(self) -> Judges:
        return Judges(self._lab.client, self._lab.workspace, follow=self._follow)

    def calibration(
        self, check: str, labels: Any = None, *, question: str | None = None, split: str | None = None, seed: int = 0
    ) -> Calibration:
        """How well a check agrees with people's labels.

        Parameters
        ----------
        check : str
            Its name.
        labels : DataFrame, path or Store, optional
            Labels of the sessions in which the lab asked. Default: those given in the
            lab, with 👍 and 👎 or `PromptLab.rate`.
        question, split, seed
            As for `agentbook.calibration`.

        Returns
        -------
        Calibration
            Sensitivity, specificity and kappa; ``correct(rate, replies)`` corrects a
            pass rate by them.

        Raises
        ------
        ValueError
            If there is no such check, or no reply has both a verdict and a label.
        """
        if check not in self._lab.checks:
            raise ValueError(f"There is no check {check!r}; there are: {', '.join(self._lab.checks) or 'none yet'}.")
        if labels is not None:
            answers = [each for each in self._lab.answers if check in each.verdicts]
            rows = [(each.session_id, None, check, each.verdicts[check].passed) for each in answers]
            columns = ["session_id", "message_id", "check", "passed"]
            return calibration(pd.DataFrame(rows, columns=columns), labels, question=question, split=split, seed=seed)
        pairs = labelled((each for each in self._lab.answers if is_in(split, each.session_id, seed)), check)
        if not pairs:
            judged = sum(getattr(each.verdicts.get(check), "passed", None) is not None for each in self._lab.answers)
            labels_given = sum(each.thumb is not None for each in self._lab.answers)
            what = (
                "label some replies in the form or with lab.rate"
                if judged
                else "run the lab; lab.results.check_error says why a judge decided nothing"
            )
            raise ValueError(
                f"No reply has both a verdict of {check!r} and a label "
                f"(with a verdict: {judged}, with a label: {labels_given}): {what}."
            )
        return calibrate(pairs)

    def prefer(self, criterion: str, agent: Any, variant: str, baseline: str | None = None) -> pd.DataFrame:
        """Ask a judge which of two variants answers better, in both orders.

        Parameters
        ----------
        criterion : str
            "It is easier to follow."
        agent : str or Record
            The judge.
        variant : str
        baseline : str, optional
            Default: the first variant.

        Returns
        -------
        DataFrame
            A row per input and repeat that both answered: ``preferred`` is 1 for the
            variant, -1 for the baseline, and 0 for neither, or if the judge's
            preference changed with the order. ``attrs["preference"]`` is the mean from
            -1 to 1 with its 95 % interval and p, ``attrs["judge"]`` who judged, with
            its version.

        Raises
        ------
        ValueError
            If there is no such variant, both are the same, or they have answered no
            input in common.
        """
        first = next(iter(self._lab.variants), None) if baseline is None else self._lab.variant(baseline).name
        other = self._lab.variant(variant).name
        answers = {answer.key: answer for answer in self._lab.answers if answer.reply is not None}
        pairs: list[tuple[Answer, Answer]] = [
            (answers[str(first), *key[1:]], answer)
            for key, answer in answers.items()
            if key[0] == other and (str(first), *key[1:]) in answers
        ]
        if first == other:
            raise ValueError(f"{other!r} is compared with itself: name another variant, or pass baseline=.")
        if not pairs:
            raise ValueError(f"{first!r} and {other!r} have answered no input in common: run the lab first.")
        work = compare_pairs(self._judges(), ref(agent), criterion, pairs)
        frame = loop.run(work, operation="lab.judge.prefer")
        if frame["preferred"].notna().any():
            frame.attrs["preference"] = estimate_preference(frame)
        return frame
