"""Agents as judges: verdicts in a run, and calibration."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import agentbook as ab
from agentbook.api.errors import NotFound
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.evaluation.calibration import Calibration, calibrate
from agentbook.evaluation.judge import fingerprint
from chat.prompt_lab.lab_platform import LabPlatform, make_lab


def judged_lab(judge: Any) -> tuple[PromptLab, LabPlatform]:
    """A lab whose agent `acme~judge` answers by a function of the message."""
    platform = LabPlatform()
    platform.add_agent("acme~judge", system_prompt="judge")

    def reply(settings: Any, text: str) -> Any:
        return judge(text) if settings["system_prompt"] == "judge" else f"{settings['system_prompt']}: {text}"

    platform.reply = reply
    lab = make_lab(platform)
    lab.add_variant("now")
    lab.add_variant("kind", "Be kind.")
    return lab, platform


def test_a_run_asks_the_judge_and_keeps_its_reasons() -> None:
    def judge(text: str) -> Any:
        if "original: two" in text:
            return RuntimeError("the judge is ill")
        verdict = {"reason": "because", "pass": "Be kind" in text} if "three" not in text else {"score": 1}
        return f"Here: {json.dumps(verdict)}"

    lab, platform = judged_lab(judge)
    polite = ab.checks.rubric("It is polite about {{input}}.", agent="acme~judge")
    frame = lab.run(["one", "two", "three"], checks={"polite": polite, "o": "o"}, progress=False)
    assert lab.results["polite"].astype(object).fillna("open").tolist() == [False, "open", "open", True, True, "open"]
    assert frame["polite_reason"].tolist()[0] == "because"
    assert "did not say" in lab.results["check_error"].tolist()[2]
    assert "the judge is ill" in lab.results["check_error"].tolist()[1]
    before = len(platform.questions())
    assert any("It is polite about one." in text for text in platform.questions())
    platform.reply = lambda settings, text: '{"pass": true}'
    assert lab.judge.run()["polite"].tolist() == [False, True, True, True, True, True]
    assert len(platform.questions()) == before + 3, "only what is undecided is asked for"


def test_what_a_judge_could_not_judge_has_no_score_and_is_not_compared() -> None:
    def judge(text: str) -> Any:
        return "I cannot say." if "Be kind.: one" in text else '{"pass": true, "score": 0.8, "reason": "ok"}'

    lab, _ = judged_lab(judge)
    polite = ab.checks.rubric("It is polite.", agent="acme~judge")
    frame = lab.run(["one", "two"], checks={"polite": polite}, progress=False)
    assert frame["polite_score"].astype(object).fillna("open").tolist() == [0.8, 0.8, "open", 0.8]
    compared = lab.compare_variants("now").set_index("metric").loc["polite"]
    assert (compared["n"], compared["before"], compared["after"]) == (1, 0.8, 0.8)


def test_replies_are_graded_again_without_asking() -> None:
    lab, platform = judged_lab(lambda text: json.dumps({"pass": "Be kind" in text}))
    lab.run(["one"], progress=False)
    asked = len(platform.questions())
    rubric = ab.checks.rubric("It is polite.", agent="acme~judge")
    assert lab.grade({"polite": rubric, "o": "o"})["polite"].tolist() == [False, True]
    assert len(platform.questions()) == asked + 2, "the judge alone is asked"
    platform.reply = lambda settings, text: '{"pass": true}'
    reopened = lab.open_run(lab.runs()["run"][0])
    assert reopened.grade({"polite": rubric})["polite"].tolist() == [True, True]
    assert lab.grade()["polite"].tolist() == [True, True]
    assert len(platform.questions()) == asked + 6


def test_a_verdict_says_which_version_judged() -> None:
    lab, platform = judged_lab(lambda text: '{"pass": true}')
    rubric = ab.checks.rubric("It is polite.", agent="acme~judge")
    frame = lab.run(["one"], variants="now", checks={"polite": rubric, "o": "o"}, progress=False)
    assert frame["polite_judge"].tolist() == [f"acme~judge 1.0.0, prompt {fingerprint()}"]
    assert "o_judge" not in frame
    judge = platform.find("acme~judge")
    platform.history[judge].append(platform.version(version_number="1.1.0", system_prompt="judge"))
    own = ab.checks.rubric("It is polite.", agent="acme~judge", prompt="Judge {{ output }} by {{ rubric }}")
    lab.check({"polite": own})
    assert lab.judge.run()["polite_judge"].tolist() == [
        f"acme~judge 1.1.0, prompt {fingerprint(str(own.rubric_prompt))}"
    ]
    reopened = lab.open_run(lab.runs()["run"][0])
    assert reopened.results["polite_judge"].tolist() == frame["polite_judge"].tolist()


def test_a_prompt_of_a_judge_shows_the_reply() -> None:
    for prompt in ("Is this polite?", "The output: {{ rubric }}"):
        with pytest.raises(ValueError, match=r"needs \{\{ output \}\}"):
            ab.checks.rubric("It is polite.", agent="acme~judge", prompt=prompt)
    prompt = "{{ output }} {{ rubric }}"
    assert ab.checks.rubric("It is polite.", agent="acme~judge", prompt=prompt).rubric_prompt == prompt


def test_a_calibration_says_whether_verdicts_or_thumbs_are_missing() -> None:
    lab, _ = judged_lab(lambda text: "I cannot say.")
    lab.run(["one"], checks={"polite": ab.checks.rubric("It is polite.", agent="acme~judge")}, progress=False)
    lab.rate(("now", "one", 1), thumb=True)
    with pytest.raises(ValueError, match=r"verdict: 0, .*label: 1.*check_error"):
        lab.judge.calibration("polite")


def test_a_broken_rubric_fails_its_cells_alone() -> None:
    lab, _ = judged_lab(lambda text: '{"pass": true}')
    checks = {
        "broken": ab.checks.rubric("It is polite.", agent="acme~judge", prompt="{{ output }} {{ shout }}"),
        "fine": ab.checks.rubric("It is polite.", agent="acme~judge"),
    }
    frame = lab.run(["one"], variants="now", checks=checks, progress=False)
    assert frame[["broken", "fine"]].isna().to_numpy().tolist() == [[True, False]]
    assert "shout" in frame.loc[0, "check_error"]


def test_what_judges_cost_counts_too() -> None:
    lab, platform = judged_lab(lambda text: '{"pass": true}')
    platform.usage = {"usage": {"prompt_tokens": 60, "completion_tokens": 40, "model": "small"}}
    checks = {"polite": ab.checks.rubric("It is polite.", agent="acme~judge")}
    options = {"prices": {"small": (10_000.0, 10_000.0)}, "progress": False}  # a reply costs 1
    with pytest.warns(UserWarning, match=r"before max_cost=6\.5"):
        frame = lab.run([f"{n}" for n in range(9)], variants="now", checks=checks, max_cost=6.5, **options)
    assert frame["polite"].tolist() == [True] * 3, "what is asked is judged"
    assert len(platform.questions()) == 6
    assert lab.run(variants="now", max_cost=100, **options)["polite"].tolist() == [True] * 9


def test_a_limit_of_the_cost_keeps_enough_for_all_judgements_of_a_reply() -> None:
    lab, platform = judged_lab(lambda text: '{"pass": true}')
    platform.usage = {"usage": {"prompt_tokens": 60, "completion_tokens": 40, "model": "small"}}
    checks = {name: ab.checks.rubric(f"It is {name}.", agent="acme~judge") for name in ("kind", "short", "true")}
    options = {"prices": {"small": (10_000.0, 10_000.0)}, "progress": False}
    with pytest.warns(UserWarning, match=r"before max_cost=9"):
        frame = lab.run(["a", "b", "c"], variants="now", checks=checks, max_cost=9, **options)
    assert frame["passed"].tolist() == [True] * 2, "each reply needs three judgements"
    assert len(platform.questions()) == 8


def test_a_judge_is_calibrated_against_thumbs() -> None:
    lab, _ = judged_lab(lambda text: json.dumps({"pass": "Be kind" in text}))
    inputs = [f"input {n}" for n in range(5)]
    lab.run(inputs, checks={"polite": ab.checks.rubric("It is polite.", agent="acme~judge")}, progress=False)
    with pytest.raises(ValueError, match="label some replies"):
        lab.judge.calibration("polite")
    for n, text in enumerate(inputs):
        lab.rate(("kind", text, 1), thumb=n < 4)
        lab.rate(("now", text, 1), thumb=False)
    calibration = lab.judge.calibration("polite")
    assert calibration == Calibration(right_passes=4, wrong_passes=1, right_failures=5, wrong_failures=0)
    assert (calibration.sensitivity, calibration.specificity) == (1.0, 5 / 6)
    assert calibration.kappa == pytest.approx(0.8)
    assert not calibration.warning
    halves = [lab.judge.calibration("polite", split=split) for split in ("dev", "test")]
    assert sum(half.labels for half in halves) == 10


def test_thumbs_and_notes_are_labels_and_a_judge_is_calibrated_against_labels(tmp_path: Path) -> None:
    lab, _ = judged_lab(lambda text: '{"pass": true}')
    checks = {"polite": ab.checks.rubric("It is polite.", agent="acme~judge")}
    lab.run([f"input {n}" for n in range(5)], variants="now", checks=checks, progress=False)
    for n in range(4):
        lab.rate(("now", f"input {n}", 1), thumb=n > 0, note="too short" if n == 0 else None)
    labels = lab.labels
    assert labels["question"].tolist() == ["good", "note", "good", "good", "good"]
    assert labels["value"].tolist() == ["no", "too short", "yes", "yes", "yes"]
    assert labels["session_id"].tolist()[0] == lab.results["session_id"][0]
    ab.save_labels(labels, tmp_path)
    calibration = lab.judge.calibration("polite", tmp_path)
    assert calibration == Calibration(right_passes=3, wrong_passes=1, right_failures=0, wrong_failures=0)
    assert "every reply" in calibration.warning


def test_a_corrected_rate_counts_the_error_of_the_calibration() -> None:
    pairs = [(True, True)] * 45 + [(False, True)] * 5 + [(False, False)] * 40 + [(True, False)] * 10
    few, many = calibrate(pairs), calibrate(pairs * 20)
    share, low, high = few.correct(0.62, 200)
    assert share == pytest.approx((0.62 + 0.8 - 1) / (0.9 + 0.8 - 1))
    assert low < many.correct(0.62, 200)[1] < share < many.correct(0.62, 200)[2] < high
    assert math.isnan(calibrate([(True, False)] * 5 + [(False, True)] * 5).correct(0.5, 10)[0])
    assert math.isnan(calibrate([]).agreement)


@pytest.mark.parametrize("true", [0.05, 0.7, 1.0])
def test_the_interval_of_a_corrected_rate_covers_the_true_share(true: float) -> None:
    random = np.random.default_rng(7)
    good, bad, passed = (random.binomial(*each, 1000) for each in ((33, 0.8), (47, 0.98), (10, 0.02 + true * 0.78)))
    ends = [
        Calibration(right_passes=g, wrong_failures=33 - g, right_failures=b, wrong_passes=47 - b).correct(p / 10, 10)[
            1:
        ]
        for g, b, p in zip(good.tolist(), bad.tolist(), passed.tolist(), strict=True)
    ]
    assert np.mean([low <= true <= high for low, high in ends]) >= 0.94


def test_a_judge_without_a_limit_of_tokens_answers_on_a_draft_that_has_one() -> None:
    lab, platform = judged_lab(lambda text: '{"pass": true}')
    platform.add_agent("acme~limited", system_prompt="judge", max_tokens=900)
    checks = {name: ab.checks.rubric("It is kind.", agent=f"acme~{name}") for name in ("judge", "limited")}
    for offered in ((), ("max_tokens",), ("max_tokens", "type", "agent_version_id")):
        platform.offered = offered
        lab.run(["one", *map(str, offered)], variants="now", checks=checks, progress=False)
        used = {platform.find("acme~judge"): None, platform.find("acme~limited"): None}
        used |= {agent: version for agent, version in platform.asked_of.values() if agent in used}
        if len(offered) < 3:
            assert set(used.values()) == {None}
    assert used[platform.find("acme~limited")] is None
    (draft,) = (each for each in platform.history[platform.find("acme~judge")] if each["type"] == "EPHEMERAL")
    assert (draft["max_tokens"], draft["system_prompt"]) == (2000, "judge")
    assert used[platform.find("acme~judge")] == draft["id"]


@pytest.mark.parametrize(
    ("check", "named"),
    [
        (ab.checks.rubric("It is kind.", agent="acme~nobody"), "not found"),
        (ab.checks.similar("tea"), "OPENAI_BASE_URL"),
        (ab.checks.contains("{{expcted}}"), "expcted.*input, expected"),
        (ab.checks.turn(1, ab.checks.rubric("{{expcted}}", agent="acme~judge")), "expcted"),
    ],
)
@pytest.mark.parametrize("base_url", [None, "http://127.0.0.1:9/v1"])
def test_what_a_check_lacks_is_found_before_the_first_question(
    check: Any, named: str, base_url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    if base_url is not None:
        monkeypatch.setenv("OPENAI_BASE_URL", base_url)
    lab, platform = judged_lab(lambda text: '{"pass": true}')
    with pytest.raises(
        (ValueError, NotFound), match=named if base_url is None or named != "OPENAI_BASE_URL" else "embeddings"
    ):
        lab.run(rows=[{"input": "one", "expected": "tea"}], checks={"c": check}, progress=False)
    assert platform.questions() == []


def test_an_unknown_user_is_found_before_the_first_question(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("now")
    lab.add_simulated_user("acme~nobody", "You want tea.")
    with pytest.raises(NotFound):
        lab.run(progress=False)
    assert platform.questions() == []
