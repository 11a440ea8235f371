"""Servers for the browser: a proxy with a path prefix like Binder's, and a callback."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PREFIX = "/user/ada/proxy/8765"


class Quiet(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def reply(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in [*headers, ("Content-Length", str(len(body)))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def running(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """A server on a free loopback port, for as long as it is needed."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def below_a_prefix(port: int) -> Iterator[str]:
    """Serve the service on `port` below a prefix; it sees its own Host.

    Yields the address for the browser.
    """

    class Proxy(Quiet):
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

    with running(Proxy) as own:
        yield f"http://127.0.0.1:{own}{PREFIX}"


@contextmanager
def serving(pages: dict[str, str], seen: list[str]) -> Iterator[str]:
    """A site of a few fixed pages; every path that is asked for is noted in `seen`."""

    class Site(Quiet):
        def do_GET(self) -> None:
            seen.append(self.path)
            body = pages.get(self.path.partition("?")[0], "").encode()
            self.reply(200, [("Content-Type", "text/html")], body)

    with running(Site) as port:
        yield f"http://127.0.0.1:{port}"
