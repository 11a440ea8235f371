"""The first notebook as a person meets it: opened in JupyterLab, run from top to
bottom, and talked to.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from support.lab import Lab, Page

pytestmark = pytest.mark.browser

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "01-first-look.ipynb"
ASKED = NOTEBOOK.read_text().count("panel.ask(")  # in cells, before a person types anything


def ran(page: Page) -> None:
    """Every cell has run, in order, and none failed."""
    outputs = page.outputs()
    assert [output for output in outputs if output["output_type"] == "error"] == []
    assert [output for output in outputs if output.get("name") == "stderr"] == []
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert page.execution_counts() == list(range(1, len(cells) + 1))


def grew(seen: list[dict[str, Any]], final: str) -> list[int]:
    """The lengths of a draft as they were seen; checks that it only grew, and grew into
    the answer.
    """
    drafts = [note["text"] for note in seen if note["text"] and not note["status"].startswith("Answered")]
    lengths = list(dict.fromkeys(len(text) for text in drafts))
    assert lengths == sorted(lengths)
    assert max(lengths) <= len(seen[-1]["text"])
    assert re.sub(r"\s+", "", seen[-1]["text"]) == re.sub(r"\s+", "", final)
    return lengths


def test_the_notebook_runs_and_its_panel_answers(lab: Lab, page: Page) -> None:
    shutil.copy(NOTEBOOK, lab.root / "first.ipynb")
    page.open("first.ipynb")
    page.run_all()
    ran(page)

    picture = page.page.locator(".jp-RenderedSVG img, .jp-RenderedSVG svg").first
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    assert box is not None
    assert box["width"] > 400
    assert box["height"] > 120
    assert picture.evaluate("drawn => drawn.tagName !== 'IMG' || drawn.decode().then(() => drawn.naturalWidth > 0)")

    assert page.wait_for_answer(ASKED)
    expect(page.replies.first).to_contain_text("turn")

    page.watch()
    page.say("How do I load the events of many sessions into a DataFrame?")
    answer = page.wait_for_answer(ASKED + 1)
    lengths = grew(page.seen()[1:], answer)
    assert len(lengths) >= 2, "the answer came in one piece"
    assert "load_events" in answer
    assert page.errors == []
    page.command("application:toggle-left-area")
    page.page.set_viewport_size({"width": 1200, "height": 1880})
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        page.theme(theme)
        page.panel.locator(".ab-input textarea").wait_for()
        page.panel.evaluate("panel => panel.closest('.jp-OutputArea').scrollIntoView({block: 'end'})")
        page.screenshot(f"first-look-{theme.split()[-1].lower()}")


def test_a_saved_notebook_keeps_the_conversation_and_no_secret(lab: Lab, page: Page, tmp_path: Path) -> None:
    shutil.copy(NOTEBOOK, lab.root / "saved.ipynb")
    page.open("saved.ipynb")
    page.run_all()
    ran(page)
    page.say("What is a credential?")
    answer = page.wait_for_answer(ASKED + 1)
    first_words = " ".join(answer.split()[:4])
    page.wait_for_notebook_to_hold(first_words)  # the twin's update comes a moment after the panel's
    page.save()
    page.end_kernel()
    saved = lab.root / "saved.ipynb"
    assert first_words in " ".join(static_text(saved).split())
    assert lab.secret() not in saved.read_text()

    page.reload()
    page.end_kernel()
    page.static_transcript("What is a turn?", "What is a credential?", first_words)
    assert page.panel.count() == 0
    assert page.page.locator(".jupyter-widgets-error:visible").count() == 0
    page.screenshot("first-look-reopened")

    target = tmp_path / "saved.html"
    command = [sys.executable, "-m", "jupyter", "nbconvert", "--to", "html", "--output-dir", str(tmp_path), str(saved)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    exported = target.read_text()
    assert lab.secret() not in exported
    page.page.set_content(re.sub(r"<script\b.*?</script>", "", exported, flags=re.DOTALL))  # as offline viewers show it
    assert "What is a credential?" in page.page.locator(".ab-static").inner_text()


def static_text(notebook: Path) -> str:
    """The words of the static transcript in a saved notebook."""
    cells = json.loads(notebook.read_text())["cells"]
    html = (
        output["data"].get("text/html", "") for cell in cells for output in cell.get("outputs", ()) if "data" in output
    )
    transcripts = [text for part in html if "ab-static" in (text := "".join(part))]
    assert len(transcripts) == 1
    return re.sub(r"<[^>]*>", " ", re.sub(r"<style>.*?</style>", "", transcripts[0], flags=re.DOTALL))
