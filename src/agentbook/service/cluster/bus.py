"""Messages between the processes of one platform: LISTEN and NOTIFY.

PostgreSQL is all that the processes share. Each process has one connection that
listens, and another that sends what `notify` has collected. It sends outside the
transactions that write, because PostgreSQL makes transactions that notify commit one
after another.

A message is a hint: it may be lost, for example with a connection. Code that derives
state from messages reads that state again after a reconnection (`on_connect`), and from
time to time anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from psycopg import AsyncConnection

from ..store import Store
from ..store.engine import connection_parameters

log = logging.getLogger("agentbook.service")

CHANNEL = "agentbook_2"  # the messages of earlier versions have another form
_PAUSE_S = 0.002  # between two sends; messages published in the meantime are sent together
_MAX_WAITING = 10_000  # messages that wait for a connection; older ones are dropped
_NOTIFY = "SELECT pg_notify(%s, payload) FROM unnest(%s::text[]) AS payload"
_LAST_SENDING_S = 1.0
_RECONNECT_S = (0.05, 0.2, 0.5, 1.0)


class Bus:
    """The connection of a process to the others on its database.

    Parameters
    ----------
    store
        The store on that database.
    process_id
        Identifies this process, which does not receive its own messages.

    Attributes
    ----------
    on_connect : callable
        Called on the loop each time this process begins to listen: earlier messages are
        not received, so read the state from the store.
    """

    def __init__(self, store: Store, process_id: str) -> None:
        self._process_id = process_id
        self._store = store
        self._subscribers: dict[str, Callable[[Any], None]] = {}
        self.on_connect: Callable[[], None] = lambda: None
        self._waiting: deque[str] = deque(maxlen=_MAX_WAITING)
        self._published = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._idle = asyncio.Event()  # nothing waits, and nothing is being sent
        self._idle.set()

    def notify(self, topic: str, value: Any = None) -> None:
        """Send a value to the others soon; call this on the loop.

        It takes at most 7,900 bytes as JSON.
        """
        if self._tasks:
            self._waiting.append(json.dumps([self._process_id, topic, value], separators=(",", ":")))
            self._published.set()
            self._idle.clear()

    def subscribe(self, topic: str, callback: Callable[[Any], None]) -> None:
        """Call `callback` on the loop with each value of other processes."""
        self._subscribers[topic] = callback

    async def start(self) -> None:
        """Begin to listen and to send. Anything sent earlier is lost."""
        listening = asyncio.Event()
        self._tasks = [
            asyncio.create_task(self._repeat(lambda: self._listen(listening))),
            asyncio.create_task(self._repeat(self._send)),
        ]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                await listening.wait()

    async def aclose(self) -> None:
        """Send the waiting messages, and close the connections."""
        if self._tasks:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_SENDING_S):
                    await self._idle.wait()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _repeat(self, work: Callable[[], Any]) -> None:
        """Do a connection's work, with a new connection whenever one is lost."""
        failures = 0
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await work()
            except Exception as error:
                lasted_s = asyncio.get_running_loop().time() - began
                failures = 0 if lasted_s > _RECONNECT_S[-1] else failures + 1
                if failures == 0 or failures == len(_RECONNECT_S):  # once for each outage
                    log.warning("the bus has lost its connection: %s", str(error).strip().partition("\n")[0])
                await asyncio.sleep(_RECONNECT_S[min(failures, len(_RECONNECT_S) - 1)])

    async def _connect(self) -> AsyncConnection[Any]:
        return await AsyncConnection.connect(**connection_parameters(self._store.engine), autocommit=True)

    async def _listen(self, listening: asyncio.Event) -> None:
        async with await self._connect() as connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            listening.set()
            self.on_connect()
            async for notification in connection.notifies():
                self._receive(notification.payload)

    def _receive(self, payload: str) -> None:
        sender, topic, value = json.loads(payload)
        if sender != self._process_id:
            try:
                self._subscribers[topic](value)
            except Exception:
                log.exception("a message of another process could not be handled")

    async def _send(self) -> None:
        async with await self._connect() as connection:
            # Nothing is stored, so there is no need to wait for the disk.
            await connection.execute("SET synchronous_commit = off")
            while True:
                while messages := list(self._waiting):
                    await connection.execute(_NOTIFY, (CHANNEL, messages))
                    for _ in messages:  # only now: receiving a message twice does no harm
                        self._waiting.popleft()
                    await asyncio.sleep(_PAUSE_S)
                self._idle.set()
                self._published.clear()
                await self._published.wait()
