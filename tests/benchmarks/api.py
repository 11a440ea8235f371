"""Measures the cost of a call compared with plain httpx.

    python tests/benchmarks/api.py

Absolute times vary by machine, so the goals are ratios within one run: the rounds of
the contenders are interleaved, and the medians are compared. The goals:

- a page of 100 items through `Client` takes at most 1.2 times the CPU of httpx with
  json;
- 40 pages at 50 ms latency load at least 6 times faster than one after another;
- ``import agentbook`` takes at most 1.3 times as long as ``import httpx``.
"""

from __future__ import annotations

import http.server
import json
import multiprocessing
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

ITEMS = 100
ROUNDS, CALLS = 9, 120


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves pages of 100 items of 550 bytes each.

    The path sets the delay in milliseconds: 50 for ``/v1-50/agents``.
    """

    protocol_version = "HTTP/1.1"
    # A reply is one write. Sent as two, the second waits some 40 ms for the client's
    # delayed acknowledgement of the first.
    wbufsize = 1 << 20
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        delay = int(parts.path.split("/")[1].partition("-")[2] or 0)
        time.sleep(delay / 1000)
        total = 40 * ITEMS if delay else ITEMS
        offset = int(parse_qs(parts.query).get("offset", ["0"])[0])
        items = [ITEM | {"id": f"0199a0b2-0000-7000-8000-{offset + n:012x}"} for n in range(min(ITEMS, total - offset))]
        pagination = {"total_count": total, "limit": ITEMS, "offset": offset, "has_more": offset + ITEMS < total}
        body = PAGE if not delay else json.dumps({"items": items, "pagination": pagination}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


ITEM: dict[str, Any] = {
    "id": "",
    "name": "an agent of some kind",
    "description": "x" * 300,
    "tags": ["a", "b", "c"],
    "is_public": True,
    "owner": {"id": "0199a0b2-0000-7000-8000-000000000000", "name": "acme", "type": "organization"},
    "created_at": "2026-11-21T10:00:00.000000Z",
}
PAGE = json.dumps(
    {
        "items": [ITEM | {"id": f"0199a0b2-0000-7000-8000-{n:012x}"} for n in range(ITEMS)],
        "pagination": {"total_count": ITEMS, "limit": 1000, "offset": 0, "has_more": False},
    }
).encode()


def serve(pipe: Any) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    pipe.send(server.server_port)
    server.serve_forever()


def cpu_s(work: Callable[[], Any]) -> float:
    """The CPU seconds of one call, averaged over `CALLS`."""
    began = time.process_time()
    for _ in range(CALLS):
        work()
    return (time.process_time() - began) / CALLS


def page_cost(root: str) -> tuple[float, float]:
    """The CPU seconds of a page of 100 items: with httpx and json, with the client."""
    import httpx

    import agentbook as ab

    with httpx.Client() as raw, ab.Client(f"{root}/v1", credentials="id:secret") as client:
        headers = {"Authorization": "Basic aWQ6c2VjcmV0", "Accept": "application/json"}
        contenders: list[Callable[[], Any]] = [
            lambda: raw.get(f"{root}/v1/agents?limit=1000", headers=headers).json()["items"],
            lambda: list(client.agents.list()),
        ]
        for contender in contenders:
            contender()
        rounds = [[cpu_s(contender) for contender in contenders] for _ in range(ROUNDS)]
    return statistics.median(r[0] for r in rounds), statistics.median(r[1] for r in rounds)


def paging(root: str) -> tuple[float, float]:
    """The seconds for 40 pages at 50 ms: one after another, and with the client."""
    import httpx

    import agentbook as ab

    with httpx.Client() as raw, ab.Client(f"{root}/v1-50") as client:
        began = time.perf_counter()
        for page in range(40):
            raw.get(f"{root}/v1-50/agents?limit=100&offset={page * 100}").json()
        one_by_one = time.perf_counter() - began
        began = time.perf_counter()
        assert len(list(client.agents.list())) == 40 * ITEMS
        return one_by_one, time.perf_counter() - began


def import_cost(module: str) -> float:
    """The CPU seconds of importing a module in a new process."""
    code = f"import time; t = time.process_time(); import {module}; print(time.process_time() - t)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def report(measurement: str, figure: str, ratio: str = "", *, met: bool = True) -> bool:
    """Print a row at once; whether it meets its goal."""
    print(f"{measurement:42} {figure:>10}  {ratio}{'' if met else '  MISSED'}", flush=True)
    return met


def main() -> int:
    port, child = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(child,), daemon=True)
    server.start()
    root = f"http://127.0.0.1:{port.recv()}"
    raw, ours = page_cost(root)
    report("page of 100 items, CPU, httpx + json", f"{raw * 1e3:.2f} ms")
    ratio = ours / raw
    met = [
        report(
            "page of 100 items, CPU, agentbook",
            f"{ours * 1e3:.2f} ms",
            f"{ratio:.2f} x (at most 1.2)",
            met=ratio <= 1.2,
        )
    ]
    slow, fast = paging(root)
    ratio = slow / fast
    report("40 pages at 50 ms, one after another", f"{slow:.2f} s")
    met.append(
        report("40 pages at 50 ms, agentbook", f"{fast:.2f} s", f"{ratio:.1f} x faster (at least 6)", met=ratio >= 6)
    )
    server.terminate()
    pairs = [(import_cost("httpx"), import_cost("agentbook")) for _ in range(7)]
    base, light = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = light / base
    report("import httpx, CPU", f"{base * 1e3:.0f} ms")
    met.append(
        report("import agentbook, CPU", f"{light * 1e3:.0f} ms", f"{ratio:.2f} x (at most 1.3)", met=ratio <= 1.3)
    )
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
