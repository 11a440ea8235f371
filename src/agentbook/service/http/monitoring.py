"""For operators of the service: whether it is alive and ready, and what it does.

``GET /healthz`` answers as long as the process does. ``GET /readyz`` answers 200 if the
store can be written and the service is not about to stop, and else 503. ``GET
/metrics`` has the numbers in Prometheus's text format. All three lie outside ``/v1``
because they are not part of the API, and are neither measured nor limited themselves.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO

import msgspec
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from .. import errors
from ..engines.base import Failure, TurnRequest
from ..proxies import is_loopback
from ..store.engine import unavailable_reason
from ..web.endpoints import MethodEndpoint, has_token, json_response

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from ..state import Platform
    from ..turns.records import TurnOutcome

log = logging.getLogger("agentbook.service")

# What proxies add: Via, Forwarded, X-Forwarded-For, X-Real-IP, CF-Connecting-IP, ...
_PROXY_HEADER = re.compile(r"via|.*forwarded.*|.*-(client)?ip")
_READY_WITHIN_S = 2.0
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_TURN_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_OTEL_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
# OpenTelemetry's own consent to texts in spans, and what it may be to include them.
_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURES = ("true", "span_only", "span_and_event")
_TEXTS = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
)


@dataclass(frozen=True, slots=True)
class Monitoring:
    """The operator's choices.

    Attributes
    ----------
    token : str or None
        Shows the metrics to clients outside this machine; None shows them to this
        machine only.
    request_log : file or None
        Where to write a line of JSON per request.
    spans : TracerProvider or None
        Where the spans of requests and turns go (see `open_tracing`).
    """

    token: str | None = None
    request_log: TextIO | None = None
    spans: TracerProvider | None = None


class Metrics:
    """The metrics of one service, as Prometheus reads them.

    Parameters
    ----------
    platform
        Its turns, sockets and store are read when the numbers are.
    """

    def __init__(self, platform: Platform) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "agentbook_http_requests", "Requests answered", ["operation", "method", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "agentbook_http_request_seconds",
            "Time until a response was complete",
            ["operation"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._turns = Counter("agentbook_turns", "Turns that ended", ["outcome"], registry=self.registry)
        self._turn_seconds = Histogram(
            "agentbook_turn_seconds", "Duration of turns", buckets=_TURN_SECONDS, registry=self.registry
        )
        self._events = Counter("agentbook_events", "Events stored", registry=self.registry)
        self._gauge("agentbook_sockets", "Open event sockets", lambda: platform.hub.sockets)
        self._gauge("agentbook_turns_running", "Turns in progress", lambda: platform.turns.running)
        self._gauge("agentbook_reads_waiting", "Reads that wait for a thread", lambda: platform.store.waiting_reads)
        ProcessCollector(registry=self.registry)
        platform.turns.on_end.append(self._on_turn)
        platform.store.on_events.append(lambda events: self._events.inc(len(events)))

    def _gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        Gauge(name, text, registry=self.registry).set_function(read)

    def text(self) -> bytes:
        """The numbers in Prometheus's text format."""
        return generate_latest(self.registry)

    def _on_turn(self, outcome: TurnOutcome, duration_s: float) -> None:
        self._turns.labels("failed" if isinstance(outcome.end, Failure) else "done").inc()
        self._turn_seconds.observe(duration_s)


def open_tracing(environ: Mapping[str, str]) -> TracerProvider | None:
    """Where spans go; None if no endpoint is set, or the SDK is not installed.

    The extra ``otel`` installs the SDK; `_OTEL_ENDPOINTS` are variables of its
    specification.
    """
    if not any(environ.get(name) for name in _OTEL_ENDPOINTS):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning(
            "An OpenTelemetry endpoint is set, but traces need: pip install opentelemetry-exporter-otlp-proto-http"
        )
        return None
    name = {} if environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "agentbook"}
    provider = TracerProvider(resource=Resource.create(name))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def span_writer(provider: TracerProvider) -> Callable[[Scope, str, str, int, float], None]:
    """Return a function that writes the span of a request that has been answered.

    It lies below the span that the request's ``traceparent`` names, and has the same
    fields as a line of the log.
    """
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    tracer, extract = provider.get_tracer("agentbook"), TraceContextTextMapPropagator().extract

    def write(scope: Scope, method: str, operation: str, status: int, duration_s: float) -> None:
        parent = extract(Headers(scope=scope))
        attributes: dict[str, str | int] = {
            "http.request.method": method,
            "http.response.status_code": status,
            "agentbook.operation": operation,
            "agentbook.request_id": scope["request_id"],
        }
        if status >= 500 or not status:
            attributes["error.type"] = str(status or "no response")
        began_ns = time.time_ns() - round(duration_s * 1e9)
        tracer.start_span(f"{method} {operation}", parent, SpanKind.SERVER, attributes, start_time=began_ns).end()

    return write


def turn_span_writer(provider: TracerProvider, environ: Mapping[str, str]) -> Callable[[TurnOutcome, float], None]:
    """Return a function that writes the spans of a turn that has been stored.

    A turn is ``invoke_agent``, with ``execute_tool`` for each of its tool runs, as in
    OpenTelemetry's conventions for generative AI (v0.1.0). Texts are left out unless
    the variable `_CAPTURE` asks for them.
    """
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context

    tracer = provider.get_tracer("agentbook")
    left_out = () if environ.get(_CAPTURE, "").lower() in _CAPTURES else _TEXTS

    def start(name: str, values: Mapping[str, Any], above: Context, at_ns: int) -> Span:
        present = {key: value for key, value in values.items() if value is not None and key not in left_out}
        title = f"{values['gen_ai.operation.name']} {name}"
        span = tracer.start_span(title, above, SpanKind.INTERNAL, present, start_time=at_ns)
        if "error.type" in present:
            span.set_status(StatusCode.ERROR)
        return span

    def write(outcome: TurnOutcome, duration_s: float) -> None:
        if outcome.request is None:
            return
        ended_ns = time.time_ns()
        began_ns = ended_ns - round(duration_s * 1e9)
        turn = start(outcome.request.agent_name, _of_turn(outcome, outcome.request), Context(), began_ns)
        spans: dict[str | None, Span] = {}
        for task_id, step in reversed(outcome.steps):  # a task finishes after the tools it ran
            # The clock of a seeded store is another one: no step leaves its turn.
            began, ended = (
                min(max(int(datetime.fromisoformat(step[name]).timestamp() * 1e9), began_ns), ended_ns)
                for name in ("started_at", "ended_at")
            )
            above = set_span_in_context(spans.get(step.get("parent_id"), turn), Context())
            spans[task_id] = start(step["name"], _of_step(task_id, step), above, began)
            spans[task_id].end(ended)
        turn.end(ended_ns)

    return write


def _of_turn(outcome: TurnOutcome, request: TurnRequest) -> dict[str, Any]:
    """The attributes of a turn's span."""
    end, usage = outcome.end, outcome.usage or {}
    reason = "error" if isinstance(end, Failure) else end.finish_reason or "stop"
    reply = end.message if isinstance(end, Failure) else end.text
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "agentbook",
        "gen_ai.agent.name": request.agent_name,
        "gen_ai.conversation.id": request.session_id,
        "gen_ai.response.model": usage.get("model"),
        "gen_ai.response.finish_reasons": [reason],
        "gen_ai.usage.input_tokens": usage.get("input_tokens"),
        "gen_ai.usage.output_tokens": usage.get("output_tokens"),
        "gen_ai.usage.cache_read.input_tokens": usage.get("cached_tokens"),
        "gen_ai.usage.cache_creation.input_tokens": usage.get("cache_write_tokens"),
        "gen_ai.input.messages": _message("user", request.message),
        "gen_ai.output.messages": _message("assistant", reply, finish_reason=reason),
        "error.type": end.error if isinstance(end, Failure) else None,
    }


def _message(role: str, text: str, **more: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}], **more}])


def _of_step(task_id: str, step: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of the span of a tool run, or of a sub-agent's task."""
    common = {"gen_ai.provider.name": "agentbook", "error.type": "_OTHER" if "error" in step else None}
    if step["kind"] == "task":
        return {**common, "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": step["name"]}
    return {
        **common,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": step["name"],
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": task_id,
        **{
            f"gen_ai.tool.call.{name}": msgspec.json.encode(step[name]).decode()
            for name in ("arguments", "result")
            if name in step
        },
    }


def routes(platform: Platform, metrics: Metrics, token: str | None) -> list[Route]:
    """The routes of ``/healthz``, ``/readyz`` and ``/metrics``.

    The metrics are shown to this machine, and to clients that send the token:
    ``Authorization: Bearer TOKEN``.
    """

    async def show_health(_request: Request) -> Response:
        return json_response({"status": "alive"})

    async def show_readiness(_request: Request) -> Response:
        if platform.draining:
            raise errors.unavailable("The service is about to stop.")
        try:
            async with asyncio.timeout(_READY_WITHIN_S):
                await platform.store.check()
        except Exception as error:
            raise errors.unavailable(unavailable_reason(error) or "The store does not answer.") from None
        return json_response({"status": "ready"})

    async def show_metrics(request: Request) -> Response:
        if token is not None and "authorization" in request.headers:
            may_read = has_token(request.headers, token)
        else:
            # A proxy on this machine that is not trusted may speak for anyone.
            client = request.client.host if request.client else ""
            may_read = is_loopback(client) and not any(map(_PROXY_HEADER.fullmatch, request.headers))
        if not may_read:
            raise errors.url_not_found()  # for everyone else this path does not exist
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    handlers = {"/healthz": show_health, "/readyz": show_readiness, "/metrics": show_metrics}
    return [Route(path, endpoint=MethodEndpoint(GET=handler)) for path, handler in handlers.items()]
