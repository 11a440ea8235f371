"""Readers that stop reading, and what they keep in memory.

Data that a reader does not take waits in this process. A reader that takes next to
nothing for a while is disconnected; a slow one is not, since its next attempt would be
just as slow. All readers together may keep a limited number of bytes: beyond that, the
one that stopped first is disconnected.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable

if sys.platform != "win32":
    import fcntl
    import termios

# A reader that takes less than this amount in this time has stopped.
MAX_STALL_S = 30.0
MIN_TAKEN_BYTES = 16 << 10
MAX_BACKLOG_BYTES = 16 << 20


def waiting_bytes(transport: asyncio.Transport) -> int:
    """How much a reader has not taken, here and in the system.

    The system takes more from here only once a third of its data is gone, which may be
    a megabyte.
    """
    size = transport.get_write_buffer_size()
    connection = transport.get_extra_info("socket")
    if connection is not None and sys.platform != "win32":
        with contextlib.suppress(OSError):  # the connection has ended, or the system does not report it
            queued = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))
            size += int.from_bytes(queued, sys.byteorder)
    return size


class Backlog:
    """The data that readers have not taken, for all connections together.

    Parameters
    ----------
    max_bytes
        How much they may keep. A single reader may keep more.
    """

    def __init__(self, max_bytes: int = MAX_BACKLOG_BYTES) -> None:
        self.max_bytes = max_bytes
        self._bytes = 0
        self._stalled: dict[asyncio.Transport, int] = {}  # with their bytes; the one that stopped first comes first

    def add(self, transport: asyncio.Transport) -> None:
        """Note that the reader of a connection has stopped."""
        size = self._stalled[transport] = transport.get_write_buffer_size()
        self._bytes += size
        while self._bytes > self.max_bytes and len(self._stalled) > 1:
            first = next(iter(self._stalled))
            self.remove(first)
            first.abort()

    def remove(self, transport: asyncio.Transport) -> None:
        """Note that a reader reads again, or that its connection has ended."""
        self._bytes -= self._stalled.pop(transport, 0)


class ReaderWatch:
    """Disconnects the reader of one connection if it stops."""

    __slots__ = ("_backlog", "_loop", "_stall_s", "_timer", "_transport", "_waiting_bytes")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, stall_s: float, backlog: Backlog
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._stall_s = stall_s
        self._backlog = backlog
        self._timer = Timer()
        self._waiting_bytes = 0

    def stalled(self) -> None:
        """The transport has more to send than its reader takes."""
        self._waiting_bytes = waiting_bytes(self._transport)
        self._timer.start(self._loop, self._stall_s, self._check)
        self._backlog.add(self._transport)

    def _check(self) -> None:
        if self._waiting_bytes - waiting_bytes(self._transport) < MIN_TAKEN_BYTES:
            self._transport.abort()
            return
        self._backlog.remove(self._transport)
        self.stalled()

    def resumed(self) -> None:
        """The reader has taken most of it, or the connection has ended."""
        self._timer.cancel()
        self._backlog.remove(self._transport)


class Timer:
    """A delayed call; at most one at a time."""

    __slots__ = ("_handle",)

    def __init__(self) -> None:
        self._handle: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop, delay_s: float, action: Callable[[], object]) -> None:
        """Call `action` after `delay_s` seconds, unless the timer is running."""
        if self._handle is None:
            self._handle = loop.call_later(delay_s, self._run, action)

    def cancel(self) -> None:
        """Stop the timer, if it is running."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _run(self, action: Callable[[], object]) -> None:
        self._handle = None
        action()
