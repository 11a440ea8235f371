"""New connections are admitted a few at a time, those with a credential first."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import cast

import pytest

from agentbook.service.http import reception
from agentbook.service.http.reception import Reception

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif("sys.platform == 'win32'", reason="its loop cannot watch a socket"),
]

SIGNED = b"GET /v1/me HTTP/1.1\r\nHost: test\r\nAuthorization: Basic eDp5\r\n\r\n"
UNSIGNED = b"GET /v1/agents HTTP/1.1\r\nHost: test\r\n\r\n"


class Served(asyncio.Protocol):
    """Notes in which order connections were admitted, by the port of the other side."""

    admitted: list[int]

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.admitted.append(transport.get_extra_info("peername")[1])
        cast("asyncio.Transport", transport).close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        listener.setblocking(False)
        Served.admitted = []
        yield listener


def arrive(listener: socket.socket, sent: bytes, count: int = 1) -> list[socket.socket]:
    """Connections that wait to be accepted, with what they sent."""
    opened = [socket.create_connection(listener.getsockname()) for _ in range(count)]
    for connection in opened:
        connection.sendall(sent)
    return opened


async def admitted(count: int) -> list[int]:
    async with asyncio.timeout(20):
        while len(Served.admitted) < count:
            await asyncio.sleep(0)
    return Served.admitted


async def test_whoever_shows_a_credential_passes_the_crowd(listener: socket.socket) -> None:
    crowd = arrive(listener, UNSIGNED, 40)
    (keyed,) = arrive(listener, SIGNED)
    desk = Reception(listener, Served, lambda: b"")
    order = await admitted(41)
    assert order.index(keyed.getsockname()[1]) <= reception._UNSIGNED, "it arrived last"
    assert sorted(order) == sorted(connection.getsockname()[1] for connection in (*crowd, keyed))
    desk.close()
    for connection in (*crowd, keyed):
        connection.close()


async def test_closed_connections_are_not_admitted(listener: socket.socket) -> None:
    for connection in arrive(listener, b"", 20):
        connection.close()
    (silent,) = arrive(listener, b"")
    desk = Reception(listener, Served, lambda: b"")
    assert await admitted(1) == [silent.getsockname()[1]]
    desk.close()
    silent.close()


async def test_a_crowd_is_refused_at_once(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reception, "MAX_WAITING", 5)
    crowd = arrive(listener, b"", 20)
    keyed = arrive(listener, SIGNED, 10)
    desk = Reception(listener, Served, lambda: b"503")
    order = await admitted(10 + 5 + reception._UNSIGNED)
    assert {connection.getsockname()[1] for connection in keyed} <= set(order)
    answers = [await asyncio.to_thread(connection.recv, 10) for connection in crowd]
    assert answers.count(b"503") == 20 - 5 - reception._UNSIGNED
    desk.close()
    for connection in (*crowd, *keyed):
        connection.close()


async def test_without_a_free_file_it_accepts_later(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reception, "_PAUSE_S", 0.01)

    class Exhausted:
        """The listener, which finds no free file at first."""

        failures = 1

        def fileno(self) -> int:
            return listener.fileno()

        def accept(self) -> tuple[socket.socket, tuple[str, int]]:
            if self.failures:
                self.failures -= 1
                raise OSError(24, "Too many open files")
            return listener.accept()

    (keyed,) = arrive(listener, SIGNED)
    desk = Reception(cast("socket.socket", Exhausted()), Served, lambda: b"")
    assert await admitted(1) == [keyed.getsockname()[1]]
    desk.close()
    keyed.close()
