"""The notebooks as a colleague sees them: untrusted, dark, and in Notebook 7."""

from __future__ import annotations

import json
import re
import shutil
from html import unescape
from pathlib import Path
from typing import Any

import nbformat
import pytest

from notebooks.execute import FOLDER, names
from support.lab import Lab, Page
from support.notebook7 import NEEDS_NOTEBOOK_7, NotebookPage

pytestmark = pytest.mark.browser

NO_KERNEL = {"shouldStart": False, "canStart": False, "autoStartDefault": False}
OPENED = """name => {
  const widget = window.jupyterapp && window.jupyterapp.shell.currentWidget;
  return !!widget && !!widget.context && widget.context.path === name && widget.context.isReady;
}"""
# JupyterLab draws a cell when it comes near the view, so this goes through all of them.
READ = """async () => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  const frame = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  const pictures = [], speakers = [];
  for (let number = 0; number < notebook.widgets.length; number++) {
    const cell = notebook.widgets[number];
    if (cell.model.type !== 'code' || (cell.model.getMetadata('jupyter') || {}).outputs_hidden) continue;
    await notebook.scrollToItem(number, 'start');
    const drawn = () => {
      const outputs = [...cell.node.querySelectorAll('.jp-OutputArea-output')];
      return outputs.length >= cell.model.outputs.length && outputs.every(output => output.childNodes.length > 0);
    };
    const until = performance.now() + 20000;
    do await frame(); while (!drawn() && performance.now() < until);
    for (const picture of cell.node.querySelectorAll('.jp-OutputArea img[src^="data:image/svg+xml"]')) {
      await picture.decode();
      const box = picture.getBoundingClientRect();
      pictures.push([picture.alt, Math.round(box.width), Math.round(box.height)]);
    }
    for (const speaker of cell.node.querySelectorAll('.jp-OutputArea .ab-who')) {
      if (speaker.checkVisibility()) speakers.push(speaker.textContent.trim());
    }
  }
  const trusted = notebook.widgets.filter(cell => cell.model.type === 'code' && cell.model.trusted).length;
  return {pictures, speakers, trusted, kernel: !!window.jupyterapp.shell.currentWidget.sessionContext.session};
}"""


def stored(notebook: Path) -> tuple[list[str], list[str]]:
    """The text alternatives of the charts, and the speakers of the chats, in order."""
    charts, speakers = list[str](), list[str]()
    for cell in json.loads(notebook.read_text())["cells"]:
        if "jupyter" in cell["metadata"]:
            continue  # folded
        for output in cell.get("outputs", ()):
            html = "".join(output.get("data", {}).get("text/html", ""))
            charts += re.findall(r'<img [^>]*alt="([^"]*)"[^>]*src="data:image/svg\+xml', html)
            visible = re.sub(r"<details.*</details>", "", html, flags=re.DOTALL)
            elements = re.findall(r'<(\w+) class="ab-who[^"]*">(.*?)</\1>', visible, re.DOTALL)
            speakers += [re.sub(r"<[^>]*>", "", element) for _, element in elements]
    return [unescape(chart) for chart in charts], [unescape(speaker).strip() for speaker in speakers]


@pytest.fixture(scope="module")
def folder(lab: Lab) -> str:
    """A copy of the notebooks in JupyterLab's root, where no one has signed them."""
    shutil.copytree(FOLDER, lab.root / "untrusted", ignore=shutil.ignore_patterns("images", ".*"))
    return "untrusted"


@pytest.mark.parametrize("application", [pytest.param(NotebookPage, id="notebook7", marks=NEEDS_NOTEBOOK_7)])
def test_the_chats_of_an_untrusted_notebook_are_readable_in_notebook_7(lab: Lab, page: Page) -> None:
    cells, speakers = [], []
    for name in names():
        notebook = FOLDER / name
        if chat := stored(notebook)[1]:
            speakers += chat
            whole = nbformat.read(notebook, 4)
            cells += [cell for cell in whole.cells if "ab-who" in str(cell.get("outputs"))]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=whole.metadata), lab.root / "untrusted.ipynb")
    page.open("untrusted.ipynb")
    shown: dict[str, Any] = page.page.evaluate(READ)
    page.screenshot("untrusted")
    assert shown["trusted"] == 0
    assert len(set(speakers)) > 4
    assert set(speakers) <= set(shown["speakers"])


def test_an_untrusted_notebook_shows_its_charts_and_its_chats(lab: Lab, page: Page, folder: str) -> None:
    page.page.goto(f"{lab.url}/lab?token={lab.server['token']}&reset")
    page.page.wait_for_function("() => window.jupyterapp && window.jupyterapp.restored.then(() => true)")
    page.set_theme("JupyterLab Dark")
    charts = chats = 0
    for name in names():
        expected_charts, speakers = stored(FOLDER / name)
        if not expected_charts and not speakers:
            continue  # tables and text only
        path = f"{folder}/{name}"
        page.command("docmanager:open", path=path, factory="Notebook", kernelPreference=NO_KERNEL)
        page.page.wait_for_function(OPENED, arg=path, polling=50)
        shown: dict[str, Any] = page.page.evaluate(READ)
        page.screenshot(f"untrusted-{Path(name).stem}")
        assert (shown["trusted"], shown["kernel"]) == (0, False), name
        assert [text for text, _, _ in shown["pictures"]] == expected_charts, name
        assert all(width > 300 and height > 100 for _, width, height in shown["pictures"]), (name, shown["pictures"])
        assert [who for who in speakers if who not in shown["speakers"]] == [], (name, shown["speakers"])
        charts, chats = charts + len(expected_charts), chats + bool(speakers)
        page.command("application:close")
    assert charts >= 15
    assert chats >= 4
