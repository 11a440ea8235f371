"""Experiments: results, summary, chart, and the file they are saved to."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentbook as ab
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.evaluation.checks import read_checks
from agentbook.evaluation.experiment import STATUSES, Answer, to_frame
from agentbook.evaluation.model import Grade
from agentbook.evaluation.variant import MODES, Variant

from .lab_platform import LabPlatform, make_lab

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

texts = st.text(max_size=30)
names = st.text(min_size=1, max_size=12).filter(str.strip)
times = st.datetimes(timezones=st.just(UTC))
variants = st.builds(
    Variant,
    names,
    st.none() | names,
    st.none() | texts,
    st.none()
    | st.lists(st.fixed_dictionaries({"integration": texts, "tools": st.lists(texts, max_size=2)}), max_size=2),
    st.none() | st.lists(texts, max_size=2),
    st.none() | st.sampled_from(MODES),
    st.none() | texts,
    st.none() | names,
)
verdicts = st.builds(Grade, st.none() | st.booleans(), st.none() | st.floats(0, 1), st.none() | texts)
answers = st.builds(
    Answer,
    variant=names,
    input=texts,
    repeat=st.integers(1, 5),
    status=st.sampled_from([status for status in STATUSES if status != "asking"]),
    agent=st.none() | texts,
    version=st.none() | texts,
    reply=st.none() | texts,
    reason=st.none() | texts,
    session_id=st.none() | texts,
    request_id=st.none() | texts,
    asked_at=st.none() | times,
    latency_s=st.none() | st.floats(0, 1e6),
    still_open=st.booleans(),
    verdicts=st.dictionaries(names, verdicts, max_size=2),
)
# Not the name of a column, which is refused.
checks = st.dictionaries(
    names.map("check {}".format), names | st.just(re.compile("a+", re.IGNORECASE)) | st.just(SCHEMA), max_size=3
)


@given(
    st.lists(variants, max_size=3, unique_by=lambda each: each.name),
    st.lists(answers, max_size=4),
    checks,
    st.lists(texts.map(str.strip).filter(bool), unique=True),
)
def test_a_saved_lab_loads_as_an_equal_lab(
    tmp_path: Path, variants: list[Variant], answers: list[Answer], checks: dict[str, Any], inputs: list[str]
) -> None:
    lab = make_lab()
    for variant in variants:
        lab.add_variant(variant)
    lab.check(checks)
    for answer in answers:
        lab._lab.record(answer)
    lab.inputs = inputs
    loaded = PromptLab.load(lab.save(tmp_path / "lab.json"), LabPlatform())  # type: ignore[arg-type]
    assert loaded == lab
    assert loaded.variants == lab.variants
    assert loaded.checks == lab.checks
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


def test_no_secret_is_written(tmp_path: Path) -> None:
    client = ab.Client("http://127.0.0.1:9/v1", credentials=ab.ApiKey("key-id:planted-secret"))
    lab = PromptLab(client, agent="acme~writer", workspace="acme~lab")
    lab.add_variant("a", "Be a.")
    text = lab.save(tmp_path / "lab.json").read_text()
    assert "planted-secret" not in text
    assert "key-id" not in text
    assert "planted-secret" not in repr(lab) + repr(vars(lab))


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
