"""The store: everything the platform remembers.

The service calls `Store.read` and `Store.write`; start-up and management commands call
`read_now` and `write_now`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from sqlalchemy import Connection

from ..clock import Clock
from ..errors import OperatorError
from .activity import StoreActivity
from .engine import close_connections, connection_parameters, open_engine
from .event_ranks import EventRanks
from .events import LongTexts
from .seeded import BEGINNING, Seeding, open_clock
from .transaction import Published, Transaction
from .writer import Writer

__all__ = ["BEGINNING", "Published", "Seeding", "Store", "Transaction"]

T = TypeVar("T")

_LAST_READS_S = 5.0
_READERS = 4


def _ignore(_events: list[Published]) -> None:
    """Discard events: nobody listens yet."""


class Store:
    """The store of a data directory (SQLite), or at a URL (PostgreSQL).

    Parameters
    ----------
    data
        The data directory, created if missing.
    database
        The URL of a PostgreSQL database to use instead of ``store.db``.
    clock
        The source of ids and times. None uses the store's own clock if it was created
        with a seed, else the system's.
    seeding
        Create the store with a seed (see `store.seeded`).

    Attributes
    ----------
    is_shared : bool
        Whether other processes may serve the same store: on PostgreSQL.

    Raises
    ------
    OperatorError
        The store cannot be opened; the message names the remedy.
    """

    def __init__(
        self,
        data: Path,
        database: str | None = None,
        *,
        clock: Clock | None = None,
        seeding: Seeding | None = None,
    ) -> None:
        self.engine = open_engine(data, database)
        try:
            self.clock = clock or open_clock(self.engine, seeding)
        except OperatorError:
            self.engine.dispose()
            raise
        self.on_events: Callable[[list[Published]], None] = _ignore
        self.on_access_change: Callable[[], None] = lambda: None
        self._writer = Writer(
            self.engine, self.clock, lambda events: self.on_events(events), lambda: self.on_access_change()
        )
        self.long_texts = LongTexts()
        self._inline: Connection | None = None
        self._is_sqlite = self.engine.dialect.name == "sqlite"
        self.is_shared = not self._is_sqlite
        self.event_ranks = EventRanks()
        # More threads would only compete with the loop for the interpreter.
        self._readers = anyio.CapacityLimiter(_READERS)
        self._counters = anyio.CapacityLimiter(1)
        self._reading = 0
        self._read_ended = threading.Condition()

    async def write(self, work: Callable[[Transaction], T], *, sessions: Collection[str] | None = None) -> T:
        """Run `work` on the writer thread and return once it is durable.

        On PostgreSQL, a write that touches only the rows of certain `sessions`, and
        names them, does not wait for the writes of others. It may run more than once if
        its connection is lost. It writes rows that sessions share with
        `Transaction.defer`.
        """
        return await self._writer.write(work, sessions)

    def write_now(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in its own transaction in this thread."""
        return self._writer.write_now(work)

    async def read(
        self,
        work: Callable[[Connection], T],
        *,
        brief: bool = False,
        single: bool = False,
    ) -> T:
        """Run `work` on one consistent state of the store.

        On PostgreSQL, a `single` statement takes one round trip; others begin and end a
        transaction, which takes two more.

        On SQLite, `brief` reads (a row by its key, a page of events) run on the loop:
        handing one to a thread costs more than the read itself (3,450 against 2,067
        pages of 20 a second). All others run in a thread.
        """
        if brief and self._is_sqlite:
            if self._inline is None:
                self._inline = self.engine.connect()
            with self._inline.begin():
                return work(self._inline)
        return await anyio.to_thread.run_sync(partial(self.read_now, work, single=single), limiter=self._readers)

    @property
    def waiting_reads(self) -> int:
        """How many reads wait for a thread."""
        return self._readers.statistics().tasks_waiting

    def read_now(self, work: Callable[[Connection], T], *, single: bool = False) -> T:
        """Run `work` on one consistent state of the store, in this thread."""
        with self._in_use(), self.engine.connect() as connection:
            if not self._is_sqlite:  # a list's count and its page see the same state, as on SQLite
                level = "AUTOCOMMIT" if single else "REPEATABLE READ"
                connection = connection.execution_options(isolation_level=level)
            with connection.begin():
                return work(connection)

    async def count(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in its own transaction, in a thread, independently of the writer.

        For counters that are written on their own: on PostgreSQL they do not wait for
        other writes, and a seeded clock stands still.
        """
        return await anyio.to_thread.run_sync(self._count_now, work, limiter=self._counters)

    def _count_now(self, work: Callable[[Connection], T]) -> T:
        immediate = self.engine.execution_options(agentbook_begin="IMMEDIATE")
        with self._in_use(), immediate.begin() as connection:
            return work(connection)

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        """Make `close` wait for a thread that uses a connection."""
        with self._read_ended:
            self._reading += 1
        try:
            yield
        finally:
            with self._read_ended:
                self._reading -= 1
                self._read_ended.notify_all()

    def connection_parameters(self) -> dict[str, Any]:
        """The parameters that psycopg connects with, for use outside the pool."""
        return connection_parameters(self.engine)

    def activity(self, account_id: str) -> StoreActivity:
        """Return what an agent that runs for this account may read."""
        return StoreActivity(self.engine, account_id)

    def close(self) -> None:
        """Finish waiting writes and reads, and close every connection."""
        self._writer.close()
        # A read whose caller was cancelled continues in its thread; its connection
        # would outlive the pool.
        with self._read_ended:
            self._read_ended.wait_for(lambda: self._reading == 0, timeout=_LAST_READS_S)
        if self._inline is not None:
            self._inline.close()
            self._inline = None
        close_connections(self.engine)
