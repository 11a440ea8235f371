"""Where new connections wait until the loop has time for them.

A loop that accepts whatever waits serves a crowd of thousands within one turn, and
everyone else after it. Here a turn accepts some, looks at what they have sent, admits
those that show a credential and a few others, and refuses those that are too many: a
closed or refused connection costs some microseconds instead of half a millisecond.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter, deque
from collections.abc import Callable

MAX_WAITING = 256  # connections that were accepted, and wait
_ACCEPTED = 128  # in one turn of the loop; as many are looked at
_SIGNED, _UNSIGNED = 16, 1  # admitted in one turn
_PAUSE_S = 1.0  # until connections are accepted again, after one found no free file
_LOOK_BYTES = 4096
_CREDENTIAL = b"\r\nauthorization:"


class Reception:
    """Accepts the connections of a listening socket.

    Parameters
    ----------
    listener
        Does not block.
    create_protocol
        What serves an admitted connection.
    refusal
        The bytes that refuse a connection.
    """

    def __init__(
        self,
        listener: socket.socket,
        create_protocol: Callable[[], asyncio.Protocol],
        refusal: Callable[[], bytes],
    ) -> None:
        self._listener = listener
        self._create_protocol = create_protocol
        self._refusal = refusal
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[str, socket.socket]] = deque()
        self._admitting: set[asyncio.Task[object]] = set()
        self._turn: asyncio.Handle | None = None
        self._pause: asyncio.Handle | None = None
        self._listen()

    def close(self) -> None:
        """Accept no more connections, and close those that wait."""
        self._loop.remove_reader(self._listener)
        for handle in (self._turn, self._pause):
            if handle is not None:
                handle.cancel()
        for _, connection in self._waiting:
            connection.close()
        self._waiting.clear()

    def _listen(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(min(_ACCEPTED, MAX_WAITING + _ACCEPTED - len(self._waiting))):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError:  # there is no free file
                self._loop.remove_reader(self._listener)
                self._pause = self._loop.call_later(_PAUSE_S, self._listen)
                break
            connection.setblocking(False)
            self._waiting.append((address[0], connection))
        if self._turn is None:
            self._serve()

    def _serve(self) -> None:
        """Look at some that wait: close, admit or refuse them, or let them wait."""
        self._turn = None
        signed, unsigned = _SIGNED, _UNSIGNED
        for _ in range(min(len(self._waiting), _ACCEPTED)):
            address, connection = self._waiting.popleft()
            sent = _look(connection)
            if sent is None:
                connection.close()
            elif signed and _CREDENTIAL in sent:
                signed -= 1
                self._admit(connection)
            elif unsigned and _CREDENTIAL not in sent:
                unsigned -= 1
                self._admit(connection)
            else:
                self._waiting.append((address, connection))
        self._refuse_crowd()
        if self._waiting:
            self._turn = self._loop.call_soon(self._serve)

    def _refuse_crowd(self) -> None:
        """Refuse those that are too many, of the address that has most of them."""
        excess = len(self._waiting) - MAX_WAITING
        if excess <= 0:
            return
        refusal = self._refusal()  # one for all: most of the time would go into it
        crowd = Counter(address for address, _ in self._waiting).most_common(1)[0][0]
        for _ in range(len(self._waiting)):
            address, connection = self._waiting.popleft()
            if excess > 0 and address == crowd and _CREDENTIAL not in (_look(connection) or b""):
                excess -= 1
                with contextlib.suppress(OSError), connection:
                    connection.send(refusal)
            else:
                self._waiting.append((address, connection))

    def _admit(self, connection: socket.socket) -> None:
        task = self._loop.create_task(self._connect(connection))
        self._admitting.add(task)
        task.add_done_callback(self._admitting.discard)

    async def _connect(self, connection: socket.socket) -> None:
        await self._loop.connect_accepted_socket(self._create_protocol, connection)


def _look(connection: socket.socket) -> bytes | None:
    """The beginning of what a connection has sent; None if it was closed."""
    try:
        return connection.recv(_LOOK_BYTES, socket.MSG_PEEK).lower() or None
    except BlockingIOError:
        return b""
    except OSError:
        return None
