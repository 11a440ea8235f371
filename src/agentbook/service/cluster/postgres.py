"""The cluster of the processes that share a PostgreSQL database.

Each process takes a lease, tells the others of what it stores and drafts, and looks now
and then for turns that nobody runs. PostgreSQL is all that the processes share.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from ..store import Published, Store
from ..turns.live import Channel, Hub
from . import Cluster, TakeOver
from .bus import Bus
from .delivery import Delivery
from .drafts import DraftRelay
from .lease import Lease

log = logging.getLogger("agentbook.service")

LOOK_S = 2.0
_EVENTS, _TURNS = "events", "turns"  # topics of the bus
_SESSIONS_PER_MESSAGE = 100


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
        self._bus.subscribe(_EVENTS, self._delivery.note_changed)
        self._bus.subscribe(_TURNS, lambda _value: self._look_now.set())
        self._bus.on_connect = self._delivery.reconcile

    def offer_turns(self) -> None:
        self._bus.notify(_TURNS)

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
        self.offer_turns()
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
