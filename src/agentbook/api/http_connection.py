"""One connection to a platform, which carries one request after another.

httpcore and h11 copy a body five times, this once: a page of events costs a third of
their CPU. And one deadline covers a whole reply, however slowly that comes.
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

# A whole page of events arrives with one read, or is read on to where it stays. After
# each read a thread waits for the interpreter, for 5 ms if another one computes.
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
        self._reader: io.BufferedReader  # of all replies, so that its buffer is allocated once
        self._reply: HttpReply | None = None

    def connect(self, timeout_s: float) -> None:
        """Connect, unless that was done; raises `OSError`."""
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
            No variable shows what is in a memoryview, which is the credential too.
        ends_at
            When the reply must be complete, by the monotonic clock.
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
        """Whether the last reply was read to its end, so that a request may follow."""
        return self._usable_until > 0.0 and not self._aborted

    def has_expired(self) -> bool:
        """Whether it idled for too long, or the other side closed it or sent more."""
        if time.monotonic() > self._usable_until or not self._is_silent():
            return True
        self._usable_until = 0.0  # until the next reply was read
        return False

    def _is_silent(self) -> bool:
        """Whether nothing was sent that was not read, nor the end; never waits."""
        assert self._stream is not None
        self._stream.ends_at = 0.0  # what the buffer lacks is not waited for
        with contextlib.suppress(TimeoutError):
            self._reader.peek()
            return False
        return not self._stream.is_readable()

    def abort(self) -> None:
        """End what another thread does here: it reads the end of the connection.

        That thread closes it. Until then, the system must not use the socket's number
        for another one, which the thread would read from.
        """
        self._aborted = True
        if self._stream is not None:
            self._stream.shut_down()

    def close(self) -> None:
        """Close the connection, which no thread uses."""
        if self._stream is not None:
            self._stream.close()


class _Stream(io.RawIOBase):
    """A socket each of whose operations ends at a deadline.

    A socket's own timeout starts again with every read, so a server that sends a byte
    now and then could hold a thread for ever.
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
        while data:  # not sendall: that of TLS starts the timeout again every 16 KiB
            self._set_timeout()
            data = data[self._socket.send(data) :]

    def _set_timeout(self) -> None:
        remaining = self.ends_at - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("timed out")
        # Each change asks the system, so not for every read.
        if not 0 <= self._timeout_s - remaining <= _TIMEOUT_SLACK_S:
            self._timeout_s = remaining
            self._socket.settimeout(remaining)

    def is_readable(self) -> bool:
        """Whether something was sent, or the end; never waits."""
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        if not hasattr(select, "poll"):  # Windows, where select takes any socket
            return bool(select.select([self._socket], [], [], 0)[0])
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def shut_down(self) -> None:
        """Let the thread that reads from it read its end."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # below TLS, whose state the reader needs

    def close(self) -> None:
        self._socket.close()
        super().close()


def _connect(origin: Origin, tls: ssl.SSLContext | None, timeout_s: float) -> socket.socket:
    try:
        connected = socket.create_connection((origin.host, origin.port), timeout_s)
    except UnicodeError:  # a label of more than 63 letters
        raise OSError("this is no name of a host") from None
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
