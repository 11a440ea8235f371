"""Pass and score of each cell are those that promptfoo gave (tests/peers/promptfoo)."""

from __future__ import annotations

import importlib.util
import json
import shutil
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agentbook.evaluation.asserts import grade
from agentbook.evaluation.files import cells
from agentbook.evaluation.files.read import read_config
from agentbook.evaluation.grade import Grade, Reply, Services
from agentbook.evaluation.model import Permissions
from agentbook.evaluation.template import TemplateError

PEERS = Path(__file__).parents[1] / "peers" / "promptfoo"
FILES = (
    *("asserts", "matrix", "templates", "rows"),
    pytest.param("javascript", marks=pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")),
)
# A judge that says nothing: promptfoo calls its cell failed, and agentbook an error.
UNDECIDED = {("asserts", 127), ("asserts", 128)}


@cache
def stub() -> ModuleType:
    spec = importlib.util.spec_from_file_location("promptfoo_stub", PEERS / "stub.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stored_cells(name: str) -> list[dict[str, Any]]:
    return json.loads((PEERS / f"{name}.result.json").read_text("utf-8"))["cells"]


@cache
def our_cells(name: str) -> dict[tuple[int, int], tuple[str, Grade]]:
    config = read_config(PEERS / f"{name}.yaml", Permissions.of(javascript=True))
    services = Services(lambda message, agent: stub().answer_judge(message), stub().embed, PEERS, config.allowed)
    graded = {}
    for cell in cells.expand(config):
        try:
            message = cells.render(cell.prompt, cell.case)
        except TemplateError as error:
            graded[cell.number, cell.prompt_number] = "", Grade.undecided(str(error))
            continue
        text = message if cell.case.reply is None else cell.case.reply
        # The provider echo takes no time, and costs nothing.
        graded[cell.number, cell.prompt_number] = message, grade(cell.case, Reply(text, 0.001, 0.0, message), services)
    return graded


@pytest.mark.parametrize("name", FILES)
def test_every_cell_has_the_pass_and_score_that_promptfoo_gave(name: str) -> None:
    ours = our_cells(name)
    stored = stored_cells(name)
    assert {(cell["case"], cell["prompt"]) for cell in stored} == set(ours)
    differences = []
    for cell in stored:
        message, result = ours[cell["case"], cell["prompt"]]
        ours_here = (result.passed is True, pytest.approx(result.score, abs=1e-9), result.error is not None)
        theirs = (cell["passed"], cell["score"], cell["error"] or (name, cell["case"]) in UNDECIDED)
        if theirs != ours_here:
            differences.append((name, cell["case"], cell["prompt"], theirs, result))
        if not cell["error"] and message != cell["message"]:
            differences.append((name, cell["case"], cell["prompt"], cell["message"], message))
        if not cell["error"] and cell["metrics"] != pytest.approx(dict(result.metrics)):
            differences.append((name, cell["case"], cell["prompt"], cell["metrics"], dict(result.metrics)))
    assert differences == []
