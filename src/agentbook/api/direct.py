"""Kept-alive connections straight to the platform: what a `Client` of its own sends by when no proxy stands between.

These are the connections of httpcore, the engine within httpx: the same protocol code, timeouts and errors. What is left out is
what httpx does around it for every request (merging headers, cookies, redirects, hooks) and the search of its pool through all
connections, which together cost three times as much as the request itself.
"""

from __future__ import annotations

import ssl
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

# Less than the 5 s after which uvicorn and Node close an idle connection: a write that meets its end on the way is lost.
KEEP_ALIVE_S = 4.0

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
        self._idle: deque[Any] = deque()  # the one used last is at the right
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
            connection = self._take()
            try:
                response = connection.handle_request(request)
                try:
                    return response.status, response.headers, response.read()
                finally:
                    response.close()
            finally:
                self._give(connection)
        finally:
            self._free.release()

    def _take(self) -> Any:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if connection.is_available() and not connection.has_expired():
                return connection
            connection.close()
        return self._httpcore.HTTPConnection(self._origin, ssl_context=self._tls, keepalive_expiry=KEEP_ALIVE_S)

    def _give(self, connection: Any) -> None:
        if self._closed or not connection.is_idle():
            connection.close()
            return
        self._idle.append(connection)
        try:
            oldest = self._idle.popleft()
        except IndexError:
            return
        if oldest.has_expired():
            oldest.close()
        else:
            self._idle.appendleft(oldest)

    def close(self) -> None:
        """Close what is idle; connections in use close when their reply is there."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()
