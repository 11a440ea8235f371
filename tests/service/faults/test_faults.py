"""Faults on demand: what the real client makes of each, against a real service."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import agentbook as ab
from agentbook.api.run_limits import RUN_LIMITS
from agentbook.events.reader import BEGINNING
from agentbook.service.engines.meter import RUN_FAILURES
from agentbook.service.faults.catalogue import CATALOGUE, TOKEN
from service.process import Service

SCOPES = ("agents:write", "sessions:write", "workspaces:write")
WORKSPACE, AGENT = "acme~playground", "acme~echo"


class Lab:
    """A service with faults, a client of it, and the administration."""

    def __init__(self, service: Service) -> None:
        self.service = service
        token = (service.data / "admin-token").read_text().strip()
        root = service.base_url.removesuffix("/v1")
        self.admin = httpx.Client(base_url=f"{root}/_admin/faults", headers={"Authorization": f"Bearer {token}"})
        self.client = self.another()

    def another(self, **more: Any) -> ab.Client:
        """A client with a key, and so a rate limit, of its own."""
        return ab.Client(self.service.base_url, credentials=self.service.key(*SCOPES), **more)

    def fault(self, **wish: Any) -> dict[str, Any]:
        answer = self.admin.post("", json=wish)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def on(self) -> list[dict[str, Any]]:
        return list(self.admin.get("").json()["items"])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Service(tmp_path_factory.mktemp("service"), "--speed", "0", "--faults") as service:
        made = Lab(service)
        yield made
        made.client.close()
        made.admin.close()
        assert service.stop() == 0
        assert service.log == ""
        assert not (service.data / "admin-token").exists()


@pytest.fixture
def lab(running: Lab) -> Iterator[Lab]:
    yield running
    running.admin.delete("")


# -- every row, once

# What the real client raises for each row of the first table.
API: dict[str, type[ab.AgentbookError]] = {
    "invalid_input": ab.InvalidInput,
    "bad_request": ab.InvalidInput,
    "not_authenticated": ab.Unauthorized,
    "invalid_key": ab.Unauthorized,
    "invalid_token": ab.Unauthorized,
    "wrong_credential": ab.Unauthorized,
    "insufficient_scope": ab.InsufficientScope,
    "forbidden": ab.Forbidden,
    "url_not_found": ab.NotFound,
    "not_found": ab.NotFound,
    "method_not_allowed": ab.MethodNotAllowed,
    "name_taken": ab.Conflict,
    "already_published": ab.Conflict,
    "being_published": ab.Conflict,
    "not_validated": ab.Conflict,
    "not_ready": ab.Conflict,
    "server_error": ab.ServerError,
    "unavailable": ab.ServerError,
}
GATED = {"too_many_requests", "register_too_many"}  # the client waits for the next minute instead of raising
OAUTH = sorted(name for name, row in CATALOGUE.items() if row.table == "oauth" and name not in GATED)


def test_the_catalogue_is_the_three_tables(lab: Lab) -> None:
    items = lab.admin.get("/catalogue").json()["items"]
    assert {item["row"] for item in items} == API.keys() | GATED | set(OAUTH) | RUN_FAILURES.keys()
    assert {item["table"] for item in items} == {"api", "oauth", "run limits"}
    assert RUN_FAILURES.keys() == RUN_LIMITS.keys()


@pytest.mark.parametrize("row", API)
def test_a_row_raises_its_typed_error_once(lab: Lab, row: str) -> None:
    lab.fault(row=row)
    expected = CATALOGUE[row].action
    with pytest.raises(API[row]) as raised:
        lab.client.workspaces.create(f"for {row}")  # a write, so a 5xx is not tried again
    assert (raised.value.status, raised.value.error) == (expected.status, expected.error)
    assert raised.value.message == expected.message
    assert raised.value.request_id in str(raised.value)
    assert raised.value.operation == "workspaces.create"
    assert not raised.value.retryable
    if row == "insufficient_scope":
        assert raised.value.missing_scope == "workspaces:read"
    assert lab.on() == []
    assert lab.client.workspaces.create(f"for {row}").name == f"for {row}"


@pytest.mark.parametrize("row", OAUTH)
def test_a_row_of_the_oauth_endpoints(lab: Lab, row: str) -> None:
    lab.fault(row=row)
    expected = CATALOGUE[row].action
    lab.client.me.get()  # other paths are left alone
    with pytest.raises(ab.OAuthError if CATALOGUE[row].path == TOKEN else ab.InvalidInput) as raised:
        lab.client.request("POST", CATALOGUE[row].path.replace("*/", ""), json={})
    assert (raised.value.status, raised.value.error) == (expected.status, expected.error)
    assert raised.value.message == expected.message
    assert lab.on() == []


@pytest.mark.parametrize("row", sorted(GATED))
def test_the_rate_limit_closes_the_clients_gate(lab: Lab, row: str) -> None:
    lab.fault(row=row, times=None, match={})
    # The deadline is shorter than the rest of the minute. In the minute's last seconds
    # it is not, and the probe is then rejected.
    with lab.another(deadline_s=3) as client, pytest.raises(ab.DeadlineExceeded, match="rate limit"):
        client.me.get()
    assert lab.on()[0]["met"] >= 1


@pytest.mark.parametrize("kind", RUN_FAILURES)
def test_a_run_limit_ends_the_next_turn(lab: Lab, kind: str) -> None:
    session = lab.client.sessions.start(WORKSPACE, agent_id=AGENT, prompt="hello")
    lab.client.sessions.ask(session, "still well", timeout_s=60)
    lab.fault(row=kind, match={"agent": "ech*"})
    with pytest.raises(ab.ExecutionLimit) as raised:
        lab.client.sessions.ask(session, "go", timeout_s=60)
    assert (raised.value.kind, raised.value.retryable) == (kind, False)
    assert lab.client.sessions.ask(session, "well again", timeout_s=60).status == "answered"


# -- what is not a row


def test_any_answer_any_number_of_times(lab: Lab) -> None:
    lab.fault(then={"status": 418, "error": "Teapot", "message": "short and stout"}, times=2)
    with lab.service.http(lab.service.key()) as http:
        answers = [http.get("/me") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [418, 418, 200]
    assert answers[0].json() == {"error": "Teapot", "message": "short and stout"}


@pytest.mark.parametrize("fault", [{"row": "unavailable", "times": 2}, {"then": {"drop": "before"}}])
def test_a_read_survives_temporary_errors(lab: Lab, fault: dict[str, Any]) -> None:
    lab.fault(**fault)
    assert lab.client.me.get()["name"] == "acme"
    assert lab.on() == []


def test_a_write_whose_connection_is_dropped_is_read_back(lab: Lab) -> None:
    for when in ("before", "after"):
        lab.fault(then={"drop": when}, match={"operation": "createWorkspace"})
    with pytest.raises(ab.OutcomeUnknown):
        lab.client.workspaces.create("dropped")
    assert "dropped" not in [workspace.name for workspace in lab.client.workspaces.list("acme")]
    made = lab.client.workspaces.create("dropped")
    assert [made.id] == [row.id for row in lab.client.workspaces.list("acme") if row.name == "dropped"]


def test_a_message_whose_response_is_dropped_is_stored_once(lab: Lab) -> None:
    session = lab.client.sessions.start(WORKSPACE, agent_id=AGENT, prompt="hello")
    lab.fault(then={"drop": "after"}, match={"method": "post", "path": "/v1/sessions/*/events"})
    with pytest.raises(ab.OutcomeUnknown):
        lab.client.sessions.send(session, "only once")
    messages = [event for event in lab.client.sessions.events(session) if event.type == "message"]
    assert [event.content["text"] for event in messages] == ["hello", "only once"]


@pytest.mark.parametrize("code", [1011, 4000, 1001, None])
@pytest.mark.parametrize("after_frames", [0, 1, 3])
def test_a_stream_whose_socket_is_cut_continues_without_loss(lab: Lab, code: int | None, after_frames: int) -> None:
    lab.fault(then={"socket_cut": code, "after_frames": after_frames}, times=2)
    session = lab.client.sessions.start(WORKSPACE, agent_id=AGENT, prompt="first")
    with lab.client.sessions.stream(session.id, from_id=BEGINNING) as stream:
        seen = list(until_reply(stream))
        for n in range(20):
            # A socket that opens slowly has nothing to deliver, because the list had
            # everything; later messages cut it.
            if n >= 2 and lab.on() == []:
                break
            lab.client.sessions.send(session, f"message {n}")
            seen += until_reply(stream)
    assert [event.id for event in seen] == [event.id for event in lab.client.sessions.events(session)]
    assert lab.on() == [], "both sockets were cut"


def until_reply(stream: Any) -> Iterator[Any]:
    while True:
        event = stream.get(timeout_s=60)
        assert event is not None
        if event.type != "runtime_draft":
            yield event
        if event.type == "runtime_done" and "text" in event.content:
            return


def test_a_refused_handshake_is_the_rows_answer(lab: Lab) -> None:
    session = lab.client.sessions.start(WORKSPACE, agent_id=AGENT, prompt="hello")
    lab.fault(row="insufficient_scope", match={"operation": "streamEvents"})
    with pytest.raises(ab.InsufficientScope), lab.client.sessions.stream(session.id, from_id=BEGINNING) as stream:
        stream.get(timeout_s=60)


# -- the administration


def test_matches_pick_requests(lab: Lab) -> None:
    lab.fault(then={"status": 500}, match={"operation": "getAgent", "path": "*guide"}, times=None)
    with lab.service.http(lab.service.key("agents:read")) as http:
        statuses = {path: http.get(path).status_code for path in ("/agents/guide", "/agents/echo", "/agents", "/me")}
        assert http.head("/agents/guide").status_code == 500
        assert statuses == {"/agents/guide": 500, "/agents/echo": 200, "/agents": 200, "/me": 200}
        (listed,) = lab.on()
        assert (listed["met"], listed["left"]) == (2, None)
        assert lab.admin.delete(f"/{listed['id']}").status_code == 200
        assert lab.admin.delete(f"/{listed['id']}").status_code == 404
        assert http.get("/agents/guide").status_code == 200


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({}, "name a row"),
        ({"row": "teapot"}, "there is no row 'teapot'; the rows are invalid_input"),
        ({"then": {}}, "exactly one of"),
        ({"then": {"status": 200}}, "$.then.status"),
        ({"then": {"socket_cut": 1006}}, "1006 is no close code"),
        ({"then": {"status": 500, "wait": 1}}, "wait"),
        ({"row": "not_found", "times": 0}, "$.times"),
        ({"row": "not_found", "match": {"operation": "nothing"}}, "there is no 'nothing'"),
        ([], "object"),
    ],
)
def test_an_invalid_fault_is_rejected_by_name(lab: Lab, wish: Any, says: str) -> None:
    answer = lab.admin.post("", json=wish)
    assert answer.status_code == 400
    assert says in answer.json()["message"]
    assert lab.on() == []


def test_the_administration_requires_the_token(lab: Lab) -> None:
    assert stat.S_IMODE((lab.service.data / "admin-token").stat().st_mode) == 0o600
    url = lab.service.base_url.removesuffix("/v1") + "/_admin/faults"
    key = lab.service.key(*SCOPES)
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {key}"}):
        answer = httpx.post(url, json={"row": "server_error"}, headers={"Accept": "*/*", **headers})
        assert answer.status_code == 404
        assert json.loads(answer.text)["error"] == "NotFound"
    assert lab.on() == []
    assert lab.admin.put("", json={}).status_code == 405
    assert lab.admin.get("/nothing").status_code in (404, 405)


def test_it_is_off_by_default(tmp_path: Path) -> None:
    with Service(tmp_path, "--bare") as service:
        assert not (tmp_path / "admin-token").exists()
        url = service.base_url.removesuffix("/v1") + "/_admin/faults"
        assert httpx.get(url, headers={"Authorization": "Bearer x"}).status_code == 404
        service.stop()
