"""One WebSocket: uvicorn's protocol, with limits on what the other side may do.

A reader that stops reading is disconnected. What clients send is parsed in pieces, a
few per turn of the loop for all sockets together: frames are parsed in Python, and a
client needs to send no more than an occasional pong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import ClassVar

from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from .connection import Connection
from .flow import LoopShare
from .stalled import MAX_STALL_S, MIN_TAKEN_BYTES, Backlog, ReaderWatch, waiting_bytes

_PIECE_BYTES = 512  # about a hundred frames, if they are empty
_PIECES = 4  # of all sockets, in one turn of the loop
_NOT_UTF8 = 1007  # a close code


def socket_class() -> type[Socket]:
    """Return the class of a server's WebSockets, for uvicorn."""
    return type("PlatformSocket", (Socket,), {"loop_share": LoopShare(_PIECES)})


class Socket(WebSocketsSansIOProtocol):
    """A WebSocket; created by uvicorn."""

    loop_share: ClassVar[LoopShare]
    stall_s: ClassVar[float] = MAX_STALL_S
    backlog: ClassVar[Backlog] = Connection.backlog

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._reader = ReaderWatch(self.loop, self.transport, self.stall_s, self.backlog)
        self._unparsed = bytearray()
        self._waits_for_share = False
        self._waiting_bytes = 0  # when the last ping was sent

    def data_received(self, data: bytes) -> None:
        if not self.handshake_complete:
            super().data_received(data)
            return
        self._unparsed += data
        if len(self._unparsed) > _PIECE_BYTES:
            self.transport.pause_reading()
        self._parse_soon()

    def _parse_soon(self) -> None:
        # Each ping has an answer: if earlier answers are not taken, it can wait.
        if self._unparsed and not self._waits_for_share and self.writable.is_set():
            self._waits_for_share = True
            self.loop_share.wait(self._parse_piece)

    def _parse_piece(self) -> None:
        self._waits_for_share = False
        piece = bytes(self._unparsed[:_PIECE_BYTES])
        del self._unparsed[:_PIECE_BYTES]
        if piece:
            super().data_received(piece)
        if self._unparsed:
            self._parse_soon()
        elif not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def send_keepalive_ping(self) -> None:
        super().send_keepalive_ping()
        self._waiting_bytes = waiting_bytes(self.transport)

    def keepalive_timeout(self) -> None:
        # With a slow reader, the ping may wait behind an event of a megabyte.
        waiting = waiting_bytes(self.transport)
        if self.ping_timeout is None or self._waiting_bytes - waiting < MIN_TAKEN_BYTES:
            super().keepalive_timeout()
            return
        self._waiting_bytes = waiting
        self.pong_timer = self.loop.call_later(self.ping_timeout, self.keepalive_timeout)

    def send_receive_event_to_app(self) -> None:
        # uvicorn logs a traceback for each text that is not UTF-8, as many as a client
        # likes to send.
        if self.curr_msg_data_type == "text" and not self.close_sent and not _is_utf8(self.frames):
            self.frames = []
            self.conn.send_close(_NOT_UTF8)
            self.handle_parser_exception()
            return
        super().send_receive_event_to_app()

    async def receive(self) -> ASGIReceiveEvent:
        message = await super().receive()
        if len(self._unparsed) > _PIECE_BYTES:  # uvicorn resumes reading here
            self.transport.pause_reading()
        return message

    def connection_lost(self, exc: Exception | None) -> None:
        self._unparsed.clear()
        self._reader.resumed()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reader.stalled()

    def resume_writing(self) -> None:
        self._reader.resumed()
        super().resume_writing()
        self._parse_soon()

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message, and wait until its reader has taken most of it.

        So the sender does not prepare another message that would have to wait. Raises
        uvicorn's `ClientDisconnected` once the socket is being closed.
        """
        # asyncio logs writes made after the other side has gone.
        if self.handshake_complete and (self.close_sent or self.transport.is_closing()):
            raise ClientDisconnected
        await super().send(message)
        await self.writable.wait()


def _is_utf8(frames: Iterable[bytes]) -> bool:
    try:
        b"".join(frames).decode()
    except UnicodeDecodeError:
        return False
    return True
