"""The fixtures `agent_eval` and `agent_platform`, in a test run of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

LAB = """
agent: echo
workspace: acme~playground
inputs: [Hello, Bye]
checks: ["icontains: hell"]
"""
TESTS = """
import agentbook as ab
import pytest

@pytest.fixture(scope="session")
def agent_eval_client(agent_platform_service):
    return lambda: ab.Client(agent_platform_service.base_url, credentials=agent_platform_service.api_key)

def test_all(agent_eval):
    agent_eval("lab.yaml")

def test_half(agent_eval):
    assert agent_eval("lab.yaml", fail_under=0.5).pass_rate == 0.5

def test_wrong_file(agent_eval):
    agent_eval("missing.yaml")
"""
PLATFORM = """
def my_report(client):
    return [each.full_name for each in client.workspaces.list("acme")]

def test_writing(agent_platform):
    agent_platform.client.workspaces.create("new")

def test_reading(agent_platform):
    assert "new" not in {each.name for each in agent_platform.client.workspaces.list("acme")}
"""
# Fails if the plugin has imported more of agentbook than itself.
UNUSED = """
import sys

def test_unused():
    assert {name for name in sys.modules if name.startswith("agentbook.")} == {"agentbook.pytest_plugin"}
"""


def run(folder: Path, tests: str) -> str:
    (folder / "test_them.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "agentbook.pytest_plugin", "."]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


def test_a_prompts_checks_are_tests(tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(LAB)
    output = run(tmp_path, TESTS)
    assert "2 failed, 1 passed" in output
    assert "lab.yaml: 1 of 2 replies passed, 100% are needed." in output
    assert "failed now | Bye: icontains hell" in output or "failed now | Bye: contains hell" in output
    assert "missing.yaml: the file cannot be read" in output


def test_each_test_gets_a_platform_as_new(tmp_path: Path) -> None:
    """The tests that the manual shows, and two more."""
    page = (Path(__file__).parents[1] / "docs" / "pytest.md").read_text("utf-8")
    section = page.partition("## A platform for tests")[2]
    [shown, outside, _conftest] = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[:3]
    assert "4 passed" in run(tmp_path, PLATFORM + shown)
    exec(outside, {})


def test_a_run_that_does_not_use_the_plugin_imports_nothing_for_it(tmp_path: Path) -> None:
    assert "1 passed" in run(tmp_path, UNUSED)


def test_pytest_finds_the_plugin_where_agentbook_is_installed() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"agentbook": "agentbook.pytest_plugin"}
