"""The service in this process, reached by bytes on a socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from uvicorn import Config
from uvicorn.server import ServerState

from agentbook.service.http.app import build
from agentbook.service.http.connection import Socket, connection_class
from service.world import World, basic

JSON = b"Accept: application/json\r\n"

HANDSHAKE = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

Say = Callable[[bytes], Awaitable[bytes]]


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_writers: list[asyncio.StreamWriter] = []


def handshake(world: World, session: str, query: str = "") -> bytes:
    """The request that opens the socket of a session."""
    head = f"GET /v1/sessions/{session}/events/ws{query} HTTP/1.1\r\nHost: test\r\n"
    return head.encode() + b"Authorization: %b\r\n" % basic(world.full).encode() + HANDSHAKE + KEY + b"\r\n"


@asynccontextmanager
async def listening(
    world: World, timeout_s: float = 30.0, *, host: str = "127.0.0.1", ping_s: float = 20.0
) -> AsyncIterator[tuple[str, int]]:
    """Where the world is served by uvicorn's protocol, in this process.

    The system buffers little of what it sends.
    """
    kind = connection_class(world.platform, timeout_s=timeout_s)
    ping = {"ws_ping_interval": ping_s, "ws_ping_timeout": ping_s}
    config = Config(build(world.platform), log_config=None, ws=Socket, proxy_headers=False, **ping)
    state, loop = ServerState(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: kind(config=config, server_state=state, app_state={}), host, 0)
    server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

    async with server:
        try:
            yield server.sockets[0].getsockname()
        finally:
            # A connection that a test leaves open would be a warning in another test.
            while _writers:
                _writers.pop().close()
            for connection in list(state.connections):
                connection.transport.abort()
            async with asyncio.timeout(20):
                while state.connections:
                    await asyncio.sleep(0)


async def opened(address: tuple[str, int], count: int = 1, sent: bytes = b"") -> list[Streams]:
    """Connections that send something and then nothing; `listening` closes them."""
    streams = [await asyncio.open_connection(*address) for _ in range(count)]
    for _, writer in streams:
        _writers.append(writer)
        writer.write(sent)
    return streams


@asynccontextmanager
async def served(world: World, timeout_s: float = 30.0) -> AsyncIterator[Say]:
    """Send bytes; return the response, or its head if the connection stays open."""

    async def say(sent: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*address)
        try:
            async with asyncio.timeout(20):
                writer.write(sent)
                head = b""
                while line := await reader.readline():
                    head += line
                    if line == b"\r\n":
                        break
                return head + (await reader.read() if b"connection: close" in head else b"")
        finally:
            writer.close()

    async with listening(world, timeout_s) as address:
        yield say


def status(answer: bytes) -> int:
    assert b"x-request-id: " in answer.lower(), answer
    return int(answer.split()[1])
