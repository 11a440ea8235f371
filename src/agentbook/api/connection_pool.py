"""The connections that carry the requests to one platform.

httpcore's own pool asks the system about every connection, twice per request and while
holding a lock. Each of these system calls releases the interpreter lock, so many
threads spend most of their time waiting for the pool's lock. Here a request checks only
the connection it gets.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from .http_connection import HttpConnection, Origin


class ConnectionPool:
    """Lends connections to requests, one connection per request. Thread-safe.

    Parameters
    ----------
    make : callable
        Makes a connection to an origin. It connects with its first request.
    limit : int
        Maximum number of connections.
    keep_alive_s : float
        How long an idle connection stays open, in seconds.
    """

    def __init__(self, make: Callable[[Origin], HttpConnection], limit: int, keep_alive_s: float) -> None:
        self._make = make
        self._keep_alive_s = keep_alive_s
        self._slots = threading.Semaphore(limit)
        self._lock = threading.Lock()  # held only briefly: nothing waits or makes a system call while holding it
        self._lent: set[HttpConnection] = set()
        # Each connection with the time until which it is kept, most recently used last.
        self._idle: deque[tuple[float, HttpConnection]] = deque()
        self._closed = False

    def lend(self, origin: Origin, timeout_s: float) -> HttpConnection:
        """A connection for one request; `give_back` must follow.

        Raises
        ------
        TimeoutError
            If no connection becomes free within `timeout_s`.
        ConnectionError
            If the pool is closed.
        """
        if not self._slots.acquire(timeout=timeout_s):
            raise TimeoutError("timed out")
        try:
            return self._lend(origin)
        except BaseException:
            self._slots.release()
            raise

    def _lend(self, origin: Origin) -> HttpConnection:
        while (connection := self._lend_idle()) is not None:
            # It may belong to another host, or the platform may have closed it in the
            # meantime.
            if connection.leads_to(origin) and not connection.has_expired():
                return connection
            self._discard(connection)
        connection = self._make(origin)
        with self._lock:
            if self._closed:
                raise ConnectionError("the client was closed")
            self._lent.add(connection)
        return connection

    def _lend_idle(self) -> HttpConnection | None:
        with self._lock:
            if not self._idle:
                return None
            _, connection = self._idle.pop()
            self._lent.add(connection)
            return connection

    def give_back(self, connection: HttpConnection) -> None:
        """Keep a connection for further requests, if it can carry them."""
        reusable, now = connection.is_available(), time.monotonic()
        unused = []
        with self._lock:
            if connection not in self._lent:
                return
            self._lent.remove(connection)
            if reusable and not self._closed:
                self._idle.append((now + self._keep_alive_s, connection))
            else:
                unused.append(connection)
            while self._idle and self._idle[0][0] <= now:
                unused.append(self._idle.popleft()[1])
        self._slots.release()
        for each in unused:
            each.close()

    def _discard(self, connection: HttpConnection) -> None:
        with self._lock:
            self._lent.discard(connection)
        connection.close()

    def close(self) -> None:
        """Close all connections, and end the requests on those lent out."""
        with self._lock:
            self._closed = True
            lent, idle = [*self._lent], [connection for _, connection in self._idle]
            self._idle.clear()
        for connection in lent:
            connection.abort()
        for connection in idle:
            connection.close()
