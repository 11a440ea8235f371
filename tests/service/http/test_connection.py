"""Invalid and slow requests: the service answers with a request id and closes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import resource
import socket
import sqlite3
import sys
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection as Database
from sqlalchemy.exc import TimeoutError as PoolTimeout
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from agentbook.service import state
from agentbook.service.http import connection, websocket
from agentbook.service.http.connection import MAX_HEAD_BYTES, MAX_HEADERS
from agentbook.service.proxies import TrustedProxies
from agentbook.service.store import event_json, events
from service.http.raw import HANDSHAKE, JSON, KEY, handshake, listening, opened, served, status
from service.world import World, basic

pytestmark = pytest.mark.anyio


async def test_unreadable_requests_get_the_services_own_error(world: World) -> None:
    async with served(world) as say:
        garbage = await say(b"\x16\x03\x01hello\r\n\r\n")
        assert status(garbage) == 400
        assert b"text/html" in garbage  # it accepts nothing
        response = await say(b"GET /v1/agents/\xc3\xa9 HTTP/1.1\r\n\r\n")
        assert status(response) == 400
        unknown = await say(b"BREW /v1/me HTTP/1.1\r\nHost: test\r\n" + JSON + b"\r\n")
        assert status(unknown) == 405
        assert b"\r\nallow: GET, HEAD, POST, PATCH, DELETE\r\n" in unknown
        assert unknown.endswith(
            b'{"error":"MethodNotAllowed","message":"The method is not allowed for the requested URL."}'
        )


MALFORMED = [
    b"GET /v1/../../etc/passwd HTTP/1.1\r\nHost: test\r\n\r\n",
    b"GET /v1/agents\r\nX-Evil: 1 HTTP/1.1\r\nHost: test\r\n\r\n",
    b"GET /v1/agents?a=\x00\xff HTTP/1.1\r\nHost: test\r\n\r\n",
    b"GET /v1/me HTTP/1.1\r\nHost: test\r\nAuthorization: Basic \xff\xfe\r\n\r\n",
    b"POST /v1/agents HTTP/1.1\r\nHost: test\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/agents HTTP/1.1\r\nHost: test\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST /v1/agents HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
]


async def test_malformed_requests_are_refused(world: World) -> None:
    async with served(world) as say:
        for sent in MALFORMED:
            answer = await say(sent)
            assert 400 <= status(answer) < 500, sent
            assert b"x-evil" not in answer.lower()


async def test_the_fields_of_an_unknown_method_are_read_in_linear_time(world: World) -> None:
    """In the square of their length, 256 KiB would take twenty minutes."""
    async with served(world) as say:
        answer = await say(b"BREW /v1/me HTTP/1.1\r\n" + b"a" * 60_000 + b"\r\n" + JSON + b"\r\n")
    assert status(answer) == 405
    assert b"application/json" in answer


async def test_line_breaks_between_requests_keep_no_connection_open(world: World) -> None:
    async with listening(world, timeout_s=0.2) as address:
        [(reader, writer)] = await opened(address, 1, b"HEAD /v1/openapi.yaml HTTP/1.1\r\nHost: test\r\n\r\n")
        assert status(await reader.readuntil(b"\r\n\r\n")) == 200
        writer.write(b"\r\n")
        async with asyncio.timeout(20):
            assert status(await reader.read()) == 408


async def test_a_socket_on_a_connection_that_was_used_before_has_no_head_to_wait_for(
    world: World, session: str
) -> None:
    """As nginx opens one, on a connection that it keeps alive."""
    path = f"/v1/sessions/{session}/events/ws".encode()
    async with listening(world, timeout_s=0.1) as address:
        [(reader, writer)] = await opened(address, 1, b"HEAD /v1/openapi.yaml HTTP/1.1\r\nHost: test\r\n\r\n")
        assert status(await reader.readuntil(b"\r\n\r\n")) == 200
        credential = b"Authorization: " + basic(world.full).encode() + b"\r\n"
        writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: test\r\n" + credential + HANDSHAKE + KEY + b"\r\n")
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.5)  # a 408 after a tenth of a second


async def test_a_request_head_is_limited_in_size_and_time(world: World) -> None:
    begun = b"GET /v1/openapi.yaml HTTP/1.1\r\nHost: test\r\n" + JSON
    async with served(world) as say:
        assert status(await say(begun + b"X: " + b"x" * (MAX_HEAD_BYTES // 2) + b"\r\n\r\n")) == 200
        large = await say(begun + b"X: " + b"x" * (2 << 20) + b"\r\n\r\n")
        assert status(large) == 431
        assert large.endswith(b'"The request\'s headers are larger than 65536 bytes."}')
        many = await say(begun + b"X: x\r\n" * MAX_HEADERS + b"\r\n")
        assert status(many) == 431
    async with served(world, timeout_s=0.5) as say:
        slow, silent = await asyncio.gather(say(begun), say(b""))
        assert status(slow) == 408
        assert b"The request head did not arrive within 0.5 seconds." in slow
        assert silent == b"", "nothing was asked, so nothing is answered"


CHUNKED = b"POST /v1/oauth/register HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n" + JSON + b"\r\n"


@pytest.mark.parametrize(
    "begun", [b"2\r\n{}\r\n0\r\nX: ", b"2;x=", b'2\r\n{}\r\n2;x="'], ids=["trailer", "first chunk", "chunk"]
)
async def test_what_is_neither_head_nor_body_is_limited(world: World, begun: bytes) -> None:
    """The parser would collect a trailer without an end, and copy it each time."""
    async with listening(world) as address, asyncio.timeout(20):
        [(reader, writer)] = await opened(address, 1, CHUNKED + begun + b"x" * (MAX_HEAD_BYTES - 2_000))
        await writer.drain()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.1)
        writer.write(b"x" * 4_000)
        assert status(await reader.read()) == 431


async def test_a_trailer_is_no_header(world: World) -> None:
    requests = CHUNKED.replace(b"oauth/register", b"oauth/token") + b"0\r\nAuthorization: Basic eDp5\r\n\r\n"
    body = b"1\r\n{\r\n" * 20_000  # the framing of many small chunks is longer than any head
    async with served(world) as say:
        answer = await say(requests.replace(b"Host", b"Connection: close\r\nHost", 1))
        assert status(answer) == 400, "not 401, as with a credential"
        assert status(await say(CHUNKED + body + b"0\r\n\r\n")) == 400


async def test_requests_that_arrive_at_once_are_answered_in_order(world: World) -> None:
    body = b"x" * 70_000
    requests = b"".join(b"HEAD /v1/%d HTTP/1.1\r\nHost: test\r\n\r\n" % number for number in range(200))
    post = b"POST /v1/agents HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n" % len(body)
    last = b"HEAD /v1/me HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
    async with listening(world) as address, asyncio.timeout(60):
        [(reader, _)] = await opened(address, 1, requests + post + body + last)
        answers = await reader.read()
    assert [head.split()[1] for head in re.findall(rb"HTTP/1.1 \d+", answers)] == [b"404"] * 200 + [b"401"] * 2


ANONYMOUS = b"GET /v1/openapi.yaml HTTP/1.1\r\nHost: test\r\n" + JSON + b"\r\n"
BEGUN = b"GET /v1/me HTTP/1.1\r\nHost: t"


def signed(world: World) -> bytes:
    return ANONYMOUS.replace(b"openapi.yaml", b"me").replace(
        JSON, JSON + b"Authorization: %b\r\n" % basic(world.full).encode()
    )


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body of the next response."""
    async with asyncio.timeout(20):
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        return status(head), await reader.readexactly(int(length[1]) if length else 0)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_UNKNOWN_PER_ADDRESS", 3)


@pytest.mark.usefixtures("few")
async def test_beyond_the_limit_of_an_address_only_keys_are_answered(world: World) -> None:
    async with listening(world) as address:
        await opened(address, 3, BEGUN)
        anonymous, keyed, wrong = [
            (await opened(address, 1, request))[0]
            for request in (ANONYMOUS, signed(world), signed(world).replace(b"Basic ", b"Basic eDp5"))
        ]
        assert await answer(anonymous[0]) == (
            503,
            b'{"error":"ServiceUnavailable","message":"The service has too many connections. Try again later."}',
        )
        assert (await answer(keyed[0]))[0] == 200
        assert (await answer(wrong[0]))[0] == 401
        async with asyncio.timeout(20):
            assert await wrong[0].read() == b"", "the connection is closed"
        keyed[1].write(ANONYMOUS)
        assert (await answer(keyed[0]))[0] == 200, "a connection that has shown a key stays"


@pytest.mark.usefixtures("few")
async def test_a_connection_beyond_the_limit_gets_a_moment_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CROWDED_HEAD_S", 0.05)
    async with listening(world) as address:
        waiting = [*await opened(address, 3, BEGUN), *await opened(address, 1)]
        assert (await answer(waiting[3][0]))[0] == 503


@pytest.mark.usefixtures("few")
async def test_connections_of_a_trusted_proxy_and_closed_ones_need_no_room(world: World) -> None:
    async with served(world) as say:
        for _ in range(10):
            assert status(await say(ANONYMOUS)) == 200
    world.platform.proxies = TrustedProxies(["127.0.0.1"])
    async with listening(world) as address:
        await opened(address, 5)  # as a proxy keeps connections for requests to come
        (late,) = await opened(address, 1, ANONYMOUS)
        assert (await answer(late[0]))[0] == 200


@pytest.mark.usefixtures("few")
async def test_sockets_need_no_room(world: World, session: str) -> None:
    async with listening(world) as address:
        sockets = await opened(address, 10, handshake(world, session))
        for reader, _ in sockets:
            async with asyncio.timeout(20):
                assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        (late,) = await opened(address, 1, ANONYMOUS)
        assert (await answer(late[0]))[0] == 200


async def test_the_connections_of_all_are_limited(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_CONNECTIONS", 2)
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.append(context))
    async with listening(world) as address:
        keyed = await opened(address, 2, signed(world))
        assert [(await answer(reader))[0] for reader, _ in keyed] == [200, 200]
        late = await opened(address, 3, signed(world))
        assert [(await answer(reader))[0] for reader, _ in late] == [503] * 3
        keyed[0][1].write(signed(world))
        assert (await answer(keyed[0][0]))[0] == 200
    assert problems == []


async def test_a_full_service_still_says_how_it_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(connection, "_MAX_SURPLUS", 2)
    probe = ANONYMOUS.replace(b"/v1/openapi.yaml", b"/healthz")
    async with listening(world) as address:
        keyed = await opened(address, 2, signed(world))
        assert [(await answer(reader))[0] for reader, _ in keyed] == [200, 200]
        [(reader, _)] = await opened(address, 1, probe)
        assert (await answer(reader))[0] == 200
        async with asyncio.timeout(20):
            assert await reader.read() == b"", "there is no room to keep it open"
            waiting = await opened(address, 3)
            with contextlib.suppress(ConnectionResetError):
                assert await waiting[0][0].read() == b"", "the oldest makes room"
            [(other, _)] = await opened(address, 1, probe)
            assert (await answer(other))[0] == 200


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
@pytest.mark.parametrize(
    ("soft", "hard", "raised", "room"),
    [
        (1024, resource.RLIM_INFINITY, 8392, 4096),
        (1024, 1024, None, 724),
        (256, 256, None, 128),
        (256, 2048, 2048, 1748),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None, 4096),
        (60_000, 60_000, None, 4096),
    ],
)
def test_connections_stay_below_the_limit_of_open_files(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, raised: int | None, room: int
) -> None:
    limits = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.append(pair))
    assert connection.room_for_connections() == room
    assert limits == [(raised, hard)] * (raised is not None)


async def unread(address: tuple[str, int], sent: bytes) -> socket.socket:
    """A connection that sends something and takes next to nothing of the response."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(raw, address)
    await loop.sock_sendall(raw, sent)
    return raw


def noted_end(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Is set when a connection ends."""
    ended, lost = asyncio.Event(), connection.Connection.connection_lost
    monkeypatch.setattr(connection.Connection, "connection_lost", lambda self, error: (ended.set(), lost(self, error)))
    return ended


async def test_a_reader_that_stops_is_disconnected(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little of the response is left: closing would wait for it."""
    monkeypatch.setattr(connection, "MAX_STALL_S", 0.05)
    ended = noted_end(monkeypatch)
    async with listening(world) as address, asyncio.timeout(20):
        short = ANONYMOUS.replace(b"openapi.yaml", b"me") * 100
        for last in (ANONYMOUS, short, short + ANONYMOUS.replace(b"Host", b"Connection: close\r\nHost", 1)):
            with await unread(address, last):
                await ended.wait()
            ended.clear()


async def test_a_reader_that_is_slow_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_STALL_S", 0.2)
    loop = asyncio.get_running_loop()
    began, size = loop.time(), 0
    async with listening(world) as address, asyncio.timeout(20):
        with await unread(address, ANONYMOUS.replace(b"Host", b"Connection: close\r\nHost", 1)) as raw:
            while taken := await loop.sock_recv(raw, 4096):
                size += len(taken)
                await asyncio.sleep(0.02)
    assert loop.time() - began > 2 * connection.MAX_STALL_S
    assert size > 100_000


async def test_a_caller_that_reads_nothing_on_many_connections_is_cut_off(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {
        who: ANONYMOUS[:-2] + b"Authorization: " + basic(key).encode() + b"\r\n\r\n"
        for who, key in (("one", world.full), ("other", world.key("bob", "agents:read")))
    }
    async with listening(world) as address, contextlib.AsyncExitStack() as stack, asyncio.timeout(20):

        async def stalled(who: str, count: int) -> None:
            """Until so many connections are not read."""
            stack.enter_context(await unread(address, asked[who]))
            while len(connection._unread) != count:
                await asyncio.sleep(0)

        await stalled("one", 1)
        [first] = connection._unread
        waiting = first.transport.get_write_buffer_size()
        monkeypatch.setattr(connection.Connection, "max_unread_bytes", 3 * waiting // 2)
        cut = noted_end(monkeypatch)
        await stalled("other", 2)
        assert not cut.is_set()
        stack.enter_context(await unread(address, asked["one"]))
        await cut.wait()
        assert len(connection._unread) == 2
        assert first in connection._unread


@pytest.mark.parametrize(
    ("ping_s", "stall_s", "before"),
    [(0.1, 60.0, b""), (60.0, 0.1, b""), (60.0, 0.1, ANONYMOUS)],
    ids=["it answers no ping", "it takes nothing", "it has not taken the response before"],
)
async def test_a_socket_that_stops_reading_is_cut_off(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    ping_s: float,
    stall_s: float,
    before: bytes,
) -> None:
    monkeypatch.setattr(connection, "MAX_STALL_S", stall_s)
    world.workspace()
    world.agent_row()
    session = await world.start("x" * 20_000)
    await world.idle()
    nothing = "?from_id=00000000-0000-7000-8000-000000000000"
    async with listening(world, ping_s=ping_s) as address, asyncio.timeout(20):
        with await unread(address, before + handshake(world, session, nothing)):
            while not world.platform.hub.sockets:
                await asyncio.sleep(0)
            await world.post(f"/sessions/{session}/events", {"content": "again"}, world.full)
            await world.platform.hub.empty.wait()
            await world.post(f"/sessions/{session}/events", {"content": "and again"}, world.full)
            await world.idle()
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_answers_to_pings_that_nobody_reads_take_no_memory(
    world: World, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_MAX_UNREAD_BYTES", 100_000)
    handle_ping, unread_bytes = connection.Socket.handle_ping, [0]

    def handle(self: connection.Socket) -> None:
        handle_ping(self)
        unread_bytes.append(self.transport.get_write_buffer_size())

    monkeypatch.setattr(connection.Socket, "handle_ping", handle)
    ping = b"\x89\xfd" + bytes(4) + b"x" * 125
    async with listening(world) as address, asyncio.timeout(20):
        with await unread(address, handshake(world, session)) as raw:
            while not world.platform.hub.sockets:
                await asyncio.sleep(0)
            await asyncio.get_running_loop().sock_sendall(raw, ping * 20_000)
            while len(unread_bytes) <= 20_000:
                await asyncio.sleep(0.01)
    assert 50_000 < max(unread_bytes) < 100_000 + (1 << 19), "of 2.6 MB"


async def test_a_refused_connection_is_read_no_further(world: World) -> None:
    async with listening(world) as address, asyncio.timeout(20):
        [(reader, _)] = await opened(address, 1, b"no request\r\n\r\n" + b"x" * 200_000)
        assert (await answer(reader))[0] == 400
        assert await reader.read() == b""


async def test_every_handshake_is_answered(world: World, session: str) -> None:
    line = b"GET /v1/sessions/%b/events/ws HTTP/1.1\r\nHost: test\r\n" % session.encode()
    signed = line + b"Authorization: " + basic(world.full).encode() + b"\r\n" + JSON
    async with served(world) as say:
        assert status(await say(signed + HANDSHAKE + KEY + b"\r\n")) == 101
        cookies = b"Cookie: " + b"c" * 20_000 + b"\r\n"
        assert status(await say(signed + cookies + HANDSHAKE + KEY + b"\r\n")) == 101, "a browser's many cookies"
        for bad in (
            HANDSHAKE,
            HANDSHAKE.replace(b"13", b"8") + KEY,
            HANDSHAKE + KEY + b"X: " + b"x" * 9_000 + b"\r\n",
            HANDSHAKE + KEY + b"X: x\r\n" * 200,
            HANDSHAKE + KEY + b"Content-Length: 3\r\n",
        ):
            answer = await say(signed + bad + b"\r\n")
            assert status(answer) == 400, bad[:200]
            assert b"sec-websocket-version: 13" in answer.lower()


async def ended(listener: ClientConnection) -> tuple[int | None, str | None]:
    """How a socket ended, whatever it brought before."""
    with contextlib.suppress(ConnectionClosed):
        while True:
            await listener.recv()
    return listener.close_code, listener.close_reason


def event_text(id_: str, at: str) -> str:
    return event_json.message(id=id_, text="…", task_id="t", created_at=at, author={"type": "api_key"})


async def test_a_key_that_loses_access_while_listening_is_disconnected(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "RECHECK_S", 1e-9)
    workspace = world.workspace()
    world.agent_row()
    session = await world.start("hello")
    await world.platform.turns.wait_until_idle()
    keys = [world.key("acme", "workspaces:read", "agents:read") for _ in range(2)]
    async with listening(world) as (host, port):
        opened = [
            connect(
                f"ws://{host}:{port}/v1/sessions/{session}/events/ws", additional_headers={"Authorization": basic(key)}
            )
            for key in keys
        ]
        async with opened[0] as revoked, opened[1] as valid, asyncio.timeout(60):
            world.change("api_keys", keys[0].partition(":")[0], revoked_at=world.store.clock.instant())
            posted = await world.post(f"/sessions/{session}/events", {"content": "again"}, world.full)
            assert json.loads(await valid.recv()) == posted.json()
            assert await ended(revoked) == (4401, "Invalid API key")
            await world.platform.turns.wait_until_idle()
            world.change("workspaces", workspace, should_restrict_members=True)
            await world.store.write(
                lambda tx: events.append(tx, session, "message", "t", event_text, author_type="api_key")
            )
            assert await ended(valid) == (4404, "Session not found")


async def test_access_is_checked_again_after_a_failure_of_the_store(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(state, "ACCESS_CHECK_S", 0.01)
    platform = world.platforms[0]
    hub, read = platform.hub, platform.store.read
    failures = [PoolTimeout("QueuePool limit"), sqlite3.OperationalError("disk I/O error")]

    async def read_later(work: Callable[[Database], Any]) -> Any:
        if failures:
            raise failures.pop()
        return await read(work)

    await world.start_platforms()
    monkeypatch.setattr(platform.store, "read", read_later)
    with hub.listening("session"):
        async with asyncio.timeout(20):
            for noticed in (1, 2):
                world.store.write_now(lambda tx: tx.change_access())  # as the command line does
                while hub.access_changes < noticed:
                    await asyncio.sleep(0.01)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2


async def test_a_key_that_is_revoked_while_a_text_waits_for_its_turn_does_not_get_it(
    world: World, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:

    async def wait(_limiter: websocket.PerTickLimiter, texts: list[str]) -> None:
        assert texts
        world.change("api_keys", world.full.partition(":")[0], revoked_at=world.store.clock.instant())
        world.platform.hub.recheck_access()

    monkeypatch.setattr(websocket.PerTickLimiter, "wait", wait)
    request = handshake(world, session)
    async with listening(world) as address, asyncio.timeout(60):
        [(reader, _)] = await opened(address, 1, request)
        await reader.readuntil(b"\r\n\r\n")
        await world.post(f"/sessions/{session}/events", {"content": "again"}, world.full)
        closing = await reader.read()
    assert closing[2:] == (4401).to_bytes(2) + b"Invalid API key", "a close, and no text before it"
    await world.idle()
