"""Transactions on PostgreSQL with few round trips.

Each statement is a round trip to the server, and so are the beginning and end of a
transaction. Here, statements that need no answer from each other are sent together, in
psycopg's pipeline mode: the BEGIN with the locks, and the last rows with the COMMIT.
The server runs them one after another, so each sees what was committed before it began.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

Statement = tuple[str, tuple[Any, ...]]  # with ``%s`` for each parameter

_OUTCOME = "SELECT pg_xact_status(%s::xid8)"


class PipelinedTransaction:
    """A transaction that begins and ends together with other statements.

    Attributes
    ----------
    connection : Connection
        Runs the statements in between, each immediately.
    id : str
        The server's id for it, once it has begun. After a lost connection, it serves to
        find out whether the transaction was committed.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.id = ""

    def begin(self, locks: Statement, *more: Statement, unanswered: str = "") -> tuple[list[Any], str | None]:
        """Begin with the `locks`, and run the other statements under them.

        `locks` returns the id of the transaction in its first row. Returns the rows of
        the last of `more`, and how the transaction `unanswered` ended; it held the same
        locks, so it has ended by then.
        """
        question = [(_OUTCOME, (unanswered,))] if unanswered else []
        answers = self._run([("BEGIN", ()), locks, *question, *more])
        self.id = answers[1][0][0]
        return answers[-1], answers[2][0][0] if unanswered else None

    def commit(self, statements: Iterable[Statement]) -> None:
        """Run the last statements, and commit."""
        self._run([*statements, ("COMMIT", ())])

    def _run(self, statements: list[Statement]) -> list[list[Any]]:
        """Run statements in one round trip; returns the rows of each."""
        driver: Any = self.connection.connection.driver_connection
        try:
            with driver.pipeline():
                cursors = [driver.execute(sql, parameters) for sql, parameters in statements]
            return [cursor.fetchall() if cursor.description else [] for cursor in cursors]
        except self.connection.dialect.loaded_dbapi.Error as error:
            is_lost = bool(driver.closed)
            if is_lost:
                self.connection.invalidate(error)
            raise DBAPIError(None, None, error, hide_parameters=True, connection_invalidated=is_lost) from error


class PinnedConnection:
    """The connection of a thread that runs one transaction after another.

    The first statement of each transaction tests it. After an error it is returned to
    the pool, which tests the next connection before handing it out.
    """

    def __init__(self, engine: Engine) -> None:
        # `PipelinedTransaction` begins and commits.
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._connection: Connection | None = None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[PipelinedTransaction]:
        """A transaction that is rolled back unless it was committed."""
        if self._connection is None:
            self._connection = self._engine.connect()
        try:
            with self._connection.begin():
                yield PipelinedTransaction(self._connection)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Return the connection to the pool."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
