"""Where new connections wait until the loop has time for them.

A loop that accepts everything that is waiting serves a crowd of thousands within one
turn, and everyone else afterwards. Here, a turn accepts some connections, looks at what
they have sent, admits those that show a credential and a few others, and refuses those
that are too many: a closed or refused connection costs a few microseconds instead of
half a millisecond.

Anyone can make up a credential, so one that was recently valid comes first. Connections
with the same credential share its turns, so that a crowd with one key delays nobody
else. Other connections with a credential share the turns of their address, so a new key
is served before a crowd from elsewhere.

The next client waits in the listener's queue, behind the whole crowd. Each system call
releases the interpreter to any computing thread and has to wait to get it back, so a
refused connection gets as few system calls as possible: it is accepted, looked at once,
answered and closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter, deque
from collections.abc import Callable, Container, Hashable, Iterable, Iterator
from itertools import chain, count, islice
from typing import NamedTuple

from ..proxies import counted_address
from ..web.endpoints import COOKIE

# Accepted connections that are waiting. A client with hundreds of requests opens all of
# its connections before it sends its key on the first.
MAX_WAITING = 1_024
# Accepted in one turn of the loop; the same number is looked at. Accepting, looking at
# and refusing them takes 4 ms. A client at the end of a queue of thousands also waits
# for everything else that happens in each turn, so there should be few turns until
# then.
_ACCEPTED = 128
# Admitted in one turn: with a credential that was recently valid, with any, with none.
_PROVEN, _SIGNED, _UNSIGNED = 8, 4, 1
# While the listener's queue is long, a turn admits one connection that shows any
# credential, and only one turn in this many admits one that shows none: each may bring
# a request that takes longer than the whole turn, and a valid credential may be at the
# end of the queue.
_HELD_TURNS = 4
_PAUSE_S = 1.0  # until connections are accepted again, after no free file was left for one
_LOOK_BYTES = 4096
_PEEK = int(socket.MSG_PEEK) | int(getattr(socket, "MSG_DONTWAIT", 0))  # Windows has none, and no `Reception`
# A header, or the cookie of a person who may be signed in.
_HEADER, _COOKIE = b"\r\nauthorization:", COOKIE.encode()


class _Arrival(NamedTuple):
    """An accepted connection. Arrivals are ordered by their numbers."""

    number: int
    address: str
    connection: socket.socket


class _Lines:
    """Arrivals in several lines that take turns, however long each line is."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, deque[_Arrival]] = {}  # next in turn first

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[_Arrival]:
        return chain(*self._lines.values())

    def append(self, arrival: _Arrival, line: Hashable) -> None:
        """Add an arrival at the end of a line."""
        self._lines.setdefault(line, deque()).append(arrival)

    def pop(self) -> _Arrival:
        """Remove the first arrival of the line whose turn it is."""
        line = next(iter(self._lines))
        arrivals = self._lines.pop(line)
        arrival = arrivals.popleft()
        if arrivals:  # after all the others
            self._lines[line] = arrivals
        return arrival

    def pop_crowd(self, room: int) -> list[_Arrival]:
        """Remove arrivals that have no room: the oldest of the longest line."""
        crowd = []
        for _ in range(len(self) - room):
            longest = max(self._lines.values(), key=len)
            crowd.append(longest.popleft())
        self._lines = {line: arrivals for line, arrivals in self._lines.items() if arrivals}
        return crowd

    def clear(self) -> None:
        """Remove all."""
        self._lines.clear()


class Reception:
    """Accepts the connections of a listening socket.

    Parameters
    ----------
    listener
        A non-blocking socket.
    create_protocol
        Creates the protocol that serves an admitted connection.
    refusal
        The bytes that refuse a connection.
    valid
        The credentials that were recently valid, as sent in headers.
    """

    def __init__(
        self,
        listener: socket.socket,
        create_protocol: Callable[[], asyncio.Protocol],
        refusal: Callable[[], bytes],
        valid: Container[bytes] = (),
    ) -> None:
        self._listener = listener
        self._create_protocol = create_protocol
        self._refusal = refusal
        self._valid = valid
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Arrival] = deque()  # the next to be looked at is first
        self._anonymous: deque[_Arrival] = deque()  # those that have sent a head without a credential
        self._signed = _Lines()  # those that show a credential, by address
        self._proven = _Lines()  # those that show one that was recently valid, by its hash
        self._numbers = count()
        self._admitting: set[asyncio.Task[object]] = set()
        self._queue_is_long = False  # the queue had more connections than a turn accepts
        self._held_turns = 0
        self._turn: asyncio.Handle | None = None
        self._pause: asyncio.Handle | None = None
        self._listen()

    def close(self) -> None:
        """Accept no more connections, and close the waiting ones."""
        self._loop.remove_reader(self._listener)
        for handle in (self._turn, self._pause):
            if handle is not None:
                handle.cancel()
        for queue in (self._waiting, self._anonymous, self._signed, self._proven):
            for arrival in queue:
                arrival.connection.close()
            queue.clear()

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
        for _ in range(min(len(self._waiting), _ACCEPTED)):
            arrival = self._waiting.popleft()
            sent = _look(arrival.connection)
            if sent is None:
                arrival.connection.close()
                continue
            credential = _credential(sent)
            if credential is None:
                self._waiting.append(arrival)
            elif not credential:
                self._anonymous.append(arrival)
            elif credential in self._valid:
                self._proven.append(arrival, hash(credential))
            else:
                self._signed.append(arrival, arrival.address)
        signed = 1 if self._queue_is_long else _SIGNED
        for lines, number in ((self._proven, _PROVEN), (self._signed, signed)):
            for _ in range(min(len(lines), number)):
                self._admit(lines.pop())
        for _ in range(self._count_unsigned()):
            if queue := self._anonymous or self._waiting:
                self._admit(queue.popleft())
        self._refuse_crowd()
        self._refuse_signed()
        if self._waiting or self._anonymous or self._signed or self._proven:
            self._turn = self._loop.call_soon(self._serve)

    def _refuse_signed(self) -> None:
        """Refuse connections with a credential if there are too many."""
        excess = self._proven.pop_crowd(MAX_WAITING) + self._signed.pop_crowd(MAX_WAITING)
        if excess:
            self._refuse(excess, self._refusal())

    def _refuse(self, arrivals: Iterable[_Arrival], refusal: bytes) -> None:
        for arrival in arrivals:
            with contextlib.suppress(OSError), arrival.connection:
                arrival.connection.send(refusal, socket.MSG_DONTWAIT)

    def _count_unsigned(self) -> int:
        """How many connections without a credential this turn may admit."""
        self._held_turns = self._held_turns + 1 if self._queue_is_long else 0
        self._queue_is_long = False
        return 0 if self._held_turns % _HELD_TURNS else _UNSIGNED

    def _refuse_crowd(self) -> None:
        """Refuse connections that are too many, from the address that has the most.

        The oldest first: the data of a new one may not have arrived yet.
        """
        excess = len(self._waiting) + len(self._anonymous) - MAX_WAITING
        if excess <= 0:
            return
        refusal = self._refusal()  # one for all, since making it would take most of the time
        addresses = Counter(arrival.address for arrival in chain(self._anonymous, self._waiting))
        crowd = addresses.most_common(1)[0][0]
        # The anonymous are not looked at again: their heads are complete.
        silent = chain(
            (arrival for arrival in self._anonymous if arrival.address == crowd),
            (arrival for arrival in sorted(self._waiting) if arrival.address == crowd and _is_silent(arrival)),
        )
        refused = set(islice(silent, excess))
        self._refuse(refused, refusal)
        self._anonymous = deque(arrival for arrival in self._anonymous if arrival not in refused)
        self._waiting = deque(arrival for arrival in self._waiting if arrival not in refused)

    def _admit(self, arrival: _Arrival) -> None:
        task = self._loop.create_task(self._connect(arrival.connection))
        self._admitting.add(task)
        task.add_done_callback(self._admitting.discard)

    async def _connect(self, connection: socket.socket) -> None:
        await self._loop.connect_accepted_socket(self._create_protocol, connection)


def _credential(sent: bytes) -> bytes | None:
    """The credential that a request shows: empty for none, None if it may still come.

    No credential can follow once a head is complete, or if it is unusually long. Data
    after the first head does not count.
    """
    head, end, _ = sent.partition(b"\r\n\r\n")
    lower = head.lower()
    start = lower.find(_HEADER)
    if start >= 0:
        return _value(head, start) or b"?"
    if _COOKIE in lower:
        return _value(head, lower.find(b"\r\ncookie:")) or b"?"
    return b"" if end or len(sent) == _LOOK_BYTES else None


def _value(head: bytes, start: int) -> bytes:
    """The value of the header that begins at this position, after a line break."""
    return head[start + 2 :].partition(b"\r\n")[0].partition(b":")[2].strip()


def _is_silent(arrival: _Arrival) -> bool:
    return not _credential(_look(arrival.connection) or b"")


def _look(connection: socket.socket) -> bytes | None:
    """The beginning of what a connection has sent; None if it was closed."""
    try:
        return connection.recv(_LOOK_BYTES, _PEEK) or None
    except BlockingIOError:
        return b""
    except OSError:
        return None
