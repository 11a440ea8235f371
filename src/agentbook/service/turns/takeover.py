"""Turns that no other process runs: those of dead processes, and those nobody owns.

Every process looks for them now and then, and immediately when another announces that
it is stopping.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable

from ..cluster.bus import Bus
from ..cluster.lease import NOW, Lease
from ..store import Store, Transaction
from .queue import PendingTurn, SharedTurnQueue

log = logging.getLogger("agentbook.service")

LOOK_S = 2.0
TOPIC = "turns"  # topic on the bus: someone may take turns
_FORGET_DEAD = f"DELETE FROM processes WHERE lease_until < {NOW} - 600"  # noqa: S608 - a constant


class Takeover:
    """Looks for turns to take over, from `start` to `aclose`.

    Parameters
    ----------
    store, bus, queue
        Those of this process.
    start_turn
        Runs a turn that this process owns.
    end_turn
        Stores the failure of a turn that was interrupted.
    is_running
        Whether this process runs the turn of this task.
    """

    def __init__(
        self,
        store: Store,
        bus: Bus,
        queue: SharedTurnQueue,
        *,
        start_turn: Callable[[PendingTurn], None],
        end_turn: Callable[[PendingTurn], Awaitable[None]],
        is_running: Callable[[str], bool],
    ) -> None:
        self._store = store
        self._bus = bus
        self._queue = queue
        self._start_turn = start_turn
        self._end_turn = end_turn
        self._is_running = is_running
        self._lease = Lease(store, bus.process_id)
        self._look_now = asyncio.Event()
        self._idle_since: dict[str, float] = {}  # tasks that this process owns and does not run
        self._task: asyncio.Task[None] | None = None
        bus.subscribe(TOPIC, lambda _value: self._look_now.set())

    async def start(self) -> None:
        """Take the lease, and begin to look."""
        await asyncio.to_thread(self._lease.start)
        self._task = asyncio.create_task(self._run())

    def refuse(self) -> None:
        """Take over nothing more."""
        if self._task is not None:
            self._task.cancel()

    def offer(self) -> None:
        """Let another process take the next turn of a session."""
        self._bus.publish(TOPIC)

    async def aclose(self) -> None:
        """Stop and give up the lease; other processes end what this one leaves."""
        if self._task is None:
            return
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await asyncio.to_thread(self._lease.close)
        self._bus.publish(TOPIC)

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
            except Exception as error:
                log.warning("looking for turns to take over failed: %s", str(error).partition("\n")[0])
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._look_now.wait()
            self._look_now.clear()

    async def _look(self) -> None:
        expired = self._lease.is_steady
        for turn in await self._store.read(lambda db: self._queue.interrupted(db, expired=expired)):
            await self._end_turn(turn)
        if self._lease.is_current:
            await self._store.write(self._claim, sessions=[])
            await self._start_forgotten()

    def _claim(self, tx: Transaction) -> None:
        self._queue.claim(tx)
        tx.execute(_FORGET_DEAD, ())

    async def _start_forgotten(self) -> None:
        """Start the turns that this process owns and does not run.

        A connection lost during a commit leaves such turns, if the commit succeeded. A
        turn that was first seen only recently may be about to start.
        """
        owned = await self._store.read(self._queue.owned)
        now = time.monotonic()
        idle = {turn.task_id: turn for turn in owned if not self._is_running(turn.task_id)}
        self._idle_since = {task_id: self._idle_since.get(task_id, now) for task_id in idle}
        for task_id, turn in idle.items():
            if now - self._idle_since[task_id] >= LOOK_S:
                self._start_turn(turn)
