"""What cannot run: all of it is named, and left out where the command says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from agentbook.cli import main
from agentbook.evaluation.files.read import read_config
from agentbook.evaluation.files.source import ConfigError

FILE = """\
prompts: ["{{ q }}", file://prompt.py, "{{ q | random }}"]
derivedMetrics: [{name: mean, value: a / b}]
evaluateOptions: {repeat: none}
tests:
- {vars: {q: a}, providerOutput: a, assert: [{type: is-sql}, {type: contains, value: a}, {type: contians, value: b}]}
- {vars: {q: b}, providerOutput: b, options: {transform: output.trim()}, assert: [{type: bleu, value: b}]}
- {vars: {q: file://value.js}, providerOutput: c, threshold: high}
- file://rows.csv
- file://cases.py:make
"""
ROWS = 'q,__expected,__providerOutput\n"a\nb",is-sql,x\nc,contains: x,x\nd,webhook: x,x\n'


def run(file: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["eval", str(file), "--out", str(file.parent / "out"), "--no-progress", *options])


def rows(file: Path) -> list[dict[str, Any]]:
    return json.loads((file.parent / "out" / "results.json").read_text())["results"]["results"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "rows.csv").write_text(ROWS)
    (tmp_path / "eval.yaml").write_text(FILE)
    return tmp_path / "eval.yaml"


def test_all_problems_are_reported_each_with_its_line_and_row(file: Path) -> None:
    done = run(file)
    lines = done.stderr.splitlines()
    assert (done.exit_code, len(lines)) == (1, 12)
    for place in (
        *(
            "line 1, prompts[1]",
            "line 1, prompts[2]",
            "line 3, evaluateOptions.repeat",
            "line 5, tests[0].assert[0].type",
        ),
        *("line 5, tests[0].assert[2].type", "line 6, tests[1].options.transform", "line 6, tests[1].assert[0].type"),
        *("line 7, tests[2].vars.q", "line 7, tests[2].threshold", "line 9, tests[4]"),
        *("rows.csv, line 2 (row 1), assert[0].type", "rows.csv, line 5 (row 3), assert[0].type"),
    ):
        assert sum(place in line for line in lines) == 1, place
    with pytest.raises(ConfigError) as refused:
        read_config(file)
    assert len(refused.value.problems) == 12


def test_what_is_wrong_is_not_left_out(file: Path) -> None:
    done = run(file, "--skip-unsupported")
    assert (done.exit_code, len(done.stderr.splitlines())) == (1, 3)
    assert "contians" in done.stderr


def test_what_cannot_run_is_left_out_where_the_command_says_so(file: Path) -> None:
    text = FILE.replace("repeat: none", "repeat: 1").replace("contians", "contains").replace(", threshold: high", "")
    file.write_text(text)
    done = run(file, "--skip-unsupported")
    assert done.exit_code == 100
    assert [
        (row["vars"]["q"], row["success"], len(row["gradingResult"]["componentResults"])) for row in rows(file)
    ] == [
        ("a", False, 2),
        ("c", True, 1),
    ]
    assert done.stderr.count("left out: ") == 9
    assert "derivedMetrics" in done.stderr


def test_a_case_without_asserts_of_its_own_has_those_of_all(file: Path) -> None:
    file.write_text(
        "prompts: [x]\ndefaultTest: {assert: [{type: contains, value: x}]}\n"
        "tests: [{providerOutput: y, assert: [{type: is-sql}]}, {providerOutput: x}]"
    )
    assert run(file, "--skip-unsupported").exit_code == 100
    assert [row["success"] for row in rows(file)] == [False, True]


def test_metrics_of_others_stop_no_file(tmp_path: Path) -> None:
    (tmp_path / "eval.yaml").write_text(
        "prompts: [x]\nderivedMetrics: [{name: a, value: b}]\ntests: [{providerOutput: x}]"
    )
    done = run(tmp_path / "eval.yaml")
    assert (done.exit_code, "derivedMetrics" in done.stderr) == (0, True)


@pytest.mark.parametrize(
    "config",
    [
        {"prompts": ["file://a.py"], "tests": [{"providerOutput": "x"}]},
        {"prompts": ["x"], "tests": [{"providerOutput": "x", "options": {"transform": "output"}}]},
        {"prompts": ["x"], "defaultTest": {"options": {"transform": "output"}}, "tests": [{"providerOutput": "x"}]},
        {"prompts": ["x"], "tests": "file://cases.js"},
        {"prompts": ["x"], "tests": [{"providerOutput": "x", "assert": [{"type": "is-sql"}]}]},
        {
            "prompts": ["x"],
            "tests": [{"providerOutput": "x", "assert": [{"type": "assert-set", "assert": [{"type": "is-sql"}]}]}],
        },
    ],
    ids=["no prompt", "no case", "every case", "no file", "no assert", "no assert of a set"],
)
def test_a_file_of_which_nothing_is_left_is_refused(config: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "eval.yaml").write_text(yaml.safe_dump(config))
    assert run(tmp_path / "eval.yaml", "--skip-unsupported").exit_code == 1


# Filters


@pytest.fixture
def four(tmp_path: Path) -> Path:
    tests = [
        {
            "vars": {"q": q},
            "providerOutput": q,
            "description": f"case {q}",
            "assert": [{"type": "contains", "value": "a"}],
        }
        for q in ("a1", "b2", "a3", "b4")
    ]
    (tmp_path / "eval.yaml").write_text(yaml.safe_dump({"prompts": ["{{q}}"], "tests": tests}))
    return tmp_path / "eval.yaml"


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        (["--filter-first", "3"], ["a1", "b2", "a3"]),
        (["--filter-pattern", "case a"], ["a1", "a3"]),
        (["--filter-pattern", r"\d$", "--filter-first", "1"], ["a1"]),
        (["--filter-failing", "RUN"], ["b2", "b4"]),
        (["--filter-failing", "RUN", "--filter-pattern", "4"], ["b4"]),
    ],
)
def test_some_cases_are_asked(options: list[str], asked: list[str], four: Path) -> None:
    assert run(four).exit_code == 100
    folder = str(four.parent / "out")
    done = run(four, *(folder if option == "RUN" else option for option in options))
    assert done.exit_code in (0, 100), done.output
    assert [row["vars"]["q"] for row in rows(four)] == asked


def test_failing_cases_are_found_in_the_record_of_the_run(four: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTBOOK_DATA", str(four.parent / "data"))
    run(four)
    (record,) = (four.parent / "data").rglob("*.jsonl")
    for name in (record.stem, str(record)):
        assert run(four, "--filter-failing", name).exit_code == 100
        assert [row["vars"]["q"] for row in rows(four)] == ["b2", "b4"]
        for other in set((four.parent / "data").rglob("*.jsonl")) - {record}:
            other.unlink()


def test_failing_cases_are_found_after_their_asserts_changed(four: Path) -> None:
    run(four)
    text = four.read_text().replace("value: a", "value: b")
    four.write_text(text)
    assert run(four, "--filter-failing", str(four.parent / "out" / "results.json")).exit_code == 0
    assert len(rows(four)) == 2


def test_failing_cases_of_a_damaged_run_are_none(four: Path) -> None:
    facts = {"format": "agentbook-prompt-lab-run", "version": 2, "started_at": "2026-01-01T00:00:00+00:00"}
    facts |= {"agent": "a", "variants": [], "inputs": [], "checks": []}
    lines = [facts, {"grade": {"testIdx": 0, "promptIdx": 0}}]
    (four.parent / "run.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (four.parent / "results.json").write_text("[" * 100_000)
    for name in ("run.jsonl", "results.json"):
        done = run(four, "--filter-failing", str(four.parent / name))
        assert (done.exit_code, done.stderr.startswith("agentbook: ")) == (1, True)


@pytest.mark.parametrize(
    "options", [["--filter-pattern", "nobody"], ["--filter-pattern", "("], ["--filter-failing", "FILE"]]
)
def test_filters_that_leave_nothing_are_wrong(options: list[str], four: Path) -> None:
    done = run(four, *(str(four) if option == "FILE" else option for option in options))
    assert (done.exit_code, len(done.stderr.splitlines())) == (1, 1)
