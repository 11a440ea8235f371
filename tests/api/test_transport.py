"""The drivers against a raw socket: the bytes they send, and every reply they read."""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
import threading
import time
import traceback
import tracemalloc
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import httpx2
import pytest

import agentbook as ab
from agentbook.api import policy, transport
from agentbook.api.policy import Send
from support.raw_platform import PLAIN, RawPlatform

KEY = "id1:s3cret-of-a-test"


@pytest.mark.parametrize("steps", range(0, 40, 3))
def test_a_close_ends_the_connection_of_a_request_that_has_just_begun(platform: RawPlatform, steps: int) -> None:
    async def close_early() -> None:
        client = ab.AsyncClient(platform.base_url)
        request = asyncio.create_task(client.me.get())
        for _ in range(steps):
            await asyncio.sleep(0)
        await client.aclose()
        await asyncio.wait({request})
        assert isinstance(request.exception(), ab.AgentbookError | None)
        for _ in platform.connections:
            assert await asyncio.to_thread(platform.ended.acquire, timeout=10), "a connection is still open"

    asyncio.run(close_early())


@pytest.mark.parametrize("begun", ["looking up", "connecting", "reading"])
def test_closing_the_client_ends_what_a_request_waits_for_at_once(
    platform: RawPlatform, monkeypatch: pytest.MonkeyPatch, begun: str
) -> None:
    """A look-up, a connection, or a reply that would outlast the test."""
    waits, may_go_on = threading.Event(), threading.Event()

    def wait(*_: Any, **__: Any) -> Any:
        waits.set()
        may_go_on.wait(60)
        raise OSError("too late")

    owner, name = {
        "looking up": (socket, "getaddrinfo"),
        "connecting": (socket.socket, "connect"),
        "reading": (socket.socket, "recv"),
    }[begun]
    monkeypatch.setattr(owner, name, wait)
    client = ab.Client(platform.base_url.replace("127.0.0.1", "localhost"), timeout_s=600, deadline_s=600)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(client.sessions.send, "s1", "hello")
        assert waits.wait(60)
        client.close()
        with pytest.raises(ab.OutcomeUnknown, match="the client was closed"):
            sent.result(60)
    may_go_on.set()


def test_closing_the_client_ends_what_its_threads_do_at_once(
    platform: RawPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "BACKOFF_S", 600.0)  # whoever waits before trying again fails
    platform.reply = b""  # none comes
    client = ab.Client(platform.base_url, timeout_s=600, deadline_s=600)
    with ThreadPoolExecutor(transport.MAX_CONNECTIONS + 9) as pool:
        reads = [pool.submit(client.me.get) for _ in range(transport.MAX_CONNECTIONS - 2)]
        writes = [
            pool.submit(client.sessions.send, "s1", "hello"),
            pool.submit(client.workspaces.uninstall_agent, "i1"),
        ]
        while len(platform.requests) < transport.MAX_CONNECTIONS:
            assert not any(each.done() for each in (*reads, *writes))
            time.sleep(0.01)
        reads += [pool.submit(client.me.get) for _ in range(8)]  # which wait for a connection
        client.close()
        for each in reads:
            with pytest.raises(ab.AgentbookError, match="This client is closed"):
                each.result(60)
        for each in writes:  # the second could be sent again
            with pytest.raises(ab.OutcomeUnknown, match="the client was closed"):
                each.result(60)
    assert len(platform.requests) == transport.MAX_CONNECTIONS


class Tokens(ab.OAuthToken):
    """A credential whose renewal waits for another process."""

    may_renew = threading.Event()

    def refresh(self, refused: str) -> bool:
        return self.may_renew.wait()


@pytest.mark.parametrize("driver", ["ours", "httpx", "async", "httpx async"])
@pytest.mark.parametrize("wait", ["rate limit", "outage", "renewal", "openapi.yaml"])
def test_closing_the_client_ends_a_wait_between_requests(
    platform: RawPlatform, driver: str, wait: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once: each of these waits would outlast the test."""
    status = {"rate limit": b"429 No", "outage": b"503 No", "renewal": b"401 No"}.get(wait, b"200 OK")
    platform.reply = b"HTTP/1.1 %b\r\nretry-after: 300\r\ncontent-length: 2\r\n\r\n{}" % status
    begun = threading.Semaphore(0)
    Tokens.may_renew.clear()

    def close(client: Any) -> None:
        assert begun.acquire(timeout=60)
        client.close()

    for kind in (transport.SyncTransport, transport.AsyncTransport):

        def noted(self: Any, step: Any, then: Any = kind._perform) -> Any:
            if not isinstance(step, Send):
                begun.release()
            return then(self, step)

        monkeypatch.setattr(kind, "_perform", noted)

    def call(client: Any) -> Any:
        client._settings = replace(client._settings, credentials=Tokens("token"))
        threading.Thread(target=close, args=(client,)).start()
        if wait == "openapi.yaml":
            client._reading[os.getpid()] = Future()
            return client.openapi()
        return client.me.get()

    with pytest.raises(ab.AgentbookError, match="This client is closed"):
        run_call(driver, platform, call, deadline_s=3600)
    Tokens.may_renew.set()
    assert len(platform.requests) == (wait != "openapi.yaml")


def test_a_client_that_another_thread_closes_while_it_makes_its_connections_says_so(
    platform: RawPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = ab.AsyncClient(platform.base_url, deadline_s=600)
    open_client = transport.Network.open_async_client

    def open_late(network: transport.Network) -> Any:
        client.close()
        return open_client(network)

    monkeypatch.setattr(transport.Network, "open_async_client", open_late)
    client._reading[os.getpid()] = Future()  # another call reads it, without end
    with pytest.raises(ab.AgentbookError, match="This client is closed"):
        asyncio.run(asyncio.wait_for(client.openapi(), 30))


@pytest.mark.parametrize(
    ("heads", "connections"),
    [
        (b"connection: close\r\n", 2),
        (b"keep-alive: timeout=2, max=100\r\n", 2),
        (b"keep-alive: timeout=5000, max=100\r\n", 1),
    ],
)
@pytest.mark.parametrize("driver", ["ours", "proxy", "httpx", "httpx2", "async", "httpx async", "httpx2 async"])
def test_no_write_is_sent_on_a_connection_that_the_platform_said_it_closes(
    platform: RawPlatform, driver: str, heads: bytes, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "KEEP_ALIVE_S", 3600.0)  # however slow this machine is
    platform.reply = PLAIN.replace(b"content-length", heads + b"content-length")
    run_call(driver, platform, read_and_write)
    assert len(platform.connections) == connections


@pytest.mark.parametrize("method", ["GET / HTTP/1.1\r\nx: y\r\n\r\nGET", "GE T", "GÉT", ""])
def test_a_method_that_is_none_is_not_sent(platform: RawPlatform, method: str) -> None:
    with ab.Client(platform.base_url) as client, pytest.raises(ab.InvalidInput, match="method"):
        client.request(method, "me")
    assert platform.requests == []


def test_a_connection_is_reused_until_the_platform_closes_it(
    platform: RawPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "KEEP_ALIVE_S", 3600.0)  # however slow this machine is between two requests
    with ab.Client(platform.base_url) as client:
        client.me.get()
        client.me.get()
        assert [len(each) for each in platform.connections] == [2]
        platform.hang_up = True
        platform.may_hang_up.clear()
        client.me.get()
        platform.may_hang_up.set()
        assert platform.ended.acquire(timeout=60)
        client.sessions.send("s1", "hello")  # on the closed connection, the outcome would be unknown
    assert [len(each) for each in platform.connections] == [3, 1]


def encoded_reply(encoding: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


MEMBERS = [gzip.compress(part) for part in (b'{"id"', b"", b':"a1"}')]
REPLIES = {
    "chunked": b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{"id"\r\n6\r\n:"a1"}\r\n0\r\n\r\n',
    "after a 100": b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN,
    "gzip": encoded_reply("gzip", gzip.compress(b'{"id":"a1"}')),
    "members": encoded_reply("gzip", b"".join(MEMBERS) + b"\0\0"),
    "a long member": encoded_reply("gzip", gzip.compress(b'{"id":' + b" " * (1 << 20)) + gzip.compress(b'"a1"}')),
    "deflate": encoded_reply("deflate", zlib.compress(b'{"id":"a1"}')),
    "bare deflate": encoded_reply("deflate", zlib.compress(b'{"id":"a1"}')[2:-4]),
    "a character set": encoded_reply("utf-8", b'{"id":"a1"}'),
    "until the end": b'HTTP/1.0 200 OK\r\n\r\n{"id":"a1"}',
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_every_kind_of_reply_is_read(platform: RawPlatform, reply: bytes) -> None:
    platform.reply, platform.hang_up = reply, True
    with ab.Client(platform.base_url) as client:
        assert client.me.get()["id"] == "a1"


@pytest.mark.parametrize("is_read", [False, True])
def test_a_reply_comes_in_pieces_or_was_decompressed_by_the_callers_client(is_read: bool) -> None:
    """Members of a gzip reply may begin anywhere."""
    pieces = (bytes([byte]) for byte in b"".join(MEMBERS))
    content = gzip.compress(b'{"id":"a1"}') if is_read else pieces
    reply = httpx.Response(200, headers={"content-encoding": "gzip"}, content=content)
    with httpx.Client(transport=httpx.MockTransport(lambda _: reply)) as http:
        assert ab.Client("http://127.0.0.1:1/v1", http_client=http).me.get().id == "a1"


@pytest.mark.parametrize("driver", ["ours", "async"])
def test_a_cookie_is_not_sent_back(platform: RawPlatform, driver: str) -> None:
    platform.reply = PLAIN.replace(b"\r\n\r\n", b"\r\nset-cookie: session=abc; path=/\r\n\r\n")
    run_call(driver, platform, read_and_write)
    assert len(platform.requests) == 2
    assert not [request for request in platform.requests if b"cookie" in request.lower()]


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}",
    ],
    ids=["none", "not HTTP", "cut short", "not gzip"],
)
def test_a_broken_reply_is_lost_and_shows_no_secret(platform: RawPlatform, reply: bytes) -> None:
    platform.reply, platform.hang_up = reply, True
    with ab.Client(platform.base_url, credentials=KEY) as client, pytest.raises(ab.OutcomeUnknown) as raised:
        client.sessions.send("s1", "hello")
    assert len(platform.requests) == 1  # a write that may have been applied is not sent again
    report = "".join(traceback.TracebackException.from_exception(raised.value, capture_locals=True).format())
    assert "s3cret" not in report
    assert ab.ApiKey(KEY).authorization() not in report


def test_many_threads_share_a_bounded_number_of_connections(platform: RawPlatform) -> None:
    with ab.Client(platform.base_url) as client:
        threads = [threading.Thread(target=lambda: [client.me.get() for _ in range(5)]) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(platform.requests) == 200
        assert len(platform.connections) <= transport.MAX_CONNECTIONS
    for _ in platform.connections:  # closing the client closed them all
        assert platform.ended.acquire(timeout=60)


def run_call(driver: str, platform: RawPlatform, act: Any, **limits: float) -> Any:
    """Run a call on our client, through a proxy, on a caller's client, or awaited."""
    if driver.endswith("async"):

        async def run() -> Any:
            async with httpx.AsyncClient() as http, httpx2.AsyncClient() as http2:
                callers = {"async": None, "httpx async": http, "httpx2 async": http2}[driver]
                async with ab.AsyncClient(platform.base_url, credentials=KEY, http_client=callers, **limits) as client:
                    return await act(client)

        return asyncio.run(run())
    with httpx.Client() as http, httpx2.Client() as http2:
        options: dict[str, Any] = {
            "ours": {},
            "proxy": {"proxy": f"http://127.0.0.1:{platform.server_address[1]}"},
            "httpx": {"http_client": http},
            "httpx2": {"http_client": http2},
        }[driver]
        with ab.Client(platform.base_url, credentials=KEY, **limits, **options) as client:
            return act(client)


def read_and_write(client: Any) -> Any:
    if isinstance(client, ab.Client):
        return client.me.get(), client.sessions.send("s1", "hello")

    async def awaited() -> Any:
        return await client.me.get(), await client.sessions.send("s1", "hello")

    return awaited()


DRIVERS = pytest.mark.parametrize("driver", ["ours", "proxy", "httpx", "httpx2", "async"])


@DRIVERS
@pytest.mark.parametrize("head", [b"content-length: 602\r\n\r\n{}", b"x-filler: "], ids=["body", "head"])
def test_a_reply_that_drips_does_not_outlast_the_timeout(platform: RawPlatform, driver: str, head: bytes) -> None:
    platform.reply, platform.drips, platform.drip = b"HTTP/1.1 200 OK\r\n" + head, 600, b" "
    began = time.monotonic()
    with pytest.raises(ab.OutcomeUnknown, match="timed out"):
        run_call(driver, platform, lambda client: client.sessions.send("s1", "hello"), timeout_s=0.3)
    assert time.monotonic() - began < 20  # the drips last 30 s


@DRIVERS
@pytest.mark.parametrize("encoded", [True, False])
def test_a_body_that_is_too_large_is_not_read_to_its_end(
    platform: RawPlatform, driver: str, encoded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "MAX_BODY_BYTES", 1 << 20)
    body = b'{"id":"%b"}' % (b"0" * (2 << 20))
    packed = gzip.compress(body) if encoded else body
    encoding = b"content-encoding: gzip\r\n" if encoded else b""
    platform.reply = b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\n\r\n%b" % (encoding, len(packed), packed)
    with pytest.raises(ab.AgentbookError, match="larger than 1 MiB"):
        run_call(driver, platform, lambda client: client.me.get())
    monkeypatch.setattr(transport, "MAX_BODY_BYTES", 1 << 22)
    assert len(run_call(driver, platform, lambda client: client.me.get())["id"]) == 2 << 20


BOMB = b"[%b]" % (b" " * (64 << 20))


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(BOMB)),
        ("deflate", zlib.compress(BOMB)[2:-4]),
        ("gzip, gzip", gzip.compress(gzip.compress(b'{"id":"a1"}'))),
        ("br", b'{"id":"a1"}'),
    ],
    ids=["gzip", "deflate", "twice", "not asked for"],
)
@pytest.mark.parametrize("driver", ["ours", "httpx", "httpx2", "async", "httpx async", "httpx2 async"])
def test_a_small_reply_takes_little_memory(platform: RawPlatform, driver: str, encoding: str, packed: bytes) -> None:
    platform.reply = encoded_reply(encoding, packed)
    tracemalloc.start()
    try:
        with pytest.raises(ab.AgentbookError, match="compressed"):
            run_call(driver, platform, lambda client: client.me.get())
        assert tracemalloc.get_traced_memory()[1] < 48 << 20
    finally:
        tracemalloc.stop()
    [request] = platform.requests  # it is not asked for again
    assert b"accept-encoding: gzip, deflate\r\n" in request.lower()


@pytest.mark.parametrize("driver", ["ours", "httpx", "httpx2", "async", "httpx async", "httpx2 async"])
def test_a_call_runs_on_a_client_of_either_library(platform: RawPlatform, driver: str) -> None:
    assert run_call(driver, platform, lambda client: client.agents.get("a/b~c")).id == "a1"
    [request] = platform.requests
    assert request.startswith(b"GET /v1/agents/a%2Fb~c HTTP/1.1\r\n")
    assert ab.ApiKey(KEY).authorization().encode() in request
    platform.reply, platform.hang_up = b"", True
    with pytest.raises(ab.OutcomeUnknown, match="no reply came"):
        run_call(driver, platform, lambda client: client.sessions.send("s1", "hello"))
    platform.shutdown()
    platform.server_close()
    with pytest.raises(ab.ConnectionFailed, match=r"Connect(Error|Timeout)"):
        run_call(driver, platform, lambda client: client.sessions.send("s1", "hello"), deadline_s=0.3)
