"""The store against the real service: its own history, then what a chat adds to it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

import agentbook as ab
from service.process import Service


def test_a_store_follows_a_real_platform(tmp_path: Path) -> None:
    with Service(tmp_path / "data", "--speed", "0") as service:
        key = service.key("agents:write", "sessions:write", "workspaces:write")
        with ab.Client(service.base_url, credentials=key) as client:
            sessions = client.sessions.list("acme~support", limit=40).to_pandas()
            store = ab.Store(tmp_path / "store")
            first = store.sync(client, sessions)
            loaded = ab.load_events(client, sorted(sessions["id"]))
            assert first.events == len(loaded) > 0
            pd.testing.assert_frame_equal(store.events(), loaded)
            fresh = client.sessions.start("acme~playground", agent_id="acme~echo", prompt="one")
            client.sessions.ask(fresh, "two", timeout_s=60)
            store.sync(client, fresh)
            assert client.sessions.ask(fresh, "three", timeout_s=60).status == "answered"
            again = store.sync(client)
            stored = store.events(fresh)
            assert 0 < again.events < len(stored)
            assert stored["id"].tolist() == [event.id for event in client.sessions.events(fresh)]
            assert store.turns(fresh)["status"].tolist() == ["answered"] * 3
        service.stop()
