"""The fixture `agent_eval`, in a test run of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

FILE = """
prompts: ["hi"]
tests:
  - {description: fine, providerOutput: Hello, assert: [{type: contains, value: Hell}]}
  - {description: wrong, providerOutput: Hello, assert: [{type: equals, value: Bye}]}
"""
TESTS = """
def test_all(agent_eval):
    agent_eval("cases.yaml")

def test_half(agent_eval):
    assert agent_eval("cases.yaml", fail_under=0.5).pass_rate == 0.5

def test_wrong_file(agent_eval):
    agent_eval("missing.yaml")
"""


def test_a_prompts_checks_are_tests(tmp_path: Path) -> None:
    (tmp_path / "cases.yaml").write_text(FILE)
    (tmp_path / "test_prompts.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "agentbook.pytest_plugin", "."]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "cases.yaml: 1 of 2 cells passed, 100% are needed." in done.stdout
    assert "failed hi | wrong: failed: equals Bye" in done.stdout
    assert "missing.yaml: the file cannot be read" in done.stdout


def test_pytest_finds_the_plugin_where_agentbook_is_installed() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"agentbook": "agentbook.pytest_plugin"}
