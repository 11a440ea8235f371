"""What readers that stopped keep in memory is bounded for all of them together."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from agentbook.service.http import connection, socket_protocol
from agentbook.service.http.flow import Flow
from agentbook.service.http.stalled import MIN_TAKEN_BYTES, Backlog, ReaderWatch, waiting_bytes
from agentbook.service.store import events
from service.http.raw import handshake, listening
from service.world import World, basic

pytestmark = pytest.mark.anyio


class Waiting:
    """A transport with bytes that its reader has not taken."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.is_aborted = self.is_closing = False
        self.socket: socket.socket | None = None

    def get_extra_info(self, _name: str) -> socket.socket | None:
        return self.socket

    def get_write_buffer_size(self) -> int:
        return self.size

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        self.is_closing = True


def stopped(backlog: Backlog, *sizes: int) -> list[Waiting]:
    transports = [Waiting(size) for size in sizes]
    for transport in transports:
        backlog.add(cast("asyncio.Transport", transport))
    return transports


def test_the_reader_that_stopped_first_is_disconnected() -> None:
    backlog = Backlog(max_bytes=10)
    transports = stopped(backlog, 4, 4)
    backlog.remove(cast("asyncio.Transport", transports[0]))  # it reads again
    transports += stopped(backlog, 4, 4)
    assert [transport.is_aborted for transport in transports] == [False, True, False, False]


def test_a_single_reader_may_keep_more() -> None:
    (transport,) = stopped(Backlog(max_bytes=10), 100)
    assert not transport.is_aborted


class Clock:
    """A loop of which only the timers matter."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def call_later(self, _delay_s: float, call: Callable[..., None], *args: Any) -> Clock:
        self.calls.append(partial(call, *args))
        return self

    def cancel(self) -> None:
        self.calls.clear()

    def pass_time(self) -> None:
        self.calls.pop()()


def test_a_slow_reader_is_waited_for_and_one_that_stopped_is_not() -> None:
    clock, backlog, transport = Clock(), Backlog(), Waiting(1_000_000)
    watch = ReaderWatch(cast("Any", clock), cast("Any", transport), 30.0, backlog)
    watch.stalled()
    for _ in range(50):
        transport.size -= MIN_TAKEN_BYTES
        clock.pass_time()
        assert not transport.is_aborted
    transport.size -= MIN_TAKEN_BYTES - 1
    clock.pass_time()
    assert transport.is_aborted
    watch.resumed()  # its connection has ended
    assert backlog._bytes == 0


def test_what_waits_in_the_system_is_counted() -> None:
    reader, writer = socket.socketpair()
    with reader, writer:
        writer.setblocking(False)
        sent = writer.send(bytes(4 << 20))
        assert sent < 4 << 20
        transport = Waiting(5)
        transport.socket = writer
        full = waiting_bytes(cast("asyncio.Transport", transport))
        assert full >= (sent if sys.platform == "linux" else 0) + 5
        transport.size = 0
        assert waiting_bytes(cast("asyncio.Transport", transport)) == full - 5


def test_a_socket_whose_ping_waits_for_a_slow_reader_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    timed_out: list[object] = []
    monkeypatch.setattr(WebSocketsSansIOProtocol, "send_keepalive_ping", lambda _: None)
    monkeypatch.setattr(WebSocketsSansIOProtocol, "keepalive_timeout", lambda self: timed_out.append(self))
    clock, transport = Clock(), Waiting(1_000_000)
    listener = socket_protocol.Socket.__new__(socket_protocol.Socket)
    listener.loop, listener.transport, listener.ping_timeout = cast("Any", clock), cast("Any", transport), 20.0
    listener.send_keepalive_ping()
    listener.keepalive_timeout()
    assert timed_out == [listener], "nothing was taken"
    transport.size -= MIN_TAKEN_BYTES
    listener.keepalive_timeout()
    assert timed_out == [listener]
    clock.pass_time()
    assert timed_out == [listener, listener]


def test_a_connection_with_a_slow_reader_is_not_idle() -> None:
    clock, transport = Clock(), Waiting(1_000_000)
    slow = connection.Connection.__new__(connection.Connection)
    slow.loop, slow.transport, slow.timeout_keep_alive = cast("Any", clock), cast("Any", transport), 5
    slow.flow = Flow(cast("Any", transport), bytearray())
    slow.flow.pause_writing()
    slow.timeout_keep_alive_handler()
    assert not transport.is_closing
    slow.flow.resume_writing()
    clock.pass_time()
    assert transport.is_closing


class Recorded(Backlog):
    """Remembers whose reader has stopped, in order."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self.stopped: list[asyncio.Transport] = []

    def add(self, transport: asyncio.Transport) -> None:
        if transport not in self.stopped:
            self.stopped.append(transport)
        super().add(transport)


@pytest.mark.parametrize("kind", ["sockets", "pages"])
async def test_stalled_readers_leave_room_for_each_other(
    world: World, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backlog = Recorded(max_bytes=2_000_000)
    monkeypatch.setattr(connection.Connection, "backlog", backlog)
    monkeypatch.setattr(socket_protocol.Socket, "backlog", backlog)
    # Longer than the system takes for a reader that stopped.
    monkeypatch.setattr(events, "PIECE", 8 << 20)
    world.workspace()
    world.agent_row()
    session = await world.start("hello")
    for _ in range(8):
        await world.post(f"/sessions/{session}/events", {"content": "x" * 1_000_000}, world.full)
    await world.idle()
    request = handshake(world, session, "?from_id=00000000-0000-7000-8000-000000000000")
    if kind == "pages":
        request = b"GET /v1/sessions/%b/events?limit=100 HTTP/1.1\r\nHost: test\r\nAuthorization: %b\r\n\r\n" % (
            session.encode(),
            basic(world.full).encode(),
        )
    async with listening(world) as address, asyncio.timeout(60):
        tasks = len(asyncio.all_tasks())
        opened = [await asyncio.open_connection(*address, limit=1024) for _ in range(8)]
        for _, writer in opened:
            writer.write(request)
        while len(backlog.stopped) < 8:
            await asyncio.sleep(0.01)
        remaining = [transport for transport in backlog.stopped if not transport.is_closing()]
        assert remaining == backlog.stopped[-len(remaining) :], "those that stopped last"
        assert 0 < sum(transport.get_write_buffer_size() for transport in remaining) <= backlog.max_bytes
        for _, writer in opened:
            writer.transport.abort()
        while len(asyncio.all_tasks()) > tasks:
            await asyncio.sleep(0.01)


async def test_nothing_is_prepared_for_a_socket_whose_reader_has_stopped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.workspace()
    world.agent_row()
    session = await world.start("hello")
    for _ in range(12):
        await world.post(f"/sessions/{session}/events", {"content": "x" * 1_000_000}, world.full)
    await world.idle()
    read, stalled, reads = events.after, asyncio.Event(), []

    def after(db: Any, session_id: str, from_id: str) -> Any:
        reads.append(from_id)
        return read(db, session_id=session_id, from_id=from_id)

    pause = socket_protocol.Socket.pause_writing

    def pause_writing(self: socket_protocol.Socket) -> None:
        pause(self)
        reads.clear()
        stalled.set()

    monkeypatch.setattr(events, "after", after)
    monkeypatch.setattr(socket_protocol.Socket, "pause_writing", pause_writing)
    async with listening(world) as address, asyncio.timeout(60):
        _, writer = await asyncio.open_connection(*address, limit=1024)
        writer.write(handshake(world, session, "?from_id=00000000-0000-7000-8000-000000000000"))
        await stalled.wait()
        await world.get("/me", world.full)
        await world.store.read(lambda db: None, reader=session)  # it had its turn
        assert reads == []
        writer.transport.abort()
