"""The arithmetic of the browser's views, run by node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from agentbook.chat.assets import read_module

NODE = shutil.which("node")
MODULE = "explorer/explorer.js"


@pytest.mark.skipif(NODE is None, reason="there is no node")
def test_the_modules_pure_functions(tmp_path: Path) -> None:
    (tmp_path / "explorer.mjs").write_text(read_module(MODULE), "utf-8")
    tests = Path(__file__).with_name("marks.test.mjs")
    shutil.copy(tests, tmp_path)
    assert NODE is not None
    done = subprocess.run([NODE, "--test", tests.name], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_page_gets_one_module_without_imports() -> None:
    module = read_module(MODULE)
    assert "import {" not in module
    assert module.count("export default") == 1
    assert module.count("export function level(") == 1
