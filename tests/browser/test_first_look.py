"""The first tutorial in JupyterLab: run from top to bottom, used to chat, reopened."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from support.lab import Lab, Page

pytestmark = pytest.mark.browser

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "01-first-look.ipynb"
CELLS = json.loads(NOTEBOOK.read_text())["cells"]
QUESTIONS = sum("".join(cell["source"]).count("panel.ask(") for cell in CELLS if cell["cell_type"] == "code")


def check_that_every_cell_ran(page: Page) -> None:
    """Check that every cell has run in order, without errors and warnings."""
    outputs = page.outputs()
    assert [output for output in outputs if output["output_type"] == "error"] == []
    assert [output for output in outputs if output.get("name") == "stderr"] == []
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert page.execution_counts() == list(range(1, len(cells) + 1))


def draft_lengths(states: list[dict[str, Any]], reply: str) -> list[int]:
    """The lengths that a draft had in the page, in letters and digits.

    Checks that the draft only became longer, and ended as the reply. The status line
    may change before the new reply is there, and a mark such as a backtick disappears
    with the one that closes it.
    """
    number = states[-1]["replies"]
    drafts = [
        state["text"]
        for state in states
        if state["text"] and state["replies"] == number and not state["status"].startswith("Answered")
    ]
    lengths = list(dict.fromkeys(len(re.findall(r"\w", text)) for text in drafts))
    assert lengths == sorted(lengths)
    assert max(lengths) <= len(states[-1]["text"])
    assert re.sub(r"\s+", "", states[-1]["text"]) == re.sub(r"\s+", "", reply)
    return lengths


def test_the_tutorial_runs_and_a_saved_one_keeps_the_conversation_and_no_secret(lab: Lab, page: Page) -> None:
    notebook = lab.root / "first.ipynb"
    shutil.copy(NOTEBOOK, notebook)
    page.open("first.ipynb")
    page.run_all()
    check_that_every_cell_ran(page)
    live = page.page.locator(".jp-OutputArea svg.marks:visible").first
    live.scroll_into_view_if_needed()
    check_the_size(live)
    assert page.wait_for_answer(QUESTIONS)
    expect(page.replies.first).to_contain_text("turn")
    check_that_a_reply_streams(page)
    assert page.errors == []
    reply = ask_and_save(page)
    beginning = " ".join(reply.split()[:4])
    assert beginning in " ".join(static_text(notebook).split())
    assert lab.secret() not in notebook.read_text()
    reopen_without_kernel(page, beginning)
    check_the_export(lab, page, notebook)


def check_the_size(chart: Locator) -> None:
    box = chart.bounding_box()
    assert box is not None
    assert box["width"] > 400
    assert box["height"] > 120


def check_that_a_reply_streams(page: Page) -> None:
    page.start_recording()
    page.send("How do I load the events of many sessions into a DataFrame?")
    reply = page.wait_for_answer(QUESTIONS + 1)
    assert len(draft_lengths(page.recorded_states()[1:], reply)) >= 2, "the reply came in one piece"
    assert "load_events" in reply


def ask_and_save(page: Page) -> str:
    """Ask a question, and save the notebook with the reply, which is returned."""
    page.send("What is a credential?")
    reply = page.wait_for_answer(QUESTIONS + 2)
    # The static transcript is updated a moment after the panel.
    page.wait_for_notebook_text(" ".join(reply.split()[:4]))
    page.save()
    page.end_kernel()
    return reply


def reopen_without_kernel(page: Page, beginning: str) -> None:
    page.reload()
    page.end_kernel()
    page.static_transcript("What is a turn?", "What is a credential?", beginning)
    assert page.panel.count() == 0
    speakers = page.page.locator(".jp-OutputArea").get_by_role("heading", level=5).all_inner_texts()
    assert speakers == ["You", "guide"] * (QUESTIONS + 2)
    assert page.page.locator(".jupyter-widgets-error:visible").count() == 0
    page.screenshot("first-look-reopened")


def check_the_export(lab: Lab, page: Page, notebook: Path) -> None:
    command = [sys.executable, "-m", "jupyter", "nbconvert", "--to", "html", str(notebook)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    exported = notebook.with_suffix(".html").read_text()
    assert lab.secret() not in exported
    page.page.set_content(re.sub(r"<script\b.*?</script>", "", exported, flags=re.DOTALL))  # as offline viewers show it
    assert "What is a credential?" in page.page.locator(".ab-static").inner_text()


def static_text(notebook: Path) -> str:
    """The text of the static transcript in a saved notebook."""
    cells = json.loads(notebook.read_text())["cells"]
    html = (
        output["data"].get("text/html", "") for cell in cells for output in cell.get("outputs", ()) if "data" in output
    )
    transcripts = [text for part in html if "ab-static" in (text := "".join(part))]
    assert len(transcripts) == 1
    return re.sub(r"<[^>]*>", " ", re.sub(r"<style>.*?</style>", "", transcripts[0], flags=re.DOTALL))
