"""What one tutorial did is in no figure of another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat

import agentbook as ab

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def test_a_month_is_the_same_after_other_tutorials(client: ab.Client) -> None:
    cells = nbformat.read(NOTEBOOKS / "03-session-activity.ipynb", 4).cells
    [load] = [
        cell.source for cell in cells if cell.cell_type == "code" and "ab.load_events(client, sess" in cell.source
    ]

    def ids() -> tuple[set[str], set[str]]:
        names: dict[str, Any] = {"ab": ab, "client": client}
        exec("import pandas as pd\n" + load.replace("notebook", key), names)
        return set(names["sessions"]["id"]), set(names["events"]["session_id"])

    first = client.sessions.start("acme~playground", agent_id="acme~guide", prompt="Hello")
    [key] = {each.initiator.name for each in client.sessions.list("acme~playground") if each.id == first.id}
    sessions, of_events = ids()
    agent = client.agents.create(
        name="tutorial-a", forked_from_version=client.agents.versions("acme~scribe").first().id
    )
    session = client.sessions.start("acme~playground", agent_id=agent, prompt="What is a turn?")
    client.sessions.ask(session, "What is a session?", timeout_s=60)
    assert sessions
    assert ids() == (sessions, of_events)
