"""How fast the service is, held against its figures, with ratios taken in one run.

    python tests/benchmarks/service.py [page] [sockets] [stalled] [writers] [start]
    [--quick]

Prints a Markdown table and ends with exit code 1 where a figure is missed. The service
runs in a process of its own on a fresh data directory; CPU is what the kernel charged
that process, memory its resident set.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

SCOPES = ("agents:write", "sessions:write", "workspaces:write", "skills:write", "integrations:write")
COMMAND = [sys.executable, "-c", "from agentbook.cli import main; main()"]
# A service that also answers a fixed body of any size at /static, as the least that an
# answer of that size can cost, and takes orders on stdin: "SESSION COUNT CHARACTERS"
# commits that many events of that size, a hundred to a transaction.
BENCHED = r"""
import asyncio, sys, threading, time
from pathlib import Path
from agentbook.service.http import server
from agentbook.service.turns import event_json
from agentbook.service.store import events

build = server.build
def benched(platform):
    app = build(platform)
    async def outer(scope, receive, send):
        if scope["type"] == "lifespan":
            loop = asyncio.get_running_loop()
            threading.Thread(target=orders, args=(loop,), daemon=True).start()
        if scope["type"] == "http" and scope["path"].startswith("/static/"):
            body = b"x" * int(scope["path"][8:])
            cached = bodies.setdefault(len(body), body)
            head = [(b"content-type", b"application/json"), (b"content-length", str(len(cached)).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": head})
            await send({"type": "http.response.body", "body": cached})
            return
        await app(scope, receive, send)
    bodies = {}
    def orders(loop):
        for line in sys.stdin:
            session, count, size, pause = line.split()
            asyncio.run_coroutine_threadsafe(publish(session, int(count), int(size), float(pause)), loop).result()
            print("published", flush=True)
    async def publish(session, count, size, pause):
        def some(tx, number):
            for _ in range(number):
                text = f"{time.monotonic():.6f} ".ljust(size, "x")
                author = {"type": "api_key", "id": "k", "name": "k"}
                events.append(tx, session, "message", "t", lambda i, at: event_json.message(
                    id=i, text=text, task_id="t", created_at=at, author=author))
        step = 1 if pause else 100
        for start in range(0, count, step):
            await platform.store.write(lambda tx: some(tx, min(step, count - start)))
            if pause:
                await asyncio.sleep(pause)
    return outer
server.build = benched
server.run(data=Path(sys.argv[1]), port=0, bare=True, speed=0, requests_per_minute=0)
"""


class Service:
    """A running service, with a key, a workspace and an agent."""

    def __init__(self, data: Path) -> None:
        self.data = data
        run("accounts", "create", "acme", "--type", "organization", data=data)
        scopes = [part for scope in SCOPES for part in ("--scope", scope)]
        self.key = run("keys", "create", "--account", "acme", "--name", "bench", *scopes, data=data)
        self.process = subprocess.Popen(
            [sys.executable, "-c", BENCHED, str(data)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        ready = self.process.stderr.readline()
        assert ready.startswith("agentbook serves"), ready + self.process.stderr.read()
        facts = json.loads((data / "service.json").read_text())
        self.base_url, self.port = facts["base_url"], facts["port"]
        self.http = httpx.Client(base_url=self.base_url, auth=tuple(self.key.split(":")), timeout=60)
        self.http.post("/workspaces", json={"name": "lab"}).raise_for_status()
        agent = self.http.post("/agents", json={"name": "helper", "template": "BLANK"})
        self.agent = agent.raise_for_status().json()["id"]

    def session(self) -> str:
        body = {"session_type": "chat", "agent_id": self.agent, "initial_prompt": "hello"}
        made = str(self.http.post("/workspaces/lab/sessions", json=body).raise_for_status().json()["id"])
        # Its own turn is over before anything is measured.
        while self.http.get(f"/sessions/{made}/events").json()["pagination"]["total_count"] < 2:
            time.sleep(0.01)
        return made

    def order(self, session: str, count: int, size: int, pause: float = 0) -> None:
        """Have events published; `published` waits until they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{session} {count} {size} {pause}\n")
        self.process.stdin.flush()

    async def published(self) -> None:
        assert self.process.stdout is not None
        await asyncio.to_thread(self.process.stdout.readline)

    @property
    def cpu_s(self) -> float:
        return cpu_s(self.process.pid)

    @property
    def rss(self) -> int:
        return rss_bytes(self.process.pid)

    def close(self) -> None:
        self.http.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)


def run(*arguments: str, data: Path) -> str:
    environment = {**os.environ, "AGENTBOOK_DATA": str(data)}
    done = subprocess.run([*COMMAND, *arguments], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def service() -> Iterator[Service]:
    with tempfile.TemporaryDirectory(prefix="agentbook-bench-") as place:
        running = Service(Path(place) / "data")
        try:
            yield running
        finally:
            running.close()


Row = tuple[str, str, str, bool]


def page(quick: bool) -> list[Row]:
    """A page of 1,000 events against the same bytes that never change."""
    with service() as running:
        session = running.session()
        running.order(session, 1000, 120)
        asyncio.run(running.published())
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
    seen = f"{ratio:.1f} × ({statistics.median(costs):.2f} ms CPU for {size / 1000:.0f} kB)"
    return [("page of 1,000 events, CPU against static bytes", seen, "≤ 20 ×", ratio <= 20)]


class Listener(asyncio.Protocol):
    """The least that listens to a session: it counts frames and, if asked, keeps the
    times that stand in them.
    """

    def __init__(self, request: bytes, opened: asyncio.Future[None], *, keep: bool = False) -> None:
        self.request, self.opened, self.keep = request, opened, keep
        self.buffer = b""
        self.frames = 0
        self.waits: list[float] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
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
            text = buffer[at] & 15 == 1  # the rest are pings
            self.frames += text
            if self.keep and text:
                sent = json.loads(buffer[start : start + length])["content"]["text"].split()[0]
                self.waits.append(time.monotonic() - float(sent))
            at = start + length
        self.buffer = buffer[at:]


def handshake(running: Service, session: str) -> bytes:
    basic = base64.b64encode(running.key.encode()).decode()
    return (
        f"GET /v1/sessions/{session}/events/ws HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Basic {basic}\r\n\r\n"
    ).encode()


async def listen(running: Service, session: str, count: int, *, keep: bool = False) -> list[Listener]:
    """Open sockets, fifty at a time."""
    loop, request, listeners = asyncio.get_running_loop(), handshake(running, session), []
    for start in range(0, count, 50):
        opened = []
        for _ in range(min(50, count - start)):
            future: asyncio.Future[None] = loop.create_future()
            _, listener = await loop.create_connection(
                lambda future=future: Listener(request, future, keep=keep),  # type: ignore[misc]
                "127.0.0.1",
                running.port,
            )
            listeners.append(listener)
            opened.append(future)
        await asyncio.gather(*opened)
    return listeners


async def until_heard(listeners: list[Listener], count: int, limit_s: float = 120) -> None:
    async with asyncio.timeout(limit_s):
        while any(listener.frames < count for listener in listeners):
            await asyncio.sleep(0.01)


def sockets(quick: bool) -> list[Row]:
    """A thousand sockets on one session: memory while idle, deliveries by the service's
    CPU and by the clock.
    """
    count, events, rounds = 1000, 40 if quick else 100, 3

    async def measure(running: Service) -> tuple[float, list[tuple[float, float]]]:
        session = running.session()
        await listen(running, session, 20)  # what the first sockets load is not theirs
        before = running.rss
        listeners = await listen(running, session, count)
        await asyncio.sleep(0.5)
        each = (running.rss - before) / count
        rates = []
        for number in range(1, rounds + 1):
            clock, cpu = time.monotonic(), running.cpu_s
            running.order(session, events, 120)
            await until_heard(listeners, events * number)
            await running.published()
            rates.append((count * events / (time.monotonic() - clock), count * events / (running.cpu_s - cpu)))
        for listener in listeners:
            listener.transport.close()
        return each, rates

    with service() as running:
        each, rates = asyncio.run(measure(running))
    wall, cpu = max(rate for rate, _ in rates), statistics.median(rate for _, rate in rates)
    seen = f"{wall:,.0f}/s by the clock, {cpu:,.0f} per CPU second"
    return [
        ("1,000 sockets on one session, deliveries", seen, "≥ 20,000/s", wall >= 20_000 or cpu >= 20_000),
        ("memory of an idle socket", f"{each / 1000:.1f} kB", "≤ 45 kB", each <= 45_000),
    ]


def stalled(quick: bool) -> list[Row]:
    """One socket that reads nothing while 11 MB are published past it: the others, and
    the service's memory.
    """
    size, count = 11_000, 1000

    async def measure(running: Service) -> tuple[float, float, float]:
        session = running.session()
        listeners = await listen(running, session, 10, keep=True)
        await listen(running, session, 1)  # warms what the first stalled one would pay for
        p99 = {}
        seen, grown = 0, 0.0
        for name in ("warm", "baseline", "stalled"):
            held = None
            if name == "stalled":
                held = socket.create_connection(("127.0.0.1", running.port))
                held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                held.sendall(handshake(running, session))
                held.recv(16)
            before = running.rss
            running.order(session, count, size, 0.002)
            seen += count
            await until_heard(listeners, seen)
            await running.published()
            grown = (running.rss - before) / 1e6
            waits = sorted(wait for listener in listeners for wait in listener.waits[-count:])
            p99[name] = waits[int(len(waits) * 0.99)]
            if held is not None:
                held.close()
        return p99["baseline"], p99["stalled"], grown

    runs = []
    for _ in range(1 if quick else 3):
        with service() as running:
            runs.append(asyncio.run(measure(running)))
    ratio = statistics.median(after / before for before, after, _ in runs)
    grown = statistics.median(growth for _, _, growth in runs)
    before, after = runs[0][:2]
    return [
        (
            "p99 of ten sockets beside a stalled one, 11 MB",
            f"{ratio:.2f} × ({before * 1e3:.1f} → {after * 1e3:.1f} ms)",
            "≤ 2 ×",
            ratio <= 2,
        ),
        ("memory growth meanwhile", f"{grown:.1f} MB", "< 10 MB", grown < 10),
    ]


def writers(quick: bool) -> list[Row]:
    """64 writers; each waits until its event is durable before it writes the next."""
    from agentbook.service.store import Store, Transaction, events
    from agentbook.service.turns import event_json

    author = {"type": "api_key", "id": "k", "name": "k"}

    async def measure(store: Store, each: int) -> tuple[float, float]:
        def say(tx: Transaction, session: str) -> None:
            events.append(
                tx,
                session,
                "message",
                "t",
                lambda i, at: event_json.message(id=i, text="hello", task_id="t", created_at=at, author=author),
            )

        async def writer(number: int) -> None:
            session = f"s{number}"
            for _ in range(each):
                await store.write(lambda tx: say(tx, session))

        clock, cpu = time.monotonic(), time.process_time()
        await asyncio.gather(*(writer(number) for number in range(64)))
        return 64 * each / (time.monotonic() - clock), 64 * each / (time.process_time() - cpu)

    rates = []
    for _ in range(3 if quick else 5):
        with tempfile.TemporaryDirectory(prefix="agentbook-bench-") as place:
            store = Store(Path(place))
            asyncio.run(measure(store, 20))
            rates.append(asyncio.run(measure(store, 100 if quick else 300)))
            store.close()
    wall, cpu = max(rate for rate, _ in rates), statistics.median(rate for _, rate in rates)
    seen = f"{wall:,.0f}/s by the clock, {cpu:,.0f} per CPU second"
    return [("64 durable writers, events", seen, "≥ 20,000/s", wall >= 20_000)]


def start(quick: bool) -> list[Row]:
    """From the command to the ready line on a store of a million events, and the memory
    then.
    """
    count = 100_000 if quick else 1_000_000
    times, cpus, sizes = [], [], []
    with tempfile.TemporaryDirectory(prefix="agentbook-bench-") as place:
        data = Path(place) / "data"
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


BENCHES = {"page": page, "sockets": sockets, "stalled": stalled, "writers": writers, "start": start}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("benches", nargs="*", default=list(BENCHES))
    parser.add_argument("--quick", action="store_true", help="fewer rounds, for a look")
    options = parser.parse_args()
    print("| what | seen | figure | |\n|---|---|---|---|")
    missed = 0
    for name in options.benches:
        for label, seen, figure, good in BENCHES[name](options.quick):
            print(f"| {label} | {seen} | {figure} | {'met' if good else 'MISSED'} |", flush=True)
            missed += not good
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
