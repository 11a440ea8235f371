"""The functions of the table of results that need no document, run by node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from agentbook.chat.prompt_lab.results import ResultsTable

NODE = shutil.which("node")
MODULE: str = ResultsTable._esm


@pytest.mark.skipif(NODE is None, reason="there is no node")
def test_the_modules_pure_functions(tmp_path: Path) -> None:
    (tmp_path / "results.mjs").write_text(MODULE, "utf-8")
    tests = Path(__file__).with_name("rows.test.mjs")
    shutil.copy(tests, tmp_path)
    assert NODE is not None
    done = subprocess.run([NODE, "--test", tests.name], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_sanitized_replies_become_markup() -> None:
    assert MODULE.count("innerHTML") == 1
    assert MODULE.count("setHtml(body, look.body)") == 1
    assert "import {" not in MODULE
