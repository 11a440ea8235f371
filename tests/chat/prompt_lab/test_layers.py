"""Models know no widgets, and the form's widgets know no models."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import agentbook.chat

CHAT = Path(agentbook.chat.__file__).parent
MODELS = [
    "variant",
    "versions",
    "new_agent",
    "offers",
    "plan",
    "pauses",
    "keeping",
    "saved_runs",
    "run_comparison",
    "cost",
    "templates",
    "inputs",
    "checks",
    "answers",
    "summary",
    "diff",
    "configurator",
    "experiment",
    "run",
    "controller",
]
FORM = ["agent_form", "variant_form", "variant_list", "run_form", "check_form", "runs_view", "results_view"]


def imported(module: str) -> set[str]:
    """The modules that a module of `agentbook.chat` imports, by names below it."""
    path = CHAT / f"{module.replace('.', '/')}.py"
    package = module.split(".")[:-1]
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and 0 < node.level <= len(package) + 1:
            base = package[: len(package) - node.level + 1] + (node.module or "").split(".")
            names |= {".".join(filter(None, [*base, *suffix])) for suffix in ([], *([a.name] for a in node.names))}
    return names


@pytest.mark.parametrize(
    "module",
    [*(f"prompt_lab.{name}" for name in MODELS), "compare.comparison", "compare.records"],
)
def test_a_model_imports_no_widgets(module: str) -> None:
    package = module.split(".")[0]
    views = {f"{package}.{name}" for name in (*FORM, "widget", "view")}
    names = imported(module)
    assert "ipywidgets" not in names
    assert not {name for name in names if name.split(".")[0] == "widgets"}
    assert not names & views


@pytest.mark.parametrize("name", [*FORM, "widget"])
def test_the_form_reaches_the_lab_only_through_its_controller(name: str) -> None:
    models = {f"prompt_lab.{model}" for model in (*MODELS, "prompt_lab") if model != "controller"}
    assert not imported(f"prompt_lab.{name}") & models
    if name in FORM:
        assert "prompt_lab.controller" not in imported(f"prompt_lab.{name}")
