"""Both clients: same bytes, same results, and arguments refused before sending."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import agentbook as ab
from agentbook.api.calls import UNSET

pytestmark = pytest.mark.python_versions

OPENAPI = b"""
paths:
  /workspaces/{workspace_id_or_name}/sessions:
    get: {operationId: a}
  /agents/{agent}/configure-llm:
    post:
      requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/Configure'}}}}
  /me/workspaces:
    get:
      parameters:
        - {name: limit, in: query, schema: {type: integer}}
        - {$ref: '#/components/parameters/Which'}
components:
  parameters:
    Which: {name: membership, in: query, schema: {anyOf: [{type: string, enum: [my, all]}]}}
  schemas:
    Configure: {properties: {system_prompt: {}, description: {}, tools: {}, acme_tools: {}, mode: {}}}
"""

# name -> (what to call on a client, method, target, body)
OPERATIONS: dict[str, tuple[Callable[[Any], Any], str, str, str | None]] = {
    "me.get": (lambda c: c.me.get(), "GET", "me", None),
    "agents.get": (lambda c: c.agents.get("acme~my/agent"), "GET", "agents/acme~my%2Fagent", None),
    "agents.get dots": (lambda c: c.agents.get(".."), "GET", "agents/%2E%2E", None),
    "agents.get record": (lambda c: c.agents.get({"id": "0190"}), "GET", "agents/0190", None),
    "agents.get unicode": (lambda c: c.agents.get("ümlaut ?#"), "GET", "agents/%C3%BCmlaut%20%3F%23", None),
    "agents.create": (
        lambda c: c.agents.create("a", tags=("x",), category=None),
        "POST",
        "agents",
        '{"name":"a","category":null,"tags":["x"]}',
    ),
    "agents.update": (
        lambda c: c.agents.update("a", is_pinned=True, tags=None, category=UNSET),
        "PATCH",
        "agents/a",
        '{"is_pinned":true,"tags":null}',
    ),
    "agents.configure_llm": (
        lambda c: c.agents.configure_llm("a", system_prompt="s", description="d", platform_tools=["search"]),
        "POST",
        "agents/a/configure-llm",
        '{"system_prompt":"s","description":"d","tools":[],"acme_tools":["search"]}',
    ),
    "skills.create": (lambda c: c.skills.create("acme", "sql"), "POST", "accounts/acme/skills", '{"name":"sql"}'),
    "workspaces.create": (lambda c: c.workspaces.create("w"), "POST", "workspaces", '{"name":"w"}'),
    "workspaces.uninstall_agent": (
        lambda c: c.workspaces.uninstall_agent("0190"),
        "DELETE",
        "workspace_agents/0190",
        None,
    ),
    "sessions.start": (
        lambda c: c.sessions.start("acme~w", agent_id="0190", prompt="Hi"),
        "POST",
        "workspaces/acme~w/sessions",
        '{"session_type":"chat","agent_id":"0190","initial_prompt":"Hi"}',
    ),
    "sessions.send": (
        lambda c: c.sessions.send("0190", "Hi"),
        "POST",
        "sessions/0190/events",
        '{"content":"Hi","mode":"text"}',
    ),
    "sessions.send options": (
        lambda c: c.sessions.send("0190", "Hi", mode="markdown", agent_id={"id": "0191"}),
        "POST",
        "sessions/0190/events",
        '{"content":"Hi","mode":"markdown","agent_id":"0191"}',
    ),
    "request": (
        lambda c: c.request("post", "/x", params={"a": True, "b": None}, json={"c": [1]}),
        "POST",
        "x?a=true",
        '{"c":[1]}',
    ),
}
# name -> (what to list, target of the first page)
LISTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "agents.list": (
        lambda c: c.agents.list(search="a b", fast=False, tags=["x", "y"], owner={"id": "1"}, sort_by="-name"),
        "agents?search=a+b&fast=false&tags=x%2Cy&owner=1&sort_by=-name&limit=1000",
    ),
    "agents.versions": (
        lambda c: c.agents.versions("a", type="COMMITTED"),
        "agents/a/versions?type=COMMITTED&limit=1000",
    ),
    "skills.list": (lambda c: c.skills.list("acme", archived=True), "accounts/acme/skills?archived=true&limit=1000"),
    "credentials.list": (
        lambda c: c.credentials.list(
            "acme", integration="github", workspace="acme~w", scope=True, grant_candidates=False
        ),
        "accounts/acme/credentials?integration=github&workspace_id=acme~w&scope=true&grant_candidates=false&limit=500",
    ),
    "workspaces.list": (lambda c: c.workspaces.list("acme"), "accounts/acme/workspaces?limit=1000"),
    "workspaces.contexts": (lambda c: c.workspaces.contexts("acme~w"), "workspaces/acme~w/contexts?limit=500"),
    "organizations.invitations": (
        lambda c: c.organizations.invitations("acme"),
        "organizations/acme/invitations?limit=500",
    ),
    "me.invitations": (lambda c: c.me.invitations(), "me/invitations?limit=500"),
    "me.workspaces": (lambda c: c.me.workspaces(which="all"), "me/workspaces?limit=500&membership=all"),
    "sessions.events": (lambda c: c.sessions.events("0190"), "sessions/0190/events?sort_by=id&limit=1000"),
    "sessions.list": (lambda c: c.sessions.list("acme~w"), "workspaces/acme~w/sessions?limit=1000"),
}


class Wire:
    """Answers everything; records the requests, except those for openapi.yaml."""

    def __init__(self) -> None:
        self.requests: list[tuple[Any, ...]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/openapi.yaml":
            return httpx.Response(200, content=OPENAPI)
        headers = sorted((name, value) for name, value in request.headers.items() if name != "user-agent")
        self.requests.append((request.method, request.url.raw_path.decode(), headers, request.read().decode()))
        if request.method == "GET":
            return httpx.Response(200, json={"items": [], "pagination": {"total_count": 0}, "id": "1"})
        return httpx.Response(201, json={"id": "1"})


KEY = "id1:secret"


def both(act: Callable[[Any], Any], awaited: Callable[[Any], Any]) -> tuple[Wire, Wire, Any, Any]:
    sync_wire, async_wire = Wire(), Wire()
    sync = ab.Client(
        "https://h/v1", credentials=KEY, http_client=httpx.Client(transport=httpx.MockTransport(sync_wire))
    )
    result = act(sync)

    async def run() -> Any:
        http = httpx.AsyncClient(transport=httpx.MockTransport(async_wire))
        return await awaited(ab.AsyncClient("https://h/v1", credentials=KEY, http_client=http))

    return sync_wire, async_wire, result, asyncio.run(run())


@pytest.mark.proves(
    "me.get",
    "agents.get",
    "agents.create",
    "agents.update",
    "agents.configure_llm",
    "skills.create",
    "workspaces.create",
    "workspaces.uninstall_agent",
    "sessions.start",
    "sessions.send",
)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_sends_the_same_bytes_from_both_clients(name: str) -> None:
    act, method, target, body = OPERATIONS[name]
    sync_wire, async_wire, result, awaited = both(act, act)
    assert sync_wire.requests == async_wire.requests
    assert result == awaited
    [(sent_method, sent_target, headers, sent_body)] = sync_wire.requests
    assert (sent_method, sent_target, sent_body or None) == (method, f"/v1/{target}", body)
    assert ("accept", "application/json") in headers
    assert ("authorization", ab.ApiKey(KEY).authorization()) in headers
    assert (("content-type", "application/json") in headers) is (body is not None)


@pytest.mark.proves(
    "me.workspaces",
    "me.invitations",
    "agents.list",
    "agents.versions",
    "skills.list",
    "credentials.list",
    "workspaces.list",
    "workspaces.contexts",
    "sessions.events",
    "sessions.list",
    "organizations.invitations",
)
@pytest.mark.parametrize("name", LISTS)
def test_a_list_sends_the_same_bytes_from_both_clients(name: str) -> None:
    make, target = LISTS[name]

    async def awaited(client: Any) -> list[Any]:
        return [item async for item in make(client)]

    sync_wire, async_wire, result, awaited_result = both(lambda client: list(make(client)), awaited)
    assert sync_wire.requests == async_wire.requests
    assert result == awaited_result == []
    assert [(method, sent) for method, sent, _, _ in sync_wire.requests] == [("GET", f"/v1/{target}")]


def test_every_operation_of_the_contract_is_in_these_tables() -> None:
    client = ab.Client("https://h/v1")
    nouns = ("me", "agents", "skills", "credentials", "workspaces", "sessions", "organizations")
    offered = {
        f"{noun}.{name}" for noun in nouns for name in dir(type(getattr(client, noun))) if not name.startswith("_")
    }
    tested_elsewhere = {
        "sessions.stream",
        "sessions.ask",
        "sessions.get",
        "workspaces.agents",
        "workspaces.install_agent",
        "agents.publish",
        "credentials.of_agent",
        "credentials.attach",
        "credentials.detach",
    }
    assert offered - tested_elsewhere == {name.split()[0] for name in [*OPERATIONS, *LISTS]} - {"request"}


@pytest.mark.parametrize(
    "act",
    [
        lambda c: c.sessions.get("0190"),
        lambda c: list(c.workspaces.agents("w")),
        lambda c: c.workspaces.install_agent("w", "a"),
        lambda c: list(c.credentials.of_agent("w")),
        lambda c: c.credentials.attach("w", "c"),
        lambda c: c.credentials.detach("w", "c"),
    ],
)
def test_an_operation_the_platform_does_not_offer_says_so_and_sends_nothing(act: Callable[[Any], Any]) -> None:
    wire = Wire()
    client = ab.Client("https://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(wire)))
    with pytest.raises(ab.NotOffered, match=r"openapi\.yaml"):
        act(client)
    assert wire.requests == []


@pytest.mark.parametrize(
    "junk", [b"{{{{: -", b"a: !!python/object:os.system x", b"\xff\xfe\x00", b"[" * 10_000, b"a: 2020-99-99"]
)
def test_an_openapi_document_that_is_none_is_one_clear_error(junk: bytes) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=junk))
    client = ab.Client("https://h/v1", http_client=httpx.Client(transport=transport))
    with pytest.raises(ab.ApiError, match=r"openapi: the reply .* is not the YAML that was expected"):
        client.openapi()


def test_openapi_is_fetched_once() -> None:
    paths = []

    def platform(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.path)
        return httpx.Response(200, content=OPENAPI)

    client = ab.Client("https://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(platform)))
    assert client.openapi()["paths"]
    assert client.openapi()["components"]
    assert paths == ["/v1/openapi.yaml"]


def test_an_async_client_works_in_a_second_run() -> None:
    import http.server
    import threading

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = ab.AsyncClient(f"http://127.0.0.1:{server.server_port}/v1")

        async def twice() -> None:
            await client.me.get()
            await client._transport._clients[asyncio.get_running_loop()].aclose()

        asyncio.run(twice())
        asyncio.run(twice())
        server.shutdown()


@pytest.mark.parametrize("url", ["", "host/v1", "ftp://h/v1", "https://", "https://u:p@h/v1", "https://h/v1?x=1", None])
def test_a_base_url_that_is_none_is_refused(url: Any) -> None:
    with pytest.raises(ValueError, match="base_url"):
        ab.Client(url)


def test_an_unreachable_platform_is_one_clear_error() -> None:
    with ab.Client("http://127.0.0.1:9/v1", deadline_s=0.3) as client, pytest.raises(ab.ConnectionFailed) as raised:
        client.agents.get("a")
    assert "http://127.0.0.1:9/v1" in str(raised.value)
    assert "agentbook doctor" in str(raised.value)


def test_a_closed_client_says_so() -> None:
    client = ab.Client("http://127.0.0.1:9/v1")
    client.close()
    with pytest.raises(ab.AgentbookError, match="closed"):
        client.me.get()


def test_an_injected_httpx2_client_works() -> None:
    httpx2 = pytest.importorskip("httpx2", reason="httpx2 is not installed: pip install httpx2")
    seen = []

    def platform(request: Any) -> Any:
        seen.append(request.headers["authorization"])
        return httpx2.Response(200, json={"id": "1"})

    client = ab.Client(
        "https://h/v1", credentials=KEY, http_client=httpx2.Client(transport=httpx2.MockTransport(platform))
    )
    assert client.me.get().id == "1"
    assert seen == [ab.ApiKey(KEY).authorization()]


def test_a_method_shows_the_endpoints_signature_and_docstring() -> None:
    import inspect

    client = ab.Client("https://h/v1")
    assert list(inspect.signature(client.agents.get).parameters) == ["agent"]
    assert "Specification" in (inspect.getdoc(client.agents.list) or "")


class Hanging:
    """Accepts connections and never answers; knows when a request has come."""

    def __enter__(self) -> Hanging:
        import socket
        import threading

        self.requested = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.connections: list[Any] = []
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            if connection.recv(1):
                self.requested.set()

    def __exit__(self, *_: object) -> None:
        self.listener.close()
        for connection in self.connections:
            connection.close()


def test_an_interrupt_ends_a_request_at_once() -> None:
    import os
    import signal
    import threading
    import time

    def interrupt() -> None:
        assert platform.requested.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    with Hanging() as platform, ab.Client(f"http://127.0.0.1:{platform.port}/v1") as client:
        threading.Thread(target=interrupt).start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            client.me.get()
        assert time.monotonic() - began < 30


def test_a_silent_platform_is_a_deadline_and_not_a_hang() -> None:
    with (
        Hanging() as platform,
        ab.Client(f"http://127.0.0.1:{platform.port}/v1", timeout_s=0.1, deadline_s=0.5) as client,
    ):
        with pytest.raises(ab.AgentbookError) as raised:
            client.me.get()
        assert isinstance(raised.value, (ab.DeadlineExceeded, ab.ConnectionFailed))
        with pytest.raises(ab.OutcomeUnknown):
            client.sessions.send("s", "hello")


def test_a_forked_child_uses_connections_of_its_own() -> None:
    import os
    import warnings

    with ab.Client("http://127.0.0.1:9/v1") as client:
        before = client._transport._http_client()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what notebooks do
            child = os.fork()
        if child == 0:
            os._exit(0 if client._transport._http_client() is not before else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client._transport._http_client() is before


@pytest.mark.parametrize("content", [None, "no certificate\n"], ids=["absent", "damaged"])
def test_certificates_that_cannot_be_read_are_named(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "certificates.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with (
        ab.Client("https://127.0.0.1:9/v1") as client,
        pytest.raises(ab.AgentbookError, match="SSL_CERT_FILE=") as raised,
    ):
        client.me.get()
    assert str(file) in str(raised.value)
    assert asyncio.run(failure_of(ab.AsyncClient("https://127.0.0.1:9/v1"))) == str(raised.value)


async def failure_of(client: ab.AsyncClient) -> str:
    async with client:
        with pytest.raises(ab.AgentbookError) as raised:
            await client.me.get()
    return str(raised.value)


@pytest.mark.parametrize(
    "address",
    ["myid:S3CRET", "ftp://u:S3CRET@h/v1", "u:S3CRET@h/v1", "http://u:S3CRET\u2100@h", "https://[S3CRET/v1", None, 7],
)
def test_what_is_no_address_is_not_shown(address: Any) -> None:
    with pytest.raises(ValueError, match="base_url must be an address") as raised:
        ab.Client(address)
    assert "S3CRET" not in "".join(traceback.format_exception(raised.value))
    assert ("looks like an API key" in str(raised.value)) == (address == "myid:S3CRET")


def test_credentials_of_another_kind_are_named() -> None:
    with ab.Client("http://127.0.0.1:9/v1") as other:
        for credentials in (other.credentials, ("id", "secret"), 7):
            with pytest.raises(TypeError, match=r"credentials must be an API key.*\.auth"):
                ab.Client("http://127.0.0.1:9/v1", credentials=credentials)  # type: ignore[arg-type]


def test_whole_numbers_of_any_kind_are_limits() -> None:
    index = type("Index", (), {"__index__": lambda self: 3})()
    with ab.Client("http://127.0.0.1:9/v1") as client:
        assert client.agents.list(limit=index, offset=index).list_call.limit == 3
        for wrong in (True, 3.0, "3", -1):
            with pytest.raises(ValueError, match="limit must be a whole number"):
                client.agents.list(limit=wrong)  # type: ignore[arg-type]


def test_nothing_is_streamed_by_a_client_that_is_closed() -> None:
    client = ab.Client("http://127.0.0.1:9/v1")
    client.close()
    with pytest.raises(ab.AgentbookError, match="This client is closed"), client.sessions.stream("s") as stream:
        stream.get(timeout_s=60)
