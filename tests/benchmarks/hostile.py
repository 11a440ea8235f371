"""Attacks the service, and measures what another account notices of it.

    python tests/benchmarks/hostile.py [attack ...]

The service runs in its own process on a real socket, and the attack in another. It
may open 1,024 files, as most shells allow. Ten times a second a key of another account
reads GET /me, half of the times on a new connection; /healthz instead, while sockets
leave no room for others. Prints a Markdown table with the longest of these reads and
the growth of the service's memory (resident set) for each attack; the exit code is 1
if a goal is missed. On a busy machine the longest read says how busy it is: the first
row is the service without an attack.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import multiprocessing
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from service_process import COMMAND, SCOPES, cpu_s, rss_bytes, run

MAX_DELAY_S, MAX_GROWTH_MB = 0.3, 60
ATTACK_S = 4.0
MAX_FILES = 1024
SOCKETS, STALLED_SOCKETS = 1100, 75
STALLED_S = 42.0  # a ping after 20 s, and 20 s for its answer
STEP = 56_000  # less than what asyncio buffers before it makes the sender wait
MIB = 1 << 20
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Target:
    """What an attacker knows: an address, and a key of its own."""

    base_url: str
    port: int
    key: str

    def repeat(self, *requests: Callable[[httpx.Client], object], workers: int = 8) -> None:
        """Send requests on several connections until the time is over."""
        end = time.monotonic() + ATTACK_S

        def work(number: int) -> None:
            with httpx.Client(base_url=self.base_url, timeout=60) as client:
                while time.monotonic() < end:
                    with contextlib.suppress(httpx.TransportError):
                        requests[number % len(requests)](client)

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, range(workers)))

    @contextlib.contextmanager
    def connections(self, count: int, sent: bytes) -> Iterator[list[socket.socket]]:
        """Connections that have sent something, and read nothing."""
        with contextlib.ExitStack() as stack:
            opened = []
            for _ in range(count):
                raw = stack.enter_context(socket.socket())
                with contextlib.suppress(OSError):
                    raw.connect(("127.0.0.1", self.port))
                    raw.sendall(sent)
                    opened.append(raw)
            yield opened

    def head(self, method: str, path: str, *lines: str, length: int = 0) -> bytes:
        fields = [f"{method} /v1{path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", *lines]
        return "\r\n".join([*fields, f"Content-Length: {length}", "Content-Type: application/json", "", ""]).encode()

    @property
    def basic(self) -> str:
        return "Basic " + base64.b64encode(self.key.encode()).decode()

    def http(self) -> httpx.Client:
        return httpx.Client(base_url=self.base_url, headers={"Authorization": self.basic}, timeout=60)

    def session(self, http: httpx.Client) -> str:
        """The id of a new session, with an agent of this account."""
        for path, name in (("/workspaces", "lab"), ("/agents", "helper")):
            http.post(path, json={"name": name})  # 409 if it is there
        chat = {"session_type": "chat", "agent_id": "helper", "initial_prompt": "Hello"}
        return str(http.post("/workspaces/lab/sessions", json=chat).raise_for_status().json()["id"])

    def socket(self, session: str) -> socket.socket:
        """A socket that reads its handshake's answer, and then nothing."""
        lines = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
        lines += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", f"Authorization: {self.basic}"]
        head = self.head("GET", f"/sessions/{session}/events/ws?types=message", *lines)
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect(("127.0.0.1", self.port))
        with contextlib.suppress(ConnectionResetError):  # refused, and cut off
            raw.sendall(head.replace(b"Content-Length: 0\r\nContent-Type: application/json\r\n", b""))
            raw.recv(400)
        return raw


def _post(path: str, body: bytes, headers: dict[str, str] = JSON) -> Callable[[httpx.Client], object]:
    return lambda client: client.post(path, content=body, headers=headers)


def nothing(_target: Target) -> None:
    """No attack."""
    time.sleep(ATTACK_S)


def wrong_fields(target: Target) -> None:
    """480,000 wrong redirect URIs, without a credential."""
    target.repeat(_post("/oauth/register", b'{"redirect_uris":[' + b"1," * 479_999 + b"1]}"))


def objects(target: Target) -> None:
    """340,000 objects where there should be texts."""
    signed = {**JSON, "Authorization": target.basic}
    target.repeat(_post("/agents", b'{"tags":[' + b"{}," * 340_000 + b"1]}", signed))


def nesting(target: Target) -> None:
    """400 levels of lists, and a megabyte of them."""
    signed = {**JSON, "Authorization": target.basic}
    deep = b'{"tags":' + b"[" * 400 + b"]" * 400 + b"}"
    target.repeat(_post("/agents", deep, signed), _post("/agents", b"[" * MIB, signed))


def long_texts(target: Target) -> None:
    """Numbers, escapes and names of a megabyte, and a form of escapes."""
    signed = {**JSON, "Authorization": target.basic}
    bodies = [b'{"name":"' + b"\\u0000" * 170_000 + b'"}', b'{"name":' + b"9" * (MIB - 100) + b"}"]
    bodies += [b'{"' + b"k" * (MIB - 100) + b'":1}', b'"' + b'\\"' * 500_000]
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    requests = [_post("/agents", body, signed) for body in bodies]
    target.repeat(*requests, _post("/oauth/token", b"code=" + b"%41" * 340_000, form))


def long_filters(target: Target) -> None:
    """1,600 words to search for, without a credential."""
    words = quote(" ".join(f"w{number}" for number in range(1600)))
    target.repeat(lambda client: client.get(f"/agents?search={words}"))


def dripping_bodies(target: Target) -> None:
    """A hundred bodies of a megabyte, whose end arrives byte by byte."""
    begun = target.head("POST", "/oauth/register", length=MIB) + b'{"redirect_uris":["' + b"x" * (MIB - 100)
    with target.connections(100, begun) as opened:
        end = time.monotonic() + ATTACK_S
        while time.monotonic() < end:
            for raw in opened:
                with contextlib.suppress(OSError):
                    raw.send(b"x")
            time.sleep(0.2)


def dripping_bodies_with_a_key(target: Target) -> None:
    """A hundred agents of a megabyte, all but their last bytes."""
    begun = target.head("POST", "/agents", f"Authorization: {target.basic}", length=MIB)
    with target.connections(100, begun + b'{"description":"' + b"x" * (MIB - 100)):
        time.sleep(ATTACK_S)


def idle_connections(target: Target) -> None:
    """500 connections of one address that ask nothing."""
    with target.connections(500, b""):
        time.sleep(ATTACK_S)


def many_sockets(target: Target) -> None:
    """More sockets of one key than the service may open files."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * SOCKETS, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with contextlib.ExitStack() as stack, target.http() as http:
        session = target.session(http)
        for _ in range(SOCKETS):
            stack.enter_context(target.socket(session))
        time.sleep(ATTACK_S)


def stalled_sockets(target: Target) -> None:
    """75 sockets that read nothing, each with less to read than the one before."""
    with contextlib.ExitStack() as stack, target.http() as http:
        session = target.session(http)
        for _ in range(STALLED_SOCKETS):
            stack.enter_context(target.socket(session))
            http.post(f"/sessions/{session}/events", json={"content": "z" * STEP}).raise_for_status()
        time.sleep(STALLED_S)
        metrics = http.get(target.base_url.replace("/v1", "/metrics")).raise_for_status().text
    assert "agentbook_sockets 0.0" in metrics, "sockets that read nothing are still open"


ATTACKS = {
    attack.__name__.replace("_", "-"): attack
    for attack in (
        nothing,
        wrong_fields,
        objects,
        nesting,
        long_texts,
        long_filters,
        dripping_bodies,
        dripping_bodies_with_a_key,
        idle_connections,
        many_sockets,
        stalled_sockets,
    )
}


class Bystander(threading.Thread):
    """Reads GET /me with another account's key, and watches the service's memory."""

    def __init__(self, port: int, key: str, pid: int, path: str) -> None:
        super().__init__(daemon=True)
        self._port, self._pid, self._path = port, pid, path
        self._basic = "Basic " + base64.b64encode(key.encode()).decode()
        self._ended = threading.Event()
        self.delays: list[float] = []
        self.computed: list[float] = []  # CPU seconds of the service during each read
        self.errors: list[str] = []
        self._before = self._peak = rss_bytes(pid)

    @property
    def growth_mb(self) -> float:
        return (self._peak - self._before) / 1e6

    def run(self) -> None:
        lasting = self._connect()
        while not self._ended.wait(0.05):
            fresh = self._connect()
            for connection in (lasting, fresh):
                start, computed = time.monotonic(), cpu_s(self._pid)
                try:
                    connection.request("GET", self._path, headers={"Authorization": self._basic})
                    answer = connection.getresponse()
                    answer.read()
                    if answer.status != 200:
                        self.errors.append(str(answer.status))
                except (OSError, HTTPException) as error:
                    self.errors.append(type(error).__name__)
                    connection.close()
                self.delays.append(time.monotonic() - start)
                self.computed.append(cpu_s(self._pid) - computed)
            fresh.close()
            self._peak = max(self._peak, rss_bytes(self._pid))
        lasting.close()

    def _connect(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self._port, timeout=20)

    def stop(self) -> None:
        self._ended.set()
        self.join()


@contextlib.contextmanager
def running() -> Iterator[tuple[int, Target, str]]:
    """A service's process id, what its attacker knows, and another account's key."""
    with tempfile.TemporaryDirectory(prefix="agentbook-hostile-") as folder:
        data, log = Path(folder) / "data", Path(folder) / "log"
        keys = []
        for name in ("attacker", "bystander"):
            run("accounts", "create", name, "--type", "user", data=data)
            scopes = [part for scope in SCOPES for part in ("--scope", scope)]
            keys.append(run("keys", "create", "--account", name, "--name", name, *scopes, data=data))
        with log.open("w") as stderr:  # a pipe would fill, and the service wait for its reader
            process = subprocess.Popen(
                ["prlimit", f"--nofile={MAX_FILES}", *COMMAND, "serve", "--bare", "--port", "0", "--data", str(data)],
                stderr=stderr,
            )
        while not (ready := log.read_text()).endswith("\n") and process.poll() is None:
            time.sleep(0.05)
        assert ready.startswith("agentbook serves"), ready
        facts: dict[str, Any] = json.loads((data / "service.json").read_text())
        try:
            yield process.pid, Target(facts["base_url"], facts["port"], keys[0]), keys[1]
        finally:
            process.terminate()
            process.wait(timeout=60)
            logged = log.read_text().removeprefix(ready)
            if logged:
                print(f"The service logged {len(logged)} characters:\n{logged[:3000]}")


def measure(attack: Callable[[Target], Any], pid: int, target: Target, key: str) -> Bystander:
    """Run an attack, and return what the bystander noticed of it."""
    bystander = Bystander(target.port, key, pid, "/healthz" if attack is many_sockets else "/v1/me")
    bystander.start()
    # In a process of its own, so that the attack does not delay the measurement.
    attacker = multiprocessing.get_context("spawn").Process(target=attack, args=(target,))
    attacker.start()
    attacker.join()
    bystander.stop()
    if attacker.exitcode:
        bystander.errors.append("the attack failed")
    return bystander


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attacks", nargs="*", default=list(ATTACKS))
    attacks = parser.parse_args().attacks
    goals = f"longest GET /me (goal < {MAX_DELAY_S * 1e3:.0f} ms) | growth (goal < {MAX_GROWTH_MB} MB)"
    print(f"| attack | {goals} | CPU meanwhile | |")
    print("|---|---|---|---|---|")
    missed = 0
    with running() as (pid, target, key):
        for name in attacks:
            noticed = measure(ATTACKS[name], pid, target, key)
            delay_s, computed_s = max(noticed.delays), max(noticed.computed)
            met = delay_s < MAX_DELAY_S and noticed.growth_mb < MAX_GROWTH_MB and not noticed.errors
            missed += not met
            verdict = "met" if met else f"MISSED {' '.join(sorted(set(noticed.errors)))}".strip()
            figures = f"{delay_s * 1e3:.0f} ms | {noticed.growth_mb:.1f} MB | {computed_s * 1e3:.0f} ms"
            print(f"| {name} | {figures} | {verdict} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
