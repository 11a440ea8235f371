"""Executes the notebooks on a seeded platform, and stores them with clean outputs.

``python tests/notebooks/execute.py [NAME ...]`` runs all notebooks, or the named ones;
a how-to is named ``how-to/export``. Times, metadata of outputs, and widgets, whose
state is not stored, are dropped. An output that differs from the stored one only in
what `sanitize.cfg` names, such as a duration, is left as it was, so that diffs show
real changes.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionComplete
from nbclient.util import ensure_async

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, too

from notebooks.check import is_folded
from support.services import stop_services

FOLDER = Path(__file__).parents[2] / "notebooks"
SEEDED = {"AGENTBOOK_SEED": "1", "AGENTBOOK_SPEED": "0"}
WIDGETS = "application/vnd.jupyter.widget-view+json"
# Runs in the kernel after the last cell: what panels have yet to draw, on the toolkit's
# thread, they draw now. So their updates come before the end of this.
DRAW_ALL = """
import gc
from agentbook.chat.widgets.throttle import Throttle
from agentbook.events import loop
async def draw_all():
    for throttle in [each for each in gc.get_objects() if type(each) is Throttle]:
        throttle.flush()
loop.run(draw_all(), 60)
"""
PANEL = re.compile(r"\bap-[0-9a-f]{12}\b")
SANITIZE = Path(__file__).with_name("sanitize.cfg")


def names() -> list[str]:
    """The paths of all notebooks below the folder: the tutorials, then the how-tos."""
    paths = [*sorted(FOLDER.glob("*.ipynb")), *sorted(FOLDER.glob("how-to/*.ipynb"))]
    return [path.relative_to(FOLDER).as_posix() for path in paths]


def environment(home: Path) -> dict[str, str]:
    """The environment of a kernel with a seeded platform and no user settings."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in ("AGENTBOOK_BASE_URL", "AGENTBOOK_API_KEY") and not name.startswith("OPENAI_")
    }
    names = (
        "JUPYTER_CONFIG_DIR",
        "JUPYTER_RUNTIME_DIR",
        "IPYTHONDIR",
        "XDG_CONFIG_HOME",
    )  # the last holds OAuth tokens
    private = {name: str(home / name.lower()) for name in names}
    return {**inherited, **private, **SEEDED, "AGENTBOOK_DATA": str(home / "data")}


class Runner(NotebookClient):  # type: ignore[misc]
    """Runs a notebook as JupyterLab does: later cells can update earlier outputs.

    nbclient handles only messages of the running cell. A chat panel's transcript is
    updated from later cells, and would be stored empty.
    """

    async def async_execute_cell(self, cell: Any, cell_index: int, *arguments: Any, **options: Any) -> Any:
        executed = await super().async_execute_cell(cell, cell_index, *arguments, **options)
        if cell_index == len(self.nb.cells) - 1:
            await self._draw_all()
        return executed

    async def _async_poll_output_msg(self, parent_msg_id: str, cell: Any, cell_index: int) -> None:
        while True:
            message = await ensure_async(self.kc.iopub_channel.get_msg(timeout=None))
            if message["parent_header"].get("msg_id") == parent_msg_id:
                try:
                    self.process_message(message, cell, cell_index)
                except CellExecutionComplete:
                    return
            else:
                self._update_display(message)

    async def _draw_all(self) -> None:
        """Have panels draw what they have not drawn by the end of the last cell."""
        request = await ensure_async(self.kc.execute(DRAW_ALL, silent=True))
        while True:
            message = await ensure_async(self.kc.iopub_channel.get_msg(timeout=self.timeout))
            self._update_display(message)
            if message["parent_header"].get("msg_id") == request:
                if message["msg_type"] == "error":
                    raise RuntimeError("\n".join(message["content"]["traceback"]))
                if message["content"].get("execution_state") == "idle":
                    return

    def _update_display(self, message: dict[str, Any]) -> None:
        if message["msg_type"] == "update_display_data":
            self._update_display_id(message["content"]["transient"]["display_id"], message)


def execute(path: Path) -> None:
    """Run one notebook on a fresh platform, and write it back, clean."""
    stored, notebook = nbformat.read(path, as_version=4), nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "cwd").mkdir()
        client = Runner(notebook, timeout=120, record_timing=False, resources={"metadata": {"path": folder}})
        try:
            client.execute(env=environment(home), cwd=str(home / "cwd"))
        finally:
            stop_services(home)
    nbformat.write(steady(clean(notebook), stored), path)


def clean(notebook: Any) -> Any:
    """The notebook without details of this run."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    number, panels = 0, dict[str, str]()
    for cell in notebook.cells:
        names = ("tags", "jupyter") if is_folded(cell) else ("tags",)
        cell.metadata = {name: cell.metadata[name] for name in names if name in cell.metadata}
        if cell.cell_type != "code":
            continue
        number += 1  # nbval compares only executed cells; a run from the top numbers them
        cell.execution_count = number
        outputs = []
        for output in cell.outputs:
            if WIDGETS in output.get("data", {}):
                continue
            if "execution_count" in output:
                output["execution_count"] = number
            output.pop("transient", None)
            if output.output_type in ("display_data", "execute_result"):
                output.metadata = {}
                for kind, data in output.data.items():
                    output.data[kind] = _renamed(data, panels)
            outputs.append(output)
        cell.outputs = outputs
    return notebook


def _renamed(data: Any, panels: dict[str, str]) -> Any:
    """Replace random panel names by numbered ones."""
    if not isinstance(data, str):
        return data
    return PANEL.sub(lambda match: panels.setdefault(match[0], f"ap-{len(panels) + 1:012x}"), data)


def steady(notebook: Any, stored: Any) -> Any:
    """The notebook, with a cell's stored outputs if the new ones are equivalent."""
    before = {cell.id: cell for cell in stored.cells if cell.cell_type == "code"}
    rules = re.findall(r"^\[(\w+)\]\nregex: (.*)\nreplace: (.*)$", SANITIZE.read_text(), flags=re.MULTILINE)
    patterns = [(regex, replace) for name, regex, replace in rules if name != "style"]  # style changes are stored

    def normalized(outputs: Any) -> str:
        # The order of keys means nothing, and a run has another than a stored notebook.
        ordered = json.dumps([{**output, "execution_count": None} for output in outputs], sort_keys=True)
        text = repr(json.loads(ordered))
        for regex, replace in patterns:
            text = re.sub(regex, replace, text)
        return text

    for cell in notebook.cells:
        old = before.get(cell.id)
        if cell.cell_type == "code" and old is not None and normalized(old.outputs) == normalized(cell.outputs):
            cell.outputs = old.outputs
            for output in cell.outputs:
                if "execution_count" in output:
                    output["execution_count"] = cell.execution_count
    return notebook


def main(chosen: list[str]) -> int:
    for name in names():
        if not chosen or name in chosen or name.removesuffix(".ipynb") in chosen:
            print(name, flush=True)
            execute(FOLDER / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
