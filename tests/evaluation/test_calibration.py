"""A judge against what people said: on half of the sessions, and what says nothing."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import agentbook as ab
from agentbook.evaluation.calibration import Calibration


def scored(passed: list[bool | None], per_session: int = 1) -> pd.DataFrame:
    """Scores of the turns m0, m1, ..."""
    rows = [
        {"session_id": f"s{n // per_session}", "message_id": f"m{n}", "check": "polite", "passed": each}
        for n, each in enumerate(passed)
    ]
    return pd.DataFrame(rows).astype({"passed": "boolean"})


def said(good: list[Any], rater: str = "ada", **columns: Any) -> pd.DataFrame:
    frame = pd.DataFrame({"message_id": [f"m{n}" for n in range(len(good))], "value": good, "question": "good"})
    return frame.assign(**{"rater": rater, "session_id": frame["message_id"].str.replace("m", "s"), **columns}).dropna()


def test_verdicts_are_compared_with_what_most_people_said() -> None:
    labels = pd.concat(
        [
            said([True, True, False, False, True, None]),
            said([True, False, False, False], "tim"),
            said([True, True, False, False], "zoe"),
            said(["wrong"], question="kind"),
        ]
    )
    scores = pd.concat([scored([True, False, True, False, None, True]), scored([True]).assign(check="short")])
    calibration = ab.calibration(scores, labels, check="polite")
    assert calibration == Calibration(right_passes=1, wrong_passes=1, right_failures=1, wrong_failures=1)


def test_turns_of_a_session_that_are_alike_say_less() -> None:
    passed, good = [True] * 96 + [False] * 24, [True] * 84 + [False] * 36

    def reach(per_session: int) -> float:
        labels = said(good).assign(session_id=[f"s{n // per_session}" for n in range(len(good))])
        share, low, high = ab.calibration(scored(passed, per_session), labels).correct(0.8, 120)
        assert share == pytest.approx(0.7)
        return high - low

    assert reach(8) > 2 * reach(1)


def test_scores_of_sessions_are_compared_with_labels_of_sessions() -> None:
    scores = scored([True, False, True]).drop(columns="message_id")
    of_sessions = said([True, False, False]).assign(message_id=None)
    labels = pd.concat([of_sessions, said([False, True, True], "tim"), said([False, True, True], "zoe")])
    assert ab.calibration(scores, labels) == Calibration(1, 1, 1, 0)
    with pytest.raises(ValueError, match="sessions"):
        ab.calibration(scores, said([True, False, True]))


def test_halves_are_of_sessions_and_stay_as_more_are_labelled() -> None:
    good = [n % 3 > 0 for n in range(90)]
    scores, labels = scored(good, per_session=3), said(good)
    halves = {split: ab.calibration(scores, labels, split=split).labels for split in ("dev", "test")}
    assert sum(halves.values()) == 90
    assert 20 < halves["dev"] < 70
    assert all(count % 3 == 0 for count in halves.values()), "a session is in one half"
    few = {split: ab.calibration(scores[:45], labels, split=split).labels for split in ("dev", "test")}
    more = {split: ab.calibration(scores[45:], labels, split=split).labels for split in ("dev", "test")}
    assert {split: few[split] + more[split] for split in halves} == halves
    assert ab.calibration(scores, labels, split="dev", seed=1).labels != halves["dev"]
    with pytest.raises(ValueError, match="'dev'"):
        ab.calibration(scores, labels, split="train")


@pytest.mark.parametrize(
    ("counts", "word"),
    [
        ((18, 10, 0, 0), "every"),
        ((0, 0, 10, 5), "no reply"),
        ((9, 0, 0, 1), "bad"),
        ((0, 4, 4, 0), "good"),
        ((5, 5, 5, 5), "chance"),
    ],
)
def test_a_judge_that_cannot_tell_is_named(counts: tuple[int, int, int, int], word: str) -> None:
    calibration = Calibration(*counts)
    assert word in calibration.warning
    assert repr(calibration) == f"Calibration{counts}: {calibration.warning}"
    assert repr(Calibration(18, 1, 9, 2)) == "Calibration(18, 1, 9, 2)"


def test_a_comparison_that_cannot_be_made_says_why() -> None:
    scores = pd.concat([scored([True]), scored([True]).assign(check="short")])
    labels = pd.concat([said([True]), said([True], question="solved"), said(["a"], question="kind")])
    with pytest.raises(ValueError, match="polite, short"):
        ab.calibration(scores, labels)
    with pytest.raises(ValueError, match="good, solved"):
        ab.calibration(scores, labels, check="short")
    with pytest.raises(ValueError, match=r"'kind'.*good, solved"):
        ab.calibration(scores, labels, check="short", question="kind")
    with pytest.raises(ValueError, match="label"):
        ab.calibration(scores[:1], said([True]).assign(message_id="other", session_id="other"))
