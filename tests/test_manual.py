"""The Python blocks of every page run in order, as in a reader's notebook.

Each page has a notebook and a platform of its own. A fence such as
```` ```python needs=model ```` says what a block needs that is not here; such a block
is compiled. They run today; another day is tried by
``AGENTBOOK_NOW=2027-03-15T10:00Z pytest tests/test_manual.py``, with time-machine.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

import agentbook as ab
from agentbook.embedded import Platform

ROOT = Path(__file__).parents[1]
PAGES = {path.name: path.read_text("utf-8") for path in [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]}
FENCED = re.compile(r"^```i?python(?P<mark>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
# A browser or another host; somebody's key; a language model; a file of one's own that
# the page speaks of; a service that the page starts in a shell.
NEEDS = {"network", "key", "model", "file", "service"}
# What docstrings say of arguments, where a type is easily narrower.
DOCUMENTED = """
from datetime import timedelta
import altair as alt
import agentbook as ab
client = ab.connect()
history = ab.load_history(client, "acme", since=timedelta(days=30))
listing = client.sessions.events("x")
for data in (history, history.events, listing, listing.to_arrow()):
    ab.turns(data, unanswered_after=timedelta(minutes=5))
    ab.steps(data, unanswered_after="5min")
    ab.compare_periods(data, period=timedelta(days=7), by=["agent"])
    ab.plot.comparison(data, period=timedelta(days=7)).properties(width=300).interactive()
alt.hconcat(ab.plot.latency(history), ab.plot.failures(history) | ab.plot.latency(history))
"""


MISSPELT = """
import agentbook as ab
ab.latencyy, ab.plot.latencies, ab.NotFund
"""


@pytest.fixture(scope="module")
def agent_platform_service() -> Iterator[Platform]:
    """Platforms of the present, as on a reader's machine, or of another day."""
    day = os.environ.get("AGENTBOOK_NOW")
    travel = pytest.importorskip("time_machine").travel(day) if day else nullcontext()
    with travel, ab.platform(now=pd.Timestamp.now("UTC")) as started:
        yield started


@pytest.fixture
def notebook(agent_platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.setenv("AGENTBOOK_BASE_URL", agent_platform.base_url)
    monkeypatch.setenv("AGENTBOOK_API_KEY", agent_platform.api_key)
    monkeypatch.setenv("AGENTBOOK_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)  # of another environment, IPython warns and borrows its packages
    monkeypatch.chdir(tmp_path)
    shell = InteractiveShell()
    yield shell
    for value in list(shell.user_ns.values()):
        if type(value).__module__.startswith("agentbook."):
            getattr(value, "close", getattr(value, "stop", lambda: None))()
    if shell.history_manager:
        shell.history_manager.end_session()


@pytest.mark.parametrize("page", [name for name, text in PAGES.items() if FENCED.search(text)])
def test_the_blocks_of_a_page_run_in_order(page: str, notebook: InteractiveShell) -> None:
    blocks = list(FENCED.finditer(PAGES[page]))
    assert len(blocks) == len(re.findall(r"^\s*(?:```|~~~)\s*i?py", PAGES[page], re.MULTILINE | re.IGNORECASE))
    for block in blocks:
        line = PAGES[page].count("\n", 0, block.start("code")) + 1
        if block["mark"]:
            assert block["mark"] in {f" needs={thing}" for thing in NEEDS}, f"{page}:{line - 1}"
            compile(block["code"], f"{page}:{line}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            continue
        done = notebook.run_cell(block["code"])
        assert done.success, f"{page}:{line} {done.error_before_exec or done.error_in_exec!r}"


def test_types_take_what_the_pages_pass(tmp_path: Path) -> None:
    """A script of a user who checks types, which the package ships."""
    pytest.importorskip("mypy")
    scripts = ["".join(code for _, code in FENCED.findall(text) if code[0] != "%") for text in PAGES.values()]
    for number, script in enumerate([DOCUMENTED, *scripts]):
        (tmp_path / f"page{number}.py").write_text(script, "utf-8")
    (tmp_path / "misspelt.py").write_text(MISSPELT, "utf-8")
    command = [sys.executable, "-m", "mypy", "--check-untyped-defs", "--ignore-missing-imports", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=240)
    refused = r".*\[(?:arg-type|attr-defined|call-arg|call-overload|operator)\]$"
    assert done.returncode < 2, done.stdout + done.stderr
    found = [Path(line.partition(":")[0]).stem for line in re.findall(refused, done.stdout, re.MULTILINE)]
    assert found == ["misspelt"] * 3, done.stdout
