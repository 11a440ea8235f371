"""Measures the cost of a call compared with plain httpx2.

    python tests/benchmarks/api.py

Absolute times vary by machine, so the goals are ratios within one run: the rounds of
the contenders are interleaved, and the least times are compared. The goals:

- a page of 100 agents through `Client` takes at most 1.3 times the CPU of httpx2 with
  json, one of 1,000 events at most 1.5 times;
- 40 pages at 50 ms latency load at least 6 times faster than one after another, and
  into a frame in at most 1.2 times what latency, connections and page count allow: the
  first page alone, then as many pages at the same time as there are connections;
- ``import agentbook`` takes at most 0.12 times as long as ``import httpx2``.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from event_mixes import SESSION, make_pages
from report import Report, least_times

import agentbook as ab
from agentbook.frames.load.loader import MAX_CONCURRENCY

ITEMS, PAGES = 100, 40
DELAY_MS = 50
ROUNDS, CALLS = 12, 60
EVENTS = make_pages(1)[0].replace(b'"has_more":true', b'"has_more":false')
ITEM: dict[str, Any] = {
    "id": "",
    "name": "an agent of some kind",
    "description": "x" * 300,
    "tags": ["a", "b", "c"],
    "is_public": True,
    "owner": {"id": "0199a0b2-0000-7000-8000-000000000000", "name": "acme", "type": "organization"},
    "created_at": "2026-11-21T10:00:00.000000Z",
}


def agents(total: int, offset: int) -> bytes:
    """A page of agents of 550 bytes each."""
    items = [ITEM | {"id": f"0199a0b2-0000-7000-8000-{n:012x}"} for n in range(offset, min(offset + ITEMS, total))]
    pagination = {"total_count": total, "limit": ITEMS, "offset": offset, "has_more": offset + ITEMS < total}
    return json.dumps({"items": items, "pagination": pagination}).encode()


class Connection(asyncio.Protocol):
    """Serves events and agents, whose replies are made beforehand.

    The path sets the delay in milliseconds: 50 for ``/v1-50/agents``, which is then a
    list of `PAGES` pages.
    """

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._received = b""

    def data_received(self, data: bytes) -> None:
        *requests, self._received = (self._received + data).split(b"\r\n\r\n")
        for request in requests:
            delay_s, reply = answer(request.split(b" ", 2)[1].decode())
            asyncio.get_running_loop().call_later(delay_s, self._transport.write, reply)


@cache
def answer(target: str) -> tuple[float, bytes]:
    """The delay of a reply in seconds, and the reply."""
    parts = urlsplit(target)
    delay = int(parts.path.split("/")[1].partition("-")[2] or 0)
    offset = int(parse_qs(parts.query).get("offset", ["0"])[0])
    body = EVENTS if parts.path.endswith("/events") else agents(PAGES * ITEMS if delay else ITEMS, offset)
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return delay / 1000, head.encode() + body


def serve(pipe: Any) -> None:
    """Serve until the process is ended; the port goes into the pipe."""

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def measure_pages(report: Report, root: str) -> None:
    """The CPU of one page, with the client and with httpx2 and json."""
    headers = {"Authorization": "Basic aWQ6c2VjcmV0", "Accept": "application/json"}
    with httpx2.Client() as raw, ab.Client(f"{root}/v1", credentials="id:secret") as client:
        lists: dict[str, tuple[str, Callable[[], Any]]] = {
            "page of 100 agents": ("agents?limit=1000", client.agents.list),
            "page of 1,000 events": (f"sessions/{SESSION}/events?limit=1000", lambda: client.sessions.events(SESSION)),
        }
        for label, (path, list_) in lists.items():
            count = CALLS if "agents" in path else CALLS // 5

            def by_hand(path: str = path, count: int = count) -> None:
                for _ in range(count):
                    raw.get(f"{root}/v1/{path}", headers=headers).json()["items"]

            def ours(list_: Callable[[], Any] = list_, count: int = count) -> None:
                for _ in range(count):
                    list(list_())

            by_hand(), ours()
            result = least_times({"httpx2": by_hand, "ours": ours}, ROUNDS)
            (_, raw_s), (_, mine_s) = result["httpx2"], result["ours"]
            figures = f"{1e3 * mine_s / count:.2f} ms", f"{1e3 * raw_s / count:.2f} ms httpx2 and json"
            report.row(f"{label}: CPU", *figures, mine_s / raw_s, 1.3 if "agents" in path else 1.5)


def measure_latency(report: Report, root: str) -> None:
    """The time of a list of many pages where each takes some time."""
    address = f"{root}/v1-{DELAY_MS}"
    with httpx2.Client() as raw, ab.Client(address) as client:

        def one_by_one() -> None:
            for page in range(PAGES):
                raw.get(f"{address}/agents?limit={ITEMS}&offset={page * ITEMS}").json()

        def iterate() -> None:
            assert len(list(client.agents.list())) == PAGES * ITEMS

        def to_pandas() -> None:
            assert len(client.agents.list().to_pandas()) == PAGES * ITEMS

        # One after another it takes so long that a round more or less is lost in it.
        result = least_times({"by hand": one_by_one}, 2) | least_times({"iterate": iterate, "frame": to_pandas}, 8)
    label = f"{PAGES} pages at {DELAY_MS} ms"
    slow_s, fast_s, frame_s = (result[name][0] for name in ("by hand", "iterate", "frame"))
    figures = f"{fast_s:.2f} s", f"{slow_s:.2f} s one after another"
    report.row(f"{label}, iterated", *figures, slow_s / fast_s, 6, at_least=True)
    least_s = DELAY_MS / 1000 * (1 + -(-(PAGES - 1) // MAX_CONCURRENCY))
    figures = f"{frame_s:.2f} s", f"{least_s:.2f} s that latency, connections and pages allow"
    report.row(f"{label}, into a frame", *figures, frame_s / least_s, 1.2)


def measure_import(report: Report) -> None:
    """The CPU of importing the package, in new processes."""
    pairs = [(import_cost("httpx2"), import_cost("agentbook")) for _ in range(7)]
    base, light = (statistics.median(column) for column in zip(*pairs, strict=True))
    report.row("import agentbook: CPU", f"{light * 1e3:.0f} ms", f"{base * 1e3:.0f} ms httpx2", light / base, 0.12)


def import_cost(module: str) -> float:
    """The CPU seconds of importing a module in a new process."""
    code = f"import time; t = time.process_time(); import {module}; print(time.process_time() - t)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def measure(report: Report) -> None:
    """Measure pages, latency and import."""
    port, child = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(child,), daemon=True)
    server.start()
    root = f"http://127.0.0.1:{port.recv()}"
    measure_pages(report, root)
    measure_latency(report, root)
    server.terminate()
    measure_import(report)


def main() -> int:
    report = Report()
    measure(report)
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
