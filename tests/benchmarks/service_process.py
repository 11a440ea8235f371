"""A service in a process of its own, and what the system charges to it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

SCOPES = ("agents:write", "sessions:write", "workspaces:write", "skills:write", "integrations:write")
COMMAND = [sys.executable, "-c", "from agentbook.cli import main; main()"]
# The service with two additions. /static/SIZE answers with a fixed body of that size,
# which is the least that such a reply can cost. A line "SESSION COUNT CHARACTERS"
# on stdin publishes COUNT events of that size, a hundred in a transaction.
INSTRUMENTED = r"""
import asyncio, sys, threading, time
from pathlib import Path
from agentbook.service.http import server
from agentbook.service.store import event_json
from agentbook.service.store import events

build = server.build
def instrumented(platform, *more, **options):
    app = build(platform, *more, **options)
    async def outer(scope, receive, send):
        if scope["type"] == "http" and scope["path"].startswith("/static/"):
            body = b"x" * int(scope["path"][8:])
            cached = bodies.setdefault(len(body), body)
            head = [(b"content-type", b"application/json"), (b"content-length", str(len(cached)).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": head})
            await send({"type": "http.response.body", "body": cached})
            return
        await app(scope, receive, send)
    bodies, start_platform = {}, platform.start
    async def start():
        await start_platform()
        threading.Thread(target=read_commands, args=(asyncio.get_running_loop(),), daemon=True).start()
    platform.start = start
    def read_commands(loop):
        for line in sys.stdin:
            session, count, size = line.split()
            asyncio.run_coroutine_threadsafe(publish(session, int(count), int(size)), loop).result()
            print("published", flush=True)
    async def publish(session, count, size):
        def append(tx, number):
            for _ in range(number):
                text = f"{time.monotonic():.6f} ".ljust(size, "x")
                author = {"type": "api_key", "id": "k", "name": "k"}
                events.append(tx, session, "message", "t", lambda i, at: event_json.message(
                    id=i, text=text, task_id="t", created_at=at, author=author))
        for start in range(0, count, 100):
            await platform.store.write(lambda tx: append(tx, min(100, count - start)))
    return outer
server.build = instrumented
database = sys.argv[2] if len(sys.argv) > 2 else None
settings = server.Settings(Path(sys.argv[1]), port=0, bare=True, speed=0, requests_per_minute=0, database=database)
server.serve(settings)
"""


class Service:
    """A running service with a key, a workspace and an agent."""

    def __init__(self, data: Path, database: str | None = None) -> None:
        self.data = data
        store = [] if database is None else ["--database", database]
        run("accounts", "create", "acme", "--type", "organization", *store, data=data)
        scopes = [part for scope in SCOPES for part in ("--scope", scope)]
        self.key = run("keys", "create", "--account", "acme", "--name", "benchmark", *scopes, *store, data=data)
        self.process = subprocess.Popen(
            [sys.executable, "-c", INSTRUMENTED, str(data), *store[1:]],
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
        self.http = httpx.Client(base_url=self.base_url, auth=httpx.BasicAuth(*self.key.split(":")), timeout=60)
        self.http.post("/workspaces", json={"name": "lab"}).raise_for_status()
        agent = self.http.post("/agents", json={"name": "helper", "template": "BLANK"})
        self.agent: str = agent.raise_for_status().json()["id"]

    def session(self) -> str:
        body = {"session_type": "chat", "agent_id": self.agent, "initial_prompt": "hello"}
        session_id = str(self.http.post("/workspaces/lab/sessions", json=body).raise_for_status().json()["id"])
        # Wait until the session's first turn is over.
        while self.http.get(f"/sessions/{session_id}/events").json()["pagination"]["total_count"] < 2:
            time.sleep(0.01)
        return session_id

    def publish(self, session: str, count: int, size: int) -> None:
        """Start publishing events; `wait_until_published` waits for the end."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{session} {count} {size}\n")
        self.process.stdin.flush()

    async def wait_until_published(self) -> None:
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
    return time.clock_gettime(~pid << 3 | 2)  # what clock_getcpuclockid returns


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
