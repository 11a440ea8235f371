"""A panel's transcript is stored and compared in its final state."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from notebooks.execute import execute
from notebooks.test_notebooks import run

CELLS = (
    "from IPython.display import display\ndisplay('empty', display_id='one')\nhandle = display('x', display_id='two')",
    "from IPython.display import update_display\nupdate_display('final text', display_id='one')",
    # As a panel does: on the toolkit's thread, long after the last cell has ended.
    "import contextvars\nfrom agentbook.chat.widgets.throttle import Throttle\nfrom agentbook.events import loop\n"
    "here, texts = contextvars.copy_context(), iter(['drawn at once', 'drawn late'])\n"
    "draw = lambda: here.run(update_display, next(texts, 'drawn late'), display_id='two')\n"
    "throttle = Throttle(draw, lambda: 3.0)\n"
    "async def change():\n    throttle.flush()\n    throttle.request_draw()\n"
    "loop.run(change())",
)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A notebook whose second cell updates an output of the first, run and stored."""
    path = tmp_path_factory.mktemp("stored") / "board.ipynb"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    notebook.cells[0].metadata["tags"] = ["nbval-ignore-output", "compared-at-end"]
    nbformat.write(notebook, path)
    execute(path)
    return path


def test_an_output_is_stored_with_the_updates_of_later_cells(stored: Path) -> None:
    outputs = nbformat.read(stored, 4).cells[0].outputs
    assert [output.data["text/plain"] for output in outputs] == ["'final text'", "'drawn late'"]


def test_the_final_output_is_compared(stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "notebooks"  # that the same text passes, the tutorials show
    folder.mkdir()
    monkeypatch.setenv("NOTEBOOKS_LATE_S", "1")  # it waits for all of it
    (folder / "changed.ipynb").write_text(stored.read_text().replace("final text'\"", "other text'\""))
    failed = run(["changed.ipynb"], tmp_path, folder)
    assert "Cell outputs differ at the notebook's end" in failed, failed
    assert f"1 failed, {len(CELLS) - 1} passed" in failed
