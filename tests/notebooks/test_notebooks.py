"""Every notebook runs from top to bottom on a fresh platform, gives the outputs it is stored with, and is stored clean.

After a change: ``python tests/notebooks/execute.py`` stores the outputs anew. A cell whose output must vary is tagged
``nbval-ignore-output`` and says why.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from notebooks.execute import WIDGETS, environment
from support.services import end_services

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))

MACHINE_PATH = re.compile(r"(?<![\w.:/])/(home|root|Users|work|tmp|private|var/folders)/|[A-Z]:\\\\")
SECRETS = {
    "an API key": re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[\w-]{8,}"),
    "a bearer token": re.compile(r"Bearer\s+[\w.~+/-]{16,}"),
    "a key of an LLM provider": re.compile(r"\bsk-[\w-]{16,}"),
}


def read(name: str) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads((FOLDER / name).read_text())
    return notebook


def test_there_are_notebooks() -> None:
    assert "01-first-look.ipynb" in NOTEBOOKS


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_from_top_to_bottom(name: str, tmp_path: Path) -> None:
    # A copy: what a notebook writes beside itself must not end up in the repository.
    folder = shutil.copytree(FOLDER, tmp_path / "notebooks", ignore=shutil.ignore_patterns("images", ".*"))
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, f"--rootdir={folder}", "-p", "no:cacheprovider"]
    command += ["--nbval", f"--nbval-sanitize-with={Path(__file__).with_name('sanitize.cfg')}", "--nbval-current-env"]
    command += ["--nbval-cell-timeout=120", "-q", str(folder / name)]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment(tmp_path), capture_output=True, text=True, timeout=280
        )
    finally:
        end_services(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    cells = [cell for cell in read(name)["cells"] if cell["cell_type"] == "code"]
    assert f"{len(cells)} passed" in done.stdout, done.stdout


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_stored_clean(name: str) -> None:
    notebook = read(name)
    nbformat.validate(notebook)
    assert set(notebook["metadata"]) <= {"kernelspec", "language_info"}
    assert set(notebook["metadata"].get("language_info", ())) <= {"name"}
    number = 0
    for cell in notebook["cells"]:
        number += cell["cell_type"] == "code"
        assert cell.get("execution_count", number) == number, f"{cell['id']} was not run in its turn"
        for output in cell.get("outputs", ()):
            assert output["output_type"] != "error", f"{cell['id']} carries an error"
            assert not output.get("metadata"), f"{cell['id']} carries metadata of an output"
            assert WIDGETS not in output.get("data", {}), f"{cell['id']} carries a widget without its state"
        assert set(cell["metadata"]) <= {"tags"}, f"{cell['id']} carries {cell['metadata']}"
        if cell["cell_type"] == "code":
            assert "".join(cell["source"]).strip(), f"{cell['id']} is empty"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_cell_that_is_not_compared_says_why(name: str) -> None:
    for cell in read(name)["cells"]:
        if "nbval-ignore-output" in cell["metadata"].get("tags", ()):
            assert "Output not compared:" in "".join(cell["source"]), f"{cell['id']} does not say why"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_stored_with_outputs(name: str) -> None:
    assert any(cell.get("outputs") for cell in read(name)["cells"]), f"{name} has none: run execute.py"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_carries_no_machine_path_and_no_secret(name: str) -> None:
    text = (FOLDER / name).read_text()
    found = MACHINE_PATH.search(text)
    assert found is None, found
    for what, pattern in SECRETS.items():
        assert pattern.search(text) is None, f"{name} carries {what}"


@pytest.mark.parametrize(
    "text",
    [
        "/home/ada/data",
        "open('/tmp/x')",
        "C:\\\\Users",
        "0190c7a0-1111-7222-8333-444455556666:s3cret-s3cret",
        "sk-abcdefghijklmnopqrst",
    ],
)
def test_the_checks_see_what_they_look_for(text: str) -> None:
    assert MACHINE_PATH.search(text) or any(pattern.search(text) for pattern in SECRETS.values())
