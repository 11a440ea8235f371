"""Live delivery of events that other processes store.

After a commit, a process tells the others which sessions have new events. Processes
with listeners for such a session read what comes after the newest event they know:
within a session the order of commits is the order of ids (see `store.session_locks`),
so nothing else is missing. A process's own events are delivered without a read if they
directly follow that newest one. Now and then, all sessions with listeners are compared
with the store, in one query, because messages from others may be lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from functools import partial

from ..cluster.bus import Bus
from ..store import Published, Store, events
from ..store.session_locks import newest_ids
from .live import Channel, Hub
from .relay import DraftRelay

log = logging.getLogger("agentbook.service")

RECONCILE_S = 3.0
_TOPIC = "events"
_SESSIONS_PER_MESSAGE = 100


class Peers:
    """Brings events of other processes to the listeners of this one.

    Parameters
    ----------
    store, bus, hub
        Those of this process.
    """

    def __init__(self, store: Store, bus: Bus, hub: Hub) -> None:
        self._store = store
        self._bus = bus
        self._hub = hub
        # The sessions being read, and whether to read them once more.
        self._reading: dict[str, bool] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._reconcile_now = asyncio.Event()
        self._reconciling: asyncio.Task[None] | None = None
        hub.share(DraftRelay(bus, hub), self._read_soon)
        bus.subscribe(_TOPIC, self._note_changed)
        bus.on_reconnect(self._reconcile_now.set)

    async def start(self) -> None:
        """Begin to compare what is known with the store."""
        self._reconciling = asyncio.create_task(self._reconcile_always())

    async def aclose(self) -> None:
        """Stop reading."""
        tasks = [*self._tasks, *([self._reconciling] if self._reconciling is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def tell(self, published: Iterable[Published]) -> None:
        """Tell the other processes of events that this one has stored."""
        sessions = list(dict.fromkeys(event.session_id for event in published))
        for start in range(0, len(sessions), _SESSIONS_PER_MESSAGE):
            self._bus.publish(_TOPIC, sessions[start : start + _SESSIONS_PER_MESSAGE])

    def _note_changed(self, session_ids: list[str]) -> None:
        for session_id in session_ids:
            self._read_soon(session_id)

    def _read_soon(self, session_id: str) -> None:
        """Read what is missing from a session with a channel; one reader at a time."""
        channel = self._hub.channel(session_id)
        if channel is None:
            return
        if session_id in self._reading:
            self._reading[session_id] = True
            return
        self._reading[session_id] = False
        task = asyncio.create_task(self._read(session_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(self, session_id: str) -> None:
        try:
            is_last = False
            while (channel := self._hub.channel(session_id)) is not None:
                if is_last and not self._reading[session_id]:
                    return
                self._reading[session_id] = False
                is_last = await self._read_page(session_id, channel)
        except Exception as error:  # the next comparison tries again
            log.warning("new events could not be read: %s", str(error).partition("\n")[0])
        finally:
            del self._reading[session_id]

    async def _read_page(self, session_id: str, channel: Channel) -> bool:
        """Append the next events to a channel; returns whether there are no more."""
        newest = channel.newest
        if newest is None:
            # Nobody has read the session yet. The first reader will find its events up
            # to here in the store.
            last = await self._store.read(partial(events.newest_id, session_id=session_id))
            channel.reaches(last or "")
            return True
        page, is_last = await self._store.read(partial(events.after, session_id=session_id, from_id=newest))
        self._hub.append(channel, page)
        return is_last

    async def _reconcile_always(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RECONCILE_S):
                    await self._reconcile_now.wait()
            self._reconcile_now.clear()
            try:
                await self._reconcile()
            except Exception as error:
                log.warning("new events could not be looked for: %s", str(error).partition("\n")[0])

    async def _reconcile(self) -> None:
        sessions = self._hub.sessions()
        if not sessions:
            return
        for session_id, newest in (await self._store.read(partial(newest_ids, session_ids=sessions))).items():
            channel = self._hub.channel(session_id)
            if channel is not None and (channel.newest is None or (newest or "") > channel.newest):
                self._read_soon(session_id)
