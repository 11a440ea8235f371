"""A script ends after its last line, whatever it leaves open."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.services import stop_services

CONNECTED = "import asyncio\nimport agentbook as ab\nclient = ab.connect()\n"
IN_PLAYGROUND = 'client, workspace="acme~playground"'

SCRIPTS = {
    "a panel beside asyncio.run, whose client is closed": f"""
async def count():
    return len([agent async for agent in client.asynchronous().agents.list()])
panel = ab.ChatPanel({IN_PLAYGROUND}, agent="guide")
assert asyncio.run(count())
client.close()
try:
    panel.ask("Is anybody there?")
except ab.AgentbookError:
    asyncio.run(asyncio.sleep(0))
else:
    raise SystemExit("it was answered")
""",
    "everything used and open, and a panel closed by atexit": f"""
import atexit
from agentbook.chat.prompt_lab.view import LabView
asyncio.run(asyncio.sleep(0))
unused = ab.ChatPanel({IN_PLAYGROUND}, agent="guide")
closed = ab.ChatPanel({IN_PLAYGROUND}, agent="guide")
atexit.register(closed.close)
compare = ab.Compare({IN_PLAYGROUND}, agents=["guide", "guide"])
assert {{turn.status for turn in compare.ask("Hello").values()}} == {{"answered"}}
panel = ab.ChatPanel(client, session=compare.session_ids["guide #1"])
assert len(panel.transcript) == 2
view = LabView(ab.PromptLab({IN_PLAYGROUND}, agent="acme~guide"))
stream = client.sessions.stream(panel.session_id)
asyncio.run(asyncio.sleep(0))
""",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data directory of the service that the first script starts."""
    folder = tmp_path_factory.mktemp("data")
    yield folder
    stop_services(folder)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_ends_by_itself_and_prints_nothing(name: str, data: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(CONNECTED + SCRIPTS[name], encoding="utf-8")
    env = {**os.environ, "AGENTBOOK_DATA": str(data), "AGENTBOOK_SPEED": "0"}
    ended = subprocess.run(
        [sys.executable, script], env=env, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
