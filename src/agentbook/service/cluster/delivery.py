"""Live delivery of events that any process stores.

After a commit, a process tells all, itself too, which sessions have new events. Those
with listeners for such a session read what comes after the newest event they know: the
order of commits is the order of ids (see `store.writer`), so nothing else is missing.
Now and then, all sessions with listeners are compared with the store, in one query,
because messages may be lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from functools import partial

from sqlalchemy import Connection

from ..store import Published, Store, events
from ..turns.live import Channel, Hub

log = logging.getLogger("agentbook.service")

RECONCILE_S = 3.0
_NEWEST = "SELECT session, (SELECT max(id) FROM events WHERE session_id = session) FROM unnest(%s::text[]) AS wanted (session)"


class Delivery:
    """Brings events of the store to the listeners of this process.

    Parameters
    ----------
    store, hub
        Those of this process.
    on_event
        Called with a channel, a session and an event that was delivered.
    """

    def __init__(self, store: Store, hub: Hub, on_event: Callable[[Channel, Published], None]) -> None:
        self._store = store
        self._hub = hub
        self._on_event = on_event
        self._newest: dict[str, tuple[Channel, str]] = {}  # by session: what its ring has been filled up to
        self._reading: dict[str, bool] = {}  # sessions, and whether to read them once more
        self._tasks: set[asyncio.Task[None]] = set()
        self._reconcile_now = asyncio.Event()

    def begin(self, session_id: str, channel: Channel) -> None:
        """Fill a channel from now on; a socket has opened."""
        followed = self._newest.get(session_id)
        if followed is None or followed[0] is not channel:
            self._newest.pop(session_id, None)
            channel.is_followed = False
            self._read_soon(session_id, channel)

    def note_changed(self, session_ids: Iterable[str]) -> None:
        """Read the new events of sessions that have listeners."""
        for session_id in session_ids:
            if session_id in self._newest or session_id in self._reading:
                self._read_soon(session_id, self._hub.channel(session_id))

    def reconcile(self) -> None:
        """Compare what is known with the store soon."""
        self._reconcile_now.set()

    def _read_soon(self, session_id: str, channel: Channel | None) -> None:
        """Read what is missing from a session; one reader at a time."""
        if channel is None:
            self._newest.pop(session_id, None)
        elif session_id in self._reading:
            self._reading[session_id] = True
        else:
            self._reading[session_id] = True
            task = asyncio.create_task(self._read(session_id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _read(self, session_id: str) -> None:
        try:
            while self._reading[session_id] and (channel := self._hub.channel(session_id)) is not None:
                self._reading[session_id] = False
                if not await self._read_page(session_id, channel):
                    self._reading[session_id] = True
        except Exception as error:  # the next comparison tries again
            log.warning("new events could not be read: %s", str(error).partition("\n")[0])
        finally:
            del self._reading[session_id]

    async def _read_page(self, session_id: str, channel: Channel) -> bool:
        """Append the next events to a channel; returns whether there are no more."""
        followed, newest = self._newest.get(session_id, (None, ""))
        if followed is not channel:  # its ring begins after what is stored now
            last = await self._store.read(partial(events.newest_id, session_id=session_id))
            channel.dropped_id, channel.is_followed = last or "", True
            self._newest[session_id] = channel, last or ""
            channel.wake()
            return True
        page, is_last = await self._store.read(partial(events.after, session_id=session_id, from_id=newest))
        for event in page:
            channel.append(event)
            self._on_event(channel, event)
        if page:
            self._newest[session_id] = channel, page[-1].id
            channel.wake()
        return is_last

    async def run(self) -> None:
        """Compare what is known with the store, again and again."""
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RECONCILE_S):
                        await self._reconcile_now.wait()
                self._reconcile_now.clear()
                try:
                    await self._compare()
                except Exception as error:
                    log.warning("new events could not be looked for: %s", str(error).partition("\n")[0])
        finally:
            for task in self._tasks:
                task.cancel()

    async def _compare(self) -> None:
        for session_id in [session_id for session_id in self._newest if self._hub.channel(session_id) is None]:
            del self._newest[session_id]
        if self._newest:
            stored = await self._store.read(partial(_newest_ids, session_ids=list(self._newest)))
            self.note_changed(
                id_ for id_, newest in stored.items() if (newest or "") > self._newest.get(id_, (None, ""))[1]
            )


def _newest_ids(db: Connection, session_ids: list[str]) -> dict[str, str | None]:
    return {row[0]: row[1] for row in db.exec_driver_sql(_NEWEST, (session_ids,))}
