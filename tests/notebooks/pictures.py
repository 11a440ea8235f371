"""Takes the README's pictures: ``python tests/notebooks/pictures.py [NAME ...]``.

Each is a part of a notebook in a real JupyterLab, on the demo data, as a person sees it
today. Run it after a change of how charts, the panel, the comparison or the prompt lab
look, and look at the pictures.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, too

from playwright.sync_api import Locator

from support.browser import running_browser
from support.lab import Lab, Page, write_notebook

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
IMAGES = NOTEBOOKS / "images"
CONNECT = "import agentbook as ab\nclient = ab.connect()"
PANEL = 'panel = ab.ChatPanel(client, workspace="acme~playground", agent="guide")\npanel'
COMPARE = 'compare = ab.Compare(client, workspace="acme~playground", agents=["guide", "scribe"])\ncompare'
PROMPT_LAB = """
lab = ab.PromptLab(client, agent="acme~scribe", workspace="acme~playground")
role = "You are the scribe of Acme Instruments."
lab.add_variant("brief", system_prompt=f"{role} Answer in one sentence. Name your sources.")
lab.add_variant("points", system_prompt=f"{role} Use a bulleted list of at most three points.")
checks = {"names a source": "Source", "short": lambda reply: len(reply) < 300}
results = lab.run(["What is a session?", "How do I stream events?"], checks=checks, progress=False)
"""
LAB_HEIGHT = 1600  # pixels of the prompt lab that are shown
WRITING = """panel => {
  const replies = panel.querySelectorAll('.ab-agent-body');
  return replies.length > 1 && replies[1].textContent.length > 120;
}"""


def first_look(page: Page) -> None:
    """The first tutorial: the loaded history, a chart, and a panel with an answer."""
    shutil.copy(NOTEBOOKS / "01-first-look.ipynb", page.lab.root / "first-look.ipynb")
    page.open("first-look.ipynb")
    page.hide_file_browser()
    page.run_all()
    page.page.set_viewport_size({"width": 1200, "height": 1140})
    text = page.page.get_by_text("Each of these is a DataFrame.").last
    text.scroll_into_view_if_needed()
    text.evaluate("text => text.scrollIntoView()")
    page.page.locator(".jp-OutputArea svg.marks:visible").first.wait_for()
    page.page.screenshot(path=IMAGES / "first-look.png")


def chat_panel(page: Page) -> None:
    """The panel while its second reply is written."""
    panel = run_cells(page, "chat-panel", [CONNECT, PANEL], ".ab-chat")
    page.send("What is a turn?")
    page.wait_for_answer(1)
    page.send("How do I stream the events of a session?")
    page.page.wait_for_function(WRITING, arg=panel.element_handle(), polling=50)
    panel.screenshot(path=IMAGES / "chat-panel.png")


def compare(page: Page) -> None:
    """Two agents, of which one is preferred."""
    page.page.set_viewport_size({"width": 1400, "height": 1000})
    question = 'compare.ask("Which scopes does a key need to chat?")\ncompare.prefer("guide");'
    root = run_cells(page, "compare", [CONNECT, COMPARE, question], ".ab-chat")
    root.get_by_text("guide preferred").wait_for()
    root.screenshot(path=IMAGES / "compare.png")


def prompt_lab(page: Page) -> None:
    """The prompt lab after a run of two variants, down to the first replies."""
    page.page.set_viewport_size({"width": 1300, "height": 3000})
    root = run_cells(page, "prompt-lab", [CONNECT, PROMPT_LAB, "lab"], ".ab-chat.ab-lab")
    root.get_by_text("names a source").first.wait_for()
    box = root.bounding_box()
    assert box is not None
    box["height"] = min(box["height"], LAB_HEIGHT)
    page.page.screenshot(path=IMAGES / "prompt-lab.png", clip=box)


def run_cells(page: Page, name: str, cells: list[str], selector: str) -> Locator:
    """Run a notebook of these cells; returns the widget, scrolled into view."""
    write_notebook(page.lab.root / f"{name}.ipynb", cells)
    page.open(f"{name}.ipynb")
    page.hide_file_browser()
    page.run_all()
    root = page.page.locator(f".jp-OutputArea {selector}").first
    root.scroll_into_view_if_needed()
    return root


PICTURES: dict[str, Callable[[Page], None]] = {
    "first-look": first_look,
    "chat-panel": chat_panel,
    "compare": compare,
    "prompt-lab": prompt_lab,
}


def main(chosen: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder, running_browser() as browser:
        lab = Lab(Path(folder))
        try:
            page = Page(lab, browser)
            for name in chosen or PICTURES:
                page.begin()
                PICTURES[name](page)
                print(name, flush=True)
            page.close()
        finally:
            lab.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
