"""Shows that this process is alive, with a row of ``processes`` that it keeps renewing.

The row holds a time on the database's clock. After that time, any other process may
take over what this process was doing. The renewals have their own thread, so that a
process with a busy event loop does not count as dead.

While the database is unavailable, no process can renew. So once it is back, a process
treats another as dead only after it has held its own lease, without interruption, for
the length of a whole lease.
"""

from __future__ import annotations

import logging
import threading
import time

from ..store import Store

log = logging.getLogger("agentbook.service")

LEASE_S = 6.0
RENEW_S = 2.0

NOW = "extract(epoch from clock_timestamp())"
_RENEW = (
    f"INSERT INTO processes (id, lease_until) VALUES (%s, {NOW} + %s) "  # noqa: S608 - constants
    "ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until"
)

_LIVING = f"SELECT id FROM processes WHERE lease_until > {NOW} OR NOT %s"  # noqa: S608 - constants
_FORGET_DEAD = f"DELETE FROM processes WHERE lease_until < {NOW} - 600"  # noqa: S608 - constants


class Lease:
    """The lease of one process.

    Parameters
    ----------
    store
        A store on PostgreSQL.
    process_id
        Identifies the process.
    """

    def __init__(self, store: Store, process_id: str) -> None:
        self._store = store
        self._process_id = process_id
        self._steady_since: float | None = None
        self._renewed_at = 0.0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Take the lease, and keep renewing it."""
        self.extend()
        self._thread = threading.Thread(target=self._run, name="agentbook-lease", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Give up the lease, so that others may take over at once."""
        if self._thread is None:
            return
        self._ended.set()
        self._thread.join()
        self._thread = None
        try:
            self._execute("DELETE FROM processes WHERE id = %s", (self._process_id,))
        except Exception:
            log.warning("the lease of this process could not be given up; it ends by itself")

    def living(self) -> list[str]:
        """The other processes that are alive, or may be."""
        since, now = self._steady_since, time.monotonic()
        is_steady = since is not None and now - self._renewed_at < LEASE_S and now - since >= LEASE_S
        with self._store.engine.begin() as connection:
            return list(connection.exec_driver_sql(_LIVING, (is_steady,)).scalars())

    def extend(self) -> None:
        """Extend the lease by its full length from now."""
        began = time.monotonic()
        self._execute(_RENEW, (self._process_id, LEASE_S))
        self._execute(_FORGET_DEAD, ())
        if self._steady_since is None or began - self._renewed_at >= LEASE_S:
            self._steady_since = began
        self._renewed_at = began

    def _run(self) -> None:
        while not self._ended.wait(RENEW_S):
            try:
                self.extend()
            except Exception as error:
                self._steady_since = None
                log.warning("the lease of this process could not be renewed: %s", str(error).partition("\n")[0])

    def _execute(self, sql: str, parameters: tuple[object, ...]) -> None:
        with self._store.engine.begin() as connection:
            connection.exec_driver_sql(sql, parameters)
