"""A panel, a comparison and an explorer in marimo, which shows anywidgets only."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from support.browser import take_picture
from support.lab import TIMEOUT_MS, Lab, axe_violations

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        importlib.util.find_spec("marimo") is None, reason="marimo is not installed: pip install 'marimo>=0.25'"
    ),
]

NOTEBOOK = """import marimo

app = marimo.App()


@app.cell
def _():
    import agentbook as ab

    client = ab.connect()
    ab.ChatPanel(client, workspace="acme~playground", agent="guide", height="240px")
    return ab, client


@app.cell
def _(ab, client):
    ab.Compare(client, workspace="acme~playground", agents=["echo", "verbose"], height="200px")
    return


@app.cell
def _(ab, client):
    ab.Explorer(ab.load_history(client, "acme"))
    return
"""


@pytest.fixture
def marimo(lab: Lab, tmp_path: Path) -> Iterator[str]:
    """The URL of the notebook as an app of marimo, which uses the service of `lab`."""
    (tmp_path / "notebook.py").write_text(NOTEBOOK)
    command = [sys.executable, "-m", "marimo", "run", "--headless", "--no-token", "notebook.py"]
    environment = {**os.environ, "AGENTBOOK_DATA": str(lab.data), "XDG_CONFIG_HOME": str(tmp_path)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = next((found[0] for line in process.stdout if (found := re.search(r"http://\S+", line))), None)
        assert url is not None, "marimo did not start"
        yield url
        process.terminate()


def test_a_person_chats_compares_and_explores_in_marimo(marimo: str, browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 1200, "height": 1000}, reduced_motion="reduce")
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    # marimo itself asks for fonts from outside.
    page.route(lambda url: not url.startswith((marimo, "blob:", "data:")), lambda route: route.abort())
    page.goto(marimo)
    panel = page.locator(".ab-chat:not(.ab-compare, .ab-x-pane)")
    box = panel.get_by_role("textbox", name="Message")
    box.press_sequentially("@note")
    expect(panel.get_by_role("option")).to_contain_text("notebook.py")  # files; marimo keeps its variables
    box.press("Escape")
    box.fill("What is a turn?")
    box.press("Enter")
    expect(panel.get_by_role("status").first).to_have_text("Answered.")
    expect(panel.locator(".ab-agent-body")).to_contain_text("turn")
    take_picture(page, "marimo-panel")
    assert axe_violations(panel) == []
    compare = page.locator(".ab-compare")
    compare.get_by_role("textbox", name="Message").fill("1")
    compare.get_by_role("textbox", name="Message").press("Enter")
    compare.get_by_role("tab", name="verbose").click()  # its columns have no room beside each other
    expect(compare.get_by_role("button", name="Prefer verbose")).to_be_enabled()
    explorer = page.locator(".ab-explorer")
    expect(explorer.locator(".ab-x-plot")).to_be_visible()
    take_picture(page, "marimo-explorer", whole=True)
    context.close()
