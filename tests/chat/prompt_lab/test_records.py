"""Checks, inputs, diffs, summaries and files: everything that asks nobody anything."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentbook.chat.prompt_lab.answers import STATUSES, Answer, to_frame
from agentbook.chat.prompt_lab.checks import Check, Verdict, read_checks
from agentbook.chat.prompt_lab.diff import PromptDiff
from agentbook.chat.prompt_lab.inputs import read_inputs
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.variant import MODES, Variant
from agentbook.chat.prompt_lab.versions import Version, number_after

from .lab_platform import LabPlatform

SCHEMA = {"type": "object", "required": ["answer"], "properties": {"answer": {"type": "string"}}}


def make(platform: LabPlatform | None = None) -> PromptLab:
    platform = platform or LabPlatform()
    return PromptLab(platform, agent="acme~writer", workspace="acme~lab", follow=platform.follow)  # type: ignore[arg-type]


# Inputs


@pytest.mark.parametrize(
    "given",
    [
        ["one", "two"],
        "one\n\n  two  \none\n",
        "1. one\n2) two",
        pd.Series(["one", None, "two"]),
        pd.DataFrame({"input": ["one", "two"], "expected": [1, 2]}),
        ("one", "", "two"),
    ],
)
def test_inputs_come_as_people_have_them(given: Any) -> None:
    assert read_inputs(given) == ["one", "two"]


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ([], ValueError, "no inputs"),
        (
            pd.DataFrame({"question": ["x"], "n": [1]}),
            ValueError,
            r"it has question, n. Give one of its columns: frame\[name\]",
        ),
        ([1], TypeError, "must be a text, not int"),
        ({"a": "b"}, TypeError, "not dict"),
        (7, TypeError, "not int"),
        (["one", "cut \ud83d"], ValueError, r"cut \\ud83d' is no valid Unicode"),
        ("one\ncut \ud83d", ValueError, "no valid Unicode"),
    ],
)
def test_other_inputs_are_refused_in_words(given: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        read_inputs(given)


def test_the_name_of_a_file_is_no_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_inputs("in.csv") == ["in.csv"]
    Path("in.csv").write_text("one\ntwo\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"'in.csv' is a file.*read_text"):
        read_inputs("in.csv")
    assert read_inputs(Path("in.csv").read_text(encoding="utf-8")) == ["one", "two"]


# Checks


@pytest.mark.parametrize(
    ("what", "reply", "passed"),
    [
        ("Refund", "no refund today", True),
        ("refund", "nothing", False),
        (re.compile(r"#\d+"), "order #12", True),
        (re.compile(r"#\d+"), "order 12", False),
        (SCHEMA, '{"answer": "yes"}', True),
        (SCHEMA, '```json\n{"answer": "yes"}\n```', True),
        (SCHEMA, '{"answer": 1}', False),
        (SCHEMA, "yes", False),
        (len, "", False),
        (lambda reply: np.bool_(reply == "x"), "x", True),
        (lambda reply, asked: asked in reply, "so: why?", True),
        (lambda reply, strict=True: strict, "x", True),
        (lambda reply: 0.49, "x", False),
        (lambda reply: 0.5, "x", True),
    ],
)
def test_a_check_is_a_text_a_pattern_a_schema_or_a_function(what: Any, reply: str, passed: bool) -> None:
    (check,) = read_checks({"check": what}).values()
    assert check.judge(reply, "why?").passed is passed


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda reply: 1 / 0, "ZeroDivisionError"),
        (lambda reply: None, "returned nothing"),
        (lambda reply: float("nan"), "NaN"),
        (lambda reply: "yes", "ValueError"),
    ],
)
def test_a_check_that_breaks_says_so_and_counts_neither_way(function: Callable[[str], Any], words: str) -> None:
    answer = Answer("a", "x", status="answered", reply="hello")
    answer.judge(read_checks({"mine": function}).values())
    frame = to_frame([answer], ["mine"])
    assert frame["mine"].isna().all()
    assert frame["passed"].isna().all()
    assert words in frame.loc[0, "check_error"]


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ([""], ValueError, "always pass"),
        ([{"type": "objekt"}], ValueError, "objekt"),
        (["x", "x"], ValueError, "Two checks are called 'contains x'"),
        ([3], TypeError, "not int"),
        (3, TypeError, "not int"),
    ],
)
def test_other_checks_are_refused(given: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        read_checks(given)


def test_checks_change_without_asking_anybody_again() -> None:
    platform = LabPlatform(lambda configuration, text: text.upper())
    lab = make(platform)
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
    assert len(calls) == 2, "what stands is not judged again"
    assert len(platform.asked()) == 2


def test_the_results_are_typed_the_same_when_empty() -> None:
    answered = Answer("a", "x", status="answered", reply="y", latency_s=1.0, asked_at=datetime(2026, 10, 1, tzinfo=UTC))
    answered.judge(read_checks(["y"]).values())
    full, empty = to_frame([answered], ["contains y"]), to_frame([], ["contains y"])
    assert full.dtypes.to_dict() == empty.dtypes.to_dict()
    assert str(full["asked_at"].dtype) == "datetime64[us, UTC]"
    assert str(full["contains y"].dtype) == "boolean"


@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")
def test_what_is_missing_is_missing_however_pandas_is_set() -> None:
    lab = make()
    lab._answers = {answer.key: answer for answer in [Answer("a", "x", status="answered", reply="broken \ud83d here")]}
    lab.add_variant("a")
    with pd.option_context("future.infer_string", False):
        results, summary = lab.results, lab.summary()
    assert results[["reason", "version", "check_error"]].isna().all(axis=None)
    assert results["reply"].tolist() == ["broken ? here"]
    assert summary["version"].isna().all()


def test_a_summary_counts_what_it_says() -> None:
    def said(variant: str, n: int, reply: str | None, status: str = "answered") -> Answer:
        answer = Answer(
            variant, f"q{n}", status=status, reply=reply, version="1.0.1", latency_s=float(n) if reply else None
        )
        answer.judge(lab.checks.values())
        return answer

    lab = make()
    lab.add_variant("a")
    lab.add_variant("b", "Be b.")
    lab.check({"yes": "yes", "odd": lambda reply, asked: None if asked == "q2" else asked == "q1"})
    for each in (
        said("b", 1, "yes"),
        said("b", 2, "yes"),
        said("b", 3, "no"),
        said("a", 1, None, "failed"),
        said("b", 4, None, "stopped"),
    ):
        lab._answers[each.key] = each
    lines = lab.summary().set_index("variant")
    assert lines.index.tolist() == ["a", "b"]
    assert lines.loc["a", ["n", "answered", "failed", "yes_n", "passed"]].tolist() == [1, 0, 1, 0, 0]
    assert np.isnan(lines.loc["a", "p50_s"])
    columns = ["n", "answered", "failed", "yes_n", "yes_passed", "odd_n", "odd_passed", "passed", "p50_s", "max_s"]
    assert lines.loc["b", columns].tolist() == [4, 3, 1, 3, 2, 2, 1, 1, 2.0, 3.0]
    # Of the three replies one passed both checks and one failed both; the third could not be judged by one, and passed the other.
    assert lines.loc["b", "pass_rate"] == 0.5
    picture = lab.chart()
    assert picture.text == ("Prompt lab. a: 0 of 1 answered; b: 3 of 4 answered, median 2 s, yes 2 of 3, odd 1 of 2.")
    assert "2 of 3" in picture.svg()
    assert f"<title>{picture.text}</title>" in picture.svg()


# Diffs


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab .!\n", max_size=60), st.text(alphabet="ab .!\n", max_size=60))
def test_a_diff_holds_both_prompts_whole(old: str, new: str) -> None:
    pieces = PromptDiff(old, new).pieces
    assert "".join(text for mark, text in pieces if mark != "-") == new
    kept = "".join(text for mark, text in pieces if mark != "+")
    # Space around sentences that stayed is the new prompt's.
    assert kept.split() == old.split() or re.sub(r"\s", "", kept) == re.sub(r"\s", "", old)


def test_a_diff_is_safe_and_says_what_happened() -> None:
    diff = PromptDiff("Be <b>kind</b>.", "Be <img src=x onerror=alert(1)>.", "1.0.0", "mine")
    html = diff.to_html()
    assert "<b>" not in html
    assert "<img" not in html
    assert "[removed: " in html
    assert "[added: " in html
    assert repr(PromptDiff("x", "x", "a", "b")) == "No difference between a and b."
    assert repr(diff).splitlines()[:2] == ["--- 1.0.0", "+++ mine"]


def test_a_diff_of_versions_and_variants() -> None:
    platform = LabPlatform()
    lab = make(platform)
    lab.add_variant("kind", "original, and kind")
    assert lab.diff("1.0.0", "kind").pieces == [(" ", "original"), ("+", ", and kind")]
    assert lab.diff(lab.versions()[0], lab.variants["kind"]).new_label == "kind"
    lab.add_variant("now")
    with pytest.raises(ValueError, match="is not known"):
        lab.diff("now", "kind")
    with pytest.raises(ValueError, match=r"variants are kind, now; versions are 1\.0\.0"):
        lab.diff("2.0.0", "kind")


@pytest.mark.parametrize(
    ("numbers", "after"),
    [
        ([], None),
        (["x", None], None),
        (["1.0.0"], "1.0.1"),
        (["1.9", "1.10", "1.2"], "1.11"),
        (["3"], "4"),
        (["²"], None),
    ],
)
def test_the_number_after(numbers: list[str | None], after: str | None) -> None:
    assert number_after([Version(number=number) for number in numbers]) == after


# Files

texts = st.text(max_size=30)
words = st.text(min_size=1, max_size=12).filter(str.strip)
moments = st.datetimes(timezones=st.just(UTC))
variants = st.builds(
    Variant,
    words,
    st.none() | words,
    st.none() | texts,
    st.none()
    | st.lists(st.fixed_dictionaries({"integration": texts, "tools": st.lists(texts, max_size=2)}), max_size=2),
    st.none() | st.lists(texts, max_size=2),
    st.none() | st.sampled_from(MODES),
    st.none() | texts,
    st.none() | words,
)
verdicts = st.builds(Verdict, st.none() | st.booleans(), st.none() | st.floats(0, 1), st.none() | texts)
answers = st.builds(
    Answer,
    variant=words,
    input=texts,
    repeat=st.integers(1, 5),
    status=st.sampled_from([status for status in STATUSES if status != "asking"]),
    agent=st.none() | texts,
    version=st.none() | texts,
    reply=st.none() | texts,
    reason=st.none() | texts,
    session_id=st.none() | texts,
    request_id=st.none() | texts,
    asked_at=st.none() | moments,
    latency_s=st.none() | st.floats(0, 1e6),
    still_open=st.booleans(),
    verdicts=st.dictionaries(words, verdicts, max_size=2),
)
checks = st.dictionaries(words, words | st.just(re.compile("a+", re.IGNORECASE)) | st.just(SCHEMA), max_size=3)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    st.lists(variants, max_size=3, unique_by=lambda each: each.name),
    st.lists(answers, max_size=4),
    checks,
    st.lists(texts),
)
def test_a_lab_read_back_equals_the_one_written(
    tmp_path: Path, tried: list[Variant], said: list[Answer], held: dict[str, Any], inputs: list[str]
) -> None:
    lab = make()
    for variant in tried:
        lab.add_variant(variant)
    lab._checks = read_checks(held)
    lab._answers = {answer.key: answer for answer in said}
    lab.inputs = inputs
    back = PromptLab.load(lab.save(tmp_path / "lab.json"), LabPlatform())  # type: ignore[arg-type]
    assert back == lab
    assert back.variants == lab.variants
    assert back.checks == lab.checks
    pd.testing.assert_frame_equal(back.results, lab.results)


def test_a_lab_read_back_goes_on_where_it_was(tmp_path: Path) -> None:
    lab = make()
    lab.add_variant("now")
    lab.run(["one"], checks={"mine": lambda reply: True, "one": "one"}, progress=False)
    path = lab.save(tmp_path / "lab.json")
    assert path.stat().st_size > 0
    assert [each.name for each in tmp_path.iterdir()] == ["lab.json"]

    platform = LabPlatform()
    back = PromptLab.load(path, platform, workspace="acme~elsewhere", follow=platform.follow)  # type: ignore[arg-type]
    assert back.workspace == "acme~elsewhere"
    frame = back.run(["one", "two"], progress=False)
    assert platform.asked() == ["two"]
    assert frame["mine"].tolist() == [True, pd.NA], "the verdict came with the file, the function did not"
    assert "give it again" in frame.loc[1, "check_error"]
    assert back.check({"mine": lambda reply: False})["mine"].tolist() == [False, False]


def test_no_secret_is_written(tmp_path: Path) -> None:
    import agentbook as ab

    client = ab.Client("http://127.0.0.1:9/v1", credentials=ab.ApiKey("key-id:planted-secret"))
    lab = PromptLab(client, agent="acme~writer", workspace="acme~lab")
    lab.add_variant("a", "Be a.")
    text = lab.save(tmp_path / "lab.json").read_text()
    assert "planted-secret" not in text
    assert "key-id" not in text
    assert "planted-secret" not in repr(lab) + repr(vars(lab))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is no JSON"),
        ("[]", "is no prompt lab"),
        ("[" * 100_000, "lab.json is no JSON"),
        ("\ufeff[]", "is no prompt lab"),
        ('{"format": "agentbook-prompt-lab", "version": 2}', "format version 2"),
        ('{"format": "agentbook-prompt-lab", "version": 1}', "is damaged"),
    ],
)
def test_another_file_is_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "lab.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        PromptLab.load(tmp_path / "lab.json", LabPlatform())  # type: ignore[arg-type]


def test_half_a_surrogate_pair_survives_the_file(tmp_path: Path) -> None:
    lab = make()
    lab._answers = {answer.key: answer for answer in [Answer("a", "x", status="answered", reply="broken \ud83d here")]}
    path = lab.save(tmp_path / "lab.json")
    assert json.loads(path.read_text())["answers"][0]["reply"] == "broken \ud83d here"
    assert PromptLab.load(path, LabPlatform()) == lab  # type: ignore[arg-type]


def test_a_check_keeps_its_flags() -> None:
    (check,) = read_checks([re.compile("A", re.IGNORECASE)]).values()
    assert Check.from_data(check.as_data()) == check
    with pytest.raises(ValueError, match="no kind of check"):
        Check.from_data({"name": "x", "kind": "magic", "what": 1})
