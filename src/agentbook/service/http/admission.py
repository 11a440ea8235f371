"""Which connections are open, and which of them have shown a valid credential.

Anyone can open connections and leave them idle, send a head or a body byte by byte, or
stop reading. The number of connections is therefore limited, and so is, for each
address, the number of those that have not shown a valid credential. Beyond these
limits, the connection that has been idle longest is closed; if none is idle, a new one
gets a moment to send a credential. So there is always room for keys: clients without
one are answered 503.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection
from typing import Protocol

MAX_CONNECTIONS = 4_096
MAX_UNKNOWN = 1_024
MAX_UNKNOWN_PER_ADDRESS = 100
# A connection that is idle for less may have a request on the way.
MIN_IDLE_S = 0.5
MAX_VALID = 4_096  # credentials
# Refused connections that stay open until the response has arrived.
MAX_LINGERING = 64
# Files that the service needs for purposes other than connections.
_RESERVED_FILES = 128


class Admitted(Protocol):
    """What `Admission` needs from a connection."""

    @property
    def address(self) -> str: ...

    def turn_away(self) -> None:
        """Answer 503 and close."""

    def close_idle(self) -> None:
        """Close without an answer: no request has arrived."""


class Admission:
    """A service's connections that have not shown a valid credential, and their limits.

    Parameters
    ----------
    limit
        Open connections, WebSockets included.
    unknown
        Connections without a valid credential.
    unknown_per_address
        The same, from one address.
    min_idle_s
        How long a connection must be idle before it is closed in favour of another.

    Attributes
    ----------
    lingering : int
        Refused connections that stay open until the response has arrived.
    valid : ValidCredentials
        The credentials that connections have recently shown.
    """

    def __init__(
        self,
        limit: int = MAX_CONNECTIONS,
        unknown: int = MAX_UNKNOWN,
        unknown_per_address: int = MAX_UNKNOWN_PER_ADDRESS,
        min_idle_s: float = MIN_IDLE_S,
    ) -> None:
        self.limit = min(limit, _max_files() - _RESERVED_FILES)
        self.unknown = unknown
        self.unknown_per_address = unknown_per_address
        self.min_idle_s = min_idle_s
        self.lingering = 0
        self.valid = ValidCredentials()
        self._by_address: dict[str, _Peers] = {}
        self._total = 0

    def add(self, connection: Admitted, open_connections: Collection[object]) -> bool:
        """Add a connection; returns whether there is room for it without a credential.

        `open_connections` are all open ones, including this one. If there are too many,
        the oldest connection without a credential is turned away, from the address that
        has the most of them.
        """
        peers = self._by_address.setdefault(connection.address, _Peers())
        peers.all[connection] = None
        self._total += 1
        if len(peers.all) > self.unknown_per_address:
            self._close_idle(peers, connection)
        if self._total > self.unknown:
            self._close_idle(self._crowd(), connection)
        if len(open_connections) > self.limit or self._total > 2 * self.unknown:
            oldest = next(iter(self._crowd().all))
            self.remove(oldest)  # at once, so that the next one turns away a different connection
            oldest.turn_away()
        return len(peers.all) <= self.unknown_per_address and self._total <= self.unknown

    def remove(self, connection: Admitted) -> None:
        """Forget a connection: it is closed, or has shown a valid credential."""
        peers = self._by_address.get(connection.address)
        if peers is not None and connection in peers.all:
            del peers.all[connection]
            peers.idle.pop(connection, None)
            self._total -= 1
            if not peers.all:
                del self._by_address[connection.address]

    def mark_idle(self, connection: Admitted, *, is_idle: bool = True) -> None:
        """Note that a connection waits for a request, or that one has begun."""
        peers = self._by_address.get(connection.address)
        if peers is not None and connection in peers.all:
            peers.idle.pop(connection, None)
            if is_idle:
                peers.idle[connection] = time.monotonic()

    def _crowd(self) -> _Peers:
        """The connections of the address that has the most."""
        return max(self._by_address.values(), key=lambda peers: len(peers.all))

    def _close_idle(self, peers: _Peers, new: Admitted) -> None:
        """Close the connection that has been idle longest, if it is idle for long."""
        idlest = next((connection for connection in peers.idle if connection is not new), None)
        if idlest is not None and time.monotonic() - peers.idle[idlest] >= self.min_idle_s:
            self.remove(idlest)
            idlest.close_idle()


class ValidCredentials:
    """The most recently valid credentials, as sent in headers; only their hashes."""

    def __init__(self, limit: int = MAX_VALID) -> None:
        self._limit = limit
        self._hashes: dict[int, None] = {}  # the most recently shown is last

    def __contains__(self, credential: object) -> bool:
        return hash(credential) in self._hashes

    def add(self, credential: bytes) -> None:
        """Note that a credential was valid."""
        self._hashes.pop(hash(credential), None)
        self._hashes[hash(credential)] = None
        if len(self._hashes) > self._limit:
            del self._hashes[next(iter(self._hashes))]


class _Peers:
    """The connections of one address: all, oldest first; and idle ones, longest first.

    Idle connections have the time since which they are idle.
    """

    __slots__ = ("all", "idle")

    def __init__(self) -> None:
        self.all: dict[Admitted, None] = {}
        self.idle: dict[Admitted, float] = {}


def _max_files() -> int:
    """The number of files that this process may open, raised as far as necessary."""
    if sys.platform == "win32":
        return MAX_CONNECTIONS + _RESERVED_FILES
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = MAX_CONNECTIONS + _RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < enough:
        soft = enough if hard == resource.RLIM_INFINITY else min(enough, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return enough if soft == resource.RLIM_INFINITY else soft
