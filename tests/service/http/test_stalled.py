"""What readers that stopped keep in memory is bounded for all of them together."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from agentbook.service.http import connection, socket_protocol
from agentbook.service.http.stalled import Backlog
from agentbook.service.store import events
from service.http.raw import listening
from service.world import World, basic

pytestmark = pytest.mark.anyio


class Waiting:
    """A transport with bytes that its reader has not taken."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.is_aborted = False

    def get_write_buffer_size(self) -> int:
        return self.size

    def abort(self) -> None:
        self.is_aborted = True


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


class Recorded(Backlog):
    """Remembers whose reader has stopped, in order."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self.stopped: list[asyncio.Transport] = []

    def add(self, transport: asyncio.Transport) -> None:
        if transport not in self.stopped:
            self.stopped.append(transport)
        super().add(transport)


def handshake(world: World, session: str) -> bytes:
    return (
        b"GET /v1/sessions/%b/events/ws?from_id=00000000-0000-7000-8000-000000000000 HTTP/1.1\r\nHost: test\r\n"
        b"Authorization: %b\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" % (session.encode(), basic(world.full).encode())
    )


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
    request = handshake(world, session)
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
        writer.write(handshake(world, session))
        await stalled.wait()
        await world.get("/me", world.full)
        await world.store.read(lambda db: None, reader=session)  # it had its turn
        assert reads == []
        writer.transport.abort()
