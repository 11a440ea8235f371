"""One WebSocket: uvicorn's protocol, with a limit on readers that stop reading."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from .connection import Connection
from .stalled import MAX_STALL_S, Backlog, ReaderWatch


class Socket(WebSocketsSansIOProtocol):
    """A WebSocket; created by uvicorn. One whose reader stops is disconnected."""

    stall_s: ClassVar[float] = MAX_STALL_S
    backlog: ClassVar[Backlog] = Connection.backlog

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._reader = ReaderWatch(self.loop, self.transport, self.stall_s, self.backlog)

    def connection_lost(self, exc: Exception | None) -> None:
        self._reader.resumed()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reader.stalled()

    def resume_writing(self) -> None:
        self._reader.resumed()
        super().resume_writing()

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message, and wait until its reader has taken most of it.

        So whoever sends does not prepare another one that has to wait. Raises uvicorn's
        `ClientDisconnected` once the socket is being closed.
        """
        if self.handshake_complete and self.close_sent:
            raise ClientDisconnected
        await super().send(message)
        await self.writable.wait()
