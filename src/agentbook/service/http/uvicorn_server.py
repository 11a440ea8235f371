"""uvicorn as the service runs it: how it accepts, becomes ready, drains and stops."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from .. import discovery_file
from ..state import Platform
from .connection import Socket, connection_class, room_for_connections

_CLOSE_SOCKETS_S = 2.0
WAITING_CONNECTIONS = 2048  # that the system keeps until they are accepted
# asyncio accepts so many in one turn of its loop, before any of them can be refused.
_ACCEPTED_AT_ONCE = 50
_NOTICE_S = 1.0  # how long all requests are still answered after a signal, even if no turn is running


def _is_genuine(record: logging.LogRecord) -> bool:
    # uvicorn 0.54's sans-I/O sockets log this for every rejected handshake, although
    # the response was sent in full.
    return record.msg != "ASGI callable returned without completing handshake."


def _is_lost(file: Path, state: os.stat_result) -> bool:
    """Whether another file, or none, has the place of one."""
    try:
        return not os.path.samestat(file.stat(), state)
    except OSError as error:
        return isinstance(error, FileNotFoundError)


class Server(uvicorn.Server):
    """uvicorn with a ready line, a close code for sockets, and a clean exit.

    Parameters
    ----------
    platform, app
        What it serves.
    announce
        Called when it is ready.
    drain_s
        How long it answers after a signal, while running turns end.
    users
        The data directory, if it stops once no process that is registered there lives.
    files
        Those that it keeps open. It stops at once when one is not in its place any
        more: nobody would find what it writes, and another service may begin there.

    Attributes
    ----------
    lost : Path or None
        The file that is not in its place any more.
    """

    def __init__(
        self,
        platform: Platform,
        app: ASGIApp,
        announce: Callable[[], None],
        drain_s: float = 0.0,
        users: Path | None = None,
        files: Iterable[Path] = (),
    ) -> None:
        # Access logs would contain paths and query strings; uvicorn's other log lines
        # do not.
        config = uvicorn.Config(
            app,
            access_log=False,
            log_config=None,
            lifespan="off",
            http=connection_class(platform, max_connections=room_for_connections()),
            ws=Socket,
            ws_per_message_deflate=False,
            ws_max_size=64 * 1024,
            server_header=False,
            proxy_headers=False,  # `proxies` reads them, also for connections
            # Many clients drop an idle connection after 5 s; it must not close while
            # one is sending.
            timeout_keep_alive=65,
            timeout_graceful_shutdown=5,
            backlog=_ACCEPTED_AT_ONCE,
        )
        super().__init__(config)
        logging.getLogger("uvicorn").setLevel(logging.ERROR)
        logging.getLogger("uvicorn.error").addFilter(_is_genuine)
        self._platform = platform
        self._announce = announce
        self._users = users
        self._drain_s = drain_s
        self._draining: asyncio.Future[Any] | None = None
        self._files = {file: file.stat() for file in files}
        self.lost: Path | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await self._platform.start()
            await super().startup(sockets)
            for listener in sockets or ():
                listener.listen(WAITING_CONNECTIONS)  # asyncio has used one number for both
            if self._users is not None:
                self._watch = asyncio.create_task(discovery_file.until_unused(self._users, self.end))
            # What has been loaded lives as long as the service. Searching it for
            # garbage would stop everything for 50 ms, and several times longer on a
            # busy machine.
            gc.collect()
            gc.freeze()
            self._announce()
        except BaseException:  # other processes would wait for its lease to end
            await self._platform.aclose()
            raise

    async def on_tick(self, counter: int) -> bool:
        # Ten times a second, in which a write may still be lost.
        self.lost = next((file for file, state in self._files.items() if _is_lost(file, state)), None)
        if self.lost is not None:
            self.force_exit = True
            return True
        return await super().on_tick(counter)

    def end(self) -> None:
        """Stop gracefully."""
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._drain_s and not self.force_exit:
            # For at least a moment, so that proxies leave the open connections.
            notice = asyncio.sleep(min(_NOTICE_S, self._drain_s))
            self._draining = asyncio.gather(self._platform.drain(self._drain_s), notice)
            await asyncio.wait({self._draining})
        # Sockets close properly, before uvicorn cuts them off.
        self._platform.hub.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SOCKETS_S):
                await self._platform.hub.empty.wait()
        await super().shutdown(sockets)
        await self._platform.aclose()

    def handle_exit(self, _sig: int, _frame: FrameType | None) -> None:
        """Stop gracefully on the first signal, immediately on the second.

        uvicorn would also raise it again at the end, and the exit code would not be 0.
        """
        self.force_exit = self.should_exit
        self.should_exit = True
        if self.force_exit and self._draining is not None:
            self._draining.get_loop().call_soon_threadsafe(self._draining.cancel)
