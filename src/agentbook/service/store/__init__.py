"""The store: everything the platform remembers.

The service calls `Store.read` and `Store.write`; start-up and management commands call
`read_now` and `write_now`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from .. import ids
from ..errors import OperatorError
from ..ids import Clock
from .engine import DAMAGED, close_connections, open_engine, unavailable_reason
from .seeded import BEGINNING, Seeding, open_clock
from .transaction import Published, Transaction
from .writer import Writer

__all__ = ["BEGINNING", "Published", "Seeding", "Store", "Transaction"]

T = TypeVar("T")

_READERS = 4
_BRIEF_S = 0.02  # how long a read may hold up the loop
_READ_S = 10.0  # how long one may take in a thread
# A value that changes: SQLite writes nothing for a row that stays as it is.
_CHECK = text(
    "INSERT INTO meta (name, value) VALUES ('checked_at', :now) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
_CHECK_BYTES = 1 << 20  # that a check writes after a failure; no request has a longer body
_CHECK_S = 1.0  # for how long a check that succeeded answers for the next ones
_STEPS = 1000  # of SQLite's machine, between two looks at the clock
_STEPS_IN_THREAD = 200_000  # a look waits for the interpreter there


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
        self.on_events: list[Callable[[list[Published]], object]] = []
        self.on_access_change: Callable[[], None] = lambda: None
        self._writer = Writer(self.engine, self.clock, self.on_events, lambda: self.on_access_change())
        self._brief: Connection | None = None
        self._driver: Any = None
        self._brief_until = 0.0
        self._is_sqlite = self.engine.dialect.name == "sqlite"
        # More threads would only compete with the loop for the interpreter.
        self._readers = ThreadPoolExecutor(_READERS, "agentbook-reader")
        self._reading = 0
        self._checking: asyncio.Task[None] | None = None
        self._sound_until = 0.0
        self._has_failed = False  # since the last check that succeeded
        self._damage: Exception | None = None

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on the writer thread and return once it is durable."""
        try:
            return await self._writer.write(work)
        except Exception as error:
            self._note(error)
            raise

    def write_now(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in its own transaction in this thread."""
        return self._writer.write_now(work)

    def _note(self, error: Exception) -> None:
        """What a failure says about the store; damage stays."""
        reason = unavailable_reason(error)
        if reason is not None:
            self._sound_until, self._has_failed = 0.0, True
        if reason == DAMAGED:
            self._damage = error

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on one consistent state of the store.

        On SQLite it begins on the loop, since most reads are shorter than the way to a
        thread. One that takes longer than `_BRIEF_S` is stopped, and repeated in a
        thread, as is one that meets a lock: so `work` only reads. There it may take
        `_READ_S`; PostgreSQL has a limit of its own.
        """
        self._reading += 1
        try:
            if self._is_sqlite:
                with contextlib.suppress(OperationalError, sqlite3.OperationalError):
                    return self._read_briefly(work)
            return await asyncio.get_running_loop().run_in_executor(self._readers, self._read_in_time, work)
        except Exception as error:
            self._note(error)
            raise
        finally:
            self._reading -= 1

    def _read_briefly(self, work: Callable[[Connection], T]) -> T:
        if self._brief is None:
            # Its transactions begin and end below: SQLAlchemy would double the time of
            # a short read.
            self._brief = self.engine.connect().execution_options(agentbook_begin="")
            self._driver = self._brief.connection.driver_connection
            self._driver.execute("PRAGMA busy_timeout = 0")
            self._driver.set_progress_handler(lambda: time.thread_time() > self._brief_until, _STEPS)
        self._brief_until = time.thread_time() + _BRIEF_S
        self._driver.execute("BEGIN")
        try:
            return work(self._brief)
        finally:
            self._driver.rollback()  # there is nothing to commit, and damage would prevent it

    def _read_in_time(self, work: Callable[[Connection], T]) -> T:
        def limited(db: Connection) -> T:
            driver: Any = db.connection.driver_connection
            end = time.monotonic() + _READ_S
            driver.set_progress_handler(lambda: time.monotonic() > end, _STEPS_IN_THREAD)
            try:
                return work(db)
            finally:
                driver.set_progress_handler(None, 0)

        return self.read_now(limited if self._is_sqlite else work)

    @property
    def waiting_reads(self) -> int:
        """How many reads wait for a thread."""
        return max(0, self._reading - _READERS)

    def read_now(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on one consistent state of the store, in this thread."""
        with self.engine.connect() as connection:
            if not self._is_sqlite:  # a list's count and its page see the same state, as on SQLite
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                return work(connection)

    async def check(self) -> None:
        """Raise what a write would raise now: the store is locked, full or damaged.

        Only a write shows that. So that anyone may ask, there is one at a time, and
        none within `_CHECK_S` after one that succeeded, unless another write failed.
        After that it has to be a long one: a disk may be full for all but short ones.
        """
        if self._damage is not None:
            raise self._damage
        if time.monotonic() < self._sound_until:
            return
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check())
            self._checking.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(self._checking)

    async def _check(self) -> None:
        length, self._has_failed = _CHECK_BYTES if self._has_failed else 0, False
        try:
            await asyncio.to_thread(self._check_now, length)
        except Exception as error:
            self._note(error)
            raise
        if not self._has_failed:
            self._sound_until = time.monotonic() + _CHECK_S

    def _check_now(self, length: int) -> None:
        with self.engine.execution_options(agentbook_begin="IMMEDIATE").begin() as connection:
            connection.execute(_CHECK, {"now": ids.now() + os.urandom(length // 2).hex()})

    def close(self) -> None:
        """Finish waiting writes and reads, and close every connection."""
        self._writer.close()
        # A read whose caller was cancelled continues in its thread; its connection
        # would outlive the pool.
        self._readers.shutdown()
        if self._brief is not None:
            self._brief.close()
            self._brief = None
        close_connections(self.engine)
