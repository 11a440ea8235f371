"""A store of version 0.2.0 opens: its keys, agents, sessions and events are there.

``earlier_store.sql`` is a real one, made by version 0.1.0 with its demo data and an
account with three chats, and opened by 0.2.0, which has the same tables; most of the
demo's history was then deleted.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import httpx

from agentbook.service.store.tables import SCHEMA_VERSION
from service.process import Service
from service.world import on_sqlite

KEY = "01a21ab6-5ed8-736e-9114-f744c1d2e10f:gxX2mzFowBIOEzvOoBJxUxfqL4O2w-kmMCi7Pr3Cu4Q"
REVOKED = "01a21ab6-7da2-7716-b3ba-5f863b84462d:lXq7VZEiV1qXjmK4x2lYkXdgDpqFz-XVeVrN4dnxQUc"
KEPT = ("accounts", "api_keys", "agents", "agent_versions", "workspaces", "sessions", "events", "skills")


def earlier_store(data: Path) -> sqlite3.Connection:
    data.chmod(0o700)
    db = sqlite3.connect(data / "store.db")
    db.executescript(Path(__file__).with_name("earlier_store.sql").read_text(encoding="utf-8"))
    return db


def rows(db: sqlite3.Connection) -> dict[str, set[tuple[object, ...]]]:
    return {table: set(db.execute(f"SELECT * FROM {table}")) for table in KEPT}


def wait_for_turn(http: httpx.Client, session: str) -> None:
    while http.get(f"/sessions/{session}").json()["status"] != "IDLE":
        time.sleep(0.02)


@on_sqlite("a store in a directory")
def test_a_store_of_the_earlier_version_is_served_whole(tmp_path: Path) -> None:
    with closing(earlier_store(tmp_path)) as db:
        before = rows(db)
    with Service(tmp_path, "--speed", "0") as service, service.http(KEY) as http:
        assert http.get("/me").json()["name"] == "zephyr"
        assert httpx.get(f"{service.base_url}/me", auth=tuple(REVOKED.split(":"))).status_code == 401
        agents = {agent["full_name"] for agent in http.get("/agents?limit=100").json()["items"]}
        assert {"zephyr~helper", "acme~guide", "acme~helpdesk"} <= agents
        sessions = http.get("/workspaces/research/sessions").json()["items"]
        assert [session["name"] for session in sessions] == ["What is a session?"] * 3
        asked = ["What is a session?", "And a turn? é \N{SLIGHTLY SMILING FACE}"]
        for session in sessions:
            events = http.get(f"/sessions/{session['id']}/events?sort_by=id&limit=100").json()
            assert events["pagination"]["total_count"] in (6, 8)
            texts = [event["content"]["text"] for event in events["items"] if event["type"] == "message"]
            assert texts == asked
            # Whatever became of its agent, the chat can be continued.
            assert http.post(f"/sessions/{session['id']}/events", json={"content": "And now?"}).status_code == 201
            wait_for_turn(http, session["id"])
            last = events["items"][-1]["id"]
            new = http.get(f"/sessions/{session['id']}/events?from_id={last}").json()["items"]
            assert new[0]["type"] in ("runtime_done", "runtime_error")
        assert service.stop() == 0
    with closing(sqlite3.connect(tmp_path / "store.db")) as db:
        after = rows(db)
        assert db.execute("SELECT value FROM meta WHERE name = 'schema_version'").fetchone() == (str(SCHEMA_VERSION),)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    for table in set(KEPT) - {"sessions"}:  # the time of the last message is in them
        assert before[table] <= after[table]
