"""A slow answer, and a service that dies while a client listens."""

from __future__ import annotations

import time
from typing import Any

import pytest

import agentbook as ab
from agentbook.events.reader import BEGINNING
from service.process import Service, lasting_port

WORKSPACE = "acme~playground"
SCOPES = ("sessions:write", "agents:read", "workspaces:read")


def test_an_answer_that_takes_too_long_is_a_deadline(tmp_path: Any) -> None:
    with Service(tmp_path / "slow") as slow:
        with ab.Client(slow.base_url, credentials=slow.key(*SCOPES)) as client:
            session = client.sessions.start(WORKSPACE, agent_id="acme~slow", prompt="go")
            began = time.monotonic()
            with pytest.raises(ab.DeadlineExceeded, match="may still finish"):
                client.sessions.ask(session.id, "again", timeout_s=0.3)
            assert time.monotonic() - began < 30
        slow.stop()


def test_a_service_that_dies_and_returns_loses_nothing(tmp_path: Any) -> None:
    data, port = tmp_path / "data", lasting_port()
    with Service(data, "--speed", "0", "--port", port) as service:
        client = ab.Client(service.base_url, credentials=service.key(*SCOPES))
        session = client.sessions.start(WORKSPACE, agent_id="acme~echo", prompt="before")
        stream = client.sessions.stream(session.id, from_id=BEGINNING)
        seen = until_reply(stream)
        service.stop(9)
    with Service(data, "--speed", "0", "--port", port) as service:
        client.sessions.send(session.id, "after")
        seen += until_reply(stream)
        stream.close()
        persisted = [event.id for event in client.sessions.events(session.id)]
        assert [event.id for event in seen] == persisted
        client.close()
        service.stop()


def until_reply(stream: Any) -> list[Any]:
    seen = []
    while True:
        event = stream.get(timeout_s=60)
        assert event is not None, seen
        if event.type != "runtime_draft":
            seen.append(event)
        if event.type == "runtime_done" and "text" in event.content:
            return seen
