"""Patterns are searched in a process of their own, which ends at a limit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agentbook.evaluation.asserts import grade_check
from agentbook.evaluation.check import Check
from agentbook.evaluation.checks import read_checks
from agentbook.evaluation.model import Grade, Reply
from agentbook.evaluation.patterns import InvalidPattern, SearchFailed, search, search_ecmascript

ENDLESS, LONG = r"^(\w+\s?)+$", "the agent answered with quite a long sentence of words!"


def graded(kind: str, value: str, text: str) -> Grade:
    return grade_check(Check(kind, value), Reply(text))


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes longer than a second takes too long."""
    monkeypatch.setattr("agentbook.evaluation.patterns.LIMIT_S", 1.0)


def test_flags_mean_what_they_mean_in_javascript() -> None:
    assert search_ecmascript("^B$", "a\nb", "im")
    assert search_ecmascript("^.$", "\n", "s")
    with pytest.raises(InvalidPattern):
        search_ecmascript("^[a", "a", "i")


@pytest.mark.usefixtures("_soon")
@pytest.mark.parametrize("pattern", ["a|" * 1_000_000, "(" * 100_000, "(?:" * 3000 + "a" + ")" * 3000])
def test_a_pattern_that_takes_long_to_read_ends_too(pattern: str) -> None:
    assert not graded("regex", pattern, LONG).passed
    assert graded("regex", "sent[a-e]nce", LONG).passed


@pytest.mark.usefixtures("_soon")
@pytest.mark.parametrize("kind", ["regex", "not-regex"])
def test_an_endless_pattern_is_an_error_and_the_next_one_works(kind: str) -> None:
    endless = graded(kind, ENDLESS, LONG)
    assert (endless.passed, endless.error is not None) == (None, True)
    assert graded("regex", "sent[a-e]nce", LONG).passed


@pytest.mark.usefixtures("_soon")
@pytest.mark.skipif(sys.platform != "linux", reason="the system does not limit it")
def test_a_pattern_that_needs_much_memory_is_an_error_and_the_next_one_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbook.evaluation.patterns.LIMIT_S", 50.0)
    monkeypatch.setattr("agentbook.evaluation.patterns.MAX_MEMORY_MB", 100)
    for find in (
        lambda text: search(re.compile("(?:(a)|b)*c"), text),
        lambda text: search_ecmascript("(?:(a)|b)*c", text),
    ):
        with pytest.raises(SearchFailed, match="memory"):
            find("a" * 3_000_000)
        assert find("abac")


REPEATED = {
    "definitions": {
        "a0": {"type": "string"},
        **{f"a{n}": {"allOf": [{"$ref": f"#/definitions/a{n - 1}"}] * 2} for n in range(1, 40)},
    },
    "allOf": [{"$ref": "#/definitions/a39"}],
}


@pytest.mark.usefixtures("_soon")
@pytest.mark.parametrize(
    ("schema", "text"),
    [
        pytest.param({"not": {"pattern": "^(a|aa)+(?=c)$"}}, f'"{"a" * 60}c"', id="within not"),
        pytest.param({"anyOf": [{"pattern": "^(a|aa)+(?=c)$"}, {"maxLength": 1}]}, f'"{"a" * 60}b"', id="within anyOf"),
        pytest.param({"pattern": "(?=a*b)x"}, f'"{"a" * 100_000}"', id="ahead of each character"),
        pytest.param(
            {"type": "array", "items": {"anyOf": [{"$ref": "#"}] * 2}}, "[" * 30 + "1" + "]" * 30, id="recursive"
        ),
        pytest.param(REPEATED, '"Hello"', id="repeated"),
    ],
)
def test_an_endless_schema_gives_no_result(schema: dict[str, Any], text: str) -> None:
    endless = grade_check(Check("is-json", schema), Reply(text))
    assert (endless.passed, endless.error is not None) == (None, True)
    assert grade_check(Check("is-json", {"pattern": "^(a+)+(?=b)"}), Reply('"aab"')).passed


@pytest.mark.parametrize("text", ['"\\ud800"', "[" * 900 + "]" * 900, str(10**400)])
def test_what_a_validator_cannot_read_gives_no_wrong_result(text: str) -> None:
    result = grade_check(Check("is-json", {"type": "boolean"}), Reply(text))
    assert not result.passed
    assert graded("regex", "sent[a-e]nce", LONG).passed


def test_threads_share_the_process() -> None:
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda n: graded("regex", rf"^\w+ {n}\d$", f"order {n}7").passed, range(200)))
    assert outcomes == [True] * 200


@pytest.mark.parametrize(("pattern", "text"), [("^.$", "😀"), ("a\\nb", "a\nb"), ("^$", "")])
def test_a_text_arrives_as_it_is(pattern: str, text: str) -> None:
    assert graded("regex", pattern, text).passed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_nothing_is_left_at_the_end_or_shared_after_a_fork() -> None:
    code = """
import os, re, warnings
warnings.simplefilter("error")
from agentbook.evaluation import asserts, check, model
def search(text):
    return asserts.grade_check(check.Check("regex", "a+b"), model.Reply(text)).passed
assert search("xaab")
pid = os.fork()
if pid == 0:
    os._exit(0 if search("aab") and not search("b") else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert search("aab") and not search("b")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("reference", ["file://{}", "http://127.0.0.1:9/schema.json"])
def test_a_schema_refers_only_to_itself(tmp_path: Path, reference: str) -> None:
    (tmp_path / "schema.json").write_text('{"type": "string"}')
    schema = {"$ref": reference.format(tmp_path / "schema.json")}
    result = grade_check(Check("is-json", schema), Reply('"Hello"'))
    assert (result.passed, result.error is not None) == (None, True)
    with pytest.raises(ValueError, match="schema"):
        read_checks({"shape": schema})
