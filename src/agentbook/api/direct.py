"""Kept-alive connections straight to the platform: what a `Client` of its own sends by when no proxy stands between.

These are the connections of httpcore, the engine within httpx: the same protocol code, timeouts and errors. What is left out is
what httpx does around it for every request (merging headers, cookies, redirects, hooks) and the search of its pool through all
connections, which together cost three times as much as the request itself.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, cast

from .errors import AgentbookError

# Less than the 5 s after which uvicorn and Node close an idle connection: a write that meets its end on the way is lost.
KEEP_ALIVE_S = 4.0

MOST_BODY_BYTES = 1 << 30  # of a reply, decoded; whoever sends more means no good, or was asked for too much at once

Headers = Sequence[tuple[bytes, bytes]]


class Direct:
    """Up to `most` connections to one origin. Safe to use from several threads at once.

    Parameters
    ----------
    url : httpx.URL
        Its scheme, host and port are the origin.
    tls : ssl.SSLContext or None
        Checks the certificate of an ``https`` origin.
    """

    def __init__(self, url: Any, tls: ssl.SSLContext | None, most: int) -> None:
        import httpcore

        self._httpcore = httpcore
        self._tls = tls
        port = url.port or (443 if url.scheme == "https" else 80)
        self._origin = httpcore.Origin(url.raw_scheme, url.raw_host, port)
        self._idle: deque[tuple[Any, _Until]] = deque()  # the one used last is at the right
        self._free = threading.BoundedSemaphore(most)
        self._closed = False

    def request(
        self, method: str, target: bytes, headers: Headers, body: bytes | None, timeout: dict[str, float]
    ) -> Any:
        """A request of this origin, ready for `send`."""
        origin = self._origin
        url = self._httpcore.URL(scheme=origin.scheme, host=origin.host, port=origin.port, target=target)
        return self._httpcore.Request(method, url, headers=headers, content=body, extensions={"timeout": timeout})

    def send(self, request: Any) -> tuple[int, Headers, bytes]:
        """Status, headers and body of the reply. What goes wrong is an exception of httpcore, named as httpx names it."""
        if not self._free.acquire(timeout=request.extensions["timeout"]["pool"]):
            raise self._httpcore.PoolTimeout("no connection became free")
        try:
            connection, until = self._take()
            until.at = time.monotonic() + request.extensions["timeout"]["read"]
            try:
                response = connection.handle_request(request)
                try:
                    return response.status, response.headers, bounded(response.iter_stream())
                finally:
                    response.close()
            finally:
                self._give(connection, until)
        finally:
            self._free.release()

    def _take(self) -> tuple[Any, _Until]:
        while self._idle:
            try:
                connection, until = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if connection.is_available() and not connection.has_expired():
                return connection, until
            connection.close()
        until = _Until(self._httpcore)
        connection = self._httpcore.HTTPConnection(
            self._origin, ssl_context=self._tls, keepalive_expiry=KEEP_ALIVE_S, network_backend=cast(Any, until)
        )
        return connection, until

    def _give(self, connection: Any, until: _Until) -> None:
        if self._closed or not connection.is_idle():
            connection.close()
            return
        self._idle.append((connection, until))
        try:
            oldest = self._idle.popleft()
        except IndexError:
            return
        if oldest[0].has_expired():
            oldest[0].close()
        else:
            self._idle.appendleft(oldest)

    def close(self) -> None:
        """Close what is idle; connections in use close when their reply is there."""
        self._closed = True
        while self._idle:
            self._idle.pop()[0].close()


def bounded(chunks: Iterable[bytes]) -> bytes:
    """A body from its pieces; `AgentbookError` where it grows beyond `MOST_BODY_BYTES`, decoded from a few bytes maybe."""
    body = Body()
    for chunk in chunks:
        body.add(chunk)
    return body.whole()


class Body:
    """A reply's body, piece by piece."""

    __slots__ = ("_pieces", "_size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def whole(self) -> bytes:
        return b"".join(self._pieces)

    def add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > MOST_BODY_BYTES:
            raise AgentbookError(
                f"The platform's reply is larger than {MOST_BODY_BYTES >> 20} MiB and was not read to its end. Ask for fewer "
                "items at once (limit=...)."
            )
        self._pieces.append(piece)


class _Until:
    """The network of one connection: a request's time is up at `at`, however often a byte of the reply arrives."""

    __slots__ = ("_network", "at", "late")

    def __init__(self, httpcore: Any) -> None:
        self.at = 0.0
        self.late: type[Exception] = httpcore.ReadTimeout
        self._network = httpcore.SyncBackend()

    def connect_tcp(self, *arguments: Any, **options: Any) -> _Stream:
        return _Stream(self._network.connect_tcp(*arguments, **options), self)


class _Stream:
    __slots__ = ("_stream", "_until", "close", "get_extra_info", "write")

    def __init__(self, stream: Any, until: _Until) -> None:
        self._stream = stream
        self._until = until
        self.write, self.close, self.get_extra_info = stream.write, stream.close, stream.get_extra_info

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        left = self._until.at - time.monotonic()
        if left <= 0:
            raise self._until.late("timed out")
        data: bytes = self._stream.read(max_bytes, left if timeout is None else min(left, timeout))
        return data

    def start_tls(self, *arguments: Any, **options: Any) -> _Stream:
        return _Stream(self._stream.start_tls(*arguments, **options), self._until)
