"""A panel's transcript is stored, and compared, as it stands at the notebook's end."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import pytest

from notebooks.execute import execute
from notebooks.test_notebooks import run

CELLS = (
    "from IPython.display import display\ndisplay('empty', display_id='one')\nhandle = display('x', display_id='two')",
    "from IPython.display import update_display\nupdate_display('said at last', display_id='one')",
    # As a panel does: from a thread of its own, after the cell has ended, and after the last one.
    "import contextvars, threading\nhere = contextvars.copy_context()\n"
    "threading.Timer(1, lambda: here.run(update_display, 'drawn late', display_id='two')).start()",
)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A notebook whose second cell updates what the first shows, run and stored as ours are."""
    path = tmp_path_factory.mktemp("stored") / "board.ipynb"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    notebook.cells[0].metadata["tags"] = ["nbval-ignore-output", "compared-at-end"]
    nbformat.write(notebook, path)
    execute(path)
    return path


def test_an_output_is_stored_as_a_later_cell_left_it(stored: Path) -> None:
    outputs = nbformat.read(stored, 4).cells[0].outputs
    assert [output.data["text/plain"] for output in outputs] == ["'said at last'", "'drawn late'"]


@pytest.mark.parametrize("changed", [None, "said differently"])
def test_it_is_compared_as_it_is_left_in_the_end(stored: Path, tmp_path: Path, changed: str | None) -> None:
    folder = tmp_path / "notebooks"
    folder.mkdir()
    copied = Path(shutil.copy(stored, folder))
    if changed:
        copied.write_text(copied.read_text().replace("said at last'\"", f"{changed}'\""))
    failed = run([copied.name], tmp_path, folder)
    assert ("Cell outputs differ at the notebook's end" in failed) == bool(changed), failed
