"""For operators of the service: whether it is alive and ready, and what it does.

``GET /healthz`` answers as long as the process does. ``GET /readyz`` answers 200 if the
store can be written and the service is not about to stop, and else 503. ``GET
/metrics`` has the numbers in Prometheus's text format. All three lie outside ``/v1``
because they are not part of the API, and are neither measured nor limited themselves.

Processes on one port (``--workers``) keep their numbers in files that all of them can
read, as `prometheus_client` does for servers that fork. So any of them can answer with
the sums, and the numbers of a process that died still count.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
    values,
)
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .. import errors
from ..proxies import is_loopback
from ..store.engine import unavailable_reason
from ..web.endpoints import OPERATION, json_response

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from ..state import Platform

_READY_WITHIN_S = 2.0
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_TURN_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
# The methods that are counted by name: a client may make up any number of others.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
PROBE = "probe"
_REFRESH_S = 1.0
_GAUGES = {
    "agentbook_sockets": "Open event sockets",
    "agentbook_turns_running": "Turns in progress",
    "agentbook_turns_waiting": "Turns that wait for their session",
    "agentbook_reads_waiting": "Reads that wait for a thread",
    "agentbook_draining": "1 while the service is about to stop",
}


@dataclass(frozen=True, slots=True)
class Monitoring:
    """The operator's choices.

    Attributes
    ----------
    token : str or None
        Shows the metrics to clients outside this machine; None shows them to this
        machine only.
    request_log : file or None
        Where to write a line per request (see `Measurement`).
    spans : TracerProvider or None
        Where a span per request goes (see `tracing`).
    numbers : Path or None
        The directory where the processes on one port keep their numbers together.
    """

    token: str | None = None
    request_log: TextIO | None = None
    spans: TracerProvider | None = None
    numbers: Path | None = None


class Metrics:
    """The metrics of one service, as Prometheus reads them.

    Parameters
    ----------
    platform
        Its turns, sockets and store are read when the numbers are.
    directory
        Where several processes keep their shared numbers; None for a process that is
        alone on its port.
    """

    def __init__(self, platform: Platform, directory: Path | None = None) -> None:
        if directory is not None:
            # The library reads this when it is imported, which was before the fork.
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(directory)
            values.ValueClass = values.MultiProcessValue()  # type: ignore[no-untyped-call]
        self._platform = platform
        self._directory = directory
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
        self._counted_events = 0
        self._gauges = {
            name: Gauge(name, text, registry=self.registry, multiprocess_mode="livesum")
            for name, text in _GAUGES.items()
        }
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        platform.turns.on_end = self._on_turn

    async def text(self) -> bytes:
        """The numbers in Prometheus's text format."""
        await self._refresh()
        if self._directory is None:
            return generate_latest(self.registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry, str(self._directory))  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    async def keep_current(self) -> None:
        """Keep the numbers current that another process may show."""
        while self._directory is not None:
            await self._refresh()
            await asyncio.sleep(_REFRESH_S)

    async def _refresh(self) -> None:
        platform = self._platform
        stored = platform.events_stored
        self._events.inc(stored - self._counted_events)
        self._counted_events = stored
        present = {
            "agentbook_sockets": platform.hub.sockets,
            "agentbook_turns_running": platform.turns.running,
            "agentbook_reads_waiting": platform.store.waiting_reads,
            "agentbook_draining": platform.draining,
        }
        # If the database is down, the other numbers are needed all the more.
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_READY_WITHIN_S):
                present["agentbook_turns_waiting"] = await platform.turns.count_waiting()
        for name, value in present.items():
            self._gauges[name].set(value)

    def _on_turn(self, failed: bool, duration_s: float) -> None:
        self._turns.labels("failed" if failed else "done").inc()
        self._turn_seconds.observe(duration_s)


class Measurement:
    """Counts and times every request, and writes a line for each if asked to.

    Parameters
    ----------
    app
        The service.
    metrics
        Where requests are counted.
    log
        Where to write a JSON line per request; None for nowhere. Its fields are
        ``time`` (ISO 8601, UTC), ``request_id``, ``method``, ``operation``, ``status``,
        ``ms``, and ``traceparent`` if the request had one. Paths, queries and bodies
        are left out: they name people and hold their messages.
    now
        Returns the present time, as ``time`` shows it.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, log: TextIO | None, now: Callable[[], str]) -> None:
        self.app = app
        self.metrics = metrics
        self.log = log
        self._now = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        began = time.perf_counter()
        status = 0

        async def send_watched(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
            elif message["type"] == "websocket.accept":
                status = 101
            await send(message)

        try:
            await self.app(scope, receive, send_watched)
        finally:
            if scope.get(OPERATION) != PROBE:
                self._note(scope, status, time.perf_counter() - began)

    def _note(self, scope: Scope, status: int, duration_s: float) -> None:
        operation = scope.get(OPERATION, "other")
        method = method_name(scope)
        self.metrics.requests.labels(operation, method, status).inc()
        if scope["type"] == "http":  # a socket's duration says nothing about the service
            self.metrics.seconds.labels(operation).observe(duration_s)
        if self.log is None:
            return
        fields: dict[str, object] = {
            "time": self._now(),
            "request_id": scope.get("request_id"),
            "method": method,
            "operation": operation,
            "status": status,
            "ms": round(1000 * duration_s, 1),
        }
        trace = next((value for name, value in scope["headers"] if name == b"traceparent"), None)
        if trace is not None:
            fields["traceparent"] = trace[:64].decode("latin-1")
        print(json.dumps(fields), file=self.log, flush=True)


def method_name(scope: Scope) -> str:
    """The method of a request, as it is counted."""
    method: str = scope.get("method", "GET")
    return method if method in _METHODS else "other"


class Probes:
    """Answers ``/healthz``, ``/readyz`` and ``/metrics``; passes everything else on.

    The metrics are shown to this machine, and to clients that send the token:
    ``Authorization: Bearer TOKEN``.
    """

    def __init__(self, app: ASGIApp, platform: Platform, metrics: Metrics, token: str | None) -> None:
        self.app = app
        self.platform = platform
        self.metrics = metrics
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = {"/healthz": self._health, "/readyz": self._readiness, "/metrics": self._numbers}.get(
            scope["path"] if scope["type"] == "http" else ""
        )
        if answer is None:
            return await self.app(scope, receive, send)
        scope[OPERATION] = PROBE
        if scope["method"] not in ("GET", "HEAD"):
            raise errors.method_not_allowed(["GET", "HEAD"])
        response = await answer(scope)
        if scope["method"] == "HEAD":
            response.body = b""
        await response(scope, receive, send)

    async def _health(self, _scope: Scope) -> Response:
        return json_response({"status": "alive"})

    async def _readiness(self, _scope: Scope) -> Response:
        if self.platform.draining:
            raise errors.unavailable("The service is about to stop.")
        try:
            async with asyncio.timeout(_READY_WITHIN_S):
                await self.platform.store.check()
        except Exception as error:
            raise errors.unavailable(unavailable_reason(error) or "The store does not answer.") from None
        return json_response({"status": "ready"})

    async def _numbers(self, scope: Scope) -> Response:
        if not self._may_read(scope):
            raise errors.url_not_found()  # for everyone else this path does not exist
        return Response(await self.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    def _may_read(self, scope: Scope) -> bool:
        headers = dict(scope["headers"])
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if self._token is not None and scheme.lower() == b"bearer":
            return hmac.compare_digest(token.strip(), self._token.encode())
        # A proxy on this machine that is not trusted may speak for anyone.
        return b"x-forwarded-for" not in headers and is_loopback((scope.get("client") or ("",))[0])
