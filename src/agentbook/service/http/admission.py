"""Which connections are open, and which of them have shown a valid credential.

Anyone can open connections and leave them idle, send a head or a body byte by byte, or
stop reading. The number of connections is therefore limited, and the number of those
that have not shown a valid credential is limited for each address. Beyond these limits
a new connection gets a moment to send a credential, so keys always have room: whoever
has none is answered 503.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Protocol

# Set in the scope of a request whose credential is valid.
KNOWN = "agentbook.known"

MAX_CONNECTIONS = 4_096
MAX_UNKNOWN = 1_024
MAX_UNKNOWN_PER_ADDRESS = 100
# Refused connections that stay open until the response has arrived.
MAX_LINGERING = 64
# Files that the service needs for anything but connections.
_RESERVED_FILES = 128


class Admitted(Protocol):
    """What `Admission` needs of a connection."""

    @property
    def address(self) -> str: ...

    def turn_away(self) -> None:
        """Answer 503 and close."""


class Admission:
    """The connections of a service that have not shown a valid credential, and limits.

    Parameters
    ----------
    limit
        Open connections, WebSockets included.
    unknown
        Connections without a valid credential.
    unknown_per_address
        The same, from one address.

    Attributes
    ----------
    lingering : int
        Refused connections that are open until the response has arrived.
    """

    def __init__(
        self,
        limit: int = MAX_CONNECTIONS,
        unknown: int = MAX_UNKNOWN,
        unknown_per_address: int = MAX_UNKNOWN_PER_ADDRESS,
    ) -> None:
        self.limit = min(limit, _max_files() - _RESERVED_FILES)
        self.unknown = unknown
        self.unknown_per_address = unknown_per_address
        self.lingering = 0
        self._by_address: dict[str, dict[Admitted, None]] = {}  # oldest first

    def add(self, connection: Admitted, open_connections: Collection[object]) -> bool:
        """Add a new connection; whether there is room for it without a credential.

        `open_connections` are all that are open, this one included. If they are too
        many, the oldest connection without a credential is turned away, of the address
        that has most of them.
        """
        peers = self._by_address.setdefault(connection.address, {})
        peers[connection] = None
        total = sum(map(len, self._by_address.values()))
        if len(open_connections) > self.limit or total > 2 * self.unknown:
            crowd = max(self._by_address.values(), key=len)
            oldest = next(iter(crowd))
            self.remove(oldest)  # at once, so that the next one turns another away
            oldest.turn_away()
        return len(peers) <= self.unknown_per_address and total <= self.unknown

    def remove(self, connection: Admitted) -> None:
        """Forget a connection: it is closed, or has shown a valid credential."""
        peers = self._by_address.get(connection.address)
        if peers is not None:
            peers.pop(connection, None)
            if not peers:
                del self._by_address[connection.address]


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
