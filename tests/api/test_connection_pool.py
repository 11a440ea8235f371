"""The pool of connections, with connections that carry nothing."""

from __future__ import annotations

from typing import Any

import pytest

from agentbook.api.connection_pool import ConnectionPool
from agentbook.api.http_connection import Origin

ORIGIN = Origin(True, "host", 443)


class Connection:
    """As `HttpConnection`, after a request that ended well."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.available = True
        self.expired = self.closed = self.aborted = False

    def leads_to(self, origin: Origin) -> bool:
        return origin == self.origin

    def is_available(self) -> bool:
        return self.available and not self.closed

    def has_expired(self) -> bool:
        return self.expired

    def abort(self) -> None:
        self.available, self.aborted = False, True

    def close(self) -> None:
        self.closed = True


class Pool(ConnectionPool):
    """A pool that lists the connections it made."""

    def __init__(self, limit: int = 4, keep_alive_s: float = 3600.0) -> None:
        self.made: list[Any] = []
        super().__init__(self.make, limit, keep_alive_s)

    def make(self, origin: Origin) -> Any:
        self.made.append(Connection(origin))
        return self.made[-1]

    def borrow(self) -> Any:
        return self.lend(ORIGIN, 0.0)


def test_the_connection_used_last_is_used_again() -> None:
    pool = Pool()
    first, second = pool.borrow(), pool.borrow()
    pool.give_back(first)
    pool.give_back(second)
    assert [pool.borrow(), pool.borrow(), pool.borrow()] == [second, first, pool.made[2]]


def test_no_more_connections_are_lent_than_there_may_be() -> None:
    pool = Pool(limit=2)
    first, _ = pool.borrow(), pool.borrow()
    with pytest.raises(TimeoutError):
        pool.borrow()
    pool.give_back(first)
    pool.give_back(first)  # twice counts once
    assert pool.borrow() is first
    with pytest.raises(TimeoutError):
        pool.borrow()


def test_a_connection_that_the_platform_closed_is_not_used() -> None:
    pool = Pool()
    connection = pool.borrow()
    pool.give_back(connection)
    connection.expired = True
    assert pool.borrow() is not connection
    assert connection.closed


def test_a_connection_to_another_host_is_not_used() -> None:
    pool = Pool(limit=1)
    connection = pool.borrow()
    pool.give_back(connection)
    other = Origin(True, "other", 443)
    assert pool.lend(other, 0.0).origin == other
    assert connection.closed


def test_a_connection_whose_request_failed_is_closed() -> None:
    pool = Pool(limit=1)
    connection = pool.borrow()
    connection.available = False  # a reply that was not read, or no connection at all
    pool.give_back(connection)
    assert connection.closed
    assert pool.borrow() is not connection


def test_idle_connections_are_closed_after_a_time() -> None:
    pool = Pool(keep_alive_s=0.0)
    connections = [pool.borrow() for _ in range(3)]
    for connection in connections:
        pool.give_back(connection)
    assert all(connection.closed for connection in connections)


def test_closing_the_pool_closes_every_connection() -> None:
    """But leaves those that are lent to whoever uses them, with no more to read."""
    pool = Pool()
    idle, lent = pool.borrow(), pool.borrow()
    pool.give_back(idle)
    pool.close()
    assert idle.closed
    assert (lent.aborted, lent.closed) == (True, False)
    pool.give_back(lent)
    assert lent.closed


def test_a_closed_pool_lends_nothing() -> None:
    pool = Pool(limit=1)
    pool.close()
    for _ in range(2):  # the limit is not used up
        with pytest.raises(ConnectionError, match="the client was closed"):
            pool.borrow()
