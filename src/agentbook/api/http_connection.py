"""One connection to a platform, which carries one request after another.

httpcore and h11 copy a body five times; this copies it once, so a page of events costs
a third of the CPU time. Also, one deadline covers the whole reply, however slowly it
arrives.
"""

from __future__ import annotations

import contextlib
import io
import select
import socket
import ssl
import time
from typing import Any, NamedTuple

from .http_reply import HttpReply

# A whole page of events arrives with one read, or the rest is read directly into place.
# After each read, a thread waits for the interpreter, for 5 ms if another one computes.
BUFFER_BYTES = 1 << 19
_TIMEOUT_SLACK_S = 0.1


class Origin(NamedTuple):
    """What a connection leads to."""

    secure: bool
    host: str
    port: int


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
        self._tls = tls
        self._keep_alive_s = keep_alive_s
        self._usable_until = 0.0
        self._aborted = False
        self._stream: _Stream | None = None
        self._reader: io.BufferedReader  # for all replies, so that its buffer is allocated once
        self._reply: HttpReply | None = None

    def connect(self, timeout_s: float) -> None:
        """Connect, unless already connected; raises `OSError`."""
        if self._stream is None:
            self._stream = _Stream(_connect(self._origin, self._tls, timeout_s))
            self._reader = io.BufferedReader(self._stream, BUFFER_BYTES)
        if self._aborted:
            raise ConnectionError("the client was closed")

    def send(self, data: memoryview, ends_at: float) -> None:
        """Send a request; raises `OSError`.

        Parameters
        ----------
        data
            The request. A memoryview's repr does not show its contents, which include
            the credential.
        ends_at
            When the reply must be complete, on the monotonic clock.
        """
        assert self._stream is not None
        self._stream.ends_at = ends_at
        self._stream.send(data)

    def receive(self, method: str) -> HttpReply:
        """The reply to a request of this method; raises `OSError` and `BrokenReply`."""
        self._reply = HttpReply(self._reader, method)
        return self._reply

    def release(self) -> None:
        """Note that the reply is not read any further."""
        reply, self._reply = self._reply, None
        if reply is not None and reply.may_be_followed():
            self._usable_until = time.monotonic() + self._keep_alive_s

    def leads_to(self, origin: Origin) -> bool:
        """Whether requests to an origin may be sent here."""
        return origin == self._origin

    def is_available(self) -> bool:
        """Whether the last reply was read to its end, so a new request may follow."""
        return self._usable_until > 0.0 and not self._aborted

    def has_expired(self) -> bool:
        """Whether it was idle too long, or the other side closed it or sent more."""
        if time.monotonic() > self._usable_until or not self._is_silent():
            return True
        self._usable_until = 0.0  # until the next reply has been read
        return False

    def _is_silent(self) -> bool:
        """Whether there is neither unread data nor the end of stream; never waits."""
        assert self._stream is not None
        self._stream.ends_at = 0.0  # do not wait for data that is not in the buffer
        with contextlib.suppress(TimeoutError):
            self._reader.peek()
            return False
        return not self._stream.is_readable()

    def abort(self) -> None:
        """End another thread's use of this connection: it reads the end of the stream.

        That thread closes the connection. Until then, the system must not reuse the
        socket's number for another socket, which the thread would read from.
        """
        self._aborted = True
        if self._stream is not None:
            self._stream.shut_down()

    def close(self) -> None:
        """Close the connection; no thread may be using it."""
        if self._stream is not None:
            self._stream.close()


class _Stream(io.RawIOBase):
    """A socket whose operations all end at a deadline.

    A socket's own timeout starts again with every read, so a server that occasionally
    sends a byte could hold a thread forever.
    """

    def __init__(self, connected: socket.socket) -> None:
        self.ends_at = 0.0
        self._socket = connected
        self._timeout_s = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._set_timeout()
        return self._socket.recv_into(buffer)

    def send(self, data: memoryview) -> None:
        """Send all of it."""
        while data:  # not sendall: with TLS, it restarts the timeout every 16 KiB
            self._set_timeout()
            data = data[self._socket.send(data) :]

    def _set_timeout(self) -> None:
        remaining = self.ends_at - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("timed out")
        # Each change is a system call, so it is not done for every read.
        if not 0 <= self._timeout_s - remaining <= _TIMEOUT_SLACK_S:
            self._timeout_s = remaining
            self._socket.settimeout(remaining)

    def is_readable(self) -> bool:
        """Whether there is data to read, or the end of the stream; never waits."""
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        if not hasattr(select, "poll"):  # Windows, where select takes any socket
            return bool(select.select([self._socket], [], [], 0)[0])
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def shut_down(self) -> None:
        """Let a thread that reads from the socket read the end of the stream."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # below TLS, whose state the reader needs

    def close(self) -> None:
        self._socket.close()
        super().close()


def _connect(origin: Origin, tls: ssl.SSLContext | None, timeout_s: float) -> socket.socket:
    try:
        connected = socket.create_connection((origin.host, origin.port), timeout_s)
    except UnicodeError:  # a label of more than 63 letters
        raise OSError("this is not a host name") from None
    try:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not origin.secure:
            return connected
        if tls is None:
            raise OSError("no certificates to check the platform's with")
        connected = tls.wrap_socket(connected, server_hostname=origin.host, do_handshake_on_connect=False)
        connected.do_handshake()
    except BaseException:
        connected.close()
        raise
    return connected


__all__ = ["HttpConnection", "Origin"]
