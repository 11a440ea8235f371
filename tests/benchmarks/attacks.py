"""The attacks of `tests/benchmarks/hostile.py`: what somebody with a key can send."""

from __future__ import annotations

import base64
import contextlib
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import quote

import httpx

ATTACK_S = 4.0
MIB = 1 << 20
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True)
class Target:
    """What an attacker knows: an address, a key of its own, and a long session."""

    base_url: str
    port: int
    key: str
    session: str = ""
    long_session: str = ""

    @property
    def basic(self) -> str:
        return "Basic " + base64.b64encode(self.key.encode()).decode()

    def http(self) -> httpx.Client:
        limits = httpx.Limits(max_connections=64)
        return httpx.Client(
            base_url=self.base_url, auth=httpx.BasicAuth(*self.key.split(":")), timeout=60, limits=limits
        )

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

    def connect(self, count: int, sent: bytes, *, receive_bytes: int | None = None) -> list[socket.socket]:
        """Open connections that send something, and then read nothing."""
        opened = []
        for _ in range(count):
            raw = socket.socket()
            if receive_bytes is not None:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            with contextlib.suppress(OSError):
                raw.connect(("127.0.0.1", self.port))
                raw.sendall(sent)
                opened.append(raw)
        return opened

    def head(self, method: str, path: str, *lines: str, key: bool = False) -> bytes:
        fields = [f"{method} /v1{path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", *lines]
        return "\r\n".join([*fields, *([f"Authorization: {self.basic}"] if key else []), "", ""]).encode()

    def handshake(self, query: str = "") -> bytes:
        lines = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
        path = f"/sessions/{self.session}/events/ws{query}"
        return self.head("GET", path, *lines, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", key=True)


def _post(path: str, body: bytes, headers: dict[str, str]) -> Callable[[httpx.Client], object]:
    return lambda client: client.post(path, content=body, headers=headers)


def many_items(target: Target) -> None:
    """Half a million redirect URIs, without a credential."""
    body = b'{"redirect_uris":[' + b"1," * 500_000 + b"1]}"
    target.repeat(_post("/oauth/register", body, JSON), _post("/oauth/register", body, {"Content-Type": "text/plain"}))


def strange_bodies(target: Target) -> None:
    """Nesting, numbers, escapes and names of a megabyte."""
    signed = {**JSON, "Authorization": target.basic}
    bodies = [
        b'{"tags":' + b"[" * 300 + b"]" * 300 + b"}",
        b"[" * MIB,
        b'{"tags":[' + b"1.5e300," * 990 + b"1]}",
        b'{"tags":[' + b"{}," * 340_000 + b"1]}",
        b'{"' + b"k" * (MIB - 100) + b'":1}',
        b'{"name":"' + b"\\u0000" * 170_000 + b'"}',
        b'"' + b'\\"' * 500_000,
        b'{"name":' + b"9" * (MIB - 100) + b"}",
    ]
    target.repeat(*(_post("/agents", body, signed) for body in bodies))


def long_forms(target: Target) -> None:
    """A form of escapes to the token endpoint, without a credential."""
    target.repeat(_post("/oauth/token", b"code=" + b"%41" * 340_000, FORM))


def long_filters(target: Target) -> None:
    """Sixteen hundred words to search for, without a credential."""
    words = quote(" ".join(f"w{number}" for number in range(1600)))
    target.repeat(lambda client: client.get(f"/agents?search={words}"))


def slow_requests(target: Target) -> None:
    """Idle connections, and heads and bodies that arrive byte by byte."""
    body = target.head("POST", "/oauth/register", "Content-Type: application/json", f"Content-Length: {MIB}")
    handshake = target.head("GET", f"/sessions/{target.session}/events/ws", "Upgrade: websocket")[:-2]
    idle = target.connect(200, b"")
    slow = target.connect(100, target.head("GET", "/agents")[:-2]) + target.connect(100, handshake)
    sending = target.connect(100, body + b'{"redirect_uris":["' + b"x" * (MIB - 100))
    end = time.monotonic() + ATTACK_S
    while time.monotonic() < end:
        for raw in slow + sending:
            with contextlib.suppress(OSError):
                raw.send(b"x")
        time.sleep(0.2)
    for raw in idle + slow + sending:
        raw.close()


def slow_bodies_with_a_key(target: Target) -> None:
    """A hundred messages of a megabyte, all but their last byte."""
    path = f"/sessions/{target.session}/events"
    head = target.head("POST", path, "Content-Type: application/json", f"Content-Length: {MIB}", key=True)
    opened = target.connect(100, head + b'{"content":"' + b"x" * (MIB - 100))
    time.sleep(ATTACK_S)
    for raw in opened:
        raw.close()


def pipelined_requests(target: Target) -> None:
    """Thousands of requests at once on each connection."""
    end = time.monotonic() + ATTACK_S
    while time.monotonic() < end:
        for raw in target.connect(20, target.head("GET", "/agents?limit=1000") * 3000):
            raw.close()


def pipelined_with_a_key(target: Target) -> None:
    """Two hundred connections with a valid key and hundreds of lists on each."""
    request = target.head("GET", "/agents?limit=1000", key=True) + target.head("GET", "/me", key=True)
    opened = target.connect(200, request * 300)
    time.sleep(ATTACK_S)
    for raw in opened:
        raw.close()


def _ask(target: Target, agent: str, message: str, sessions: int) -> None:
    with target.http() as http:
        body = {"session_type": "chat", "agent_id": agent, "initial_prompt": message}
        ids = [
            http.post("/workspaces/playground/sessions", json=body).raise_for_status().json()["id"]
            for _ in range(sessions)
        ]
        wait_for_turns(http, ids)


def wait_for_turns(http: httpx.Client, sessions: list[str]) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if "RUNNING" not in [http.get(f"/sessions/{session}").json()["status"] for session in sessions]:
            return
        time.sleep(0.1)


def stand_in(target: Target) -> None:
    """A prompt of 50 KB in lines, and a message of 50 KB and of a megabyte."""
    with target.http() as http:
        prompt = "\n".join(f"Never say w{number}." for number in range(3_000))
        configuration = {"system_prompt": prompt, "description": "d", "tools": []}
        http.post("/agents/long-winded/configure-llm", json=configuration).raise_for_status()
    for size in (50_000, MIB - 1000):
        _ask(target, "long-winded", ("w1 w2 " * MIB)[:size], 3)


def rule_based_agents(target: Target) -> None:
    """Texts of a megabyte for the agents that answer without a network."""
    texts = ("“a" * 200_000, "1 percent of " * 80_000, "a " * 500_000)
    for agent in ("scribe", "guide", "calculator", "echo", "helpdesk"):
        for text in texts:
            _ask(target, agent, text, 1)


def long_pages(target: Target) -> None:
    """Pages of a hundred messages of a megabyte, read to their end."""
    path, headers = f"/sessions/{target.session}/events?limit=100", {"Authorization": target.basic}
    target.repeat(lambda client: client.get(path, headers=headers), workers=4)


def far_offsets(target: Target) -> None:
    """Pages at the end of a session of 300,000 events and beyond, in every order."""
    path, headers = f"/sessions/{target.long_session}/events?limit=20", {"Authorization": target.basic}
    queries = [
        f"&sort_by={column}&offset={offset}"
        for column in ("-id", "id", "type", "-task_id")
        for offset in (0, 299_000, (1 << 63) - 1)
    ]
    target.repeat(*[lambda client, query=query: client.get(path + query, headers=headers) for query in queries])  # type: ignore[misc]


def stalled_pages(target: Target) -> None:
    """The same pages, of which nothing is read."""
    request = target.head("GET", f"/sessions/{target.session}/events?limit=100", key=True)
    opened = target.connect(100, request, receive_bytes=4096)
    time.sleep(ATTACK_S)
    for raw in opened:
        raw.close()


def stalled_sockets(target: Target) -> None:
    """WebSockets that replay the same messages and read nothing."""
    opened = target.connect(30, target.handshake("?from_id=00000000-0000-0000-0000-000000000000"), receive_bytes=4096)
    time.sleep(ATTACK_S)
    for raw in opened:
        raw.close()


def sockets_that_only_send(target: Target) -> None:
    """WebSockets that send pings, fragments and messages, and read nothing."""
    ping, fragment, text = (bytes((kind, 0xFD)) + b"mask" + b"x" * 125 for kind in (0x89, 0x00, 0x81))
    floods = [ping * 500, b"\x01" + fragment[1:] + fragment * 400, text * 500]
    opened = target.connect(30, target.handshake(), receive_bytes=4096)
    time.sleep(1)
    end = time.monotonic() + ATTACK_S
    while time.monotonic() < end:
        for number, raw in enumerate(opened):
            with contextlib.suppress(OSError):
                raw.send(floods[number % 3], socket.MSG_DONTWAIT)


def silent_sockets(target: Target) -> None:
    """WebSockets that are opened and left alone."""
    opened = target.connect(1_000, target.handshake())
    time.sleep(ATTACK_S)
    for raw in opened:
        raw.close()


def reconnecting_sockets(target: Target) -> None:
    """WebSockets that are opened and closed again and again."""

    def reconnect(_client: httpx.Client) -> None:
        for raw in target.connect(10, target.handshake()):
            raw.recv(1)
            raw.close()

    target.repeat(reconnect, workers=16)


def connections(target: Target) -> None:
    """Connections that are opened and reset as fast as possible."""
    end = time.monotonic() + ATTACK_S
    while time.monotonic() < end:
        for raw in target.connect(50, b"GET"):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.close()


def made_up_credentials(target: Target) -> None:
    """Connections with a head and a key that nobody has, closed at once."""
    nobody = base64.b64encode(f"{'0' * 8}-0000-7000-8000-{'0' * 12}:x".encode()).decode()
    request = target.head("GET", "/agents?limit=1000", f"Authorization: Basic {nobody}")
    end = time.monotonic() + ATTACK_S
    while time.monotonic() < end:
        for raw in target.connect(50, request * 100):
            raw.close()


def nothing(_target: Target) -> None:
    """No attack."""
    time.sleep(ATTACK_S)


ATTACKS = {
    attack.__name__.replace("_", "-"): attack
    for attack in (
        nothing,
        many_items,
        strange_bodies,
        long_forms,
        long_filters,
        slow_requests,
        slow_bodies_with_a_key,
        pipelined_requests,
        pipelined_with_a_key,
        stand_in,
        rule_based_agents,
        long_pages,
        far_offsets,
        stalled_pages,
        stalled_sockets,
        sockets_that_only_send,
        silent_sockets,
        reconnecting_sockets,
        connections,
        made_up_credentials,
    )
}
