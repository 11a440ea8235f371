"""The panel with a busy kernel, and on a reloaded page."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from browser.panels import CONNECT
from support.lab import Lab, Page, write_notebook

pytestmark = pytest.mark.browser

PANEL = 'panel = ab.ChatPanel(client, workspace="acme~playground", agent={agent!r})\npanel'
# Never sleeps, and checks the flag rarely. The check releases the GIL. A thread that
# does so more often than every 5 ms takes it back before another thread can wake, and
# starves all threads of its process (in any CPython program).
BUSY = """
from pathlib import Path
flag, rounds = Path({flag!r}), 0
while not flag.exists():
    rounds += sum(1 for n in range(500_000) if n % 7)
print("released")
"""


def test_the_panel_answers_while_a_cell_is_busy(lab: Lab, page: Page, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    write_notebook(lab.root / "busy.ipynb", [CONNECT, PANEL.format(agent="guide"), BUSY.format(flag=str(flag))])
    page.open("busy.ipynb")
    page.start_run_all()
    page.panel.locator(".ab-input textarea").wait_for()
    page.cell(1).get_by_text("[2]:", exact=True).wait_for()
    page.start_recording()
    page.send("What is a session?")
    answer = page.wait_for_answer(1)
    assert "session" in answer.lower()
    assert len({state["text"] for state in page.recorded_states() if state["text"]}) >= 3, "it did not stream"
    assert page.prompt(2) == "[*]:"
    flag.touch()
    page.cell(2).get_by_text("released", exact=True).wait_for()
    page.cell(2).get_by_text("[3]:", exact=True).wait_for()


def test_a_page_reloaded_during_a_reply_shows_the_panel_and_the_reply(lab: Lab, page: Page) -> None:
    write_notebook(lab.root / "reload.ipynb", [CONNECT, PANEL.format(agent="slow")])
    page.open("reload.ipynb")
    page.run_all()
    page.save()
    # The agent thinks much longer than a reload now takes on this machine.
    started = time.monotonic()
    page.reload()
    page.panel.wait_for()
    thinks_s = min(30, max(6, math.ceil(3 * (time.monotonic() - started))))
    page.send(str(thinks_s))
    page.panel.locator(".ab-chip.ab-running").wait_for()
    page.reload()
    page.panel.wait_for()
    page.start_recording()
    answer = page.wait_for_answer(1)
    states = page.recorded_states()
    assert not states[0]["status"].startswith("Answered"), "the answer came before the page was back"
    assert len({state["text"] for state in states if state["text"]}) >= 3, "streaming did not continue"
    assert answer.startswith(f"That took {thinks_s}.0 seconds of thought.")
    assert answer.rstrip().endswith("found nothing new.")
    # The panel can be used again.
    page.send("0")
    assert page.wait_for_answer(2).startswith("That took 0.0 seconds")
