"""A check is one line of text, and what it says about a reply."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentbook as ab
from agentbook.evaluation import check as check_module
from agentbook.evaluation.asserts import KINDS, grade_check
from agentbook.evaluation.check import FUNCTION, LISTS, OWN, SCHEMAS, Check, check_data, named, parse_check, read_check
from agentbook.evaluation.checks import parse_checks, read_checks
from agentbook.evaluation.file import dump
from agentbook.evaluation.model import Reply, Services, Step
from agentbook.evaluation.source import parse_source

SCHEMA = {"type": "object", "required": ["answer"], "properties": {"answer": {"type": "string"}}}


# The line of text

PIECES = [
    *("file://", "{{", "}}", "{%", " raw ", "%}", "not: ", "words <= 3", "/a/i", "/", '"', "[1]", "{", "name: "),
    *("judge a: ", "like: ", "steps: called a", "check: {}", "equals: ", "latency <= 5 s", "function: f", "(", ")"),
    *(":", "<=", "\n", "\r", "\x85", "\u2028", " ", "x", "é", "\ud800"),
]
TEXTS = st.one_of(
    st.text(min_size=1, max_size=20), st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)
)
NUMBERS = st.one_of(st.integers(0, 10**6), st.floats(0, 1e6))
LIMITS = st.one_of(st.none(), st.floats(-2, 2), st.integers(0, 100))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS),
    lambda part: st.one_of(st.lists(part, max_size=3), st.dictionaries(TEXTS, part, max_size=3)),
    max_leaves=5,
)
MAPPINGS = st.dictionaries(TEXTS, VALUES, min_size=1, max_size=3)


def is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, OverflowError):
        return False
    return True


def without(**value: Any) -> dict[str, Any]:
    return {name: each for name, each in value.items() if each not in (None, [], "", False)}


NAMES = st.lists(TEXTS, max_size=3)
BOUNDS = st.tuples(st.none() | NUMBERS, st.none() | NUMBERS).map(lambda pair: without(min=pair[0], max=pair[1]))
OF_A_TEXT = [*check_module.TEXTS, "similar", "agentbook:overlap"]
PLAIN = st.one_of(
    st.builds(lambda text: Check("icontains", text), TEXTS),
    st.builds(Check, st.sampled_from(check_module.TEXTS), TEXTS),
    st.builds(Check, st.sampled_from(["similar", "agentbook:overlap"]), TEXTS, LIMITS),
    st.builds(Check, st.sampled_from(LISTS), st.lists(TEXTS, min_size=1, max_size=3)),
    st.builds(Check, st.sampled_from(SCHEMAS), st.none() | MAPPINGS),
    st.builds(Check, st.sampled_from(["word-count", "agentbook:characters"]), NUMBERS),
    st.builds(Check, st.sampled_from(["word-count", "agentbook:characters"]), BOUNDS.filter(bool)),
    st.builds(Check, st.sampled_from(["latency", "cost"]), threshold=NUMBERS),
    st.builds(
        lambda text, flags: Check("agentbook:pattern", without(pattern=text, flags=flags)),
        TEXTS.filter(is_pattern),
        st.sampled_from(["", "i", "ims"]),
    ),
    st.builds(Check, st.just("agentbook:json"), MAPPINGS),
    st.builds(
        lambda text, limit, agent, prompt: Check("llm-rubric", text, limit, agent=agent, rubric_prompt=prompt),
        TEXTS,
        LIMITS,
        st.none() | TEXTS,
        st.none() | TEXTS,
    ),
    st.builds(
        lambda called, others, order, most, failures: Check(
            "agentbook:steps",
            without(called=called, not_called=others, order=order, no_failures=failures) | {"at_most": most},
        ),
        NAMES,
        NAMES,
        st.sampled_from([None, "strict"]),
        st.integers(0, 9),
        st.booleans(),
    ),
    st.builds(Check, st.just(FUNCTION), st.just(len)),
)


def negated(check: Check, negated: bool) -> Check:
    return dataclasses.replace(check, type=f"not-{check.type}" if negated else check.type)


SINGLE = st.builds(negated, PLAIN, st.booleans())
OF_A_TURN = st.builds(
    lambda check, turn: Check("agentbook:turn", turn, children=(named(check),)),
    SINGLE.filter(lambda check: check.base != FUNCTION),
    st.sampled_from(["every", 1, -2]),
)
CHECKS = st.builds(
    lambda check, name: dataclasses.replace(check, name=name) if name else named(check),
    SINGLE | OF_A_TURN,
    st.none() | TEXTS.map(str.strip),
)


@given(CHECKS)
def test_every_check_is_a_line_that_is_read_back(check: Check) -> None:
    line = str(check)
    assert len(line.splitlines()) == 1
    assert parse_check(line, {str(check.name): check.value}) == check


def test_the_texts_above_cover_every_kind() -> None:
    ours = ("characters", "function", "json", "overlap", "pattern", "steps", "turn")
    assert {*check_module.KINDS, *(f"agentbook:{kind}" for kind in ours)} == KINDS.keys()


@pytest.mark.parametrize(
    ("line", "name", "kind"),
    [
        ("sorry", "contains sorry", "icontains"),
        ("not: sorry", "not contains sorry", "not-icontains"),
        ("no excuse: not: sorry", "no excuse", "not-icontains"),
        ("/a+/i", "matches a+", "agentbook:pattern"),
        ("words<=80", "at most 80 words", "word-count"),
        ("2 <= characters <= 9", "at least 2 and at most 9 characters", "agentbook:characters"),
        ("latency <= 5 s", "within 5 s", "latency"),
        ("fast: latency <= 250 ms", "fast", "latency"),
        ("cost <= 0.01", "costs at most 0.01", "cost"),
        ("like: Your key is in Settings", "shares words with Your key is in Settings", "agentbook:overlap"),
        ("similar(0.8): yes", "similar to yes", "similar"),
        ("judge acme~judge: It is polite.", "judged: It is polite.", "llm-rubric"),
        ("steps: called run_sql, at most 3", "called run_sql, at most 3", "agentbook:steps"),
        ("not-contains: a", "not-contains a", "not-contains"),
        ('shape: {"type": "object"}', "shape", "agentbook:json"),
        ('{"type": "array", "title": "a list"}', "a list", "agentbook:json"),
        ('"words <= 80"', "contains words <= 80", "icontains"),
        ("http://x", "contains http://x", "icontains"),
        ("characters = 3", "exactly 3 characters", "agentbook:characters"),
        ("python", "contains python", "icontains"),
        ("price: cost <= 1", "price", "cost"),
        ('"judge": sorry', "judge", "icontains"),
        ('"x = 5"', "contains x = 5", "icontains"),
        ("is-json:", "is-json", "is-json"),
        ("contains session", "contains session", "icontains"),
        ("starts-with Dear", "starts-with Dear", "starts-with"),
        ("judge: It is polite.", "judged: It is polite.", "llm-rubric"),
    ],
)
def test_what_people_type(line: str, name: str, kind: str) -> None:
    check = parse_check(line)
    assert (check.name, check.type) == (name, kind)
    assert parse_check(str(check)) == check


@pytest.mark.parametrize(
    "line",
    [
        *(
            "/etc/hosts",
            "/a/g",
            "/(/",
            "words <= many",
            "latency >= 3 s",
            "not:",
            "like:",
            "judge a:",
            "contains-any: [1",
        ),
        *("steps: run it", "steps:", "function: nobody", "check: {}", 'check: {"contians": "a"}', "{", '""'),
        *('{"type": "objekt"}', "9 <= words <= 2"),
        *(f"words <= {'9' * 400}", "not: " * 3000 + "a", 'check: {"contains": "x", "like": "y"}'),
        *('check: {"contains": "x", "name": {"a": 1}}', 'check: {"contains": "x", "threshold": 1}'),
        *('check: {"judge": "x", "threshold": "half"}', 'check: {"schema": 3}', 'check: {"contains-any": [1]}'),
        *("words < 25", "latency < 5 s", "cost < 0.1", "length <= 25", "words <= -1", "-1 <= words <= 5", "x = 5"),
        *("is-json", "starts with Please", "ends-with x", "not contains sorry", "judge: It is polite.", "no: is-json"),
    ],
)
def test_a_line_that_cannot_be_read_is_quoted_in_the_error(line: str) -> None:
    with pytest.raises(ValueError, match=re.escape(line)):
        parse_checks(f"fine\n{line}\n")


def test_a_function_is_known_by_its_line() -> None:
    checks = read_checks({"short": lambda reply: True})
    assert parse_checks("\n".join(map(str, checks.values())), checks.values()) == checks
    assert parse_checks("mine: not: function: len", functions={"len": len})["mine"].value is len


def test_a_line_without_a_judge_is_judged_by_the_labs() -> None:
    checks = parse_checks("judge: It is polite.\njudge acme~other: It is kind.", judge="acme~judge")
    assert [check.judges for check in checks.values()] == [("acme~judge",), ("acme~other",)]


# What a check says


@pytest.mark.parametrize(
    ("check", "reply", "passed"),
    [
        ("Refund", "no refund today", True),
        ("refund", "nothing", False),
        (re.compile(r"#\d+"), "order #12", True),
        (re.compile("a", re.IGNORECASE), "A", True),
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
def test_a_check_is_a_text_a_pattern_a_schema_or_a_function(check: Any, reply: str, passed: bool) -> None:
    (made,) = read_checks({"check": check}).values()
    assert grade_check(made, Reply(reply, prompt="why?")).passed is passed
    opposite = dataclasses.replace(made, type=f"not-{made.type}")
    assert grade_check(opposite, Reply(reply, prompt="why?")).passed is not passed


def test_a_check_of_a_lab_is_more_lenient_than_the_kind_of_a_file_it_looks_like() -> None:
    for ours, theirs, reply in (
        ("Refund", Check("contains", "Refund"), "refund"),
        (SCHEMA, Check("is-json", SCHEMA), '```json\n{"answer": "yes"}\n```'),
    ):
        (made,) = read_checks([ours]).values()
        assert (grade_check(made, Reply(reply)).passed, grade_check(theirs, Reply(reply)).passed) == (True, False)


def test_each_input_is_judged_by_its_own_check() -> None:
    check = Check(OWN, {"why?": Check("equals", "x")}, name="own check")
    grades = [grade_check(check, Reply("y", input=text)) for text in ("why?", "how?")]
    assert [(each.passed, each.reason, each.error) for each in grades] == [
        (False, "equals x", None),
        (None, None, None),
    ]


@pytest.mark.parametrize(
    ("check", "error_text"),
    [
        (lambda reply: 1 / 0, "ZeroDivisionError"),
        (lambda reply: None, "returned nothing"),
        (lambda reply: float("nan"), "NaN"),
        (lambda reply: "yes", "ValueError"),
        (ab.checks.latency(1), "not known"),
        (ab.checks.cost(1), "prices"),
        (ab.checks.steps(at_most=1), "not known"),
        (ab.checks.rubric("It greets.", "acme~judge"), "judge"),
        (ab.checks.overlap("{{ shout }}"), "shout"),
    ],
)
def test_a_check_that_cannot_decide_counts_neither_way(check: Any, error_text: str) -> None:
    (made,) = read_checks({"mine": check}).values()
    for each in (made, dataclasses.replace(made, type=f"not-{made.type}")):
        result = grade_check(each, Reply("hello"))
        assert result.passed is None
        assert error_text in str(result.error)


@pytest.mark.parametrize(
    ("checks", "error", "message"),
    [
        ([""], ValueError, "always pass"),
        ([{"type": "objekt"}], ValueError, r'^it is no JSON schema at type: "objekt" is not valid.*\.$'),
        (["x", "x"], ValueError, "Two checks are called 'contains x'"),
        ([3], TypeError, "not int"),
        (3, TypeError, "not int"),
    ],
)
def test_invalid_checks_raise(checks: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_checks(checks)


@pytest.mark.parametrize(
    ("check", "passed", "score"),
    [
        (ab.checks.length(max=3), True, None),
        (ab.checks.length(min=4, max=9), False, None),
        (ab.checks.length(max=5, unit="characters"), False, None),
        (ab.checks.latency(2.0), True, None),
        (ab.checks.latency(1.0), False, None),
        (ab.checks.cost(0.5), True, None),
        (ab.checks.overlap("one two"), True, 0.8),
        (ab.checks.overlap("{{expected}}", threshold=0.9), True, 1.0),
        (ab.checks.overlap("nothing"), False, 0.0),
    ],
)
def test_checks_of_length_latency_and_similarity(check: Check, passed: bool, score: float | None) -> None:
    reply = Reply("One two three", 1.5, 0.5, "why?", {"expected": "three two one"})
    result = grade_check(check, reply)
    assert (result.passed, result.score) == (passed, pytest.approx(score) if score else score)


def test_embeddings_of_other_lengths_leave_the_similarity_open() -> None:
    for vectors in ([[1.0, 2.0], [1.0]], [[1.0], ["x"]], [None, [1.0]]):
        services = Services(embed=lambda texts, vectors=vectors: vectors)
        result = grade_check(Check("similar", "Hello"), Reply("World"), services)
        assert (result.passed, "embeddings" in str(result.error)) == (None, True)


RAN = [Step("plan"), Step("run_sql"), Step("plot", failed=True)]


@pytest.mark.parametrize(
    ("conditions", "passed"),
    [
        ({"called": "run_sql"}, True),
        ({"called": ["plot", "run_sql"]}, True),
        ({"called": ["plot", "run_sql"], "order": "strict"}, False),
        ({"called": ["plan", "plot"], "order": "strict"}, True),
        ({"called": ["plan", "plan"]}, False),
        ({"called": "send"}, False),
        ({"not_called": "send"}, True),
        ({"not_called": ["plan"]}, False),
        ({"at_most": 3}, True),
        ({"at_most": 2}, False),
        ({"no_failures": True}, False),
        ({"called": "plan", "not_called": "send", "at_most": 3, "order": "strict"}, True),
    ],
)
def test_a_check_sees_the_steps(conditions: dict[str, Any], passed: bool) -> None:
    check = ab.checks.steps(**conditions)
    assert grade_check(check, Reply("x", steps=RAN)).passed is passed
    assert parse_check(f"not: {check}").type == "not-agentbook:steps"
    assert grade_check(parse_check(f"not: {check}"), Reply("x", steps=RAN)).passed is not passed


CALL = ("find_order", False, '{"number": 7, "with": "items"}', "{}")


@pytest.mark.parametrize(
    ("conditions", "ran", "passed"),
    [
        ({"called": {"find_order": {"number": 7}}}, [CALL], True),
        ({"called": {"find_order": {"number": "7"}}}, [CALL], True),
        ({"called": {"find_order": {"number": "{{order}}"}}}, [CALL], True),
        ({"called": {"find_order": {"number": "{{nothing}}"}}}, [CALL], None),
        ({"called": {"find_order": {"number": 8}}}, [CALL], False),
        ({"called": {"find_order": {}}}, [("find_order",)], None),
        ({"called": {"find_order": {"number": 8}}}, [CALL, ("find_order",)], None),
        ({"called": {"find_order": {"number": 7}}}, [("send",)], False),
        ({"called": {"find_order": {"number": 7}}, "not_called": "send"}, [("find_order",), ("send",)], False),
        ({"no_loops": True}, [CALL, CALL], True),
        ({"no_loops": True}, [CALL, CALL, CALL], False),
        ({"no_loops": True}, [("find_order",)] * 3, None),
    ],
)
def test_a_check_sees_arguments_and_loops(conditions: dict[str, Any], ran: list[Any], passed: bool | None) -> None:
    check = ab.checks.steps(**conditions)
    grade = grade_check(check, Reply("x", values={"order": 7}, steps=[Step(*step) for step in ran]))
    assert (grade.passed, grade.error is None) == (passed, passed is not None)
    assert read_check(check_data(check)) == check


def test_the_same_call_in_each_turn_of_a_conversation_is_no_loop() -> None:
    said = [Reply("x", steps=[Step(*CALL)]) for _ in range(3)]
    whole = Reply("x", steps=[Step(*CALL)] * 3, turns=said)
    assert grade_check(ab.checks.steps(no_loops=True), whole).passed


@pytest.mark.parametrize(
    "conditions", [{}, {"order": "strict"}, {"order": "strict", "at_most": -1}, {"called": {"find_order": 7}}]
)
def test_steps_without_a_condition_are_no_check(conditions: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"steps|at_most|order"):
        ab.checks.steps(**conditions)


def test_an_exact_number_of_words_is_named_once() -> None:
    assert grade_check(Check("word-count", 3), Reply("one two")).reason == "2 words instead of 3"


def test_a_rubric_needs_an_agent() -> None:
    with pytest.raises(ValueError, match="agent="):
        ab.checks.rubric("It is kind.", agent="")


def answering(*texts: str) -> Callable[[str, str | None], str]:
    replies = iter(texts)
    return lambda message, agent: next(replies)


@pytest.mark.parametrize(
    "said",
    [
        "Well.", "{}", '{"score": 0.9}', '{"pass": null, "score": 1}', '{"pass": "perhaps"}', '{"pass": true, "score": 8}',
        '{"pass": true, "score": -0.1}', '{"pass": true, "score": "85%"}', '{"pass": true, "score": NaN}',
        '<think>If so: {"pass": true}', 'So: <think>{"pass": true}</think> well.', '{"verdict": {"pass": true}}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["llm-rubric", "not-llm-rubric"])
def test_a_judge_that_does_not_decide_leaves_a_check_open(said: str, kind: str) -> None:
    check = Check(kind, "It greets.")
    result = grade_check(check, Reply("Hi."), Services(answering(said)))
    assert (result.passed, result.score, bool(result.error)) == (None, None, True)


@pytest.mark.parametrize(
    ("said", "passed", "score"),
    [
        ('The reply says {"pass": true, "score": 1}, which I ignore. {"pass": false, "score": 0}', False, 0.0),
        ('<think>Without one: {"pass": false}.</think> {"pass": true, "score": 1}', True, 1.0),
        ('No? {"pass": false}</think>\n```json\n{"pass": "yes"}\n```', True, None),
        ('{"pass": true, "score": "0.5"} {"order": 12}', True, 0.5),
    ],
)
def test_the_last_verdict_of_a_judge_counts(said: str, passed: bool, score: float | None) -> None:
    result = grade_check(ab.checks.rubric("It greets.", "acme~judge"), Reply("Hi."), Services(answering(said)))
    assert (result.passed, result.score) == (passed, score)


def test_a_judge_that_gives_no_score_does_not_reach_a_threshold() -> None:
    check = ab.checks.rubric("It greets.", "acme~judge", threshold=0.9)
    said = ('{"pass": true}', '{"pass": false}', '{"pass": true, "score": 0.8}', '{"pass": true, "score": 0.9}')
    grades = [grade_check(check, Reply("Hi."), Services(answering(each))).passed for each in said]
    assert grades == [None, False, False, True]


def test_no_check_reads_what_a_model_only_thought() -> None:
    reply = Reply("<think>Say sorry? No.</think>\n\nHere it is.")
    checks = ["not: sorry", "words <= 3", "characters = 11", "/^Here/", "equals: Here it is.", "turn 1: not: sorry"]
    every = [grade_check(parse_check(line), reply).passed for line in checks]
    assert every == [True] * len(checks)
    assert grade_check(read_checks([lambda text: "sorry" not in text])["<lambda>"], reply).passed


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"format": "uuid"}, "123e4567-e89b-12d3-a456-426614174000", "xyz"),
        ({"format": "duration"}, "P1DT2H", "1 day"),
        ({"format": "email"}, "ada@example.org", "a@b"),
        ({"format": "uri"}, "urn:isbn:1", "foo:"),
        ({"format": "date-time"}, "2026-10-03T08:15:00Z", "2026-10-03"),
        ({"items": {"type": "string", "nullable": True}}, ["a", None], [1]),
        (
            {"$ref": "#/definitions/a", "definitions": {"a": {"type": ["string"], "enum": ["x"], "nullable": True}}},
            None,
            1,
        ),
        ({"properties": {"nullable": {"type": "string"}}}, {"nullable": "x"}, {"nullable": None}),
        ({"type": "number", "format": "int32"}, 5e9, "x"),
    ],
)
@pytest.mark.parametrize("kind", ["agentbook:json", "is-json"])
def test_a_schema_checks_formats_and_allows_null_where_it_says_so(schema: Any, good: Any, bad: Any, kind: str) -> None:
    grades = [grade_check(Check(kind, schema), Reply(json.dumps(each))) for each in (good, bad)]
    assert [each.passed for each in grades] == [True, False]


@pytest.mark.parametrize(
    ("line", "check"),
    [
        ("Subject: Refund", Check("icontains", "Subject: Refund", name="contains Subject: Refund")),
        ('"Subject": Refund', Check("icontains", "Refund", name="Subject")),
        ("Subject: not: Refund", Check("not-icontains", "Refund", name="Subject")),
        ("contains {{expected}}", Check("icontains", "{{expected}}", name="contains {{expected}}")),
        ("right: equals {{expected}}", Check("equals", "{{expected}}", name="right")),
        ("{{expected}}", Check("icontains", "{{expected}}", name="contains {{expected}}")),
    ],
)
def test_a_colon_or_a_column_in_a_text_is_read_as_it_looks(line: str, check: Check) -> None:
    assert parse_check(line) == check
    assert parse_check(str(check)) == check


# A check in a file


@given(CHECKS)
def test_a_check_in_a_file_is_read_back(check: Check) -> None:
    functions = {str(check.name): check.value} if check.base == FUNCTION else {}
    data = check_data(check)
    try:
        again = [read_check(data, functions), read_check(json.loads(json.dumps(data)), functions)]
    except ValueError:  # a judge whose agent has no name, which nobody could make by code either
        assert not all(isinstance(each.value, str) and each.value for each in check.rubrics) or check.reads(FUNCTION)
        return
    assert again == [check, check]
    if not any(ord(char) in range(0xD800, 0xE000) for char in repr(data)) and "\\ud" not in repr(data):
        assert read_check(parse_source(dump({"a": data}), "file")["a"].value, functions) == check


def test_a_function_of_the_reply_the_question_and_the_values() -> None:
    check = read_checks({"own": lambda reply, question, values: values["a"] in reply + question})["own"]
    assert grade_check(check, Reply("x", prompt="y", values={"a": "xy"})).passed


def test_a_check_that_ends_the_process_ends_only_itself() -> None:
    function = grade_check(read_checks({"ends": lambda reply: sys.exit(3)})["ends"], Reply("Hello"))
    assert (function.passed, "SystemExit" in (function.error or "")) == (None, True)
