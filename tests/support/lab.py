"""A real JupyterLab in a process of its own, and a page of it as a person would use it.

Nothing of the user's is read or written: configuration, data, runtime files, settings
and IPython's profile are private to it, and so is the embedded service's data
directory.
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
from playwright.sync_api import Browser, ConsoleMessage, Locator, Request

from support.services import stop_services

START_S = 90.0
TIMEOUT_MS = 60_000.0  # generous: it is only ever spent in full by a test that fails
ARTEFACTS = Path(__file__).parents[1] / "artefacts"
SETTINGS: dict[str, dict[str, Any]] = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "docmanager-extension/plugin": {"autosave": False},
}

# The toolbar says "idle" before the session exists, and Run All would then ask for a
# kernel: so the session itself is asked.
KERNEL_READY = """() => {
  const widget = window.jupyterapp && window.jupyterapp.shell.currentWidget;
  const session = widget && widget.sessionContext;
  const kernel = session && session.isReady && session.session && session.session.kernel;
  return !!kernel && kernel.connectionStatus === 'connected' && kernel.status === 'idle' && widget.context.isReady;
}"""

# Notes the text of the last reply, and the status line, whenever either has changed and
# stood for a frame: one drawing of the panel is several messages, and what stands
# between two of them is nothing a person sees.
WATCH = """panel => {
  window.seen = [];
  const read = () => {
    const replies = panel.querySelectorAll('.ab-agent-body');
    const text = replies.length ? replies[replies.length - 1].textContent : '';
    const status = (panel.querySelector('.ab-statusline') || {textContent: ''}).textContent;
    return {text, status, replies: replies.length};
  };
  const same = (one, other) => one && one.text === other.text && one.status === other.status;
  let before = read();
  window.seen.push(before);
  const note = () => {
    const now = read();
    if (same(before, now) && !same(window.seen[window.seen.length - 1], now)) window.seen.push(now);
    before = now;
    if (panel.isConnected) requestAnimationFrame(note);
  };
  requestAnimationFrame(note);
}"""
SEEN = """() => new Promise(done => {
  let frames = 4;
  const wait = () => frames-- ? requestAnimationFrame(wait) : done(window.seen);
  wait();
})"""

# The text of a complete reply, or why it failed. JupyterLab draws only what is near the
# view, so what is read is brought there.
ANSWERED = """([panel, number]) => {
  panel.scrollIntoView({block: 'nearest'});
  const failed = panel.querySelector('.ab-failed');
  if (failed && failed.checkVisibility()) return failed.innerText;
  const reply = panel.querySelectorAll('.ab-agent')[number - 1];
  const foot = reply && reply.querySelector('.ab-foot');
  const complete = foot && /reply after/i.test(foot.textContent)
    && panel.querySelector('.ab-statusline').textContent.startsWith('Answered');
  return complete && reply.querySelector('.ab-agent-body').innerText.trim();
}"""

STATIC = """words => {
  const found = document.querySelectorAll('.jp-OutputArea .ab-static');
  if (found.length !== 1) return false;
  found[0].scrollIntoView({block: 'start'});
  const text = found[0].checkVisibility({contentVisibilityAuto: true}) ? found[0].innerText : '';
  return words.every(word => text.includes(word)) && text;
}"""


# What axe-core calls serious or critical, with the elements it means.
GRAVE = """(root, script) => {
  if (!window.axe) (0, eval)(script);
  return axe.run(root, {resultTypes: ['violations']}).then(found => found.violations
    .filter(each => ['serious', 'critical'].includes(each.impact))
    .map(each => each.id + ': ' + each.nodes.map(node => node.html.slice(0, 300) + ' ' + node.failureSummary).join('\\n')));
}"""


def grave_faults(root: Locator) -> list[str]:
    """What axe-core calls serious or critical in this part of a page; empty, and said
    so, where it is not installed.
    """
    try:
        from axe_playwright_python.base import AXE_SCRIPT
    except ImportError:
        print("axe-core is not installed (the package axe-playwright-python): its rules were not applied.")
        return []
    violations: list[str] = root.evaluate(GRAVE, AXE_SCRIPT)
    return violations


def write_notebook(path: Path, cells: Sequence[str]) -> Path:
    """Write a notebook of code cells."""
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(source, id=f"cell-{n}") for n, source in enumerate(cells)]
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, path)
    return path


class Lab:
    """JupyterLab, running until `stop`.

    Attributes
    ----------
    root : Path
        Its folder of notebooks.
    data : Path
        The embedded service's data directory of its kernels.
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
        environment = {
            **os.environ,
            "AGENTBOOK_DATA": str(self.data),
            "JUPYTER_CONFIG_DIR": str(home / "config"),
            "JUPYTER_DATA_DIR": str(home / "jupyter"),
            "JUPYTER_RUNTIME_DIR": str(runtime),
            "JUPYTERLAB_SETTINGS_DIR": str(settings),
            "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
            "IPYTHONDIR": str(home / "ipython"),
            "JUPYTER_PLATFORM_DIRS": "1",
        }
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", "--ServerApp.port=18888"]
        command += ["--ServerApp.port_retries=200", f"--ServerApp.root_dir={self.root}", "--expose-app-in-browser"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.append("--allow-root")
        self._log = home / "lab.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        # It says where it listens in a file of its own, so no port has to be guessed.
        self.facts = self._started(runtime / f"jpserver-{self._process.pid}.json")
        self.url = f"http://127.0.0.1:{self.facts['port']}"

    def _started(self, file: Path) -> dict[str, Any]:
        until = time.monotonic() + START_S
        while self._process.poll() is None and time.monotonic() < until:
            if file.exists():
                facts: dict[str, Any] = json.loads(file.read_text())
                url = f"http://127.0.0.1:{facts['port']}/api/status?token={facts['token']}"
                opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
                try:
                    with opener.open(url, timeout=10):
                        return facts
                except OSError:
                    pass
            time.sleep(0.1)
        self.stop()
        raise AssertionError(f"JupyterLab did not start:\n{self._log.read_text(errors='replace')}")

    def stop(self) -> None:
        """End JupyterLab with its kernels, and the service that they started."""
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        stop_services(self.data)

    def secret(self) -> str:
        """The secret of the API key that notebooks use here."""
        key: str = json.loads((self.data / "local-key.json").read_text())["api_key"]
        return key.partition(":")[2]


class Page:
    """One browser page on one JupyterLab.

    Attributes
    ----------
    page
        Playwright's page.
    strayed : list of str
        Addresses that were asked for and are not on this machine.
    errors : list of str
        Exceptions that no script of the page handled, except those that JupyterLab
        raises on a restart.
    """

    def __init__(self, lab: Lab, browser: Browser, *, width: int = 1200, height: int = 1000) -> None:
        self.lab = lab
        self._context = browser.new_context(viewport={"width": width, "height": height})
        self._context.set_default_timeout(TIMEOUT_MS)
        self.page = self._context.new_page()
        self.strayed: list[str] = []
        self.errors: list[str] = []
        self.console: list[str] = []
        self._context.on("request", self._requested)
        self.page.on("pageerror", self._failed)
        self.page.on("console", self._note_console)

    def _failed(self, error: Any) -> None:
        # A kernel that restarts makes no more subshells it was asked for before;
        # JupyterLab handles that nowhere.
        if not str(error).startswith("Error: Canceled future for create_subshell_request "):
            self.errors.append(str(error))

    def _requested(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob", "about") and address.hostname not in ("127.0.0.1", "localhost"):
            self.strayed.append(request.url)

    def _note_console(self, message: ConsoleMessage) -> None:
        self.console.append(f"{message.type}: {message.text}")

    def close(self) -> None:
        self._context.close()

    # Notebooks

    def open(self, name: str) -> None:
        """Open a notebook in a fresh workspace, and wait for its kernel."""
        self.page.goto(f"{self.lab.url}/lab/tree/{name}?token={self.lab.facts['token']}&reset")
        self.wait_for_kernel()

    def reload(self) -> None:
        """Reload the page; the kernel goes on."""
        self.page.reload()
        self.page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell")

    def wait_for_kernel(self) -> None:
        self.page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell")
        self.page.wait_for_function(KERNEL_READY)

    def command(self, name: str, **arguments: Any) -> None:
        """Run a command of JupyterLab and wait for what it promises."""
        call = "([name, args]) => window.jupyterapp.commands.execute(name, args).then(() => true)"
        self.page.evaluate(call, [name, arguments])

    def run_all(self) -> None:
        """Run all cells; returns when the last has ended."""
        self.command("notebook:run-all-cells")

    def start_run_all(self) -> None:
        """Run all cells, without waiting."""
        self.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")

    def wait_for_notebook_to_hold(self, words: str) -> None:
        """Until the notebook's own document, not only what is drawn, has these words in
        an output.
        """
        self.page.wait_for_function(
            """words => JSON.stringify(window.jupyterapp.shell.currentWidget.context.model.toJSON())
                .replace(/<[^>]*>/g, '').replace(/(\\\\n|\\s)+/g, ' ').includes(words)""",
            arg=words,
        )

    def save(self) -> None:
        self.command("docmanager:save")

    def end_kernel(self) -> None:
        """Shut the notebook's kernel down and leave the page without one."""
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown().then(() => true)")
        self.page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.sessionContext.session")

    def end_kernels(self) -> None:
        """Shut down every kernel of this JupyterLab."""
        self.page.evaluate(
            "() => window.jupyterapp && window.jupyterapp.serviceManager.sessions.shutdownAll().then(() => true)"
        )

    def theme(self, name: str) -> None:
        """Change JupyterLab's theme and wait until the page wears it."""
        self.command("apputils:change-theme", theme=name)
        light = "true" if "Light" in name else "false"
        worn = f"body[data-jp-theme-name='{name}'][data-jp-theme-light='{light}']"
        self.page.wait_for_selector(worn, state="attached")
        # A splash veils the page while the theme loads.
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")

    def cell(self, number: int) -> Locator:
        """A code cell, counted from 0."""
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(number)

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
        """What a code cell has printed, and its value as text."""
        outputs = [cell for cell in self.cells() if cell["cell_type"] == "code"][number]["outputs"]
        return "".join("".join(output.get("text") or output["data"]["text/plain"]) for output in outputs)

    def screenshot(self, name: str) -> Path:
        """Keep a picture of the page among the test artefacts."""
        ARTEFACTS.mkdir(exist_ok=True)
        path = ARTEFACTS / f"{name}.png"
        self.page.screenshot(path=path)
        return path

    # The chat panel

    @property
    def panel(self) -> Locator:
        return self.page.locator(".jp-OutputArea .ab-chat")

    @property
    def replies(self) -> Locator:
        """The agent's replies in the panel, in order."""
        return self.panel.locator(".ab-agent-body")

    def say(self, text: str) -> None:
        """Type a message into the panel and press Enter."""
        box = self.panel.locator(".ab-input textarea")
        box.fill(text)
        box.press("Enter")

    def watch(self) -> None:
        """Begin to note what the panel shows, change by change."""
        self.panel.evaluate(WATCH)

    def seen(self) -> list[dict[str, Any]]:
        """What was noted since `watch`: text of the last reply, status line, number of
        replies.
        """
        noted: list[dict[str, Any]] = self.page.evaluate(SEEN)
        return noted

    def wait_for_answer(self, number: int) -> str:
        """Wait for `number` replies, the last of them complete; return its text."""
        text = str(self.page.wait_for_function(ANSWERED, arg=[self.panel.element_handle(), number]).json_value())
        assert not text.startswith("Failed."), text
        return text

    def static_transcript(self, *words: str) -> str:
        """Wait until the one static transcript can be seen and holds all of `words`;
        its text.
        """
        return str(self.page.wait_for_function(STATIC, arg=list(words)).json_value())
