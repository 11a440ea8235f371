"""A notebook in JupyterLab with the probe of `chat_page`, run cell by cell."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chat_page import PROBE
from playwright.sync_api import Browser

from support.lab import Lab, Page, write_notebook

FOLDER = Path(__file__).parent
SETUP = f"""
import json, sys, time
sys.path.insert(0, {str(FOLDER)!r})
from IPython.display import display
from chat_kernel import *
"""
WAIT_MS = 180_000.0


class Notebook(Page):
    """A page with the probe, whose cells are run one by one."""

    def __init__(self, lab: Lab, browser: Browser, name: str, cells: Sequence[str]) -> None:
        super().__init__(lab, browser)
        self.page.context.set_default_timeout(WAIT_MS)
        self.page.context.add_init_script(PROBE)
        write_notebook(lab.root / f"{name}.ipynb", [SETUP, *cells])
        self.open(f"{name}.ipynb")
        self.run_cell(0)

    def start_cell(self, number: int) -> None:
        """Run a cell without waiting."""
        self.page.evaluate(
            """n => { const notebook = window.jupyterapp.shell.currentWidget.content;
                notebook.activeCellIndex = n;
                window.done = window.done || {};
                window.done[n] = false;
                window.jupyterapp.commands.execute('notebook:run-cell').then(() => { window.done[n] = true; }); }""",
            number,
        )

    def wait_for_cell(self, number: int) -> None:
        """Wait until a started cell has ended."""
        self.page.wait_for_function("n => window.done[n]", arg=number, polling=50)

    def run_cell(self, number: int) -> str:
        """Run a cell, and return what it printed."""
        self.start_cell(number)
        self.wait_for_cell(number)
        return self.printed(number)

    def printed(self, number: int) -> str:
        """What a cell printed; raises if it failed."""
        cell = self.cells()[number]
        for output in cell["outputs"]:
            if output["output_type"] == "error":
                raise RuntimeError("\n".join(output["traceback"]))
        return "".join(str(output.get("text", "")) for output in cell["outputs"] if output.get("name") == "stdout")

    def heap_mb(self) -> float:
        """What the page's scripts hold, after the garbage was collected."""
        session = self.page.context.new_cdp_session(self.page)
        session.send("HeapProfiler.enable")
        session.send("HeapProfiler.collectGarbage")
        used = session.send("Runtime.getHeapUsage")["usedSize"]
        session.detach()
        return float(used) / 1e6

    def wait_for_token(self, token: int, panel: int = 0) -> None:
        """Wait until a token is painted."""
        self.page.wait_for_function(
            "([k, n]) => { const all = window.paints[k] || []; return all.some(paint => paint[1] >= n); }",
            arg=[panel, token],
            polling=50,
        )

    def paints(self, panel: int = 0) -> list[list[Any]]:
        """For each change: time_ms, greatest token, status line, questions, sources."""
        paints: list[list[Any]] = self.page.evaluate("k => window.paints[k] || []", panel)
        return paints

    def reset_probe(self) -> None:
        self.page.evaluate("() => { wire.bytes = 0; wire.total = 0; wire.frames.length = 0; window.paints = {}; }")

    def interrupt(self) -> float:
        """Interrupt the kernel as the toolbar does; returns the epoch time, in s."""
        kernel = self.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.id")
        url = f"{self.lab.url}/api/kernels/{kernel}/interrupt"
        request = urllib.request.Request(
            url, method="POST", headers={"Authorization": f"token {self.lab.server['token']}"}
        )
        at = time.time()
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30).close()
        return at
