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

    def plant(notebook: dict[str, Any]) -> None:
        notebook["cells"][1]["outputs"][0]["data"]["text/html"] = [text]

    return plant


def write(text: str) -> Callable[[dict[str, Any]], None]:
    """Replace a cell's source by this text."""
    return lambda notebook: notebook["cells"][1].update(source=[text])


def output(**made: Any) -> Callable[[dict[str, Any]], None]:
    return lambda notebook: notebook["cells"][1]["outputs"].append(made)


def cell(number: int, **changed: Any) -> Callable[[dict[str, Any]], None]:
    return lambda notebook: notebook["cells"][number].update(changed)


def metadata(**changed: Any) -> Callable[[dict[str, Any]], None]:
    return lambda notebook: notebook["metadata"].update(changed)


def raises(name: str = "ValueError") -> dict[str, Any]:
    return {"output_type": "error", "ename": name, "evalue": "no", "traceback": []}


# rule -> (its message, the offence) ...
OFFENCES: dict[str, list[tuple[str, Callable[[dict[str, Any]], None]]]] = {
    "no_machine_path": [
        ("cell b names a path of a machine", write("open('/home/ada/data.csv')")),
        ("an output of cell b names a path", say("File /tmp/ipykernel_1/2.py")),
        ("an output of cell b names a path", say("C:\\Users\\ada")),
        ("an output of cell b names a path", output(output_type="stream", name="stdout", text=["/Users/ada/x\n"])),
        ("the metadata of cell a names a path", lambda n: n["cells"][0].update(attachments={"f": {"p": "/root/x"}})),
    ],
    "no_secret": [
        ("holds an API key", say(f"{ID}:s3cret-s3cret")),
        ("cell b holds an API key", write(f"ab.connect(api_key='{ID}:s3cret-s3cret')")),
        ("holds a bearer token", say("Authorization: Bearer abcdefghijklmnop")),
        ("holds a Basic credential", say("Authorization: Basic " + "YWRhOnMzY3JldC1zM2NyZXQtczNjcmV0")),
        ("holds a key of an LLM provider", say("sk-abcdefghijklmnopqrst")),
        ("holds a token of GitHub", say("ghp_" + "a1" * 12)),
        ("holds a key of AWS", say("AKIA" + "A1B2" * 4)),
        ("holds a private key", say("-----BEGIN RSA PRIVATE " + "KEY-----")),
        ("holds a one-time sign-in link", say("http://127.0.0.1:8765/v1/signin?code=" + "aB3-" * 8)),
        ("holds a sign-in token of JupyterLab", say("http://localhost:8888/lab?token=" + "0a" * 16)),
    ],
    "no_execution_noise": [
        ("metadata has 'widgets'", metadata(widgets={})),
        ("cell b has metadata: execution", cell(1, metadata={"execution": {"iopub.status.busy": "2026"}})),
        ("cell b ends in an error", output(**raises())),
        ("output on stderr", output(output_type="stream", name="stderr", text=["100%"])),
        ("shows where in memory", output(output_type="display_data", data={"text/plain": "<A at 0x7f613ff63290>"})),
        ("metadata on an output", output(output_type="display_data", data={}, metadata={"isolated": True})),
        ("a widget without its state", output(output_type="display_data", data={check.WIDGETS: {}}, metadata={})),
    ],
    "ids_are_there": [
        ("cell number 0 has no id", lambda n: n["cells"][0].pop("id")),
        ("two cells have the id b", cell(0, id="b")),
        ("the format is 4.4", lambda n: n.update(nbformat_minor=4)),
    ],
    "the_kernel_is_neutral": [
        ("the kernelspec is", metadata(kernelspec={**check.KERNEL, "name": "ada-venv"})),
        ("the kernelspec is null", lambda n: n["metadata"].pop("kernelspec")),
        ("the language info has version", metadata(language_info={"name": "python", "version": "3.13.1"})),
    ],
    "it_was_run_from_top_to_bottom": [
        ("cell b has the number 7", cell(1, execution_count=7)),
        ("cell c has the number None", cell(2, execution_count=None)),
        ("cell c is empty", cell(2, source=["  "])),
        ("there are no outputs", cell(1, outputs=[])),
    ],
    "its_code_can_be_seen": [("cell b has 101 characters in line 2", write("x = 1\n" + "y" * 101))],
    "what_is_not_compared_says_why": [
        ("cell b is not compared and has no tag", cell(1, metadata={"tags": ["nbval-ignore-output"]})),
        ("cell b says why it is not compared, but is compared", cell(1, metadata={"tags": ["varies-with-date"]})),
        ("the unknown tag 'nbval-skip'", cell(1, metadata={"tags": ["nbval-skip"]})),
    ],
    "a_lesson_has_no_scaffolding": [("cell b has an assert", write("x = 1\nassert x"))],
    "what_is_tagged_is_folded": [("cell b is tagged to be folded", cell(1, metadata={"tags": ["solution"]}))],
}


def planted(plant: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    notebook = copy.deepcopy(CLEAN)
    plant(notebook)
    return notebook


def test_a_clean_notebook_has_no_problem() -> None:
    assert [problem for rule in check.RULES for problem in rule(CLEAN)] == []


def test_every_rule_is_tested() -> None:
    assert [rule.__name__ for rule in check.RULES] == list(OFFENCES)


@pytest.mark.parametrize("rule", check.RULES, ids=lambda rule: rule.__name__)
def test_each_offence_is_reported_by_its_rule_only(rule: Callable[[Any], Any]) -> None:
    for message, plant in OFFENCES[rule.__name__]:
        notebook = planted(plant)
        messages = list(rule(notebook))
        assert len(messages) == 1, (message, messages)
        assert message in messages[0]
        assert [other.__name__ for other in check.RULES if other is not rule and list(other(notebook))] == []


def test_the_message_about_a_secret_does_not_repeat_it() -> None:
    assert "s3cret" not in "".join(check.no_secret(planted(say(f"{ID}:s3cret-s3cret"))))


@pytest.mark.parametrize(
    ("changed", "code"),
    [(None, 0), (say("/home/ada"), 1), (lambda n: n.update(cells="none"), 1)],
    ids=["clean", "planted", "no notebook"],
)
def test_the_command_names_file_and_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: Any, code: int
) -> None:
    file = tmp_path / "some.ipynb"
    file.write_text(json.dumps(planted(changed or (lambda notebook: None))))
    assert check.main([str(file)]) == code
    printed, errors = capsys.readouterr()
    assert ([line.startswith(f"{file}: ") for line in printed.splitlines()], errors) == ([True] * code, "")


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


def test_the_steps_of_a_turn_differ_as_a_whole_and_what_follows_does_not() -> None:
    def cell(steps: str, reply: str) -> Any:
        html = (
            f'<div><details class="ab-steps"><summary>2 steps</summary><ul>{steps}</ul></details><p>{reply}</p></div>'
        )
        made = panel_cell("ap-0123456789ab", "0.2")
        made.cells[0].outputs[0].data["text/html"] = html
        return made

    inner = '<li><details class="ab-step"><summary>run · {}</summary><ul><li>{}</li></ul></details></li>'
    first = clean(cell(inner.format("read", "a") * 2, "Yes."))
    assert steady(clean(cell(inner.format("read", "b") * 3, "Yes.")), first) == first
    assert "No." in str(steady(clean(cell(inner.format("read", "a") * 2, "No.")), first).cells[0].outputs)


def test_the_order_of_keys_makes_no_output_new() -> None:
    first = clean(panel_cell("ap-0123456789ab", "0.2"))
    again = clean(panel_cell("ap-0123456789ab", "0.7"))
    [output] = again.cells[0].outputs
    again.cells[0].outputs = [type(output)({name: output[name] for name in reversed(list(output))})]
    assert list(again.cells[0].outputs[0]) != list(first.cells[0].outputs[0])
    assert "0.2" in str(steady(again, first).cells[0].outputs)


def test_a_solution_stays_folded() -> None:
    solution = panel_cell("ap-0123456789ab", "0.2")
    solution.cells[0].metadata = {"tags": ["solution"], "jupyter": dict(check.FOLDED), "execution": {}}
    assert clean(solution).cells[0].metadata == {"tags": ["solution"], "jupyter": check.FOLDED}
