"""Probes, metrics, the request log, spans, and stopping in order."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from agentbook.service.engines.base import (
    Failure,
    LlmUsage,
    Reply,
    Step,
    SubtaskDone,
    SubtaskStarted,
    ToolDone,
    ToolStarted,
    TurnRequest,
)
from agentbook.service.http.app import build
from agentbook.service.http.monitoring import Monitoring, open_tracing
from service.process import Service
from service.world import World, one_platform

pytestmark = pytest.mark.anyio

TOKEN = "scrape-token"
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
async def http(world: World, log: io.StringIO) -> AsyncIterator[httpx.AsyncClient]:
    async with _client(world, log, "127.0.0.1") as client:
        yield client


def _client(world: World, log: io.StringIO, address: str) -> httpx.AsyncClient:
    app = build(world.platform, Monitoring(TOKEN, log))
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app, client=(address, 1)), base_url="http://testserver", headers={"Accept": "*/*"}
    )


async def metrics(http: httpx.AsyncClient) -> dict[str, float]:
    text = (await http.get("/metrics")).raise_for_status().text
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


async def test_alive_and_ready(world: World, http: httpx.AsyncClient) -> None:
    for path, status in (("/healthz", "alive"), ("/readyz", "ready")):
        response = await http.get(path)
        assert (response.status_code, response.json()) == (200, {"status": status})
        assert (await http.head(path)).content == b""
        assert (await http.post(path)).status_code == 405
    world.store.check = _never  # type: ignore[method-assign]
    refused = await http.get("/readyz")
    assert (refused.status_code, refused.json()["error"]) == (503, "ServiceUnavailable")
    assert (await http.get("/healthz")).status_code == 200


async def _never(*_: object, **__: object) -> None:
    raise OSError("no database")


def _fill(world: World) -> None:
    world.workspace()
    world.agent_row()


async def test_requests_are_counted_by_operation(world: World, http: httpx.AsyncClient) -> None:
    for path in ("/v1/me", "/v1/agents/acme~nobody", "/v1/nowhere-with-a-name", "/healthz", "/readyz"):
        await http.get(path)
    await http.request("BREW", "/v1/me")
    counted = await metrics(http)
    requests = {name: value for name, value in counted.items() if name.startswith("agentbook_http_requests_total")}
    assert requests == {
        'agentbook_http_requests_total{method="GET",operation="getMe",status="401"}': 1,
        'agentbook_http_requests_total{method="GET",operation="getAgent",status="404"}': 1,
        'agentbook_http_requests_total{method="GET",operation="other",status="404"}': 1,
        'agentbook_http_requests_total{method="other",operation="other",status="405"}': 1,
    }
    assert counted['agentbook_http_request_seconds_count{operation="getMe"}'] == 1
    assert counted["agentbook_sockets"] == counted["agentbook_turns_running"] == 0
    assert counted["process_resident_memory_bytes"] > 1e6


@one_platform("each counts its own turns")
async def test_turns_and_events_are_counted(world: World, http: httpx.AsyncClient) -> None:
    _fill(world)
    session, failed = await world.start("hello"), await world.start("crash")
    await world.idle()
    counted = await metrics(http)
    assert counted['agentbook_turns_total{outcome="done"}'] == 1
    assert counted['agentbook_turns_total{outcome="failed"}'] == 1
    assert counted["agentbook_turn_seconds_count"] == 2
    assert counted["agentbook_events_total"] == len(await world.events(session)) + len(await world.events(failed))


@pytest.mark.parametrize(
    ("address", "headers", "status"),
    [
        ("127.0.0.1", {}, 200),
        *(
            ("127.0.0.1", {header: "x"}, 404)
            for header in (
                "X-Forwarded-For",
                "Forwarded",
                "X-Real-IP",
                "True-Client-IP",
            )
        ),
        ("192.0.2.7", {}, 404),
        ("192.0.2.7", {"Authorization": f"Bearer {TOKEN}"}, 200),
        ("127.0.0.1", {"Authorization": "Bearer guessed"}, 404),
    ],
)
async def test_who_sees_the_metrics(
    world: World, log: io.StringIO, address: str, headers: dict[str, str], status: int
) -> None:
    async with _client(world, log, address) as http:
        assert (await http.get("/metrics", headers=headers)).status_code == status


async def test_the_log_has_a_line_per_request_and_nothing_private(http: httpx.AsyncClient, log: io.StringIO) -> None:
    trace = f"00-{TRACE}-{PARENT}-01"
    response = await http.get("/v1/agents/acme~secret-name?search=private", headers={"traceparent": trace})
    await http.get("/readyz")
    [line] = log.getvalue().splitlines()
    fields = json.loads(line)
    assert "secret-name" not in line
    assert "private" not in line
    assert fields.pop("time").endswith("Z")
    assert fields.pop("ms") >= 0
    assert fields == {
        "request_id": response.headers["X-Request-ID"],
        "method": "GET",
        "operation": "getAgent",
        "status": 404,
        "traceparent": trace,
    }


@one_platform("the others take new turns while one drains")
async def test_a_service_that_drains_ends_its_turns_and_takes_no_new_ones(
    world: World, http: httpx.AsyncClient
) -> None:
    _fill(world)
    session = await world.start("wait:door")
    draining = asyncio.create_task(world.platform.drain(60))
    await asyncio.sleep(0)  # it has begun
    ready = await http.get("/readyz")
    assert ready.status_code == 503
    assert ready.headers["connection"] == "close"
    assert ready.json()["message"] == "The service is about to stop. Try again later."
    assert (await world.post(f"/sessions/{session}/events", {"content": "again"}, world.full)).status_code == 503
    assert not draining.done()
    assert (await metrics(http))["agentbook_turns_running"] == 1
    world.agent.signals.setdefault("door", asyncio.Event()).set()
    await draining
    assert [event["type"] for event in await world.events(session)] == ["message", "runtime_done"]


def test_a_process_is_probed_logs_its_requests_and_drains(tmp_path: Path) -> None:
    with Service(tmp_path, "--bare", "--drain", "30", "--log-requests") as service:
        root = service.base_url.removesuffix("/v1")
        assert httpx.get(f"{root}/readyz").status_code == 200
        assert "agentbook_turns_running 0.0" in httpx.get(f"{root}/metrics").text
        assert httpx.get(f"{root}/v1/me").status_code == 401
        assert service.stop(signal.SIGTERM) == 0
        assert [json.loads(line)["operation"] for line in service.log.splitlines()] == ["getMe"]


def traced() -> tuple[TracerProvider, InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


async def test_each_request_is_a_span_below_its_callers_and_has_nothing_private(world: World) -> None:
    provider, exporter = traced()
    transport = httpx.ASGITransport(build(world.platform, Monitoring(spans=provider)))
    async with httpx.AsyncClient(transport=transport, base_url="http://test/v1") as http:
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        response = await http.get("/agents/acme~secret-name?search=private", headers=headers)
        await http.get("http://test/readyz")
    [span] = exporter.get_finished_spans()
    assert (span.name, span.parent.span_id, span.context.trace_id) == ("GET getAgent", int(PARENT, 16), int(TRACE, 16))
    assert span.attributes == {
        "http.request.method": "GET",
        "agentbook.operation": "getAgent",
        "http.response.status_code": 404,
        "agentbook.request_id": response.headers["X-Request-ID"],
    }


class Agent:
    """Has a sub-agent run two tools, of which one fails; then answers, or fails."""

    def __call__(self, _name: str) -> Agent:
        return self

    async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
        yield SubtaskStarted("finder")
        yield ToolStarted("look", {"for": "private"})
        yield ToolDone("look", {"is": "private"})
        yield ToolStarted("open")
        yield ToolDone("open", error="private")
        yield SubtaskDone("finder")
        yield LlmUsage(30, model="tiny", input_tokens=20, output_tokens=10)
        failed = Failure(500, "AgentError", "private")
        yield failed if turn.message == "private failure" else Reply("private reply", "length")


@pytest.mark.parametrize("capture", ["", "SPAN_ONLY"])
@one_platform("the spans are those of one process")
async def test_a_turn_is_a_span_above_its_tool_runs_with_texts_if_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capture: str
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", capture)
    world, (provider, exporter) = World(tmp_path, engines=Agent()), traced()
    build(world.platform, Monitoring(spans=provider))
    _fill(world)
    session = await world.start("private question")
    await world.idle()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    turn, finder, look, opened = (
        spans[name] for name in ("invoke_agent helper", "invoke_agent finder", "execute_tool look", "execute_tool open")
    )
    assert [span.parent and span.parent.span_id for span in (turn, finder, look, opened)] == [
        *(None, turn.context.span_id, finder.context.span_id, finder.context.span_id)
    ]
    assert turn.start_time <= look.start_time <= look.end_time <= turn.end_time
    facts = {name: value for name, value in turn.attributes.items() if "messages" not in name}
    assert facts == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "agentbook",
        "gen_ai.agent.name": "helper",
        "gen_ai.conversation.id": session,
        "gen_ai.response.model": "tiny",
        "gen_ai.response.finish_reasons": ("length",),
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 10,
    }
    assert (opened.attributes["error.type"], opened.status.status_code) == ("_OTHER", StatusCode.ERROR)
    assert ("private" in "".join(span.to_json() for span in spans.values())) == bool(capture)
    if capture:
        [question] = json.loads(turn.attributes["gen_ai.input.messages"])
        assert question == {"role": "user", "parts": [{"type": "text", "content": "private question"}]}
        assert json.loads(look.attributes["gen_ai.tool.call.arguments"]) == {"for": "private"}
    await world.start("private failure")
    await world.idle()
    failed = exporter.get_finished_spans()[-1]
    assert (failed.attributes["error.type"], failed.status.status_code) == ("AgentError", StatusCode.ERROR)
    await world.aclose()


def test_spans_go_where_an_endpoint_is_named_and_the_sdk_is_installed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert open_tracing({}) is None
    endpoint = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces"}
    provider = open_tracing(endpoint)
    assert provider is not None
    assert provider.resource.attributes["service.name"] == "agentbook"
    provider.shutdown()
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with caplog.at_level(logging.WARNING):
        assert open_tracing(endpoint) is None
    assert "pip install opentelemetry-exporter-otlp-proto-http" in caplog.text
