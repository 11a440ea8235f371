"""Each rule of the notebook check reports what it is for, and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from notebooks import check
from notebooks.execute import PANEL, clean, steady

CLEAN: dict[str, Any] = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"kernelspec": check.KERNEL, "language_info": {"name": "python"}},
    "cells": [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": ["See https://host/home/page and `1/work/2`."]},
        {
            "cell_type": "code",
            "id": "b",
            "metadata": {},
            "execution_count": 1,
            "source": ["1 + 1"],
            "outputs": [
                {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": {"text/plain": ["2"]}}
            ],
        },
        {"cell_type": "code", "id": "c", "metadata": {}, "execution_count": 2, "source": ["x = 1"], "outputs": []},
    ],
}
ID = "0190c7a0-1111-7222-8333-444455556666"


def say(text: str) -> Callable[[dict[str, Any]], None]:
    """Add an output with this text."""
    return lambda notebook: notebook["cells"][1]["outputs"][0]["data"].update({"text/html": [text]})


def cell(number: int, **changed: Any) -> Callable[[dict[str, Any]], None]:
    return lambda notebook: notebook["cells"][number].update(changed)


def output(**made: Any) -> Callable[[dict[str, Any]], None]:
    return lambda notebook: notebook["cells"][1]["outputs"].append(made)


# Each rule with offences against it, and against no other.
OFFENCES: dict[Callable[[Any], Any], list[Callable[[dict[str, Any]], None]]] = {
    check.no_machine_path: [cell(1, source=["open('/home/ada/data.csv')"]), say("C:\\Users\\ada")],
    check.no_secret: [
        say(f"{ID}:s3cret-s3cret"),
        say("Authorization: Bearer abcdefghijklmnop"),
        say("Authorization: Basic " + "YWRhOnMzY3JldC1zM2NyZXQtczNjcmV0"),
        say("sk-abcdefghijklmnopqrst"),
        say("ghp_" + "a1" * 12),
        say("AKIA" + "A1B2" * 4),
        say("-----BEGIN RSA PRIVATE " + "KEY-----"),
        say("http://127.0.0.1:8765/v1/signin?code=" + "aB3-" * 8),
        say("http://localhost:8888/lab?token=" + "0a" * 16),
    ],
    check.no_execution_noise: [
        cell(1, metadata={"execution": {"iopub.status.busy": "2026"}}),
        output(output_type="error", ename="ValueError", evalue="no", traceback=[]),
        output(output_type="stream", name="stderr", text=["100%"]),
        output(output_type="display_data", data={"text/plain": "<A at 0x7f613ff63290>"}),
        output(output_type="display_data", data={check.WIDGETS: {}}, metadata={}),
    ],
    check.ids_are_there: [cell(0, id="b")],
    check.the_kernel_is_neutral: [lambda notebook: notebook["metadata"]["kernelspec"].update(name="ada-venv")],
    check.it_was_run_from_top_to_bottom: [cell(1, execution_count=7), cell(1, outputs=[])],
    check.its_code_can_be_seen: [cell(1, source=["x = 1\n" + "y" * 101])],
    check.what_is_not_compared_says_why: [cell(1, metadata={"tags": ["nbval-ignore-output"]})],
    check.a_lesson_has_no_scaffolding: [cell(1, source=["x = 1\nassert x"])],
    check.what_is_imported_is_public: [cell(1, source=["from agentbook.service import demo"])],
    check.what_is_tagged_is_folded: [
        cell(1, metadata={"tags": ["solution"]}),
        cell(1, metadata={"tags": ["check"], "jupyter": dict(check.FOLDED)}),
    ],
}


@pytest.mark.parametrize("rule", check.RULES, ids=lambda rule: rule.__name__)
def test_each_offence_is_reported_by_its_rule_only(rule: Callable[[Any], Any]) -> None:
    for plant in OFFENCES[rule]:
        notebook = copy.deepcopy(CLEAN)
        plant(notebook)
        [message] = rule(notebook)
        assert "s3cret" not in message
        assert [other.__name__ for other in check.RULES if other is not rule and list(other(notebook))] == []


def test_the_command_names_file_and_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "some.ipynb"
    for cells, code in ((CLEAN["cells"], 0), (CLEAN["cells"][:1], 1), ("none", 1)):
        file.write_text(json.dumps(CLEAN | {"cells": cells}))
        assert check.main([str(file)]) == code
        printed = capsys.readouterr().out.splitlines()
        assert [line.startswith(f"{file}: ") for line in printed] == [True] * code


def panel_cell(name: str, seconds: str) -> Any:
    import nbformat

    html = f'<div class="{name}-static">reply after {seconds} s</div>'
    shown = nbformat.v4.new_output("display_data", {"text/html": html, "text/plain": ""}, metadata={"a": 1})
    made = nbformat.v4.new_code_cell("panel", id="p", outputs=[shown], metadata={"tags": [], "execution": {}})
    return nbformat.v4.new_notebook(cells=[made], metadata={"widgets": {}})


def test_details_of_one_run_are_not_stored_and_equal_outputs_stay() -> None:
    first = clean(panel_cell("ap-0123456789ab", "0.2"))
    again = steady(clean(panel_cell("ap-ba9876543210", "0.7")), first)
    assert again == first
    assert PANEL.findall(again.cells[0].outputs[0].data["text/html"]) == ["ap-000000000001"]
    other = steady(clean(panel_cell("ap-ba9876543210", "0.7 s, and more")), first)
    assert "and more" in other.cells[0].outputs[0].data["text/html"]


def test_a_solution_stays_folded() -> None:
    solution = panel_cell("ap-0123456789ab", "0.2")
    solution.cells[0].metadata = {"tags": ["solution"], "jupyter": dict(check.FOLDED), "execution": {}}
    assert clean(solution).cells[0].metadata == {"tags": ["solution"], "jupyter": check.FOLDED}
