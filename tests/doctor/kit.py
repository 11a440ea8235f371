"""Helpers that cause a problem, and that return the one finding about it."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentbook import doctor
from agentbook.doctor import finding, notebook, packages

SECRET = "s3cr3t-that-nobody-may-see"


def problem(about: str, *words: str, state: str = "wrong") -> doctor.Finding:
    """The one finding that is not ok; asserts its state, words and advice."""
    findings = [finding for finding in findings_about(about) if finding.state != "ok"]
    assert [finding.state for finding in findings] == [state], findings
    for word in words:
        assert word in f"{findings[0].message} {findings[0].advice}", findings
    assert findings[0].advice
    assert "\n" not in findings[0].message
    return findings[0]


def findings_about(about: str) -> list[doctor.Finding]:
    return [finding for finding in doctor.examine() if finding.about == about]


def no_check_fails() -> bool:
    return not any("could not be checked" in finding.message for finding in doctor.examine())


def versions(monkeypatch: pytest.MonkeyPatch, **pretended: str | None) -> None:
    """Pretend that distributions have other versions; None for not installed."""
    names = {name.replace("_", "-"): version for name, version in pretended.items()}

    def version(name: str) -> str | None:
        return names[name] if name in names else finding.version(name)

    monkeypatch.setattr(notebook, "version", version)
    monkeypatch.setattr(packages, "version", version)


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

        def date_time_string(self, timestamp: float | None = None) -> str:
            return formatdate(time.time() - getattr(self.server, "behind_s", 0.0), usegmt=True)

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
