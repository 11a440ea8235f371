"""The assert `javascript` runs by Node, where the command allows it."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentbook.cli import main

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")


def run(folder: Path, tests: list[dict[str, Any]], *options: str) -> Result:
    (folder / "eval.yaml").write_text(json.dumps({"prompts": ["Say {{q}}"], "tests": tests}))
    command = ["eval", str(folder / "eval.yaml"), "--out", str(folder / "out"), "--no-progress", *options]
    return CliRunner().invoke(main, command)


def rows(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / "out" / "results.json").read_text())["results"]["results"]


def case(value: Any, reply: str = "Hello", **others: Any) -> dict[str, Any]:
    return {
        "vars": {"q": "hi"},
        "providerOutput": reply,
        "assert": [{"type": "javascript", "value": value, **others}],
    }


@pytest.mark.parametrize("type_", ["javascript", "not-javascript"])
def test_it_is_refused_unless_the_command_allows_it(tmp_path: Path, type_: str) -> None:
    done = run(tmp_path, [case("true", type=type_)])
    assert (done.exit_code, "--allow-javascript" in done.stderr) == (1, True)
    done = run(tmp_path, [case("true", type=type_), case("x", "Hello") | {"assert": []}], "--skip-unsupported")
    assert (done.exit_code, len(rows(tmp_path))) == (0, 1)


def test_it_is_refused_without_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run(tmp_path, [case("true")], "--allow-javascript")
    assert (done.exit_code, "`node`" in done.stderr) == (1, True)


@needs_node
def test_code_that_reads_what_is_not_known_here_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, [case("context.providerResponse.cost < 1")], "--allow-javascript")
    assert (done.exit_code, "providerResponse" in done.stderr) == (1, True)


@needs_node
def test_code_that_does_not_end_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbook.evaluation.code_assert.LIMIT_S", 3.0)
    endless = [
        "while (true) {}",
        "new Promise(() => setInterval(() => 0, 1000))",
        "while (true) process.stdout.write('x'.repeat(1e6))",
        "require",
        "process.exit(0)",
    ]
    done = run(tmp_path, [case(code) for code in endless], "--allow-javascript")
    assert done.exit_code == 100
    assert [row["success"] for row in rows(tmp_path)] == [False] * len(endless)


WRONG_GRADES = {
    "python": ["None", "[]", "'sure'", "{'pass': 'yes', 'score': 1, 'reason': ''}", "{'pass': True}"],
    "javascript": ["null", "[]", "'sure'", "undefined", "({pass: 'yes', score: 1, reason: ''})", "({pass: true})"],
}


@pytest.mark.parametrize("kind", ["python", pytest.param("javascript", marks=needs_node)])
def test_code_that_returns_no_grade_fails_and_says_what_it_has_to_return(tmp_path: Path, kind: str) -> None:
    wrong = WRONG_GRADES[kind]
    run(tmp_path, [case(value, type=kind) for value in wrong], "--allow-javascript")
    found = rows(tmp_path)
    assert [row["success"] for row in found] == [False] * len(wrong)
    for row in found:
        reason = row["gradingResult"]["reason"]
        assert reason.startswith("the code gave no grade: ")
        assert "reason (a text)" in reason
        assert "ValueError" not in reason


@needs_node
@pytest.mark.skipif(os.name == "nt", reason="starts a program of Unix")
def test_a_process_that_code_leaves_behind_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbook.evaluation.code_assert.LIMIT_S", 10.0)
    start = (
        "const {spawn} = process.mainModule.require('child_process')\n"
        "spawn('sleep', ['120'], {detached: true, stdio: 'inherit'}).unref()\n"
    )
    began = time.monotonic()
    done = run(tmp_path, [case(f"{start}return true"), case(f"{start}process.exit(0)")], "--allow-javascript")
    assert (done.exit_code, [row["success"] for row in rows(tmp_path)]) == (100, [True, False])
    assert time.monotonic() - began < 100


@needs_node
def test_code_sees_no_variable_of_the_environment_and_no_output_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_KEY", "planted")
    asserts = ["process.env.PLANTED_KEY === undefined", "console.log('x'); console.log('{}')\nreturn true"]
    done = run(tmp_path, [case(code) for code in asserts], "--allow-javascript")
    assert (done.exit_code, "planted" in done.output) == (0, False)


@needs_node
@pytest.mark.skipif(os.name == "nt", reason="makes a link")
def test_files_outside_the_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "outside.js").write_text("module.exports = () => true")
    folder = tmp_path / "inside"
    folder.mkdir()
    (folder / "link.js").symlink_to(tmp_path / "outside.js")
    for name in ("../outside.js", "link.js", str(tmp_path / "outside.js")):
        done = run(folder, [case(f"file://{name}")], "--allow-javascript")
        assert (done.exit_code, "--allow-path" in done.stderr) == (1, True)
        allowed = ["--allow-javascript", "--allow-path", str(tmp_path)]
        assert run(folder, [case(f"file://{name}")], *allowed).exit_code == 0
