"""The pool of connections, with connections that carry nothing."""

from __future__ import annotations

from typing import Any

import httpcore
import pytest

from agentbook.api.connection_pool import ConnectionPool

ORIGIN = httpcore.Origin(b"https", b"host", 443)


class Connection:
    """As `httpcore.HTTPConnection`, after a request that ended well."""

    def __init__(self) -> None:
        self.available = True
        self.expired = self.closed = False

    def is_available(self) -> bool:
        return self.available and not self.closed

    def has_expired(self) -> bool:
        return self.expired

    def close(self) -> None:
        self.closed = True


class Pool(ConnectionPool):
    """A pool that lists the connections it made."""

    def __init__(self, limit: int = 4, keep_alive_s: float = 3600.0) -> None:
        self.made: list[Any] = []
        super().__init__(self.make, limit, keep_alive_s)

    def make(self, origin: httpcore.Origin) -> Any:
        assert origin == ORIGIN
        self.made.append(Connection())
        return self.made[-1]

    def lend(self) -> Any:
        return self.take(ORIGIN, 0.0)


def test_the_connection_used_last_is_used_again() -> None:
    pool = Pool()
    first, second = pool.lend(), pool.lend()
    pool.give_back(first)
    pool.give_back(second)
    assert [pool.lend(), pool.lend(), pool.lend()] == [second, first, pool.made[2]]


def test_no_more_connections_are_lent_than_there_may_be() -> None:
    pool = Pool(limit=2)
    first, _ = pool.lend(), pool.lend()
    with pytest.raises(httpcore.PoolTimeout):
        pool.lend()
    pool.give_back(first)
    pool.give_back(first)  # twice counts once
    assert pool.lend() is first
    with pytest.raises(httpcore.PoolTimeout):
        pool.lend()


def test_a_connection_that_the_platform_closed_is_not_used() -> None:
    pool = Pool()
    connection = pool.lend()
    pool.give_back(connection)
    connection.expired = True
    assert pool.lend() is not connection
    assert connection.closed


def test_a_connection_whose_request_failed_is_closed() -> None:
    pool = Pool(limit=1)
    connection = pool.lend()
    connection.available = False  # a reply that was not read, or no connection at all
    pool.give_back(connection)
    assert connection.closed
    assert pool.lend() is not connection


def test_idle_connections_are_closed_after_a_time() -> None:
    pool = Pool(keep_alive_s=0.0)
    connections = [pool.lend() for _ in range(3)]
    for connection in connections:
        pool.give_back(connection)
    assert all(connection.closed for connection in connections)


def test_closing_the_pool_closes_every_connection() -> None:
    pool = Pool()
    idle, lent = pool.lend(), pool.lend()
    pool.give_back(idle)
    pool.close()
    assert idle.closed
    assert lent.closed
    late = pool.lend()
    pool.give_back(late)
    assert late.closed
