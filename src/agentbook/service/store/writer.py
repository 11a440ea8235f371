"""All writes: one thread, and one transaction for all waiting writes (group commit).

Each write is a function of a `Transaction`. Waiting writes run one after another in one
``BEGIN IMMEDIATE``, each in its own savepoint, so a failed one does not affect the
others, and all of them cost one commit. A write's caller gets its result after the
commit.

On PostgreSQL other processes write too. There, a batch takes locks first, and writes
that name the sessions they touch are committed separately from those that do not (see
`session_locks`). Each statement is a round trip, so such a batch runs without
savepoints, and inserts the events of all its writes at once, together with its commit
(see `pipeline`). Only if that fails is it repeated, write by write.

Event ids are created here, inside the transaction. If they were created earlier and
committed later, a reader with a cursor would lose events forever (measured: 4,660 of
6,580 deliveries, with four overlapping writers).
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from .. import ids
from ..clock import Clock
from .engine import unavailable_reason
from .pipeline import PinnedConnection, PipelinedTransaction
from .session_locks import LockedMinter, lock_all, locks, newest
from .transaction import Execute, GatheredRows, Published, Transaction

T = TypeVar("T")

_KNOWN_SESSIONS = 100_000
_MAX_BATCH = 256  # limits how long the first write of a batch waits for the last
_MAX_LOCKS = 128  # sessions in one batch on PostgreSQL, whose lock table is small
_ATTEMPTS = 3  # for a batch whose connection was lost, or that met a deadlock
_DEADLOCK = ("40P01", "40001")


class Minter:
    """Event ids: UUIDv7s that always increase, whatever the system's clock does.

    Only for a store that no other process writes events to.
    """

    previous = None  # publishers need not look for events of others

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ms = 0
        self._sequence = 0
        self._known: set[str] = set()

    def new_event_id(self, session_id: str, newest: Callable[[], str | None]) -> tuple[str, str]:
        """Return an id greater than all earlier ones and `newest`, and its instant."""
        now = self._clock.milliseconds()
        if session_id not in self._known:
            if len(self._known) >= _KNOWN_SESSIONS:
                self._known.clear()
            self._known.add(session_id)
            last = newest()
            if last is not None and ids.milliseconds_of(last) > self._ms:
                # The store was written with a clock ahead of ours: continue from there.
                now = max(now, ids.milliseconds_of(last) + 1)
        if now > self._ms:
            self._ms, self._sequence = now, 0
        elif self._sequence < 0xFFF:
            self._sequence += 1
        else:
            self._ms, self._sequence = self._ms + 1, 0
        return ids.id_at(self._ms, self._sequence, self._clock.entropy()), ids.instant_of_ms(self._ms)


@dataclass(slots=True)
class _Job:
    work: Callable[[Transaction], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    sessions: Collection[str] | None = None  # sessions that it touches; None for anything
    transaction: Transaction | None = None
    result: Any = None
    error: BaseException | None = None


class Writer:
    """The writer thread.

    `deliver` is called on the caller's loop with the events of a commit, in commit
    order, and `on_access_change` after one that changed access.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        deliver: Callable[[list[Published]], None],
        on_access_change: Callable[[], None],
    ) -> None:
        self._engine = engine.execution_options(agentbook_begin="IMMEDIATE")
        self._is_file = engine.dialect.name == "sqlite"
        self._max_batch = _MAX_BATCH if self._is_file else _MAX_LOCKS
        self._clock = clock
        self._minter = Minter(clock)
        self._deliver = deliver
        self._on_access_change = on_access_change
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def write(self, work: Callable[[Transaction], T], sessions: Collection[str] | None = None) -> T:
        """Run `work` in the next transaction; return its result after the commit.

        `sessions` are the only ones whose rows it touches, apart from deferred
        statements; None if it touches others. With `sessions`, it may run more than
        once.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="agentbook-writer", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Job(work, loop, future, sessions))
        return await future

    def write_now(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in its own transaction in this thread (start-up, commands)."""
        with self._engine.begin() as connection:
            minter: Minter | LockedMinter = self._minter
            if not self._is_file:
                lock_all(connection)
                minter = LockedMinter(self._clock, {})
            execute = _raw_execute(connection)
            self._clock.begin(connection)
            transaction = Transaction(connection, self._clock, minter, execute)
            result = work(transaction)
            for sql, parameters in _deferred([transaction]):
                execute(sql, parameters)
            return result

    def close(self) -> None:
        """Finish waiting writes, then end the thread."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        last = False
        if not self._is_file:
            return self._run_shared()
        with self._engine.connect() as connection:
            while not last:
                batch, last = self._next_batch()
                if batch:
                    self._commit(connection, batch)

    def _run_shared(self) -> None:
        last = False
        with contextlib.closing(PinnedConnection(self._engine)) as pinned:
            while not last:
                batch, last = self._next_batch()
                for is_any in (False, True):
                    group = [job for job in batch if (job.sessions is None) is is_any]
                    if group:
                        self._commit_locked(pinned, group)

    def _next_batch(self) -> tuple[list[_Job], bool]:
        job = self._jobs.get()
        batch: list[_Job] = []
        while job is not None:
            batch.append(job)
            if len(batch) == self._max_batch:
                return batch, False
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _commit(self, connection: Connection, batch: list[_Job]) -> None:
        try:
            with connection.begin():
                for sql, parameters in self._execute(connection, batch, self._minter):
                    _raw_execute(connection)(sql, parameters)
        except BaseException as error:
            for job in batch:
                job.error = job.error or error
        self._report(batch)

    def _commit_locked(self, pinned: PinnedConnection, batch: list[_Job]) -> None:
        """Commit a batch on PostgreSQL, where other processes write too."""
        is_repeatable = gathers = batch[0].sessions is not None
        attempt = 1
        unanswered, loss = "", None  # the transaction whose commit was not answered, and why
        while True:
            has_run = is_ending = False
            try:
                with pinned.transaction() as transaction:
                    minter, outcome = self._begin(transaction, batch, unanswered)
                    if outcome == "committed":  # its connection was lost before it could say so
                        break
                    if loss is not None and (outcome != "aborted" or not is_repeatable):
                        raise loss
                    has_run, unanswered, loss = True, "", None
                    execute = self._execute_together if gathers else self._execute
                    statements = execute(transaction.connection, batch, minter)
                    is_ending = True
                    transaction.commit((sql.replace("?", "%s"), parameters) for sql, parameters in statements)
                break
            except BaseException as error:
                if is_ending and isinstance(error, DBAPIError) and error.connection_invalidated:
                    unanswered, loss = transaction.id, error
                may_try = is_repeatable or unanswered or not has_run
                if may_try and attempt < _ATTEMPTS and _is_passing(error):
                    attempt += 1
                elif gathers and len(batch) > 1 and not unanswered:
                    gathers = False
                else:
                    for job in batch:
                        job.error = job.error or error
                    break
        self._report(batch)

    def _begin(
        self, transaction: PipelinedTransaction, batch: list[_Job], unanswered: str
    ) -> tuple[LockedMinter, str | None]:
        """Lock what a batch touches, before its first read.

        Also returns how the transaction `unanswered` ended.
        """
        if any(job.sessions is None for job in batch):
            _, outcome = transaction.begin(locks(None), unanswered=unanswered)
            return LockedMinter(self._clock, {}), outcome
        sessions = {session for job in batch for session in job.sessions or ()}
        rows, outcome = transaction.begin(locks(sessions), newest(sessions), unanswered=unanswered)
        return LockedMinter(self._clock, {row[0]: row[1] for row in rows}), outcome

    def _execute(
        self, connection: Connection, batch: list[_Job], minter: Minter | LockedMinter
    ) -> list[tuple[str, tuple[Any, ...]]]:
        """Execute a batch; returns the statements that remain before its commit."""
        execute = _raw_execute(connection)
        for job in batch:
            self._attempt(connection, job, minter, execute, alone=len(batch) == 1)
        return _deferred([job.transaction for job in batch if job.error is None and job.transaction])

    def _execute_together(
        self, connection: Connection, batch: list[_Job], minter: LockedMinter
    ) -> list[tuple[str, tuple[Any, ...]]]:
        """Execute a batch whose writes succeed or fail together."""
        execute = _raw_execute(connection)
        rows = GatheredRows(execute)
        transactions = []
        for job in batch:
            job.error = None
            job.transaction = Transaction(connection, self._clock, minter, execute, rows)
            self._clock.begin(connection)
            job.result = job.work(job.transaction)
            transactions.append(job.transaction)
        return [*rows.statements(), *_deferred(transactions)]

    def _attempt(
        self, connection: Connection, job: _Job, minter: Minter | LockedMinter, execute: Execute, *, alone: bool
    ) -> None:
        job.error = None
        job.transaction = Transaction(connection, self._clock, minter, execute)
        if alone:  # the transaction itself serves as savepoint
            self._clock.begin(connection)
            job.result = job.work(job.transaction)
            return
        execute("SAVEPOINT job", ())
        try:
            self._clock.begin(connection)
            job.result = job.work(job.transaction)
        except Exception as error:
            # If the database rolled back the whole transaction (disk full), this raises
            # and the whole batch fails.
            execute("ROLLBACK TO SAVEPOINT job", ())
            job.error = error
        execute("RELEASE SAVEPOINT job", ())

    def _report(self, batch: list[_Job]) -> None:
        for loop in {job.loop for job in batch}:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is waiting
                loop.call_soon_threadsafe(self._report_results, [job for job in batch if job.loop is loop])

    def _report_results(self, batch: list[_Job]) -> None:
        """On the caller's loop, after the commit: events, callbacks, then results."""
        committed = [job for job in batch if job.error is None and job.transaction is not None]
        events = [event for job in committed for event in job.transaction.events]  # type: ignore[union-attr]
        if events:
            self._deliver(events)
        if any(job.transaction.changes_access for job in committed):  # type: ignore[union-attr]
            self._on_access_change()
        for job in committed:
            for callback in job.transaction.callbacks:  # type: ignore[union-attr]
                callback()
        for job in batch:
            for callback in job.transaction.endings if job.transaction is not None else ():
                callback()
            if not job.future.done():
                if job.error is None:
                    job.future.set_result(job.result)
                else:
                    job.future.set_exception(job.error)


def _deferred(transactions: Iterable[Transaction]) -> list[tuple[str, tuple[Any, ...]]]:
    deferred = [statement for transaction in transactions for statement in transaction.deferred]
    return [(sql, parameters) for _, sql, parameters in sorted(deferred)]


def _is_passing(error: BaseException) -> bool:
    """Whether the same batch may now succeed: after a deadlock or a lost connection."""
    if not isinstance(error, DBAPIError):
        return False
    state = getattr(error.orig, "sqlstate", None)
    return state in _DEADLOCK or (unavailable_reason(error) is not None and error.connection_invalidated)


def _raw_execute(connection: Connection) -> Execute:
    """Return a function that runs a statement of the hot path, with ``?`` parameters.

    On SQLite it bypasses SQLAlchemy, which costs several times the statement itself.
    """
    if connection.dialect.name == "sqlite":
        driver: Any = connection.connection.driver_connection
        return driver.execute  # type: ignore[no-any-return]
    return lambda sql, parameters: connection.exec_driver_sql(sql.replace("?", "%s"), parameters)
