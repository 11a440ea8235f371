"""Whether a variant is better: pairs of inputs, intervals that cover."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from agentbook.evaluation import statistics
from agentbook.evaluation.experiment import Answer, to_frame
from agentbook.evaluation.model import Grade
from agentbook.evaluation.statistics import (
    MOST_INPUTS,
    compare_differences,
    compare_passes,
    compare_variants,
    describe,
    flip_signs,
    inputs_to_add,
)
from agentbook.frames.analysis.clusters import t_quantile
from chat.prompt_lab.lab_platform import LabPlatform, make_lab


def answer(variant: str, text: str, passed: bool | None, *, repeat: int = 1, latency_s: float = 1.0) -> Answer:
    made = Answer(variant, text, repeat, status="answered", reply="", latency_s=latency_s)
    made.verdicts = {"short": Grade(passed)}
    return made


def rows(answers: list[Answer]) -> dict[str, dict[str, object]]:
    table = compare_variants(to_frame(answers, ["short"]), ["short"], "now")
    return {row["metric"]: row for row in table.to_dict("records")}


def test_one_reply_each_is_compared_by_what_changed() -> None:
    answers = [answer("now", str(n), n < 4) for n in range(20)] + [answer("brief", str(n), n < 16) for n in range(20)]
    short = rows(answers)["short"]
    assert (short["n"], short["before"], short["after"], short["effect"]) == (20, 0.2, 0.8, 0.6)
    # Agresti and Min, with c = 12 won, b = 0 lost and n + 2 = 22.
    centre, reach = 12 / 22, 1.959964 * math.sqrt(13 - 144 / 22) / 22
    assert (short["low"], short["high"]) == (pytest.approx(centre - reach), pytest.approx(centre + reach))
    assert short["verdict"] == "better"
    assert short["more_inputs"] == 0


def test_few_changes_never_settle_anything() -> None:
    answers = [answer("now", str(n), False) for n in range(4)] + [answer("brief", str(n), True) for n in range(4)]
    assert rows(answers)["short"]["verdict"] == "open"


def test_repeats_are_averaged_and_add_no_certainty() -> None:
    few = [answer(name, str(n), good) for name, good in (("now", False), ("brief", True)) for n in range(3)]
    repeated = [
        answer(name, str(n), good, repeat=repeat)
        for name, good in (("now", False), ("brief", True))
        for n in range(3)
        for repeat in range(1, 9)
    ]
    assert rows(repeated)["short"]["n"] == rows(few)["short"]["n"] == 3
    assert rows(repeated)["short"]["verdict"] == "open"


def test_only_inputs_that_both_answered_count() -> None:
    answers = [answer("now", str(n), True) for n in range(5)] + [answer("brief", str(n), None) for n in range(3, 9)]
    table = rows(answers)
    assert (table["short"]["n"], table["latency_s"]["n"]) == (0, 2)
    assert table["short"]["verdict"] == "open"


def test_a_question_that_failed_passes_no_check_until_it_is_answered() -> None:
    answers = [answer("now", str(n), n >= 12) for n in range(24)] + [answer("new", str(n), True) for n in range(12)]
    answers += [Answer("new", str(n), status="failed", reason="crash") for n in range(24)]
    assert rows(answers)["short"]["effect"] == 0
    assert rows(answers)["short"]["n"] == 24
    assert rows(answers)["latency_s"]["n"] == 12


def test_latencies_are_compared_as_ratios() -> None:
    answers = [answer("now", str(n), True, latency_s=2.0**n) for n in range(8)]
    answers += [answer("brief", str(n), True, latency_s=2.0 ** (n - 1) * (1 + n / 100)) for n in range(8)]
    latency = rows(answers)["latency_s"]
    assert latency["effect"] == pytest.approx(0.517, abs=0.001)
    assert latency["verdict"] == "better"
    assert latency["low"] < latency["effect"] < latency["high"] < 1


def test_many_comparisons_are_corrected() -> None:
    names = [f"check {n}" for n in range(10)]
    answers = []
    for variant in ("now", "brief"):
        for n in range(12):
            made = Answer(variant, str(n), status="answered", reply="", latency_s=1.0)
            made.verdicts = {name: Grade(variant == "brief" and n < 6) for name in names[:1]}
            made.verdicts |= {name: Grade(True) for name in names[1:]}
            answers.append(made)
    alone = compare_variants(to_frame(answers, names[:1]), names[:1], "now")
    among = compare_variants(to_frame(answers, names), names, "now")
    assert alone["verdict"].iloc[0] == "better"
    assert among["verdict"].iloc[0] == "open"


@pytest.mark.parametrize("count", [4, 6, 12, 40])
@pytest.mark.parametrize("seed", range(3))
def test_an_interval_leaves_out_no_difference_exactly_where_the_verdict_is_not_open(count: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    answers = []
    for variant in ("now", "kind", "brief"):
        better, faster = draw.choice([0.4, 0.7, 0.95]), draw.choice([0.5, 0.8, 1.0])
        for n, repeat in itertools.product(range(count), range(1, 2 + seed % 2)):
            seconds = faster * math.exp(math.sin(n) + draw.normal(0, 0.3))
            answers.append(answer(variant, str(n), bool(draw.random() < better), repeat=repeat, latency_s=seconds))
    table = compare_variants(to_frame(answers, ["short"]), ["short"], "now")
    assert len(table) == 4
    for row in table.to_dict("records"):
        same = 1.0 if row["metric"] == "latency_s" else 0.0
        if not math.isnan(row["low"]):
            assert (not row["low"] <= same <= row["high"]) == (row["verdict"] != "open"), row
            assert row["low"] <= row["effect"] <= row["high"]


def test_equal_differences_have_no_interval() -> None:
    estimate = compare_differences(np.full(6, 0.5))
    assert estimate.effect == 0.5
    assert math.isnan(estimate.low)


def test_the_quantiles_are_those_of_the_tables() -> None:
    assert [round(t_quantile(n), 4) for n in (1, 2, 3, 9, 100)] == [12.7062, 4.3027, 3.1824, 2.2622, 1.984]


@pytest.mark.parametrize("count", [10, 60])
def test_flipped_signs_call_noise_a_difference_in_one_case_of_twenty(count: int) -> None:
    draw = np.random.default_rng(1)
    p = [flip_signs(draw.standard_normal(count)) for _ in range(100)]
    assert 0.02 <= np.mean(np.array(p) < 0.05) <= 0.09


def test_intervals_cover_what_they_say() -> None:
    draw = np.random.default_rng(2)
    covered = []
    for _ in range(400):
        rates = draw.beta(0.7, 0.5, 20)
        differences = (draw.random(20) < rates).astype(float) - (draw.random(20) < rates)
        estimate = compare_passes(differences)
        covered.append(estimate.low <= 0 <= estimate.high)
    assert np.mean(covered) >= 0.93


@pytest.mark.parametrize(
    ("won", "lost", "p"), [(7, 1, 0.0391), (16, 6, 0.0347), (5, 0, 0.03125), (4, 0, 0.0625), (3, 3, 1.0)]
)
def test_mcnemars_mid_p_is_that_of_the_paper_and_of_enumeration(won: int, lost: int, p: float) -> None:
    estimate = compare_passes(np.array([1.0] * won + [-1.0] * lost + [0.0] * 10))
    assert estimate.p == pytest.approx(p, abs=5e-5)
    changed = won + lost
    share = [math.comb(changed, k) / 2**changed for k in range(changed + 1)]
    beyond = sum(share[k] for k in range(changed + 1) if abs(2 * k - changed) > abs(won - lost))
    tied = sum(share[k] for k in range(changed + 1) if abs(2 * k - changed) == abs(won - lost))
    assert estimate.p == pytest.approx(beyond + tied / 2 if won != lost else 1.0)


def test_an_interval_of_differences_is_students() -> None:
    sleep = np.array([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])  # Student, 1908
    estimate = compare_differences(sleep)
    assert (estimate.effect, estimate.low, estimate.high) == pytest.approx((1.58, 0.7001142, 2.4598858), abs=1e-6)
    patterns = [np.array([1 if mask >> n & 1 else -1 for n in range(10)]) for mask in range(1024)]
    assert estimate.p == pytest.approx(np.mean([abs(signs @ sleep) >= sleep.sum() - 1e-9 for signs in patterns]))


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_inputs_to_add_are_enough_for_the_test_to_say_so(count: int) -> None:
    wins = np.ones(count)
    more = inputs_to_add(wins, is_binary=True)
    assert more == 5 - count, "under five changes a mid-p never reaches 5 %"
    assert compare_passes(np.ones(count + more)).p < 0.05 <= compare_passes(np.ones(count + more - 1)).p
    scores = np.full(count, 0.3)
    more = inputs_to_add(scores)
    assert more == 6 - count
    assert flip_signs(np.full(count + more, 0.3)) < 0.05 <= flip_signs(np.full(count + more - 1, 0.3))


def test_a_lab_says_what_its_results_show() -> None:
    lab = make_lab(LabPlatform())
    lab.add_variant("now")
    lab.add_variant("kind", "Be kind.")
    lab.run([f"input {n}" for n in range(8)], checks={"kind": "kind"}, progress=False)
    table = lab.compare_variants()
    assert table.loc[table["metric"] == "kind", "verdict"].item() == "better"
    assert describe(table, "now")[0].startswith("kind is better than now at “kind”: 0 became 1, a difference of +1")
    with pytest.raises(ValueError, match="There is no variant 'nobody'"):
        lab.compare_variants("nobody")
    with pytest.raises(ValueError, match="There is no variant yet"):
        make_lab(LabPlatform()).compare_variants()


@pytest.mark.parametrize(("count", "text"), [(1, "About 1 more input would"), (1200, "About 1,200 more inputs would")])
def test_the_inputs_that_are_missing_are_counted_in_words(count: int, text: str) -> None:
    table = pd.DataFrame({"variant": ["kind"], "metric": ["kind"], "verdict": ["open"], "more_inputs": [count]})
    assert text in describe(table, "now")[0]


def test_more_inputs_are_asked_for_the_check_before_the_latency() -> None:
    seconds = (1.2, 1.3, 1.2, 1.4, 1.3)
    answers = [answer("now", str(n), n < 2) for n in range(5)]
    answers += [answer("examples", str(n), True, latency_s=seconds[n]) for n in range(5)]
    table = compare_variants(to_frame(answers, ["short"]), ["short"], "now")
    more = dict(zip(table["metric"], table["more_inputs"], strict=True))
    assert more["latency_s"] < more["short"]
    assert str(more["short"]) in describe(table, "now")[0]


def seen(before: np.ndarray, after: np.ndarray, run: np.ndarray) -> pd.DataFrame:
    """The results of two variants, each input asked in the run with this number."""
    n, at = len(run), pd.Timestamp("2026-11-02", tz="UTC") + pd.to_timedelta(run, "h")
    columns = {"variant": ["now"] * n + ["brief"] * n, "input": [*range(n), *range(n)], "run_at": [*at, *at]}
    frame = pd.DataFrame({**columns, "status": "answered", "good": np.concatenate([before, after])})
    return frame.assign(good_score=frame["good"]) if before.dtype == float else frame


@pytest.mark.parametrize(("kind", "count"), [("passes", 60), ("scores", 40)])
def test_five_looks_call_noise_a_difference_no_more_often_than_one_may(
    monkeypatch: pytest.MonkeyPatch, kind: str, count: int
) -> None:
    """Whoever adds what an open verdict asks for, and looks again."""
    monkeypatch.setattr(statistics, "_FLIPS", 3000)
    draw, wrong = np.random.default_rng(1), 0
    for _ in range(count):
        rates = draw.beta(2, 2, 150)  # an input is as hard for both
        if kind == "passes":
            before, after = draw.random(150) < rates, draw.random(150) < rates
        else:
            before, after = rates + draw.normal(0, 0.2, 150), rates + draw.normal(0, 0.2, 150)
        run, more = np.empty(0), 10
        for look in range(5):
            run = np.append(run, np.full(min(int(more), 35), look))
            table = seen(before[: len(run)], after[: len(run)], run)
            row = compare_variants(table, ["good"], "now", "good").iloc[0]
            if row["verdict"] != "open":
                wrong += 1
                break
            more = 10 if row["more_inputs"] is pd.NA else row["more_inputs"]
    assert wrong <= 0.05 * count


def test_a_later_look_asks_for_more_and_an_earlier_verdict_stays() -> None:
    lost, won = np.zeros(20, bool), np.ones(20, bool)
    runs = [np.zeros(20), np.repeat([0, 1], (5, 15)), np.repeat([0, 1, 2], (2, 3, 15))]
    p = [compare_variants(seen(lost, won, run), ["good"], "now", ["good"])["p"].item() for run in runs]
    assert p == pytest.approx([1.25 / 2**20, 10 / 2**20, 30 / 2**20])
    later = seen(lost, np.append(won[:7], lost[7:]), np.repeat([0, 1], (7, 13)))
    row = compare_variants(later, ["good"], "now", ["good"]).iloc[0]
    assert (row["p"], row["verdict"], row["n"]) == (pytest.approx(1.25 / 2**7), "better", 20)
    assert row["low"] > 0
    turned = seen(np.append(lost[:7], won[7:]), np.append(won[:7], lost[7:]), np.repeat([0, 1], (7, 13)))
    assert compare_variants(turned, ["good"], "now", ["good"])["verdict"].item() == "open"


def test_differences_that_cancel_are_no_difference() -> None:
    scores = {"now": (0.1, 0.2, 0.4), "brief": (0.4, 0.1, 0.2)}
    before, after = np.array(scores["now"]), np.array(scores["brief"])
    row = compare_variants(seen(before, after, np.zeros(3)), ["good"], "now", ["good"]).iloc[0]
    assert (row["effect"], row["p"], row["verdict"], row["more_inputs"]) == (0, 1, "open", pd.NA)
    same = seen(np.full(6, 0.1 + 0.2), np.full(6, 0.3), np.zeros(6))  # but for rounding
    assert compare_variants(same, ["good"], "now", "good")["p"].item() == 1
    assert inputs_to_add(np.append(np.ones(5), np.full(4, -1.24))) == MOST_INPUTS


def test_the_metrics_that_decide_are_the_only_ones_corrected_for() -> None:
    names, runs = ["good", "kind"], np.zeros(5)
    results = seen(np.zeros(5, bool), np.ones(5, bool), runs).assign(kind=True, passed=True, latency_s=1.0)
    assert compare_variants(results, names, "now")["verdict"].tolist() == ["open"] * 4
    table = compare_variants(results, names, "now", metrics=("good",))
    assert (table["metric"].tolist(), table["verdict"].tolist()) == (["good"], ["better"])
    assert compare_variants(results, names, "now", "passed")["metric"].tolist() == ["passed"]
    for wrong in ("god", ["good", "god"], []):
        with pytest.raises(ValueError, match="there are: good, kind, passed, latency_s"):
            compare_variants(results, names, "now", wrong)
