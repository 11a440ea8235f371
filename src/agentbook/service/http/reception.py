"""Where new connections wait until the loop has time for them.

A loop that accepts whatever waits serves a crowd of thousands within one turn, and
everyone else after it. Here a turn accepts some, looks at what they have sent, admits
those that show a credential and a few others, and refuses those that are too many: a
closed or refused connection costs some microseconds instead of half a millisecond.

Who comes next waits in the listener's queue, behind all of the crowd. Each call of the
system gives the interpreter to a thread that computes, and waits to get it back, so a
refused connection gets as few as there can be: it is accepted, looked at once, answered
and closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter, deque
from collections.abc import Callable
from itertools import chain, count, islice
from typing import NamedTuple

from ..proxies import counted_address
from ..web.endpoints import COOKIE

MAX_WAITING = 256  # connections that were accepted, and wait
# In one turn of the loop; as many are looked at. Accepting, looking at and refusing
# them takes 4 ms. Whoever stands at the end of a queue of thousands also waits for all
# else that happens in each turn, so there should be few until then.
_ACCEPTED = 128
_SIGNED, _UNSIGNED = 16, 1  # admitted in one turn
# While the listener's queue is long, those without a credential are admitted in one
# turn of so many only: each may bring a request that takes longer than the whole turn,
# and somebody with a credential may stand at the end of the queue.
_HELD_TURNS = 4
_PAUSE_S = 1.0  # until connections are accepted again, after one found no free file
_LOOK_BYTES = 4096
_PEEK = int(socket.MSG_PEEK) | int(getattr(socket, "MSG_DONTWAIT", 0))  # Windows has none, and no `Reception`
# A header, or the cookie of a person who may be signed in.
_HEADER, _COOKIE = b"\r\nauthorization:", COOKIE.encode()


class _Arrival(NamedTuple):
    """A connection that was accepted. They are in order by their numbers."""

    number: int
    address: str
    connection: socket.socket


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
        self._waiting: deque[_Arrival] = deque()  # whoever is looked at next is first
        self._anonymous: deque[_Arrival] = deque()  # those that have sent a head without a credential
        self._numbers = count()
        self._admitting: set[asyncio.Task[object]] = set()
        self._queue_is_long = False  # it had more connections than a turn accepts
        self._held_turns = 0
        self._turn: asyncio.Handle | None = None
        self._pause: asyncio.Handle | None = None
        self._listen()

    def close(self) -> None:
        """Accept no more connections, and close those that wait."""
        self._loop.remove_reader(self._listener)
        for handle in (self._turn, self._pause):
            if handle is not None:
                handle.cancel()
        for arrival in chain(self._waiting, self._anonymous):
            arrival.connection.close()
        self._waiting.clear()
        self._anonymous.clear()

    def _listen(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        room = MAX_WAITING + _ACCEPTED - len(self._waiting) - len(self._anonymous)
        for _ in range(min(_ACCEPTED, room)):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError:  # there is no free file
                self._loop.remove_reader(self._listener)
                self._pause = self._loop.call_later(_PAUSE_S, self._listen)
                break
            self._waiting.append(_Arrival(next(self._numbers), counted_address(address[0]), connection))
        else:
            self._queue_is_long = True
        if self._turn is None:
            self._serve()

    def _serve(self) -> None:
        """Look at some that wait: close, admit or refuse them, or let them wait."""
        self._turn = None
        signed = _SIGNED
        for _ in range(min(len(self._waiting), _ACCEPTED)):
            arrival = self._waiting.popleft()
            sent = _look(arrival.connection)
            if sent is None:
                arrival.connection.close()
                continue
            is_signed = _shows_credential(sent)
            if is_signed and signed:
                signed -= 1
                self._admit(arrival)
            else:
                (self._anonymous if is_signed is False else self._waiting).append(arrival)
        for _ in range(self._count_unsigned()):
            if queue := self._anonymous or self._waiting:
                self._admit(queue.popleft())
        self._refuse_crowd()
        if self._waiting or self._anonymous:
            self._turn = self._loop.call_soon(self._serve)

    def _count_unsigned(self) -> int:
        """How many without a credential this turn may admit."""
        self._held_turns = self._held_turns + 1 if self._queue_is_long else 0
        self._queue_is_long = False
        return 0 if self._held_turns % _HELD_TURNS else _UNSIGNED

    def _refuse_crowd(self) -> None:
        """Refuse those that are too many, of the address that has most of them.

        The oldest first: what a new one sends may not have arrived yet.
        """
        excess = len(self._waiting) + len(self._anonymous) - MAX_WAITING
        if excess <= 0:
            return
        refusal = self._refusal()  # one for all: most of the time would go into it
        addresses = Counter(arrival.address for arrival in chain(self._anonymous, self._waiting))
        crowd = addresses.most_common(1)[0][0]
        # The anonymous are not looked at again: their heads are complete.
        silent = chain(
            (arrival for arrival in self._anonymous if arrival.address == crowd),
            (arrival for arrival in sorted(self._waiting) if arrival.address == crowd and _is_silent(arrival)),
        )
        refused = set(islice(silent, excess))
        for arrival in refused:
            with contextlib.suppress(OSError), arrival.connection:
                arrival.connection.send(refusal, socket.MSG_DONTWAIT)
        self._anonymous = deque(arrival for arrival in self._anonymous if arrival not in refused)
        self._waiting = deque(arrival for arrival in self._waiting if arrival not in refused)

    def _admit(self, arrival: _Arrival) -> None:
        task = self._loop.create_task(self._connect(arrival.connection))
        self._admitting.add(task)
        task.add_done_callback(self._admitting.discard)

    async def _connect(self, connection: socket.socket) -> None:
        await self._loop.connect_accepted_socket(self._create_protocol, connection)


def _shows_credential(sent: bytes) -> bool | None:
    """Whether a request shows a credential; None if that is still to come.

    None can follow a head that is complete, or strangely long. What stands behind the
    first head does not count.
    """
    head, end, _ = sent.partition(b"\r\n\r\n")
    head = head.lower()
    if _HEADER in head or _COOKIE in head:
        return True
    return False if end or len(sent) == _LOOK_BYTES else None


def _is_silent(arrival: _Arrival) -> bool:
    return not _shows_credential(_look(arrival.connection) or b"")


def _look(connection: socket.socket) -> bytes | None:
    """The beginning of what a connection has sent; None if it was closed."""
    try:
        return connection.recv(_LOOK_BYTES, _PEEK) or None
    except BlockingIOError:
        return b""
    except OSError:
        return None
