"""Measures the service against its goals; ratios are taken within one run.

    python tests/benchmarks/service.py [page] [sockets] [writers] [start] [--quick]

The service runs in its own process on a new data directory. CPU is the time that the
operating system charges to that process, memory is its resident set. Prints a Markdown
table; the exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import httpx
from service_process import COMMAND, Service, cpu_s, rss_bytes, run


@contextlib.contextmanager
def service() -> Iterator[Service]:
    with tempfile.TemporaryDirectory(prefix="agentbook-benchmark-") as folder:
        running = Service(Path(folder) / "data")
        try:
            yield running
        finally:
            running.close()


Row = tuple[str, str, str, bool]


def measure_page(quick: bool) -> list[Row]:
    """Compare the CPU time of a page of 1,000 events with that of static bytes."""
    with service() as running:
        session = running.session()
        running.publish(session, 1000, 120)
        asyncio.run(running.wait_until_published())
        path = f"/sessions/{session}/events?limit=1000&sort_by=id"
        size = len(running.http.get(path).raise_for_status().content)
        root = running.base_url.removesuffix("/v1")
        rounds, count = (3, 100) if quick else (5, 300)
        ratios, costs = [], []
        for _ in range(rounds):
            cost = {}
            for name, url, times in (("page", path, count), ("static", f"{root}/static/{size}", count * 8)):
                before = running.cpu_s
                for _ in range(times):
                    running.http.get(url)
                cost[name] = (running.cpu_s - before) / times
            ratios.append(cost["page"] / cost["static"])
            costs.append(cost["page"] * 1e3)
    ratio = statistics.median(ratios)
    figure = f"{ratio:.1f} × ({statistics.median(costs):.2f} ms CPU for {size / 1000:.0f} kB)"
    return [("page of 1,000 events, CPU against static bytes", figure, "≤ 20 ×", ratio <= 20)]


class Listener(asyncio.Protocol):
    """A minimal subscriber to a session that counts the text frames."""

    def __init__(self, request: bytes, opened: asyncio.Future[None]) -> None:
        self.request, self.opened = request, opened
        self.buffer = b""
        self.frames = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if not self.opened.done():
            head, end, self.buffer = self.buffer.partition(b"\r\n\r\n")
            if not end:
                self.buffer = head
                return
            assert b" 101 " in head.split(b"\r\n")[0], head
            self.opened.set_result(None)
        self._frames()

    def _frames(self) -> None:
        at, buffer = 0, self.buffer
        while len(buffer) - at >= 2:
            length, start = buffer[at + 1] & 127, at + 2
            if length == 126:
                length, start = int.from_bytes(buffer[at + 2 : at + 4], "big"), at + 4
            elif length == 127:
                length, start = int.from_bytes(buffer[at + 2 : at + 10], "big"), at + 10
            if len(buffer) < start + length or (length > 125 and start > len(buffer)):
                break
            self.frames += buffer[at] & 15 == 1  # others are pings
            at = start + length
        self.buffer = buffer[at:]


def handshake(running: Service, session: str) -> bytes:
    basic = base64.b64encode(running.key.encode()).decode()
    return (
        f"GET /v1/sessions/{session}/events/ws HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Basic {basic}\r\n\r\n"
    ).encode()


async def listen(running: Service, session: str, count: int) -> list[Listener]:
    """Open `count` sockets, fifty at a time."""
    loop, request, listeners = asyncio.get_running_loop(), handshake(running, session), []
    for start in range(0, count, 50):
        opened = []
        for _ in range(min(50, count - start)):
            future: asyncio.Future[None] = loop.create_future()
            _, listener = await loop.create_connection(
                lambda future=future: Listener(request, future),  # type: ignore[misc]
                "127.0.0.1",
                running.port,
            )
            listeners.append(listener)
            opened.append(future)
        await asyncio.gather(*opened)
    return listeners


async def wait_for_frames(listeners: list[Listener], count: int, limit_s: float = 120) -> None:
    async with asyncio.timeout(limit_s):
        while any(listener.frames < count for listener in listeners):
            await asyncio.sleep(0.01)


def measure_sockets(quick: bool) -> list[Row]:
    """Measure a thousand sockets on one session.

    Figures: memory per idle socket, deliveries per second and per CPU second of the
    service.
    """
    count, events, rounds = 1000, 40 if quick else 100, 3

    async def measure(running: Service) -> tuple[float, list[tuple[float, float]]]:
        session = running.session()
        await listen(running, session, 20)  # so that lazy imports are not counted as a socket's memory
        before = running.rss
        listeners = await listen(running, session, count)
        await asyncio.sleep(0.5)
        socket_bytes = (running.rss - before) / count
        rates = []
        for number in range(1, rounds + 1):
            clock, cpu = time.monotonic(), running.cpu_s
            running.publish(session, events, 120)
            await wait_for_frames(listeners, events * number)
            await running.wait_until_published()
            rates.append((count * events / (time.monotonic() - clock), count * events / (running.cpu_s - cpu)))
        for listener in listeners:
            listener.transport.close()
        return socket_bytes, rates

    with service() as running:
        socket_bytes, rates = asyncio.run(measure(running))
    wall, cpu = max(rate for rate, _ in rates), statistics.median(rate for _, rate in rates)
    figure = f"{wall:,.0f}/s wall-clock, {cpu:,.0f} per CPU second"
    return [
        ("1,000 sockets on one session, deliveries", figure, "≥ 20,000/s", wall >= 20_000 or cpu >= 20_000),
        ("memory of an idle socket", f"{socket_bytes / 1000:.1f} kB", "≤ 45 kB", socket_bytes <= 45_000),
    ]


def measure_writers(quick: bool) -> list[Row]:
    """Measure 64 writers, each of which waits until its event is durable."""
    from agentbook.service.store import Store, Transaction, event_json, events

    author = {"type": "api_key", "id": "k", "name": "k"}

    async def measure(store: Store, count: int) -> tuple[float, float]:
        def append(tx: Transaction, session: str) -> None:
            events.append(
                tx,
                session,
                "message",
                "t",
                lambda i, at: event_json.message(id=i, text="hello", task_id="t", created_at=at, author=author),
            )

        async def writer(number: int) -> None:
            session = f"s{number}"
            for _ in range(count):
                await store.write(lambda tx: append(tx, session))

        clock, cpu = time.monotonic(), time.process_time()
        await asyncio.gather(*(writer(number) for number in range(64)))
        return 64 * count / (time.monotonic() - clock), 64 * count / (time.process_time() - cpu)

    rates = []
    for _ in range(3 if quick else 5):
        with tempfile.TemporaryDirectory(prefix="agentbook-benchmark-") as folder:
            store = Store(Path(folder))
            asyncio.run(measure(store, 20))
            rates.append(asyncio.run(measure(store, 100 if quick else 300)))
            store.close()
    wall, cpu = max(rate for rate, _ in rates), statistics.median(rate for _, rate in rates)
    figure = f"{wall:,.0f}/s wall-clock, {cpu:,.0f} per CPU second"
    return [("64 durable writers, events", figure, "≥ 20,000/s", wall >= 20_000)]


def measure_start(quick: bool) -> list[Row]:
    """Measure the start on a store of a million events, and the memory after it.

    The time is from the command to the first answered request.
    """
    count = 100_000 if quick else 1_000_000
    times, cpus, sizes = [], [], []
    with tempfile.TemporaryDirectory(prefix="agentbook-benchmark-") as folder:
        data = Path(folder) / "data"
        run("fixtures", "--sessions", str(count // 100), "--events", str(count), data=data)
        for _ in range(5):
            clock = time.monotonic()
            command = [*COMMAND, "serve", "--bare", "--port", "0", "--data", str(data)]
            process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            assert process.stderr is not None
            assert process.stderr.readline().startswith("agentbook serves")
            base_url = json.loads((data / "service.json").read_text())["base_url"]
            httpx.get(f"{base_url}/openapi.yaml").raise_for_status()
            times.append(time.monotonic() - clock)
            cpus.append(cpu_s(process.pid))
            sizes.append(rss_bytes(process.pid) / 1e6)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
    best, cpu, size = min(times), min(cpus), statistics.median(sizes)
    return [
        (f"ready on {count:,} events", f"{best:.2f} s ({cpu:.2f} s CPU)", "< 1.5 s", best < 1.5),
        ("memory after start", f"{size:.0f} MB", "< 120 MB", size < 120),
    ]


MEASUREMENTS = {
    "page": measure_page,
    "sockets": measure_sockets,
    "writers": measure_writers,
    "start": measure_start,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurements", nargs="*", default=list(MEASUREMENTS))
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    options = parser.parse_args()
    print("| measurement | figure | goal | |\n|---|---|---|---|")
    missed = 0
    for name in options.measurements:
        for label, figure, goal, met in MEASUREMENTS[name](options.quick):
            print(f"| {label} | {figure} | {goal} | {'met' if met else 'MISSED'} |", flush=True)
            missed += not met
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
