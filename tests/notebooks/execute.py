"""Executes the notebooks on a platform that repeats itself, and stores them with their outputs, clean.

``python tests/notebooks/execute.py [NAME ...]``: all notebooks, or those. What a reader does not need is dropped: times,
metadata of outputs, and widgets, whose state is not stored.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, too

from support.services import end_services

FOLDER = Path(__file__).parents[2] / "notebooks"
SEEDED = {"AGENTBOOK_SEED": "1", "AGENTBOOK_SPEED": "0"}
WIDGETS = "application/vnd.jupyter.widget-view+json"


def environment(home: Path) -> dict[str, str]:
    """The environment of a kernel with a seeded platform of its own below `home`, and nothing of the user's."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("AGENTBOOK_BASE_URL", "AGENTBOOK_API_KEY") and not name.startswith("OPENAI_")
    }
    private = {name: str(home / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    return {**kept, **private, **SEEDED, "AGENTBOOK_DATA": str(home / "data")}


def execute(path: Path) -> None:
    """Run one notebook from top to bottom on a fresh platform and write it back, clean."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "cwd").mkdir()
        client = NotebookClient(notebook, timeout=120, record_timing=False, resources={"metadata": {"path": folder}})
        try:
            client.execute(env=environment(home), cwd=str(home / "cwd"))
        finally:
            end_services(home)
    nbformat.write(clean(notebook), path)


def clean(notebook: Any) -> Any:
    """The notebook without what only this run knows."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    number = 0
    for cell in notebook.cells:
        cell.metadata = {key: value for key, value in cell.metadata.items() if key == "tags"}
        if cell.cell_type != "code":
            continue
        number += 1  # nbval compares only cells that have been run; a run from the top numbers them so
        cell.execution_count = number
        kept = []
        for output in cell.outputs:
            if WIDGETS in output.get("data", {}):
                continue
            if "execution_count" in output:
                output["execution_count"] = number
            output.pop("transient", None)
            if output.output_type in ("display_data", "execute_result"):
                output.metadata = {}
            kept.append(output)
        cell.outputs = kept
    return notebook


def main(names: list[str]) -> int:
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.name in names or path.stem in names:
            print(path.name, flush=True)
            execute(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
