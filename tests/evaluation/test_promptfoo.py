"""Pass and score of each cell are those that promptfoo gave (tests/peers/promptfoo)."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import shutil
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from agentbook.evaluation.asserts import grade
from agentbook.evaluation.files import cells
from agentbook.evaluation.files.cells import Conversation, conversations
from agentbook.evaluation.files.read import read_config
from agentbook.evaluation.files.source import ConfigError, Permissions
from agentbook.evaluation.model import Grade, Reply, Services
from agentbook.evaluation.template import TemplateError

PEERS = Path(__file__).parents[1] / "peers" / "promptfoo"
FILES = (
    *("asserts", "matrix", "templates", "rows"),
    pytest.param("javascript", marks=pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")),
)
# A judge that does not say whether the reply passes: promptfoo calls its cell failed or
# passed, and agentbook an error.
UNDECIDED = {("asserts", 119), ("asserts", 120), ("asserts", 127), ("asserts", 128), ("asserts", 130), ("rows", 18)}


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


def compact(message: str) -> str:
    """A message as promptfoo's echo repeats it: JSON without white space."""
    data = parsed(message)
    return message if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def messages(conversation: Conversation) -> list[tuple[cells.Cell, str]]:
    """What the cells of a conversation say, to a provider that repeats it."""

    async def run() -> list[Reply]:
        asked: list[Reply] = []
        while (say := await conversation.script(asked)) is not None:
            *_, (_, rendered, _) = conversation.turns(asked)
            session = f"{len(asked)}" if say.begins else asked[-1].session_id
            asked.append(Reply(compact(rendered), prompt=say.text, session_id=session))
        return asked

    return [(cell, text) for cell, text, _ in conversation.turns(asyncio.run(run()))]


def our_cells(path: Path) -> dict[tuple[int, int], tuple[str, Grade]]:
    config = read_config(path, Permissions.of(javascript=True))
    services = Services(lambda message, agent: stub().answer_judge(message), stub().embed, path.parent, config.allowed)
    graded = {}
    expanded = cells.expand(config)
    said = {id(cell): text for each in conversations(expanded) for cell, text in messages(each)}
    for cell in expanded:
        if id(cell) in said:
            message = said[id(cell)]
            text = message if cell.case.reply is None else cell.case.reply
            reply = Reply(text, 0.001, 0.0, message)
            graded[cell.number, cell.prompt_number] = message, grade(cell.case, reply, services)
            continue
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
    assert differences(name, our_cells(PEERS / f"{name}.yaml"), stored_cells(name)) == []


EXAMPLES: dict[str, dict[str, Any]] = yaml.safe_load((PEERS / "examples.yaml").read_text("utf-8"))


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
@pytest.mark.parametrize("name", [name for name, example in EXAMPLES.items() if "refused" not in example])
def test_files_of_the_shape_of_public_examples_run_as_in_promptfoo(name: str, tmp_path: Path) -> None:
    stored = json.loads((PEERS / "examples.result.json").read_text("utf-8"))[name]
    assert differences(name, our_cells(write_example(EXAMPLES[name], tmp_path)), stored) == []


@pytest.mark.parametrize("name", [name for name, example in EXAMPLES.items() if "refused" in example])
def test_what_an_example_uses_and_cannot_run_is_refused_and_could_be_left_out(name: str, tmp_path: Path) -> None:
    path = write_example(EXAMPLES[name], tmp_path)
    with pytest.raises(ConfigError) as refused:
        read_config(path, Permissions.of(javascript=True))
    assert len(refused.value.problems) == EXAMPLES[name]["refused"]


def write_example(example: dict[str, Any], folder: Path) -> Path:
    for name, text in (example.get("files") or {}).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    (folder / "eval.yaml").write_text(yaml.safe_dump(example["config"], sort_keys=False), "utf-8")
    return folder / "eval.yaml"


def parsed(message: str) -> Any:
    """JSON as data: promptfoo reports it without the white space that it sends."""
    try:
        return json.loads(message)
    except ValueError:
        return message


def differences(
    name: str, ours: dict[tuple[int, int], tuple[str, Grade]], stored: list[dict[str, Any]]
) -> list[tuple[Any, ...]]:
    assert {(cell["case"], cell["prompt"]) for cell in stored} == set(ours)
    found: list[tuple[Any, ...]] = []
    for cell in stored:
        message, result = ours[cell["case"], cell["prompt"]]
        if (name, cell["case"]) in UNDECIDED:
            assert (result.passed, result.error is not None) == (None, True)
            continue
        ours_here = (result.passed is True, pytest.approx(result.score, abs=1e-9), result.error is not None)
        theirs = (cell["passed"], cell["score"], cell["error"])
        if theirs != ours_here:
            found.append((name, cell["case"], cell["prompt"], theirs, result))
        if not cell["error"] and parsed(message) != parsed(cell["message"]):
            found.append((name, cell["case"], cell["prompt"], cell["message"], message))
        if not cell["error"] and cell["metrics"] != pytest.approx(dict(result.metrics)):
            found.append((name, cell["case"], cell["prompt"], cell["metrics"], dict(result.metrics)))
    return found
