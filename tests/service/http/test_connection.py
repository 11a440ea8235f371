"""Invalid and slow requests: the service answers with a request id and closes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections import Counter

import pytest
from uvicorn.protocols.utils import ClientDisconnected
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from agentbook.service.http import websocket
from agentbook.service.http.connection import _PIPELINED, MAX_HEAD_BYTES, MAX_HEADERS, PIECE_BYTES, Connection
from agentbook.service.http.socket_protocol import Socket
from agentbook.service.store import events
from agentbook.service.turns import event_json
from service.http.raw import HANDSHAKE, JSON, KEY, listening, noted_reads, served, status
from service.pages.test_pages import forms, signed_in
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


async def test_the_fields_of_an_unknown_method_are_read_in_linear_time(world: World) -> None:
    """In the square of their length, 256 KiB would take twenty minutes."""
    async with served(world) as say:
        answer = await say(b"BREW /v1/me HTTP/1.1\r\n" + b"a" * 60_000 + b"\r\n" + JSON + b"\r\n")
    assert status(answer) == 405
    assert b"application/json" in answer


async def test_line_breaks_between_requests_keep_no_connection_open(world: World) -> None:
    async with listening(world, timeout_s=0.2) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"HEAD /v1/openapi.yaml HTTP/1.1\r\nHost: test\r\n\r\n")
        assert status(await reader.readuntil(b"\r\n\r\n")) == 200
        writer.write(b"\r\n")
        async with asyncio.timeout(20):
            assert status(await reader.read()) == 408
        writer.close()


async def test_a_socket_on_a_connection_that_was_used_before_has_no_head_to_wait_for(world: World) -> None:
    """As nginx opens one, on a connection that it keeps alive."""
    world.workspace()
    world.agent_row()
    session = await world.start("hello")
    await world.idle()
    path = f"/v1/sessions/{session}/events/ws".encode()
    async with listening(world, timeout_s=0.1) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"HEAD /v1/openapi.yaml HTTP/1.1\r\nHost: test\r\n\r\n")
        assert status(await reader.readuntil(b"\r\n\r\n")) == 200
        credential = b"Authorization: " + basic(world.full).encode() + b"\r\n"
        writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: test\r\n" + credential + HANDSHAKE + KEY + b"\r\n")
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.5)  # a 408 after a tenth of a second
        writer.close()


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
        reader, writer = await asyncio.open_connection(*address)
        writer.write(CHUNKED + begun + b"x" * (MAX_HEAD_BYTES - 2_000))
        await writer.drain()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.1)
        writer.write(b"x" * 4_000)
        assert status(await reader.read()) == 431
        writer.close()


async def test_a_trailer_is_no_header(world: World) -> None:
    requests = CHUNKED.replace(b"oauth/register", b"oauth/token") + b"0\r\nAuthorization: Basic eDp5\r\n\r\n"
    body = b"1\r\n{\r\n" * 20_000  # the framing of many small chunks is longer than any head
    async with served(world) as say:
        answer = await say(requests.replace(b"Host", b"Connection: close\r\nHost", 1))
        assert status(answer) == 400, "not 401, as with a credential"
        assert status(await say(CHUNKED + body + b"0\r\n\r\n")) == 400


async def test_requests_do_not_pile_up_on_a_connection(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands that arrive at once are answered one after another."""
    waiting = []
    answered = Connection.on_response_complete

    def on_response_complete(self: Connection) -> None:
        waiting.append(len(self.pipeline))
        answered(self)

    monkeypatch.setattr(Connection, "on_response_complete", on_response_complete)
    requests = b"".join(b"HEAD /v1/%d HTTP/1.1\r\nHost: test\r\n\r\n" % number for number in range(2_000))
    body = b"x" * 70_000
    post = b"POST /v1/agents HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n" % len(body)
    last = b"HEAD /v1/me HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
    async with listening(world) as address, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(requests + post + body + last)
        answers = await reader.read()
        writer.close()
    assert [head.split()[1] for head in re.findall(rb"HTTP/1.1 \d+", answers)] == [b"404"] * 2_000 + [b"401"] * 2
    assert max(waiting) <= 1 + PIECE_BYTES // len(b"HEAD /v1/1 HTTP/1.1\r\nHost: test\r\n\r\n")


@pytest.mark.parametrize("has_key", [False, True])
async def test_a_crowd_that_pipelines_is_served_little_in_each_turn_of_the_loop(
    world: World, monkeypatch: pytest.MonkeyPatch, has_key: bool
) -> None:
    monkeypatch.setattr(world.platform, "requests_per_minute", 0)
    loop, turns = asyncio.get_running_loop(), 0
    answered: Counter[int] = Counter()  # in each turn, first requests aside
    complete = Connection.on_response_complete
    seen: set[Connection] = set()

    def on_response_complete(self: Connection) -> None:
        if self in seen:
            answered[turns] += 1
        seen.add(self)
        complete(self)

    def count_turns() -> None:
        nonlocal turns, handle
        turns += 1
        handle = loop.call_soon(count_turns)

    monkeypatch.setattr(Connection, "on_response_complete", on_response_complete)
    request = b"HEAD /v1/sessions/%b HTTP/1.1\r\nHost: test\r\n" % world.accounts["ada"].encode()
    if has_key:  # and one request in each piece that is parsed
        request += b"X-Long: %b\r\n" % (b"x" * PIECE_BYTES)
        request += b"Authorization: %b\r\n" % basic(world.full).encode()
    handle = loop.call_soon(count_turns)
    async with listening(world) as address, asyncio.timeout(60):
        streams = [await asyncio.open_connection(*address) for _ in range(30)]
        for _, writer in streams:
            writer.write((request + b"\r\n") * 30 + request + b"Connection: close\r\n\r\n")
        answers = [await reader.read() for reader, _ in streams]
        for _, writer in streams:
            writer.close()
    handle.cancel()
    expected = b"HTTP/1.1 404" if has_key else b"HTTP/1.1 401"
    assert [data.count(expected) for data in answers] == [31] * 30
    assert max(answered.values()) <= 2 * _PIPELINED, "those of two turns may end in one"


async def test_a_connection_with_a_valid_key_is_not_asked_for_it_in_a_read_of_its_own_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.platform, "requests_per_minute", 0)
    brief = noted_reads(monkeypatch)
    request = b"HEAD /v1/agents HTTP/1.1\r\nHost: test\r\nAuthorization: %b\r\n\r\n" % basic(world.full).encode()
    async with listening(world) as address, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(*address)
        for _ in range(2):
            writer.write(request)
            assert status(await reader.readuntil(b"\r\n\r\n")) == 200
        writer.close()
    assert brief == [True, False, False]


async def test_what_is_not_parsed_yet_is_read_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a handler that asks for its request's body read on."""
    buffered = []
    receive = Connection.data_received

    def data_received(self: Connection, data: bytes) -> None:
        receive(self, data)
        buffered.append(len(self._unparsed))

    monkeypatch.setattr(Connection, "data_received", data_received)
    body = b'{"name":"taken"}'
    fields = b"Host: test\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
    credential = b"Authorization: %b\r\n\r\n" % basic(world.full).encode()
    requests = (b"POST /v1/agents HTTP/1.1\r\n" + fields + credential + body) * 20_000
    async with listening(world) as address, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(requests)
        answers = [status(await _read_answer(reader)) for _ in range(50)]
        writer.transport.abort()
    assert answers == [201] + [409] * 49
    assert max(buffered) < 300_000, "asyncio reads 256 KiB at once"


async def _read_answer(reader: asyncio.StreamReader) -> bytes:
    """The head of a response, after which its body is read."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    assert length is not None
    await reader.readexactly(int(length[1]))
    return head


async def test_nothing_is_kept_of_what_a_refused_connection_sends_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffered, arrived = [], []
    receive = Connection.data_received

    def data_received(self: Connection, data: bytes) -> None:
        receive(self, data)
        buffered.append(len(self._unparsed))
        arrived.append(len(data))

    monkeypatch.setattr(Connection, "data_received", data_received)
    async with listening(world) as address, asyncio.timeout(20):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"no request\r\n\r\n")
        assert status(await reader.readuntil(b"\r\n\r\n")) == 400
        while sum(arrived) < 1_000_000:
            writer.write(b"x" * 100_000)
            await writer.drain()
        writer.transport.abort()
    assert max(buffered) == 0


async def test_every_handshake_is_answered(world: World) -> None:
    world.workspace()
    world.agent_row()
    session = await world.start("hello")
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
    monkeypatch.setattr(websocket, "RECHECK_S", 0.0)
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


async def test_an_idle_socket_is_closed_as_soon_as_the_pages_end_its_access(world: World) -> None:
    world.workspace()
    world.agent_row()
    session = await world.start("hello")
    await world.platform.turns.wait_until_idle()
    ada = await signed_in(world)
    keys = [world.key("acme", "workspaces:read", "agents:read") for _ in range(2)]
    async with listening(world) as (host, port):
        url = f"ws://{host}:{port}/v1/sessions/{session}/events/ws"
        opened = [connect(url, additional_headers={"Authorization": basic(key)}) for key in keys]
        async with opened[0] as revoked, opened[1] as outsider, asyncio.timeout(60):
            page = await ada.get("/settings")
            revoke = next(form for form in forms(page, "revoke") if form["id"] == keys[0].partition(":")[0])
            assert (await ada.post("/settings", revoke)).status_code == 303
            assert await ended(revoked) == (4401, "Invalid API key")
            configure = forms(await ada.get("/members"), "configure")[0]
            assert (await ada.post("/members", {**configure, "restrict_members": "yes"})).status_code == 303
            assert await ended(outsider) == (4404, "Session not found")


async def test_a_socket_that_is_being_closed_takes_no_more_messages() -> None:
    """On a stop uvicorn closes the sockets, perhaps while an event is on its way."""
    socket = Socket.__new__(Socket)
    socket.handshake_complete = socket.close_sent = True
    socket.initial_response, socket.writable = None, asyncio.Event()
    socket.writable.set()
    for message in ({"type": "websocket.send", "text": "{}"}, {"type": "websocket.close", "code": 1012}):
        with pytest.raises(ClientDisconnected):
            await socket.send(message)
