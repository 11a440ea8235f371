"""The cluster of the processes that share a PostgreSQL database.

Each process takes a lease, tells the others of what it stores and drafts, and looks now
and then for turns that nobody runs. PostgreSQL is all that the processes share.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from sqlalchemy.exc import DBAPIError

from ..errors import OperatorError
from ..store import Published, Store
from ..turns.live import Channel, Hub
from . import Cluster, Subscriber, TakeOver
from .bus import Bus
from .delivery import Delivery
from .drafts import DraftRelay
from .lease import Lease

log = logging.getLogger("agentbook.service")

LOOK_S = 2.0
_EVENTS, _TURNS = "events", "turns"  # topics of the bus
_SESSIONS_PER_MESSAGE = 100


@contextlib.contextmanager
def joined_database(store: Store) -> Iterator[None]:
    """Share a database with other services, for as long as the block runs.

    Raises `OperatorError` if one of them has a seeded store: that belongs to one
    service, because it uses every instant only once.
    """
    kind = "" if store.clock.is_seeded else "_shared"
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if not connection.exec_driver_sql(f"SELECT pg_try_advisory_lock{kind}(7233172)").scalar():
            raise OperatorError(
                "Another service is using this database, and the store is seeded: stop it, or give this one a database "
                "of its own."
            )
        try:
            yield
        finally:
            with contextlib.suppress(DBAPIError):
                connection.exec_driver_sql(f"SELECT pg_advisory_unlock{kind}(7233172)")


class PostgresCluster(Cluster):
    """One of the processes on a PostgreSQL database.

    Parameters
    ----------
    store, hub
        Those of this process.
    """

    def __init__(self, store: Store, hub: Hub) -> None:
        super().__init__(self._tell)
        self._bus = Bus(store, self.process_id)
        self._lease = Lease(store, self.process_id)
        self._drafts = DraftRelay(self._bus, hub, store.clock)
        self._delivery = Delivery(store, hub, self._drafts.end)
        self._look_now = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        hub.on_listener = self._begin_listening
        hub.on_draft = self._drafts.change
        self.subscribe(_EVENTS, self._delivery.note_changed)
        self.subscribe(_TURNS, lambda _value: self._look_now.set())
        self._bus.on_reconnect(self._delivery.reconcile)

    def notify(self, topic: str, value: Any = None) -> None:
        self._bus.notify(topic, value)

    def subscribe(self, topic: str, callback: Subscriber) -> None:
        self._bus.subscribe(topic, callback)

    def require_others(self) -> None:
        """There may be some, or a process that starts: it takes what nobody owns."""

    async def start(self, take_over: TakeOver) -> None:
        await self._bus.start()
        await asyncio.to_thread(self._lease.start)
        self._tasks = [asyncio.create_task(self._delivery.run()), asyncio.create_task(self._look(take_over))]

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._lease.close)
        self._bus.notify(_TURNS)
        await self._bus.aclose()

    def _tell(self, published: list[Published]) -> None:
        """Tell all processes of events that this one has stored."""
        sessions = list(dict.fromkeys(event.session_id for event in published))
        for start in range(0, len(sessions), _SESSIONS_PER_MESSAGE):
            self._bus.notify(_EVENTS, sessions[start : start + _SESSIONS_PER_MESSAGE])
        self._delivery.note_changed(sessions)

    def _begin_listening(self, session_id: str, channel: Channel) -> None:
        self._delivery.begin(session_id, channel)
        if channel.live is None:
            self._drafts.ask(session_id)

    async def _look(self, take_over: TakeOver) -> None:
        """Look for turns that nobody runs, again and again."""
        while True:
            try:
                await take_over(await asyncio.to_thread(self._lease.living))
            except Exception as error:
                log.warning("looking for turns to take over failed: %s", str(error).partition("\n")[0])
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._look_now.wait()
            self._look_now.clear()
