"""The loopback address to which a browser returns after a sign-in (RFC 8252)."""

from __future__ import annotations

import http.server
import queue
import threading
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from ..errors import DeadlineExceeded

PATH = "/callback"
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>agentbook</title>
<style>body{font:16px system-ui;margin:4rem auto;max-width:30rem;color-scheme:light dark}</style>
<h1>Signed in</h1><p>You can close this window and go back to your notebook.</p></html>"""


class Loopback:
    """A server on a free port of 127.0.0.1, open during a ``with`` block."""

    def __init__(self) -> None:
        self._answers: queue.Queue[dict[str, str]] = queue.Queue()
        answers = self._answers

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                is_callback = parts.path == PATH
                page = _PAGE.encode() if is_callback else b""
                self.send_response(200 if is_callback else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(page)))
                self.send_header("Referrer-Policy", "no-referrer")
                self.end_headers()
                self.wfile.write(page)
                if is_callback:
                    answers.put({name: values[0] for name, values in parse_qs(parts.query).items()})

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing: the request line holds the code."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.redirect_uri = f"http://127.0.0.1:{self._server.server_port}{PATH}"

    def wait(self, timeout_s: float) -> dict[str, str]:
        """The query parameters with which the browser returned.

        Raises
        ------
        DeadlineExceeded
            If none came within `timeout_s` seconds.
        """
        try:
            return self._answers.get(timeout=timeout_s)
        except queue.Empty:
            raise DeadlineExceeded(
                f"sign_in: not approved within {timeout_s:.0f} s. Sign in again, with paste=True if no browser can "
                "reach this machine.",
                operation="sign_in",
            ) from None

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="agentbook-loopback", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
