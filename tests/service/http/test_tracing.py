"""A span per request, sent to a collector over OTLP."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from agentbook.service.http.tracing import open_tracing
from service.process import Service

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector:
    """Takes what an exporter sends."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def spans(self) -> dict[str, Span]:
        """The spans by name, of all services."""
        requests = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        sources = [source for request in requests for source in request.resource_spans]
        facts = [fact for source in sources for fact in source.resource.attributes]
        assert {fact.value.string_value for fact in facts if fact.key == "service.name"} == {"agentbook"}
        return {span.name: span for source in sources for scope in source.scope_spans for span in scope.spans}

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


def attributes(span: Span) -> dict[str, object]:
    return {each.key: getattr(each.value, str(each.value.WhichOneof("value"))) for each in span.attributes}


def test_each_request_is_a_span_below_its_callers_and_has_nothing_private(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    with Service(tmp_path, "--bare") as service:
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        response = httpx.get(f"{service.base_url}/agents/acme~secret-name?search=private", headers=headers)
        httpx.get(service.base_url.replace("/v1", "/readyz"))
        with pytest.raises(InvalidStatus):
            connect(service.base_url.replace("http", "ws") + "/sessions/secret-session/events/ws")
        service.stop()  # sends what waits
    spans = collector.spans()
    assert set(spans) == {"GET getAgent", "GET eventSocket"}
    span = spans["GET getAgent"]
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert attributes(span) == {
        "http.request.method": "GET",
        "agentbook.operation": "getAgent",
        "http.response.status_code": response.status_code,
        "agentbook.request_id": response.headers["X-Request-ID"],
    }
    assert attributes(spans["GET eventSocket"])["http.response.status_code"] == 401
    assert all(
        word not in body for body in collector.bodies for word in (b"secret-name", b"private", b"secret-session")
    )


def test_without_an_endpoint_or_the_sdk_there_are_no_spans(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert open_tracing({}) is None
    endpoint = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces"}
    assert open_tracing({**endpoint, "OTEL_SDK_DISABLED": "true"}) is None
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with caplog.at_level(logging.WARNING):
        assert open_tracing(endpoint) is None
    assert "pip install 'agentbook[otel]'" in caplog.text
