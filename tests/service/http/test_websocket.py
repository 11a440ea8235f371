"""The session-events WebSocket of a real service, read by another client library."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from service.process import Service, command, furnished
from service.world import basic

SCOPES = ("sessions:write", "workspaces:write", "agents:write")


class Platform:
    """A service with a workspace, a scripted agent and a key with all scopes."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.key = service.key(*SCOPES)
        self.http = service.http(self.key)
        furnished(self.http)

    def start(self, prompt: str) -> str:
        body = {"session_type": "chat", "agent_id": "helper", "initial_prompt": prompt}
        return str(self.http.post("/workspaces/lab/sessions", json=body).json()["id"])

    def say(self, session: str, text: str) -> dict[str, Any]:
        answer = self.http.post(f"/sessions/{session}/events", json={"content": text})
        assert answer.status_code == 201
        return dict(answer.json())

    def settled(self, session: str, count: int) -> list[dict[str, Any]]:
        """The session's events once there are `count`."""
        while True:
            events: list[dict[str, Any]] = self.http.get(f"/sessions/{session}/events?sort_by=id&limit=1000").json()[
                "items"
            ]
            if len(events) >= count:
                return events

    def connect(
        self, session: str, query: str = "", key: str | None = None, headers: dict[str, str] | None = None
    ) -> ClientConnection:
        url = f"{self.service.base_url.replace('http', 'ws', 1)}/sessions/{session}/events/ws{query}"
        sent = {"Authorization": basic(key or self.key), "Accept": "*/*", **(headers or {})}
        # Room for everything: with a full queue its close() waits ten seconds for a
        # goodbye that it no longer reads.
        return connect(url, additional_headers=sent, open_timeout=60, max_queue=None)

    def refused(self, session: str, query: str = "", **kwargs: Any) -> tuple[int, str, dict[str, str]]:
        """Status, body and headers of a refused handshake."""
        with pytest.raises(InvalidStatus) as caught:
            self.connect(session, query, **kwargs)
        response = caught.value.response
        return response.status_code, response.body.decode(), dict(response.headers)


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    data = Path(tmp_path_factory.mktemp("service")) / "data"
    command("accounts", "create", "acme", "--type", "organization", data=data)
    command("accounts", "create", "bob", "--type", "user", data=data)
    with Service(data, scripted=True) as service:
        made = Platform(service)
        yield made
        made.http.close()
        assert service.stop() == 0
        assert service.log == ""


def read(socket: ClientConnection, count: int) -> list[dict[str, Any]]:
    return [json.loads(socket.recv(timeout=60)) for _ in range(count)]


def test_without_from_id_only_new_events_are_sent(platform: Platform) -> None:
    session = platform.start("before")
    platform.settled(session, 2)
    with platform.connect(session) as socket:
        posted = platform.say(session, "tool:a now")
        received = read(socket, 1)
        assert received == [posted]
        while received[-1].get("content", {}).get("text") is None or len(received) == 1:
            received += read(socket, 1)
        final = [event for event in received if event["type"] != "runtime_draft"]
        assert final == platform.settled(session, 5)[2:]


def test_with_from_id_stored_events_come_before_live_ones(platform: Platform) -> None:
    session = platform.start("one")
    for number in range(30):
        platform.say(session, f"tool:x {number}")
    everything = platform.settled(session, 2 + 90)
    with platform.connect(session, f"?from_id={everything[3]['id']}&types=message,runtime_done") as socket:
        assert read(socket, len(everything) - 4) == everything[4:]
        posted = platform.say(session, "live")
        assert read(socket, 1) == [posted]
        assert read(socket, 1)[0]["content"]["text"].startswith("You said 'live'")


def test_any_uuid_is_a_cursor_for_the_socket_as_it_is_for_the_list(platform: Platform) -> None:
    session = platform.start("one")
    events = platform.settled(session, 2)
    for cursor, after in (("00000000-0000-0000-0000-000000000000", events), (events[0]["id"].upper(), events[1:])):
        assert platform.http.get(f"/sessions/{session}/events?sort_by=id&from_id={cursor}").json()["items"] == after
        with platform.connect(session, f"?from_id={cursor}") as socket:
            assert read(socket, len(after)) == after
    with platform.connect(session, "?from_id=ffffffff-ffff-ffff-ffff-ffffffffffff"):
        pass  # nothing is after it


def test_no_gap_and_no_repeat_over_many_reconnects(platform: Platform) -> None:
    session = platform.start("zero")
    first = platform.settled(session, 2)[0]
    writer = threading.Thread(target=lambda: [platform.say(session, f"tool:x {n}") for n in range(60)])
    writer.start()
    seen = [first]
    cut = 1
    while len(seen) < 2 + 180:
        with platform.connect(session, f"?from_id={seen[-1]['id']}&types=message,runtime_done") as socket:
            seen += read(socket, min(cut % 7 + 1, 182 - len(seen)))
        cut += 1
    writer.join()
    assert seen == platform.settled(session, 182)


def test_late_listeners_get_the_whole_draft(platform: Platform, tmp_path: Path) -> None:
    session = platform.start("hello")
    platform.settled(session, 2)
    go, on = tmp_path / "go", tmp_path / "on"
    with platform.connect(session) as early:
        platform.say(session, f"open:search draft:Hel draft:lo file:{go} draft:! tool:read file:{on}")
        assert read(early, 1)[0]["type"] == "message"
        text, seen = "", []
        while text != "Hello":
            event = read(early, 1)[0]
            seen.append(event)
            assert event["type"] == "runtime_draft"
            assert event["id"].startswith("draft-")
            if "delta" in event["content"]:
                assert event["content"]["offset"] == len(text)
                text += event["content"]["delta"]
        assert {"tool": "search", "state": "running"} in [event["content"] for event in seen]
        with platform.connect(session) as late:
            contents = [event["content"] for event in read(late, 2)]
            assert contents == [{"tool": "search", "state": "running"}, {"delta": "Hello", "offset": 0}]
            go.touch()
            remaining = [{"delta": "!", "offset": 5}, {"tool": "read", "state": "done"}]  # in any order
            while remaining:
                content = read(late, 1)[0]["content"]
                remaining = [each for each in remaining if each != content]
            on.touch()
            done, still_open, reply = read(late, 3)
            assert (done["content"], done["type"]) == ({}, "runtime_done")
            assert (still_open["content"], still_open["type"]) == ({}, "tool_started")
            assert reply["content"]["text"].startswith("You said")
            assert done["task_id"] != reply["task_id"]


def test_types(platform: Platform) -> None:
    session = platform.start("one")
    platform.settled(session, 2)
    platform.say(session, "draft:x limit")
    platform.settled(session, 4)
    nothing = "00000000-0000-7000-8000-000000000000"
    with platform.connect(session, f"?types=runtime_error,message&from_id={nothing}") as socket:
        assert [event["type"] for event in read(socket, 3)] == ["message", "message", "runtime_error"]
    status, body, _ = platform.refused(session, "?types=message,nonsense")
    assert status == 400
    error = json.loads(body)
    assert error["error"] == "InvalidInputError"
    assert "message, runtime_done, runtime_error, tool_started, runtime_draft" in error["message"]
    assert platform.refused(session, "?types=")[0] == 400
    for bad in ("draft-3-x", "", "x", "%00"):
        status, body, _ = platform.refused(session, f"?from_id={bad}")
        assert (status, "drafts are not accepted" in body) == (400, True)


def test_refusals(platform: Platform) -> None:
    session = platform.start("one")
    secretless = platform.key.partition(":")[0]
    cases = [
        ({"headers": {"Authorization": ""}}, 401, "Not authenticated"),
        ({"headers": {"Authorization": f"Bearer {platform.key}"}}, 401, "This credential cannot access this endpoint"),
        ({"headers": {"Authorization": "Basic !"}}, 401, "Not authenticated"),
        ({"key": f"{secretless}:wrong"}, 401, "Invalid API key"),
        ({"key": platform.service.key("sessions:write", "agents:write")}, 403, "This credential lacks the workspaces:read scope"),
        ({"key": platform.service.key("workspaces:read")}, 403, "This credential lacks the agents:read scope"),
        ({"key": platform.service.key(*SCOPES, account="bob")}, 404, "Session not found"),
        ({"headers": {"Origin": "https://evil.example"}}, 403, "This origin cannot open a socket here"),
        ({"headers": {"Origin": "null"}}, 403, "This origin cannot open a socket here"),
        ({"headers": {"Origin": "http://["}}, 403, "This origin cannot open a socket here"),
    ]  # fmt: skip
    for kwargs, status, message in cases:
        actual, body, headers = platform.refused(session, **kwargs)
        assert (actual, json.loads(body)["message"]) == (status, message)
        assert len(headers["x-request-id"]) == 36
        assert ("www-authenticate" in headers) == (status == 401 or "scope" in message)
    assert platform.refused("nothing")[0] == 404
    status, body, headers = platform.refused(session, key=f"{secretless}:wrong", headers={"Accept": "text/html"})
    assert (status, headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert "<h1>401 Unauthorized</h1>" in body


def test_a_handshake_that_names_no_type_is_refused_in_json(platform: Platform) -> None:
    url = f"{platform.service.base_url.replace('http', 'ws', 1)}/sessions/nothing/events/ws"
    with pytest.raises(InvalidStatus) as caught:
        connect(url, additional_headers={"Authorization": basic(platform.key)}, open_timeout=60)
    response = caught.value.response
    assert (response.status_code, response.headers["Content-Type"]) == (404, "application/json")
    assert json.loads(response.body) == {"error": "NotFound", "message": "Session not found"}


def test_pages_of_this_host_may_listen_and_handshakes_have_request_ids(platform: Platform) -> None:
    session = platform.start("one")
    origin = platform.service.base_url.removesuffix("/v1")
    with platform.connect(session, headers={"Origin": origin}) as socket:
        assert socket.response is not None
        assert len(socket.response.headers["X-Request-ID"]) == 36


def test_messages_from_the_client_are_ignored(platform: Platform) -> None:
    session = platform.start("one")
    platform.settled(session, 2)
    with platform.connect(session) as socket:
        socket.send("hello")
        socket.send(b"\x00" * 1000)
        posted = platform.say(session, "two")
        assert read(socket, 1) == [posted]
        socket.send("x" * 100_000)
        with pytest.raises(ConnectionClosed):
            read(socket, 5)


def test_sockets_are_closed_with_service_restart(tmp_path: Path) -> None:
    command("accounts", "create", "acme", "--type", "organization", data=tmp_path)
    with Service(tmp_path, scripted=True) as service:
        platform = Platform(service)
        session = platform.start("hang")
        with platform.connect(session) as socket:
            platform.http.close()
            assert service.stop() == 0
            with pytest.raises(ConnectionClosed):
                read(socket, 5)
            assert socket.close_code == 1012
        assert service.log == ""
