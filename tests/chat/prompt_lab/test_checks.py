"""Checks of a reply, and changing them after a run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from agentbook.chat.prompt_lab.answers import Answer, to_frame
from agentbook.chat.prompt_lab.checks import Check, parse_checks, read_checks

from .lab_platform import LabPlatform, make_lab

pytestmark = pytest.mark.python_versions

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
