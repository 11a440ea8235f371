"""One connection to a platform, which carries one request after another.

The standard library's `http.client` sends the requests and reads the replies. It copies
a body once, httpcore and h11 five times: a page of events costs a third of their CPU.
What `http.client` lacks is added here: a deadline that covers a whole reply, and the
refusal of replies that contradict themselves.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import select
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

# A whole page of events arrives with one read, or is read on to where it stays. After
# each read a thread waits for the interpreter, for 5 ms if another one computes.
BUFFER_BYTES = 1 << 19
PIECE_BYTES = 1 << 20
_TIMEOUT_SLACK_S = 0.1

Headers = Iterable[tuple[bytes, bytes]]


class Origin(NamedTuple):
    """What a connection leads to."""

    secure: bool
    host: str
    port: int | None


class BrokenReply(http.client.HTTPException):
    """A reply that is no HTTP, contradicts itself, or ends before its end.

    The message quotes nothing of it.
    """


class HttpConnection:
    """A connection to an origin; it carries one request at a time.

    Parameters
    ----------
    origin : Origin
    tls : ssl.SSLContext or None
        Checks the certificate of a secure origin.
    keep_alive_s : float
        Seconds after a request for which the next one may be sent.
    """

    def __init__(self, origin: Origin, tls: ssl.SSLContext | None, keep_alive_s: float) -> None:
        self._origin = origin
        self._keep_alive_s = keep_alive_s
        self._usable_until = 0.0
        self._closed = False
        self._socket: _Socket | None = None
        self._reply: http.client.HTTPResponse | None = None
        self._http: http.client.HTTPConnection
        if origin.secure:
            self._http = http.client.HTTPSConnection(origin.host, origin.port, context=tls)
        else:
            self._http = http.client.HTTPConnection(origin.host, origin.port)
        self._http.response_class = _Reply
        self._http.debuglevel = 0  # which others may have set for all connections: it prints the credential
        self._http.auto_open = 0

    def connect(self, timeout_s: float) -> None:
        """Connect, unless that was done; raises `OSError`."""
        if self._socket is None:
            self._http.timeout = timeout_s
            self._http.connect()
            self._socket = self._http.sock = _Socket(self._http.sock)

    def send(self, method: str, target: str, headers: Headers, body: bytes, timeout_s: float) -> None:
        """Send a request; raises `OSError`."""
        self._stream.ends_at = time.monotonic() + timeout_s
        self._http.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in headers:
            self._http.putheader(name, value)
        self._http.endheaders(body or None)

    def receive(self, ends_at: float) -> http.client.HTTPResponse:
        """The head of the reply, which must be complete at a time by the monotonic
        clock; raises `OSError` and `http.client.HTTPException`.
        """
        self._stream.ends_at = ends_at
        reply = self._http.getresponse()
        _check_framing(reply)
        self._reply = reply
        return reply

    @property
    def _stream(self) -> _Socket:
        if self._socket is None:
            raise ConnectionError("not connected")
        return self._socket

    def release(self) -> None:
        """Note that the reply is not read any further."""
        reply, self._reply = self._reply, None
        if reply is None:
            return
        whole = reply.length == 0 or (reply.chunked and reply.isclosed())
        reply.close()
        if whole and not reply.will_close and not self._closed:
            self._usable_until = time.monotonic() + self._keep_alive_s

    def leads_to(self, origin: Origin) -> bool:
        """Whether requests to an origin may be sent here."""
        return origin == self._origin

    def is_available(self) -> bool:
        """Whether the last reply was read to its end, so that a request may follow."""
        return self._usable_until > 0.0 and not self._closed

    def has_expired(self) -> bool:
        """Whether it was idle for too long, or the other side has closed it."""
        if self._socket is None or time.monotonic() > self._usable_until or not self._socket.is_silent():
            return True
        self._usable_until = 0.0  # until the next reply was read
        return False

    def close(self) -> None:
        """Close the connection. A thread that reads from it reads its end."""
        self._closed = True
        if self._socket is not None:
            self._socket.hang_up()


def body_of(reply: http.client.HTTPResponse) -> Iterator[bytes]:
    """The pieces of a reply's body.

    Raises
    ------
    OSError, http.client.HTTPException
        The body ends too early, or does not come in time.
    """
    if reply.length is None:
        while piece := reply.read1(PIECE_BYTES):
            yield piece
        return
    while expected := min(reply.length, PIECE_BYTES):
        piece = reply.read(expected)
        if len(piece) < expected:
            raise BrokenReply("the connection was closed before the end of the body")
        yield piece


def _check_framing(reply: http.client.HTTPResponse) -> None:
    """Refuse a head that leaves open where its reply ends.

    Otherwise part of one reply might be read as the next one.
    """
    if reply.headers.defects:
        raise BrokenReply("a line of its head is no header")
    codings = reply.headers.get_all("transfer-encoding", [])
    lengths = set(reply.headers.get_all("content-length", []))
    if codings and not reply.chunked:
        raise BrokenReply("its transfer encoding is unknown")
    if len(lengths) > 1 or not all(text.strip().isdecimal() for text in lengths):
        raise BrokenReply("its content length is no number")


class _Reply(http.client.HTTPResponse):
    """Skips all informational replies, such as "103 Early Hints", not "100" alone."""

    def _read_status(self) -> tuple[str, int, str]:
        while True:
            version, status, reason = super()._read_status()  # type: ignore[misc]
            if not 100 < status < 200 or status == http.client.SWITCHING_PROTOCOLS:
                return version, status, reason
            http.client.parse_headers(self.fp)


class _Socket:
    """A socket as `http.client` uses it, each of whose operations ends at a deadline.

    A socket's own timeout starts again with every read, so a server that sends a byte
    now and then could hold a thread for ever.
    """

    def __init__(self, connected: socket.socket) -> None:
        self.ends_at = float("inf")
        self._socket = connected
        self._timeout_s = 0.0
        self._reader = _Reader(_Source(self), BUFFER_BYTES)

    def makefile(self, mode: str) -> io.BufferedReader:
        """What the next reply is read from."""
        return self._reader

    def sendall(self, data: Any) -> None:
        self._set_timeout()
        self._socket.sendall(data)

    def read_into(self, buffer: Any) -> int:
        self._set_timeout()
        return self._socket.recv_into(buffer)

    def _set_timeout(self) -> None:
        remaining = self.ends_at - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("timed out")
        # Each change asks the system, so not for every read.
        if not 0 <= self._timeout_s - remaining <= _TIMEOUT_SLACK_S:
            self._timeout_s = remaining
            self._socket.settimeout(remaining)

    def is_silent(self) -> bool:
        """Whether nothing was sent that was not read, nor the end; never waits."""
        return not self._reader.has_read_ahead() and not _is_readable(self._socket)

    def close(self) -> None:
        """Nothing: `http.client` calls it before the body is read."""

    def hang_up(self) -> None:
        """Close the connection, and wake the thread that reads from it."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # below TLS, whose state the reader needs
        self._socket.close()


class _Source(io.RawIOBase):
    """The reading side of a `_Socket`."""

    def __init__(self, connected: _Socket) -> None:
        self._connected = connected
        self.paused = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        return None if self.paused else self._connected.read_into(buffer)


class _Reader(io.BufferedReader):
    """Reads all replies of a connection, so that its buffer is allocated once."""

    raw: _Source

    def has_read_ahead(self) -> bool:
        """Whether something is buffered; never waits."""
        self.raw.paused = True
        try:
            return bool(self.peek())
        finally:
            self.raw.paused = False

    def close(self) -> None:
        """Nothing: `http.client` calls it at the end of each reply."""


def _is_readable(connected: socket.socket) -> bool:
    if not hasattr(select, "poll"):  # Windows, where select takes any socket
        return bool(select.select([connected], [], [], 0)[0])
    poll = select.poll()
    poll.register(connected, select.POLLIN)
    return bool(poll.poll(0))


__all__ = ["BrokenReply", "HttpConnection", "Origin", "body_of"]
