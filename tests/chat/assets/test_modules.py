"""The panel's modules: put together, run by node, and where text becomes markup."""

from __future__ import annotations

import ast
import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import agentbook.chat
from agentbook.chat.assets import ASSETS, read_module
from agentbook.chat.widgets.page_view import PageState

HERE = Path(__file__).parent
NODE = shutil.which("node")
MODULES = HERE.parents[1] / "node_modules"
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node, which runs the page's modules")
CHAT = Path(agentbook.chat.__path__[0])
ENTRIES = [
    "panel/panel.js",
    "compare/compare.js",
    "explorer/explorer.js",
    "explorer/label.js",
    "lab/form.js",
    "lab/results.js",
]


def run_node(*arguments: str | Path, cwd: Path = HERE, **environment: str) -> None:
    assert NODE is not None
    command = [NODE, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_page_gets_one_module_without_imports(entry: str, tmp_path: Path) -> None:
    module = read_module(entry)
    assert not re.search(r"^import\b", module, re.MULTILINE)
    assert module.count("export default") == 1
    if NODE is not None:  # two names of different files may collide
        (tmp_path / "module.mjs").write_text(module, "utf-8")
        run_node("--check", "module.mjs", cwd=tmp_path)


def test_text_becomes_markup_in_one_place() -> None:
    writers = re.compile(
        r"\b(?:inner|outer)HTML\b|insertAdjacentHTML|createContextualFragment|DOMParser|setHTML|srcdoc|document\.write|\beval\b|\bFunction\("
    )
    uses = [
        f"{path.name}: {line.strip()}"
        for path in sorted(ASSETS.rglob("*.js"))
        for line in path.read_text("utf-8").splitlines()
        if writers.search(line)
    ]
    assert uses == ["dom.js: holder.innerHTML = html;"]


def test_no_markup_brings_a_script() -> None:
    script = re.compile(r"<script\b|\bon(?:load|error|click)=", re.IGNORECASE)
    for path in sorted(CHAT.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        prose = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}  # docstrings
        texts = [str(each.value) for each in ast.walk(tree) if isinstance(each, ast.Constant) and id(each) not in prose]
        assert [text for text in texts if script.search(text)] == [], path


def patches(seed: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What the kernel sends while a panel changes at random, and what it has then."""
    draw = random.Random(seed)
    words = ["<p>", "one", "zwölf", "😀", "漢字", "</p>", "\n", "<b>", "&amp;"]
    state = PageState()
    state.set_fields(name="guide", status=["Ready.", False])
    state.arrange(["t1", "t2", "t3"])
    messages = [state.snapshot()]
    state.take_patch()
    messages[0]["version"] = state.version
    turns, pieces = ["t1", "t2", "t3"], {"t1": ["<p>"]}
    for n in range(1500):
        turn = draw.choice(turns)
        match draw.randrange(8):
            case 0:
                turns.insert(draw.randrange(len(turns) + 1), f"n{n}")
                state.arrange(turns)
            case 1 if len(turns) > 2:
                turns.remove(turn)
                pieces.pop(turn, None)
                state.arrange(turns)
            case 2:
                state.set_fields(**{draw.choice(["status", "name"]): draw.choice(words)})
            case 3:
                state.set_html(turn, "head", "".join(draw.choices(words, k=draw.randrange(6))))
            case 4:
                state.set_data(turn, pending=draw.random() < 0.5)
            case _:
                body = pieces.setdefault(turn, [""])
                body[-1] += draw.choice(words)
                if draw.random() < 0.3:
                    body.append(draw.choice(words))
                if draw.random() < 0.1:  # as when parts are frozen
                    body[:] = ["".join(body[:-1]), body[-1]]
                if draw.random() < 0.03:
                    body[:] = ["another reply"]
                state.set_body(turn, body, draw.randrange(3))
        if draw.random() < 0.7 and (patch := state.take_patch()) is not None:
            messages.append(patch)
    if (patch := state.take_patch()) is not None:
        messages.append(patch)
    return messages, state.snapshot()


@needs_node
def test_the_page_has_what_the_kernel_has(tmp_path: Path) -> None:
    messages, end = patches(seed=1)
    recording = tmp_path / "patches.json"
    recording.write_text(json.dumps({"messages": messages, "end": end}), "utf-8")
    run_node("--test", "protocol.test.mjs", AGENTBOOK_PATCHES=str(recording))


@needs_node
def test_a_module_that_was_loaded_late_asks_for_what_it_missed() -> None:
    run_node("--test", "connection.test.mjs")


@needs_node
@pytest.mark.skipif(not (MODULES / "jsdom").exists(), reason="there is no jsdom: run `npm ci --prefix tests`")
@pytest.mark.parametrize("tests", ["panel.test.mjs", "compare.test.mjs", "label.test.mjs"])
def test_the_module_in_a_page(tests: str) -> None:
    run_node("--test", tests)


@needs_node
def test_the_arithmetic_of_the_explorers_views(tmp_path: Path) -> None:
    (tmp_path / "explorer.mjs").write_text(read_module("explorer/explorer.js"), "utf-8")
    shutil.copy(HERE / "marks.test.mjs", tmp_path)
    run_node("--test", "marks.test.mjs", cwd=tmp_path)


def test_patches_are_small() -> None:
    state = PageState()
    state.arrange([f"t{n}" for n in range(2000)])
    state.take_patch()
    state.arrange([f"t{n}" for n in range(2001)])
    state.set_html("t2000", "head", "x" * 5000)
    assert len(json.dumps(state.take_patch())) < 5200
    state.set_html("t2000", "head", "x" * 5000 + "y")
    assert len(json.dumps(state.take_patch())) < 100
    assert state.take_patch() is None
