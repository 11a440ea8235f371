"""Inputs: what `run` accepts, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from agentbook.evaluation.inputs import combine, format_inputs, parse_inputs, read_inputs

from .lab_platform import LabPlatform, make_lab


@pytest.mark.parametrize(
    "inputs",
    [
        ["one", "two"],
        "one\n\n  two  \none\n",
        "1. one\n2) two",
        pd.Series(["one", None, "two"]),
        pd.DataFrame({"input": ["one", "two"], "expected": [1, 2]}),
        ("one", "", "two"),
    ],
)
def test_inputs_may_be_lines_lists_or_columns(inputs: Any) -> None:
    assert [each.message for each in combine(inputs)] == ["one", "two"]


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ([], ValueError, "no inputs"),
        (
            pd.DataFrame({"question": ["x"], "n": [1]}),
            ValueError,
            r"it has question, n. Pass one of its columns: frame\[name\]",
        ),
        ([1], TypeError, "not int"),
        ({"a": "b"}, TypeError, "not dict"),
        (7, TypeError, "not int"),
        (["one", "cut \ud83d"], ValueError, r"cut \\ud83d' is .*valid Unicode"),
        ("one\ncut \ud83d", ValueError, "valid Unicode"),
    ],
)
def test_invalid_inputs_raise(inputs: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        combine(inputs)


def test_the_name_of_a_file_is_not_an_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_inputs("in.csv") == ["in.csv"]
    Path("in.csv").write_text("one\ntwo\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"'in.csv' is a file.*read_text"):
        read_inputs("in.csv")
    assert read_inputs(Path("in.csv").read_text(encoding="utf-8")) == ["one", "two"]


def test_the_path_of_a_csv_file_stands_for_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("in.csv", "my inputs.csv"):
        Path(name).write_text("input,expected\none,1\n", encoding="utf-8")
        assert [(each.text, each.row["expected"]) for each in combine(name)] == [("one", "1")]
        assert combine(name) == combine(Path(name))
    with pytest.raises(FileNotFoundError, match=r"inptus\.csv"):
        combine("inptus.csv")
    assert [each.text for each in combine("What is in a.csv")] == ["What is in a.csv"]


def test_formatted_inputs_parse_back() -> None:
    assert parse_inputs(format_inputs(["one\ntwo", "three"])) == ["one\ntwo", "three"]


def test_every_row_that_differs_is_asked_and_repetitions_are_said() -> None:
    rows = [{"input": "Why?", "expected": expected, "id": 7} for expected in ("a", "b", "a")] + [{"input": "How?"}]
    for inputs, table, names in ((None, rows, ()), ("Why?", rows[:3], ()), ("Why?", rows[:3], ["expected"])):
        made = combine(inputs, table, names)
        assert [each.row["expected"] for each in made if each.message == "Why?"] == ["a", "b"]
        assert [each.text for each in made[:2]] == ["Why? [expected: a]", "Why? [expected: b]"]
        assert [each.times for each in made[:2]] == [2, 1]
    lab = make_lab(LabPlatform())
    lab.add_variant("now")
    for options in ({"rows": rows}, {"inputs": ["a", "b", "a", "c"]}, {"inputs": [["a", "b"], ["a", "b"], "c", "d"]}):
        with pytest.warns(UserWarning, match="1 of the 4 inputs"):
            assert len(lab.run(**options, progress=False)) == 3
