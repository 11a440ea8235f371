"""Experiments: results, checks that change, summary, chart, and the file."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.evaluation.checks import read_checks
from agentbook.evaluation.experiment import Answer, Experiment, to_frame
from agentbook.evaluation.model import Grade, Step
from chat.prompt_lab.lab_platform import LabPlatform, make_lab

BROKEN = Answer("a", "x", status="answered", reply="broken \ud83d here")

SCHEMA = {"type": "object", "required": ["answer"], "properties": {"answer": {"type": "string"}}}


def test_empty_results_have_the_same_dtypes() -> None:
    answered = Answer("a", "x", status="answered", reply="y", latency_s=1.0, asked_at=datetime(2026, 10, 1, tzinfo=UTC))
    answered.judge(read_checks(["y"]).values())
    full, empty = to_frame([answered], ["contains y"]), to_frame([], ["contains y"])
    assert full.dtypes.to_dict() == empty.dtypes.to_dict()
    assert str(full["asked_at"].dtype) == "datetime64[us, UTC]"
    assert str(full["contains y"].dtype) == "boolean"


@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")
def test_missing_values_do_not_depend_on_pandas_options() -> None:
    lab = make_lab()
    lab.add_variant("a")
    lab._lab.record(BROKEN)
    with pd.option_context("future.infer_string", False):
        results, summary = lab.results, lab.summary()
    assert results[["reason", "version", "check_error"]].isna().all(axis=None)
    assert results["reply"].tolist() == ["broken ? here"]
    assert summary["version"].isna().all()


def test_summary_and_chart_count_the_same() -> None:
    lab = make_lab()
    lab.add_variant("a")
    lab.add_variant("b", "Be b.")
    for variant, n, reply, status in (
        ("b", 1, "yes", "answered"),
        ("b", 2, "yes", "answered"),
        ("b", 3, "no", "answered"),
        ("a", 1, None, "failed"),
        ("b", 4, None, "stopped"),
    ):
        latency_s = float(n) if reply else None
        answer = Answer(variant, f"q{n}", status=status, reply=reply, version="1.0.1", latency_s=latency_s)
        lab._lab.record(answer)
    lab.check({"yes": "yes", "odd": lambda reply, question: None if question == "q2" else question == "q1"})
    summary = lab.summary().set_index("variant")
    assert summary.index.tolist() == ["a", "b"]
    assert summary.loc["a", ["n", "answered", "failed", "yes_n", "passed"]].tolist() == [1, 0, 1, 0, 0]
    assert np.isnan(summary.loc["a", "p50_s"])
    columns = ["n", "answered", "failed", "yes_n", "yes_passed", "odd_n", "odd_passed", "passed", "p50_s", "max_s"]
    assert summary.loc["b", columns].tolist() == [4, 3, 1, 3, 2, 2, 1, 1, 2.0, 3.0]
    # Of three replies one passed both checks and one failed both. The check "odd" could
    # not judge the third, which passed the other check.
    assert summary.loc["b", "pass_rate"] == 0.5
    chart = lab.chart()
    assert chart.text == ("Prompt lab. a: 0 of 1 answered; b: 3 of 4 answered, median 2 s, yes 2 of 3, odd 1 of 2.")
    assert "2 of 3" in chart.svg()
    assert f"<title>{chart.text}</title>" in chart.svg()


# Files


def test_a_saved_lab_loads_as_an_equal_lab(tmp_path: Path) -> None:
    lab, asked_at = make_lab(), datetime(2026, 10, 1, 8, 30, 0, 7, tzinfo=UTC)
    lab.add_variant("a", "Be brief.", mode="one-shot", tools=[{"integration": "mail", "tools": ["send"]}])
    lab.check({"named": "x", "pattern": re.compile("a+", re.IGNORECASE), "schema": SCHEMA})
    failed = {"status": "failed", "reason": "\0 ⏎\x85", "request_id": "r", "still_open": True}
    lab._lab.record(Answer("a", "q", asked_at=asked_at, **failed))  # type: ignore[arg-type]
    steps, verdicts = [Step("run", failed=True)], {"old": Grade(None, 0.5, "why"), "named": Grade(True)}
    answered = {"status": "answered", "reply": "aA", "steps": steps, "verdicts": verdicts, "latency_s": 1e-9}
    lab._lab.record(Answer("of no variant", "", 3, thumb=False, note="no", **answered))  # type: ignore[arg-type]
    loaded = PromptLab.load(lab.save(tmp_path / "lab.json"), LabPlatform())  # type: ignore[arg-type]
    assert loaded == lab
    assert (loaded.variants, loaded.checks) == (lab.variants, lab.checks)
    assert loaded._lab.answers == lab._lab.answers
    pd.testing.assert_frame_equal(loaded.results, lab.results)


def test_a_loaded_lab_continues(tmp_path: Path) -> None:
    lab = make_lab()
    lab.add_variant("now")
    lab.run(["one"], checks={"mine": lambda reply: True, "one": "one"}, progress=False)
    path = lab.save(tmp_path / "lab.json")
    assert path.stat().st_size > 0
    assert [each.name for each in tmp_path.iterdir()] == ["lab.json"]

    platform = LabPlatform()
    loaded = PromptLab.load(path, platform, workspace="acme~elsewhere", follow=platform.follow)  # type: ignore[arg-type]
    assert loaded.workspace == "acme~elsewhere"
    frame = loaded.run(["one", "two"], progress=False)
    assert platform.questions() == ["two"]
    assert frame["mine"].tolist() == [True, pd.NA], "the verdict is in the file, the function is not"
    assert "pass it again" in frame.loc[1, "check_error"]
    assert loaded.grade()["mine"].tolist() == [True, pd.NA], "grading again loses no verdict that it cannot make"
    assert loaded.check({"mine": lambda reply: False})["mine"].tolist() == [False, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "lab.json, line 2"),
        ("[]", "names with values"),
        ("[" * 100_000, "lab.json, line 1"),
        ("\ufeff[]", "names with values"),
        ('{"replies": {"answers": [{}]}}', "damaged|missing"),
        ('{"replies": {"answers": [{"variant": "a", "input": "b", "reply": 5}]}}', "reply"),
    ],
)
def test_another_file_raises(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "lab.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        PromptLab.load(tmp_path / "lab.json", LabPlatform())  # type: ignore[arg-type]


def test_half_a_surrogate_pair_survives_the_file(tmp_path: Path) -> None:
    lab = make_lab()
    lab._lab.record(BROKEN)
    path = lab.save(tmp_path / "lab.json")
    assert json.loads(path.read_text())["replies"]["answers"][0]["reply"] == "broken \ud83d here"
    assert PromptLab.load(path, LabPlatform()) == lab  # type: ignore[arg-type]


def test_a_copy_stays_while_the_experiment_changes(lab: PromptLab) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.run(["one"], checks={"kind": "kind"}, progress=False)
    copy = lab._lab.copy()
    lab.check({"other": "nothing"})
    lab.edit_variant("kind", system_prompt="Be nice.")
    assert copy.summary()["kind_passed"].tolist() == [1]
    assert (list(copy.variants), copy.revisions("kind")) == (["kind"], [])


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
