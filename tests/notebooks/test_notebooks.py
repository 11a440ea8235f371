"""Every notebook runs on a fresh platform, gives its stored outputs, and is clean.

After a change, ``python tests/notebooks/execute.py`` stores the outputs again. A cell
whose output must vary is tagged ``nbval-ignore-output`` and says why.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest

from notebooks.check import problems
from notebooks.execute import FOLDER, environment, names
from support.services import stop_services

TUTORIALS = [name for name in names() if "/" not in name]
HOW_TOS = [name for name in names() if "/" in name]
HERE = Path(__file__).parent
# Without a grammar that no notebook needs, as in `tests/conftest.py`.
PYTEST = "import sys; sys.modules['rfc3987_syntax'] = None; import pytest; sys.exit(pytest.main())"

pytestmark = pytest.mark.timeout(600)


def run(chosen: list[str], home: Path, folder: Path) -> str:
    """Run notebooks with nbval on one platform; returns what a failed run printed."""
    command = [sys.executable, "-c", PYTEST, "-c", os.devnull, f"--rootdir={folder}", "-p", "no:cacheprovider"]
    command += [
        "-p",
        "nbval.plugin",
        "--nbval",
        f"--nbval-sanitize-with={HERE / 'sanitize.cfg'}",
        "--nbval-current-env",
    ]
    command += ["-p", "notebooks.updates", "--nbval-cell-timeout=120", "-q", *(str(folder / name) for name in chosen)]
    # The other installed plugins have nothing to do with notebooks, and take seconds to
    # import.
    plugins = {"PYTHONPATH": os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))}
    plugins["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment(home) | plugins, capture_output=True, text=True, timeout=580
        )
    finally:
        stop_services(home)
    output = done.stdout + done.stderr
    cells = [cell for name in chosen for cell in nbformat.read(folder / name, 4).cells if cell.cell_type == "code"]
    assert done.returncode or f"{len(cells)} passed" in output, output
    return output if done.returncode else ""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy, so that files which notebooks write do not end up in the repository."""
    return Path(shutil.copytree(FOLDER, tmp_path / "notebooks", ignore=shutil.ignore_patterns("images", ".*")))


def test_there_are_notebooks() -> None:
    assert "01-first-look.ipynb" in TUTORIALS
    assert "how-to/export.ipynb" in HOW_TOS


def test_a_notebook_for_your_own_account_names_it_once() -> None:
    line = 'account = "acme"  # on your own platform: client.me.get().name'
    notebooks = [nbformat.read(FOLDER / name, 4).cells for name in names()]
    codes = ["\n".join(cell.source for cell in cells if cell.cell_type == "code") for cells in notebooks]
    own = [code for code in codes if line in code]
    assert len(own) == 6
    for code in own:
        assert re.findall(r'.*\bacme(?:~|").*', code) == [line]


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_gives_its_stored_outputs(name: str, tmp_path: Path, folder: Path) -> None:
    """And what leaves out its own sessions gives the same again, after it had some; and
    the cells that check the exercises say yes after the solutions.
    """
    notebook = nbformat.read(folder / name, 4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for load, cell in pairwise(cells):
        if "check" in cell.metadata.get("tags", ()):
            yes = {"output_type": "stream", "name": "stdout", "text": f"Exercise {cell.id[-1]}: yes\n"}
            notebook.cells.append(nbformat.from_dict({**cell, "id": f"{cell.id}-again", "outputs": [yes]}))
        elif "loaded.where(" in cell.source:
            ignored = {"tags": ["nbval-ignore-output"]}
            notebook.cells.append(nbformat.from_dict({**load, "id": f"{load.id}-again", "metadata": ignored}))
            notebook.cells.append(nbformat.from_dict({**cell, "id": f"{cell.id}-again"}))
    nbformat.write(notebook, folder / name)
    failed = run([name], tmp_path, folder)
    assert not failed, failed


def test_the_how_tos_give_their_stored_outputs(tmp_path: Path, folder: Path) -> None:
    # One platform for all, as their outputs do not depend on each other; the one that
    # starts many sessions comes last.
    failed = run(sorted(HOW_TOS, key="how-to/a-better-prompt.ipynb".__eq__), tmp_path, folder)
    assert not failed, failed


@pytest.mark.parametrize("name", names())
def test_a_notebook_is_stored_clean(name: str) -> None:
    assert problems(FOLDER / name) == []
