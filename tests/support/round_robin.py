"""A TCP proxy in front of several services: each connection goes to the next."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Iterator, Sequence


class RoundRobin:
    """Listens on a free loopback port in its own thread.

    If the next service is not listening, the connection goes to the one after it, as
    with a proxy in front of a platform.

    Parameters
    ----------
    ports
        The services' ports on this machine. `set_ports` replaces them.
    """

    def __init__(self, ports: Sequence[int] = ()) -> None:
        self._ports = list(ports)
        self._turns = itertools.count()
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="round-robin", daemon=True)
        self._thread.start()
        self._server = self._call(self._listen())
        self.port: int = self._server.sockets[0].getsockname()[1]

    def set_ports(self, ports: Sequence[int]) -> None:
        """Pass new connections to these."""
        self._ports = list(ports)

    def cut(self) -> None:
        """Abort every open connection; clients have to connect again."""
        self._loop.call_soon_threadsafe(self._abort)

    def close(self) -> None:
        """Stop listening, and abort the open connections."""
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work):  # type: ignore[no-untyped-def]
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=2048)

    async def _end(self) -> None:
        self._server.close()
        self._abort()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _abort(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = await self._connect()
        if upstream is None:
            writer.transport.abort()
            return
        pairs = ((reader, upstream[1]), (upstream[0], writer))
        with self._registered(writer, upstream[1]):
            await asyncio.gather(*(_pass_on(*pair) for pair in pairs))

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        ports = list(self._ports)
        turn = next(self._turns)
        for number in range(len(ports)):
            with contextlib.suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", ports[(turn + number) % len(ports)])
        return None

    @contextlib.contextmanager
    def _registered(self, *writers: asyncio.StreamWriter) -> Iterator[None]:
        self._open.update(writers)
        try:
            yield
        finally:
            self._open.difference_update(writers)
            for writer in writers:
                writer.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on the data that arrive, then the end of the stream or its reset."""
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.transport.abort()  # the other side would wait for a reply that cannot come
