"""A proxy with a path prefix, like Binder's."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PREFIX = "/user/ada/proxy/8765"


@contextmanager
def below_a_prefix(port: int) -> Iterator[str]:
    """Serve the service on `port` below a prefix; it sees its own Host.

    Yields the address for the browser.
    """

    class Proxy(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def reply(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(status)
            for name, value in [*headers, ("Content-Length", str(len(body)))]:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def pass_on(self) -> None:
            if not self.path.startswith(PREFIX + "/"):
                return self.reply(404, [], b"not the service's: " + self.path.encode())
            length = int(self.headers.get("Content-Length", 0))
            headers = {
                name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")
            }
            upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                upstream.request(self.command, self.path.removeprefix(PREFIX), self.rfile.read(length) or None, headers)
                answer = upstream.getresponse()
                body = answer.read()
                headers = [
                    (n, v) for n, v in answer.getheaders() if n.lower() not in ("content-length", "transfer-encoding")
                ]
                self.reply(answer.status, headers, body)
            finally:
                upstream.close()

        do_GET = do_POST = pass_on  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}{PREFIX}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
