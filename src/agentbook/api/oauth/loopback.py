"""The loopback address to which a browser returns after a sign-in (RFC 8252).

Every page in the person's browser and every program on the machine can reach it. So it
accepts only the request of the pending sign-in: to its own name and port, with the
state that only the authorization server knows. Anything else is refused, and the
sign-in keeps waiting.
"""

from __future__ import annotations

import contextlib
import http.server
import queue
import secrets
import threading
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from ..errors import DeadlineExceeded
from ..redaction import Hidden

PATH = "/callback"
_IDLE_S = 10.0
_POLLING_S = 0.02  # how soon it ends after the sign-in; the default is half a second
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>agentbook</title>
<style>body{{font:16px system-ui;margin:4rem auto;max-width:30rem;color-scheme:light dark}}</style>
<h1>{title}</h1><p>You can close this window and go back to your notebook.</p></html>"""


class Loopback:
    """A server on a port of 127.0.0.1, open during a ``with`` block.

    Parameters
    ----------
    state
        The state of the sign-in. Requests with another one are refused.
    port
        The port to listen on if it is free; 0 for any.
    """

    def __init__(self, state: str, port: int = 0) -> None:
        # Only the first answer counts: a browser may load the page again.
        self._answers: queue.Queue[dict[str, str]] = queue.Queue(maxsize=1)
        handler = _handler(self._answers, state)
        try:
            self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
        except OSError:
            self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
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
        serve = self._server.serve_forever
        threading.Thread(target=serve, args=(_POLLING_S,), name="agentbook-loopback", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(answers: queue.Queue[dict[str, str]], state: str) -> type[http.server.BaseHTTPRequestHandler]:
    """A request handler that puts the answer with this state into `answers`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = _IDLE_S  # a connection that sends nothing is closed

        def do_GET(self) -> None:
            params = self._answer()
            if params is None:
                return self._send(404, "")
            with contextlib.suppress(queue.Full):
                answers.put_nowait(params)
            self._send(200, _PAGE.format(title="Signed in" if "code" in params else "Not signed in"))

        def _answer(self) -> dict[str, str] | None:
            """The query parameters, or None if the request is not the sign-in's."""
            parts = urlsplit(self.path)
            port = self.connection.getsockname()[1]
            # A different name for this address belongs to another site (DNS rebinding).
            if parts.path != PATH or self.headers.get_all("Host") != [f"127.0.0.1:{port}"]:
                return None
            params = answer_of(parts.query)
            is_ours = secrets.compare_digest(params.get("state", "").encode(), state.encode())
            return params if is_ours else None

        def _send(self, status: int, page: str) -> None:
            body = page.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
            self.send_header("Referrer-Policy", "no-referrer")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing: the request line holds the code."""

    return Handler


def answer_of(query: str) -> dict[str, str]:
    """The parameters with which a browser returned; the code is hidden.

    Examples
    --------
    >>> answer_of("code=c0de&state=s")
    {'code': '…', 'state': 's'}
    """
    parameters = {name: values[0] for name, values in parse_qs(query).items()}
    return {name: Hidden(value) if name == "code" else value for name, value in parameters.items()}
