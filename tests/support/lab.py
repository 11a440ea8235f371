"""A real JupyterLab in its own process, and a browser page to use it.

JupyterLab has its own configuration, data, runtime files, settings, IPython profile and
data directory of the embedded service. It neither reads nor writes the user's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nbformat
from playwright.sync_api import Browser, ConsoleMessage, Locator, Request, ViewportSize

from agentbook.chat.assets import ASSETS
from support.browser import take_picture
from support.page_scripts import (
    ANSWERED,
    CLOSE,
    EXPAND,
    KERNEL_READY,
    LOADED,
    RECORD,
    RECORDED,
    REOPENED,
    SHOW_CELL,
    SHUT_DOWN,
    STATIC,
    VIOLATIONS,
)
from support.services import stop_services

START_S = 90.0
TIMEOUT_MS = 60_000.0  # long, because only a failing test waits for all of it
POLLING_MS = 100.0  # Playwright's default evaluates a condition in every frame, and so makes frames
SETTINGS: dict[str, dict[str, Any]] = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "docmanager-extension/plugin": {"autosave": False},
    "toc-extension/registry": {"maximalDepth": 6},  # with every level of heading
}


def axe_violations(root: Locator) -> list[str]:
    """The serious and critical violations that axe-core reports in a part of a page.

    Empty if axe-core is not installed; a message says so.
    """
    try:
        from axe_playwright_python.base import AXE_SCRIPT
    except ImportError:
        print("The package axe-playwright-python is not installed: the rules of axe-core were not checked.")
        return []
    if not root.evaluate("() => !!window.axe"):  # half a megabyte, once for each page
        root.evaluate("(_, script) => { (0, eval)(script); }", AXE_SCRIPT)
    violations: list[str] = root.evaluate(VIOLATIONS)
    return violations


def write_notebook(path: Path, cells: Sequence[str]) -> Path:
    """Write a notebook of code cells."""
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(source, id=f"cell-{n}") for n, source in enumerate(cells)]
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, path)
    return path


class Lab:
    """JupyterLab, which runs until `stop`; it also serves Notebook 7, if installed.

    Attributes
    ----------
    root : Path
        The folder of its notebooks.
    data : Path
        The data directory of the embedded service that its kernels use.
    server : dict
        What the server wrote about itself: port, token and more.
    """

    def __init__(self, home: Path) -> None:
        self.root, self.data = home / "notebooks", home / "data"
        runtime, settings = home / "runtime", home / "settings"
        for folder in (self.root, self.data, runtime):
            folder.mkdir(parents=True)
        for name, values in SETTINGS.items():
            file = settings / "@jupyterlab" / f"{name}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(values))
        # The extension as it is in the source tree: an installed one is a copy.
        (home / "source" / "labextensions").mkdir(parents=True)
        (home / "source" / "labextensions" / "agentbook").symlink_to(ASSETS / "labextension")
        environment = {
            **os.environ,
            "AGENTBOOK_DATA": str(self.data),
            "JUPYTER_CONFIG_DIR": str(home / "config"),
            "JUPYTER_DATA_DIR": str(home / "jupyter"),
            "JUPYTER_PATH": os.pathsep.join(filter(None, [str(home / "source"), os.environ.get("JUPYTER_PATH")])),
            "JUPYTER_RUNTIME_DIR": str(runtime),
            "JUPYTERLAB_SETTINGS_DIR": str(settings),
            "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
            "IPYTHONDIR": str(home / "ipython"),
            "JUPYTER_PLATFORM_DIRS": "1",
        }
        # Two servers that look for a free port at the same time find the same one.
        port = 18888 + 300 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", f"--ServerApp.port={port}"]
        command += ["--ServerApp.port_retries=200", f"--ServerApp.root_dir={self.root}", "--expose-app-in-browser"]
        command.append("--JupyterNotebookApp.expose_app_in_browser=True")
        # Each page would have the server check, with Node, whether to build JupyterLab.
        command.append("--ServerApp.tornado_settings={'page_config_data': {'buildCheck': False}}")
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.append("--allow-root")
        self._log = home / "lab.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        # The server writes its port into this file, so the port need not be known.
        self.server = self._wait_until_started(runtime / f"jpserver-{self._process.pid}.json")
        self.url = f"http://127.0.0.1:{self.server['port']}"

    def _wait_until_started(self, file: Path) -> dict[str, Any]:
        until = time.monotonic() + START_S
        while self._process.poll() is None and time.monotonic() < until:
            if file.exists():
                opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
                try:
                    server: dict[str, Any] = json.loads(file.read_text())  # a ValueError while it is written
                    url = f"http://127.0.0.1:{server['port']}/api/status?token={server['token']}"
                    with opener.open(url, timeout=10):
                        return server
                except (OSError, ValueError):
                    pass
            time.sleep(0.1)
        self.stop()
        raise AssertionError(f"JupyterLab did not start:\n{self._log.read_text(errors='replace')}")

    def stop(self) -> None:
        """Stop JupyterLab with its kernels, and the service that they started."""
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        stop_services(self.data)

    def secret(self) -> str:
        """The secret of the API key that the notebooks use."""
        key: str = json.loads((self.data / "local-key.json").read_text())["api_key"]
        return key.partition(":")[2]


class Page:
    """A browser page of JupyterLab.

    Parameters
    ----------
    workspace : str
        The name of JupyterLab's workspace, which a second page must not share: it
        would reopen the other one's notebooks.

    Attributes
    ----------
    page
        Playwright's page.
    outside_requests : list of str
        URLs that the page requested and that are not on this machine.
    errors : list of str
        Exceptions that no script of the page handled, except those that JupyterLab
        raises when a kernel restarts or a notebook is closed.
    """

    def __init__(
        self, lab: Lab, browser: Browser, *, width: int = 1200, height: int = 1000, workspace: str = ""
    ) -> None:
        self.lab, self._workspace = lab, f"/workspaces/{workspace}" if workspace else ""
        self._size: ViewportSize = {"width": width, "height": height}
        # No animations: without a graphics card, each frame keeps a core busy.
        self._context = browser.new_context(viewport=self._size, reduced_motion="reduce")
        self._context.set_default_timeout(TIMEOUT_MS)
        self._context.add_init_script(REOPENED)
        self.page = self._context.new_page()
        self.outside_requests: list[str] = []
        self.errors: list[str] = []
        self.console: list[str] = []
        self._context.on("request", self._record_request)
        self.page.on("pageerror", self._record_error)
        self.page.on("console", self._record_console)

    def _record_error(self, error: Any) -> None:
        # A kernel that restarts cancels pending requests for subshells, and a notebook
        # that is closed may still be asking for its kernel ("Disposed", thrown by
        # JupyterLab's session context). JupyterLab handles neither.
        text = str(error).removeprefix("Error: ")
        if not text.startswith("Canceled future for create_subshell_request ") and text != "Disposed":
            self.errors.append(str(error))

    def _record_request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob", "about") and address.hostname not in ("127.0.0.1", "localhost"):
            self.outside_requests.append(request.url)

    def _record_console(self, message: ConsoleMessage) -> None:
        self.console.append(f"{message.type}: {message.text}")

    def close(self) -> None:
        self._context.close()

    def begin(self) -> None:
        """Forget what was recorded, and restore the initial look, for another test."""
        for record in (self.outside_requests, self.errors, self.console):
            record.clear()
        self.page.set_viewport_size(self._size)

    # Notebooks

    def open(self, name: str) -> None:
        """Open a notebook instead of all others, and wait for its kernel.

        JupyterLab is loaded once: that takes as long as everything else in a short
        test.
        """
        if not self.page.evaluate(LOADED):
            self.page.goto(f"{self.lab.url}/lab{self._workspace}/tree/{name}?token={self.lab.server['token']}&reset")
        else:
            self.close_notebooks()
            self.page.evaluate(EXPAND)
            self.set_theme("JupyterLab Light")
            self.command("docmanager:open", path=name)
        self.wait_for_kernel()

    def close_notebooks(self) -> None:
        """Close all notebooks without saving them, and shut down all kernels."""
        if self.page.evaluate(LOADED):
            self.page.evaluate(CLOSE)
            self.page.wait_for_selector(".jp-NotebookPanel", state="detached")

    def hide_file_browser(self) -> None:
        """Give its room to the notebook, until the next one is opened."""
        self.command("application:toggle-left-area")

    def reload(self) -> None:
        """Reload the page; the kernel keeps running."""
        self.page.reload()
        self.page.wait_for_function("() => window.reopened", polling=POLLING_MS)
        self.page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell")

    def wait_for_kernel(self) -> None:
        self.page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell")
        self.page.wait_for_function(KERNEL_READY, polling=POLLING_MS)

    def command(self, name: str, **arguments: Any) -> None:
        """Run a command of JupyterLab, and wait for its promise."""
        call = "([name, args]) => window.jupyterapp.commands.execute(name, args).then(() => true)"
        self.page.evaluate(call, [name, arguments])

    def run_all(self) -> None:
        """Run all cells, and wait for the last one."""
        self.command("notebook:run-all-cells")

    def start_run_all(self) -> None:
        """Run all cells without waiting."""
        self.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")

    def wait_for_notebook_text(self, text: str) -> None:
        """Wait until the notebook's model, not only the page, contains this text."""
        self.page.wait_for_function(
            """text => JSON.stringify(window.jupyterapp.shell.currentWidget.context.model.toJSON())
                .replace(/<[^>]*>/g, '').replace(/(\\\\n|\\s)+/g, ' ').includes(text)""",
            arg=text,
            polling=POLLING_MS,
        )

    def save(self) -> None:
        self.command("docmanager:save")

    def end_kernel(self) -> None:
        """Shut down the notebook's kernel; the page then has none."""
        # A page that was just opened may still be starting a kernel.
        context = "window.jupyterapp.shell.currentWidget.sessionContext"
        self.page.evaluate(f"() => {context}.ready.then(() => {context}.shutdown()).then(() => true)")
        self.page.wait_for_function(
            "() => !window.jupyterapp.shell.currentWidget.sessionContext.session", polling=POLLING_MS
        )

    def end_kernels(self) -> None:
        """Shut down every kernel of this JupyterLab."""
        self.page.evaluate(SHUT_DOWN)

    def set_theme(self, name: str) -> None:
        """Change JupyterLab's theme, and wait until the page shows it."""
        self.command("apputils:change-theme", theme=name)
        light = "true" if "Light" in name else "false"
        body = f"body[data-jp-theme-name='{name}'][data-jp-theme-light='{light}']"
        self.page.wait_for_selector(body, state="attached")
        # A splash screen covers the page while the theme loads.
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")

    def cell(self, number: int) -> Locator:
        """A code cell; the first is 0."""
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(number)

    def show_cell(self, number: int) -> Locator:
        """A code cell, once the notebook has scrolled to it."""
        self.page.evaluate(SHOW_CELL, number)
        cell = self.cell(number)
        cell.wait_for()
        return cell

    def prompt(self, number: int) -> str:
        """``[3]:`` after a cell has run, ``[*]:`` while it runs or waits."""
        return self.cell(number).locator(".jp-InputPrompt").inner_text().strip()

    def cells(self) -> list[dict[str, Any]]:
        """All cells, as nbformat stores them.

        They are read from the notebook's model, because JupyterLab draws only the cells
        near the view.
        """
        cells: list[dict[str, Any]] = self.page.evaluate(
            "() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells"
        )
        return cells

    def execution_counts(self) -> list[int | None]:
        """The execution counts of all code cells."""
        return [cell["execution_count"] for cell in self.cells() if cell["cell_type"] == "code"]

    def outputs(self) -> list[dict[str, Any]]:
        """All outputs of the notebook in the page, as nbformat has them."""
        return [output for cell in self.cells() for output in cell.get("outputs", [])]

    def output_text(self, number: int) -> str:
        """The printed output of a code cell, and its value as text."""
        outputs = [cell for cell in self.cells() if cell["cell_type"] == "code"][number]["outputs"]
        return "".join("".join(output.get("text") or output["data"]["text/plain"]) for output in outputs)

    def screenshot(self, name: str) -> None:
        """Save a picture of the page, if one is wanted."""
        take_picture(self.page, name)

    # The chat panel

    @property
    def panel(self) -> Locator:
        return self.page.locator(".jp-OutputArea .ab-chat")

    @property
    def replies(self) -> Locator:
        """The agent's replies in the panel, in order."""
        return self.panel.locator(".ab-agent-body")

    def send(self, text: str) -> None:
        """Type a message into the panel and press Enter."""
        box = self.panel.locator(".ab-input textarea")
        box.fill(text)
        box.press("Enter")

    def start_recording(self) -> None:
        """Start to record each change of what the panel shows."""
        self.panel.evaluate(RECORD)

    def recorded_states(self) -> list[dict[str, Any]]:
        """The changes since `start_recording`.

        Each has the text of the last reply, the status line and the number of replies.
        """
        states: list[dict[str, Any]] = self.page.evaluate(RECORDED)
        return states

    def wait_for_answer(self, number: int) -> str:
        """Wait for `number` replies, the last of them complete; return its text."""
        answered = [self.panel.element_handle(), number]
        text = str(self.page.wait_for_function(ANSWERED, arg=answered, polling=POLLING_MS).json_value())
        assert not text.startswith("Failed."), text
        return text

    def static_transcript(self, *words: str) -> str:
        """Wait until the only static transcript is visible and contains all `words`.

        Returns its text.
        """
        return str(self.page.wait_for_function(STATIC, arg=list(words), polling=POLLING_MS).json_value())
