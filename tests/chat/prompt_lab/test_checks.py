"""Checks are changed after a run, and people rate replies."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.evaluation.experiment import Experiment

from .lab_platform import LabPlatform, make_lab


def test_checks_change_without_asking_again() -> None:
    platform = LabPlatform(lambda configuration, text: text.upper())
    lab = make_lab(platform)
    lab.add_variant("now")
    calls: list[str] = []

    def loud(reply: str) -> bool:
        calls.append(reply)
        return reply.isupper()

    frame = lab.run(["one", "two"], checks={"loud": loud, "o": "o"}, progress=False)
    assert frame[["loud", "o", "passed"]].values.tolist() == [[True, True, True]] * 2
    assert sorted(calls) == ["ONE", "TWO"]
    frame = lab.check({"loud": loud, "o": "n", "score": lambda reply: len(reply) / 4})
    assert frame["o"].tolist() == [True, False]
    assert frame["score_score"].tolist() == [0.75, 0.75]
    assert len(calls) == 2, "an unchanged check is not applied again"
    assert len(platform.questions()) == 2


def test_people_rate_replies(tmp_path: Path) -> None:
    lab = make_lab(LabPlatform())
    lab.add_variant("now")
    lab.run(["one", "two"], progress=False)
    lab.rate(("now", "one", 1), True, " well said ")
    lab.rate(("now", "two", 1), False)
    assert lab.results["thumb"].tolist() == [True, False]
    assert lab.results["note"].tolist()[0] == "well said"
    again = PromptLab.load(lab.save(tmp_path / "lab.json"), LabPlatform())  # type: ignore[arg-type]
    assert again.results["thumb"].tolist() == [True, False]
    lab.rate(("now", "two", 1))
    assert lab.results["thumb"].isna().tolist() == [False, True]
    with pytest.raises(ValueError, match="There is no reply"):
        lab.rate(("now", "three", 1), True)


@pytest.mark.parametrize(
    "names",
    [("polite", "polite_score"), ("pass",), ("polite_rate", "polite"), ("p50_s",), ("a", "a_judge"), ("failed",)],
)
def test_no_check_has_the_column_of_another(names: tuple[str, ...]) -> None:
    experiment = Experiment()
    with pytest.raises(ValueError, match="another column"):
        experiment.check(dict.fromkeys(names, "x"))
    assert not experiment.checks


def test_a_column_of_the_rows_takes_the_place_of_no_other() -> None:
    lab = make_lab(LabPlatform(lambda settings, text: "expected"))
    lab.add_variant("now")
    rows = [{"input": "one", "expected": "row"}]
    frame = lab.run(rows=rows, checks={"expected": "expected", "input_expected": "nothing"}, progress=False)
    assert frame.loc[0, ["expected", "input_expected", "input_input_expected"]].tolist() == [True, False, "row"]


def test_a_reference_in_a_column_is_compared_and_shown() -> None:
    lab = make_lab(LabPlatform(lambda settings, text: "In Paris."))
    lab.add_variant("now")
    rows = [
        {"input": "one", "the answer": "PARIS"},
        {"input": "two", "the answer": "Rome"},
        {"input": "three", "the answer": None},
    ]
    frame = lab.run(rows=rows, checks={"right": "{{the answer}}"}, progress=False)
    assert frame["right"].astype(object).where(frame["right"].notna(), None).tolist() == [True, False, None]
    assert "Rome" in frame["right_reason"][1]
    assert "the answer" in frame["check_error"][2]
