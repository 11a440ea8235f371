"""Helpers that cause a problem, and that return the one finding about it."""

from __future__ import annotations

import importlib.metadata
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentbook import doctor

SECRET = "s3cr3t-that-nobody-may-see"


def problem(about: str, *words: str, state: str = "wrong") -> doctor.Finding:
    """The one finding that is not ok; asserts its state, facts and advice."""
    findings = doctor.examine()
    assert SECRET not in "".join(map(str, findings))
    assert not any("could not be checked" in finding.message for finding in findings), findings
    [finding] = [finding for finding in findings if finding.about == about and finding.state != "ok"]
    assert finding.state == state, finding
    assert [word for word in words if word not in f"{finding.message} {finding.advice}"] == []
    assert finding.advice
    assert "\n" not in finding.message + finding.advice
    return finding


def states(about: str) -> list[str]:
    return [finding.state for finding in doctor.examine() if finding.about == about]


def pretend(monkeypatch: pytest.MonkeyPatch, versions: Mapping[str, str | None]) -> None:
    """Pretend that distributions have other versions; None for not installed."""
    installed = importlib.metadata.version

    def version(name: str) -> str:
        found = versions[name] if name in versions else installed(name)
        if found is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(importlib.metadata, "version", version)


def write(path: Path, content: str | Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@contextmanager
def answering(
    reply: Callable[[BaseHTTPRequestHandler], None], tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> Iterator[str]:
    """The address of a server on this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            reply(self)

        do_CONNECT = do_GET  # noqa: N815 - the name that http.server requires; sent to a proxy

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            pass  # a client that does not trust the certificate hangs up

    with Server((host, 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http{'s' if tls else ''}://{host}:{server.server_address[1]}/v1"
        finally:
            server.shutdown()
            thread.join()


def send(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def platform(handler: BaseHTTPRequestHandler) -> None:
    send(handler, b'{"info": {"title": "A platform", "version": "v1"}, "paths": {}}')
