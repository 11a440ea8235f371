"""The panel while other things go on: a busy kernel, queued cells, a reloaded page."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from support.lab import Lab, Page, write_notebook

pytestmark = pytest.mark.browser

CONNECT = "import agentbook as ab\nclient = ab.connect()"
PANEL = 'panel = ab.ChatPanel(client, workspace="acme~playground", agent={agent!r})\npanel'
# It never sleeps, and looks for the flag seldom: to look, it lets go of the
# interpreter, and one that does so more often than every 5 ms takes it back before
# another thread can wake, which starves all threads of the process (CPython, any
# program).
BUSY = """
import time
from pathlib import Path
flag, until, rounds = Path({flag!r}), time.monotonic() + 120, 0
while not flag.exists() and time.monotonic() < until:
    rounds += sum(1 for n in range(500_000) if n % 7)
print("released" if flag.exists() else "nobody released it")
"""


def test_the_panel_answers_while_a_cell_is_busy(lab: Lab, page: Page, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    write_notebook(lab.root / "busy.ipynb", [CONNECT, PANEL.format(agent="guide"), BUSY.format(flag=str(flag))])
    page.open("busy.ipynb")
    page.start_run_all()
    page.panel.locator(".ab-input textarea").wait_for()
    page.cell(1).get_by_text("[2]:", exact=True).wait_for()
    page.watch()
    page.say("What is a session?")
    answer = page.wait_for_answer(1)
    assert "session" in answer.lower()
    assert len({note["text"] for note in page.seen() if note["text"]}) >= 3, "it did not stream"
    assert page.prompt(2) == "[*]:"
    flag.touch()
    page.cell(2).get_by_text("released", exact=True).wait_for()
    page.cell(2).get_by_text("[3]:", exact=True).wait_for()


def test_asking_in_a_cell_drops_none_of_the_queued_cells(lab: Lab, page: Page) -> None:
    ask = 'first = panel.ask("alpha beta gamma delta", timeout_s=60)\nfirst.text'
    again = 'second = panel.ask("one more time", timeout_s=60)\nsecond.text'
    cells = [
        CONNECT,
        PANEL.format(agent="echo"),
        ask,
        "x = 1",
        again,
        "x += 1",
        "print(x, first.status, second.status)",
    ]
    write_notebook(lab.root / "queue.ipynb", cells)
    page.open("queue.ipynb")
    page.run_all()
    assert page.execution_counts() == list(range(1, len(cells) + 1))
    page.cell(6).get_by_text("2 answered answered", exact=True).wait_for()
    page.wait_for_answer(2)
    assert [text.strip() for text in page.replies.all_inner_texts()] == ["alpha beta gamma delta", "one more time"]


def test_a_page_reloaded_mid_stream_gets_its_panel_and_the_answer(lab: Lab, page: Page) -> None:
    write_notebook(lab.root / "reload.ipynb", [CONNECT, PANEL.format(agent="slow")])
    began = time.monotonic()
    page.open("reload.ipynb")
    page.run_all()
    # Longer than this machine takes for the page, whatever else it does.
    thinks_s = min(30, max(9, math.ceil(2 * (time.monotonic() - began))))
    page.save()
    page.say(str(thinks_s))
    page.panel.locator(".ab-chip.ab-running").wait_for()
    page.reload()
    page.panel.wait_for()
    page.watch()
    answer = page.wait_for_answer(1)
    seen = page.seen()
    assert not seen[0]["status"].startswith("Answered"), "the answer was there before the page was back"
    assert len({note["text"] for note in seen if note["text"]}) >= 3, "it did not go on streaming"
    assert answer.startswith(f"That took {thinks_s}.0 seconds of thought.")
    assert answer.rstrip().endswith("found nothing new.")
    # And the panel that came back is alive.
    page.say("0")
    assert page.wait_for_answer(2).startswith("That took 0.0 seconds")
