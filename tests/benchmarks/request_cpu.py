"""Measures the CPU of requests against a bare Starlette route with the same bytes.

    python tests/benchmarks/request_cpu.py [--quick]

Both run under uvicorn in processes of their own, and get the same requests one after
another on one connection. CPU is what the operating system charges to a process. The
rounds are interleaved, and the least cost of each counts, because other work on the
machine only ever adds to it. The goals: `GET /me` takes at most 3.8 times the CPU of
the route, and a page of 20 agents at most 10 times.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
from report import Report
from service_process import COMMAND, SCOPES, cpu_s, run

STARLETTE = """
import socket
import sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

body = sys.stdin.buffer.read()

async def answer(request):
    return Response(body, media_type="application/json")

config = uvicorn.Config(Starlette(routes=[Route("/", answer)]), access_log=False, log_level="error", timeout_keep_alive=65)
# asyncio sets TCP_NODELAY only where the protocol is named.
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listener.bind(("127.0.0.1", 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
uvicorn.Server(config).run(sockets=[listener])
"""


class Client:
    """One connection, and the request that it repeats."""

    def __init__(self, port: int, path: str, key: str) -> None:
        basic = base64.b64encode(key.encode()).decode()
        lines = (f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Authorization: Basic {basic}", "Accept: */*")
        self._request = ("\r\n".join(lines) + "\r\n\r\n").encode()
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)

    def ask(self) -> bytes:
        """Send the request and return the body of the response."""
        self._socket.sendall(self._request)
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._more()
        head, _, body = received.partition(b"\r\n\r\n")
        assert b" 200 " in head.split(b"\r\n")[0], head
        [length] = [int(line.split()[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
        while len(body) < length:
            body += self._more()
        return body

    def _more(self) -> bytes:
        data = self._socket.recv(1 << 20)
        assert data, "the connection was closed"
        return data


def bare_route(body: bytes) -> tuple[subprocess.Popen[bytes], int]:
    """A process with a route that answers with these bytes, and its port."""
    process = subprocess.Popen([sys.executable, "-c", STARLETTE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(body)
    process.stdin.close()
    process.stdin = None
    return process, int(process.stdout.readline())


@contextlib.contextmanager
def service() -> Iterator[tuple[int, int, str]]:
    """The process id, port and key of a service with 20 agents and a rate limit."""
    with tempfile.TemporaryDirectory(prefix="agentbook-benchmark-") as folder:
        data = Path(folder) / "data"
        run("accounts", "create", "acme", "--type", "organization", data=data)
        scopes = [part for scope in SCOPES for part in ("--scope", scope)]
        key = run("keys", "create", "--account", "acme", "--name", "benchmark", *scopes, data=data)
        options = ["--bare", "--port", "0", "--data", str(data), "--requests-per-minute", str(10**9)]
        process = subprocess.Popen([*COMMAND, "serve", *options], stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        try:
            assert process.stderr.readline().startswith("agentbook serves")
            facts = json.loads((data / "service.json").read_text())
            with httpx.Client(base_url=facts["base_url"], auth=httpx.BasicAuth(*key.split(":"))) as http:
                for number in range(20):
                    text = "Answers questions about orders, invoices and deliveries. " * 3
                    agent = {"name": f"agent-{number}", "description": text, "template": "BLANK"}
                    http.post("/agents", json=agent).raise_for_status()
            yield process.pid, facts["port"], key
        finally:
            process.terminate()
            process.communicate(timeout=30)


def cost(pid: int, ask: Callable[[], bytes], count: int) -> float:
    """CPU seconds of a process for one request."""
    before = cpu_s(pid)
    for _ in range(count):
        ask()
    return (cpu_s(pid) - before) / count


def measure(report: Report, running: tuple[int, int, str], label: str, path: str, goal: float, quick: bool) -> None:
    """Compare the CPU of a request to the service with that of the bare route."""
    rounds, count = (4, 250) if quick else (10, 1000)
    pid, port, key = running
    ask = Client(port, f"/v1{path}", key).ask
    body = ask()
    route, route_port = bare_route(body)
    try:
        ask_route = Client(route_port, "/", key).ask
        assert ask_route() == body
        pairs = [(cost(pid, ask, count), cost(route.pid, ask_route, count)) for _ in range(rounds + 1)]
    finally:
        route.terminate()
        route.communicate(timeout=30)
    mine, bare = (min(column) for column in zip(*pairs[1:], strict=True))  # the first round warms up
    figures = f"{mine * 1e6:.0f} µs", f"{bare * 1e6:.0f} µs Starlette, {len(body):,} bytes"
    report.row(f"{label}: CPU", *figures, mine / bare, goal)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer requests")
    quick = parser.parse_args().quick
    report = Report()
    with service() as running:
        measure(report, running, "GET /me", "/me", 3.8, quick)
        measure(report, running, "page of 20 agents", "/agents?limit=20", 10, quick)
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
