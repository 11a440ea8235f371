"""All writes: one thread, and one transaction for all waiting writes (group commit).

Each write is a function of a `Transaction`. Waiting writes run one after another in one
transaction, each in its own savepoint, so a failed one does not affect the others, and
all of them cost one commit. A write's caller gets its result after the commit.

The transaction begins with the lock of all writes (`engine`), which other processes on
a PostgreSQL database take too. Event ids are created under that lock, and each is
greater than all before. So a reader with a cursor never misses an event: no id becomes
visible after a greater one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine

from .. import ids
from ..ids import Clock
from . import events
from .transaction import Execute, Published, Transaction

T = TypeVar("T")

log = logging.getLogger("agentbook.service")

_MAX_BATCH = 256  # limits how long the first write of a batch waits for the last
_MAX_AHEAD_MS = 60_000  # of the newest id; less is a clock that was set by NTP, or that of another process
_NEWEST = "SELECT value FROM meta WHERE name = 'newest_event'"


class EventIdGenerator:
    """Event ids: UUIDv7s that always increase, whatever the system's clock does."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = (0, 0)  # milliseconds, and a sequence number within them
        self.newest = ""
        self._is_ahead = False  # as the log was told

    def begin(self, execute: Execute) -> None:
        """Continue after the newest event of the store; call this under the lock."""
        row = execute(_NEWEST, ()).fetchone() or execute("SELECT max(id) FROM events", ()).fetchone()
        newest = row[0] or ""
        if newest > self.newest:
            self.newest = newest
            sequence = int(newest[15:18], 16)  # as `id_at` writes it
            self._last = max(self._last, (ids.milliseconds_of(newest), sequence))

    def new_event_id(self) -> tuple[str, str]:
        """Return an id greater than all before, and its instant.

        That is the time in the id, unless the clock was far ahead before.
        """
        now = self._clock.milliseconds()
        milliseconds, sequence = self._last
        if now > milliseconds:
            milliseconds, sequence = now, 0
        elif sequence < 0xFFF:
            sequence += 1
        else:
            milliseconds, sequence = milliseconds + 1, 0
        self._last = milliseconds, sequence
        self.newest = ids.id_at(milliseconds, sequence, self._clock.entropy())
        if milliseconds - now <= _MAX_AHEAD_MS:
            return self.newest, ids.instant_of_ms(milliseconds)
        if not self._is_ahead:
            self._is_ahead = True
            log.warning(
                "the newest event has the time %s: was the clock wrong? New events get the time of the clock, but ids "
                "after that one, which since= and until= go by",
                ids.instant_of_ms(milliseconds),
            )
        return self.newest, ids.instant_of_ms(now)


@dataclass(slots=True)
class _Job:
    work: Callable[[Transaction], Any]
    loop: asyncio.AbstractEventLoop | None = None
    future: asyncio.Future[Any] | None = None
    transaction: Transaction | None = None
    result: Any = None
    error: BaseException | None = None


class Writer:
    """The writer thread.

    Each of `on_events` is called on the caller's loop with the events of a commit, in
    commit order, and `on_access_change` after one that changed access.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        on_events: Sequence[Callable[[list[Published]], object]],
        on_access_change: Callable[[], None],
    ) -> None:
        self._engine = engine.execution_options(agentbook_begin="IMMEDIATE")
        self._clock = clock
        self._ids = EventIdGenerator(clock)
        self._on_events = on_events
        self._on_access_change = on_access_change
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in the next transaction; return its result after the commit."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="agentbook-writer", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Job(work, loop, future))
        return await future

    def write_now(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in its own transaction in this thread (start-up, commands)."""
        job = _Job(work)
        self._commit([job], EventIdGenerator(self._clock))
        if job.error is not None:
            raise job.error
        return job.result  # type: ignore[no-any-return]

    def close(self) -> None:
        """Finish waiting writes, then end the thread."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        last = False
        while not last:
            batch, last = self._next_batch()
            if batch:
                self._commit(batch, self._ids)
                self._report(batch)

    def _next_batch(self) -> tuple[list[_Job], bool]:
        job = self._jobs.get()
        batch: list[_Job] = []
        while job is not None:
            batch.append(job)
            if len(batch) == _MAX_BATCH:
                return batch, False
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _commit(self, batch: list[_Job], event_ids: EventIdGenerator) -> None:
        """Commit a batch; each job then has its result or its error."""
        try:
            with self._engine.begin() as connection:
                execute = _raw_execute(connection)
                event_ids.begin(execute)
                for job in batch:
                    job.transaction = Transaction(connection, self._clock, event_ids.new_event_id, execute)
                    self._attempt(job, job.transaction, savepoint=len(batch) > 1)
                _execute_rows(connection, [job.transaction for job in batch if job.transaction and not job.error])
        except BaseException as error:
            for job in batch:
                job.error = job.error or error

    def _attempt(self, job: _Job, transaction: Transaction, *, savepoint: bool) -> None:
        if not savepoint:
            self._clock.begin(transaction.db)
            job.result = job.work(transaction)
            return
        transaction.execute("SAVEPOINT job", ())
        try:
            self._clock.begin(transaction.db)
            job.result = job.work(transaction)
            _execute_rows(transaction.db, [transaction])
        except Exception as error:
            # If the database rolled back the whole transaction (disk full), this raises
            # and the whole batch fails.
            transaction.execute("ROLLBACK TO SAVEPOINT job", ())
            job.error = error
        transaction.execute("RELEASE SAVEPOINT job", ())

    def _report(self, batch: list[_Job]) -> None:
        for loop in {job.loop for job in batch if job.loop is not None}:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is waiting
                loop.call_soon_threadsafe(self._report_results, [job for job in batch if job.loop is loop])

    def _report_results(self, batch: list[_Job]) -> None:
        """On the caller's loop, after the commit: events, callbacks, then results."""
        committed = [job for job in batch if job.error is None and job.transaction is not None]
        published = [event for job in committed for event in job.transaction.events]  # type: ignore[union-attr]
        if published:
            for told in self._on_events:
                told(published)
        if any(job.transaction.changes_access for job in committed):  # type: ignore[union-attr]
            self._on_access_change()
        for job in committed:
            for callback in job.transaction.callbacks:  # type: ignore[union-attr]
                callback()
        for job in batch:
            for callback in job.transaction.endings if job.transaction is not None else ():
                callback()
            if job.future is not None and not job.future.done():
                if job.error is None:
                    job.future.set_result(job.result)
                else:
                    job.future.set_exception(job.error)


def _execute_rows(connection: Connection, transactions: list[Transaction]) -> None:
    """Run the statements that writes have left to the end, each kind at once."""
    by_statement: dict[str, list[tuple[Any, ...]]] = {}
    for transaction in transactions:
        for sql, rows in transaction.rows.items():
            by_statement.setdefault(sql, []).extend(rows)
        transaction.rows = {}
    for sql, rows in by_statement.items():
        if sql == events.INSERT:
            events.insert_all(connection, rows)
        elif connection.dialect.name == "sqlite":
            driver: Any = connection.connection.driver_connection
            driver.executemany(sql, rows)
        else:
            connection.exec_driver_sql(sql.replace("?", "%s"), rows)


def _raw_execute(connection: Connection) -> Execute:
    """Return a function that runs a statement of the hot path, with ``?`` parameters.

    On SQLite it bypasses SQLAlchemy, which costs several times the statement itself.
    """
    if connection.dialect.name == "sqlite":
        driver: Any = connection.connection.driver_connection
        return driver.execute  # type: ignore[no-any-return]
    return lambda sql, parameters: connection.exec_driver_sql(sql.replace("?", "%s"), parameters)
