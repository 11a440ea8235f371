"""Checks of a reply, and changing them after a run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import agentbook as ab
from agentbook.evaluation.answers import Answer, to_frame
from agentbook.evaluation.checks import Check, parse_checks, read_checks
from agentbook.evaluation.experiment import Experiment
from agentbook.evaluation.file_checks import FileAssert, FileCases
from agentbook.evaluation.model import Assertion, Case

from .lab_platform import LabPlatform, make_lab

SCHEMA = {"type": "object", "required": ["answer"], "properties": {"answer": {"type": "string"}}}


@pytest.mark.parametrize(
    ("criterion", "reply", "passed"),
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
        (lambda reply, question: question in reply, "so: why?", True),
        (lambda reply, strict=True: strict, "x", True),
        (lambda reply: 0.49, "x", False),
        (lambda reply: 0.5, "x", True),
    ],
)
def test_a_check_is_a_text_a_pattern_a_schema_or_a_function(criterion: Any, reply: str, passed: bool) -> None:
    (check,) = read_checks({"check": criterion}).values()
    assert check.judge(reply, "why?").passed is passed


@pytest.mark.parametrize(
    ("function", "error_text"),
    [
        (lambda reply: 1 / 0, "ZeroDivisionError"),
        (lambda reply: None, "returned nothing"),
        (lambda reply: float("nan"), "NaN"),
        (lambda reply: "yes", "ValueError"),
    ],
)
def test_a_check_that_raises_counts_neither_way(function: Callable[[str], Any], error_text: str) -> None:
    answer = Answer("a", "x", status="answered", reply="hello")
    answer.judge(read_checks({"mine": function}).values())
    frame = to_frame([answer], ["mine"])
    assert frame["mine"].isna().all()
    assert frame["passed"].isna().all()
    assert error_text in frame.loc[0, "check_error"]


@pytest.mark.parametrize(
    ("checks", "error", "message"),
    [
        ([""], ValueError, "always pass"),
        ([{"type": "objekt"}], ValueError, "objekt"),
        (["x", "x"], ValueError, "Two checks are called 'contains x'"),
        ([3], TypeError, "not int"),
        (3, TypeError, "not int"),
    ],
)
def test_invalid_checks_raise(checks: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_checks(checks)


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


def test_typed_checks_are_read_line_by_line() -> None:
    checks = parse_checks('shape: {"type": "object"}\n{"type": "array", "title": "a list"}\nhttp://x')
    assert [(check.name, check.kind) for check in checks.values()] == [
        ("shape", "json_schema"), ("a list", "json_schema"), ("contains http://x", "contains"),
    ]  # fmt: skip
    assert parse_checks("\n".join(str(check.line) for check in checks.values())) == checks


def test_a_check_keeps_its_flags() -> None:
    (check,) = read_checks([re.compile("A", re.IGNORECASE)]).values()
    assert Check.from_data(check.as_data()) == check
    with pytest.raises(ValueError, match="Unknown kind of check"):
        Check.from_data({"name": "x", "kind": "magic", "what": 1})


@pytest.mark.parametrize(
    ("criterion", "passed", "score"),
    [
        (ab.checks.length(max=3), True, None),
        (ab.checks.length(min=4, max=9), False, None),
        (ab.checks.length(max=5, unit="characters"), False, None),
        (ab.checks.latency(2.0), True, None),
        (ab.checks.latency(1.0), False, None),
        (ab.checks.overlap("one two"), True, 0.8),
        (ab.checks.overlap("{{expected}}", threshold=0.9), True, 1.0),
        (ab.checks.overlap("nothing"), False, 0.0),
    ],
)
def test_checks_of_length_latency_and_similarity(criterion: Any, passed: bool, score: float | None) -> None:
    (check,) = read_checks([criterion]).values()
    verdict = check.judge("One two three", "why?", 1.5, {"expected": "three two one"})
    assert (verdict.passed, verdict.score) == (passed, pytest.approx(score) if score else score)
    assert Check.from_data(json.loads(json.dumps(check.as_data()))) == check


def test_an_assert_of_a_file_keeps_the_files_meaning() -> None:
    ours, theirs = read_checks({"ours": "Refund", "theirs": FileAssert(Assertion("contains", "Refund"))}).values()
    assert (ours.judge("refund").passed, theirs.judge("refund").passed) == (True, False)
    fenced = '```json\n{"answer": "yes"}\n```'
    ours, theirs = read_checks({"ours": SCHEMA, "theirs": FileAssert(Assertion("is-json", SCHEMA))}).values()
    assert (ours.judge(fenced).passed, theirs.judge(fenced).passed) == (True, False)
    ours, theirs = read_checks({"o": lambda reply: 0.4, "t": FileAssert(Assertion("python", "0.4"))}).values()
    assert (ours.judge("x").passed, theirs.judge("x").passed) == (False, True)
    cases = FileCases(
        {"why?": Case(asserts=(Assertion("equals", "x", weight=3), Assertion("equals", "y"))), "how?": Case()}
    )
    (check,) = read_checks([cases]).values()
    assert (check.judge("x", "why?").passed, check.judge("x", "why?").score) == (False, 0.75)
    assert Check.from_data(json.loads(json.dumps(check.as_data()))) == check


def test_people_rate_replies() -> None:
    lab = make_lab(LabPlatform())
    lab.add_variant("now")
    lab.run(["one", "two"], progress=False)
    lab.rate(("now", "one", 1), True, " well said ")
    lab.rate(("now", "two", 1), False)
    assert lab.results["thumb"].tolist() == [True, False]
    assert lab.results["note"].tolist()[0] == "well said"
    again = Experiment.from_data(json.loads(json.dumps(lab.as_data())))
    assert again.results["thumb"].tolist() == [True, False]
    lab.rate(("now", "two", 1))
    assert lab.results["thumb"].isna().tolist() == [False, True]
    with pytest.raises(ValueError, match="There is no reply"):
        lab.rate(("now", "three", 1), True)
