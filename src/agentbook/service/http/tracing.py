"""A span for each request, for OpenTelemetry.

The extra ``otel`` installs the SDK, and the variables of its specification say where
spans go: ``OTEL_EXPORTER_OTLP_ENDPOINT``, or ``OTEL_EXPORTER_OTLP_TRACES_ENDPOINT``. A
span has the same fields as a line of the request log, and no more: paths, queries and
bodies name people and hold their messages.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..web.endpoints import OPERATION
from .monitoring import PROBE, method_name

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_CONTEXT = ("traceparent", "tracestate")
log = logging.getLogger("agentbook.service")


def open_tracing(environ: Mapping[str, str]) -> TracerProvider | None:
    """Where spans go; None if no endpoint is set, or the SDK is not installed."""
    if not any(environ.get(name) for name in _ENDPOINTS) or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning("An OpenTelemetry endpoint is set, but traces need the extra `otel`: pip install 'agentbook[otel]'")
        return None
    name = {} if environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "agentbook"}
    provider = TracerProvider(resource=Resource.create(name))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class Tracing:
    """Opens a span per request, below the one that its ``traceparent`` names.

    The span of a socket covers its handshake.

    Parameters
    ----------
    app
        The service.
    provider
        Where spans go.
    """

    def __init__(self, app: ASGIApp, provider: TracerProvider) -> None:
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self.app = app
        self.provider = provider
        self._tracer = provider.get_tracer("agentbook")
        self._kind = SpanKind.SERVER
        self._parent = TraceContextTextMapPropagator().extract

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        parent = self._parent({name: headers[name] for name in _CONTEXT if name in headers})
        span = self._tracer.start_span("request", context=parent, kind=self._kind)
        status = 0

        def end() -> None:
            if not span.is_recording() or scope.get(OPERATION) == PROBE:  # a probe's span is never exported
                return
            method, operation = method_name(scope), scope.get(OPERATION, "other")
            span.update_name(f"{method} {operation}")
            span.set_attribute("http.request.method", method)
            span.set_attribute("agentbook.operation", operation)
            span.set_attribute("http.response.status_code", status)
            if scope.get("request_id"):
                span.set_attribute("agentbook.request_id", scope["request_id"])
            if status >= 500 or not status:
                span.set_attribute("error.type", str(status or "no response"))
            span.end()

        async def send_watched(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
            await send(message)
            if message["type"] == "websocket.accept":
                status = 101
                end()

        try:
            await self.app(scope, receive, send_watched)
        finally:
            end()
