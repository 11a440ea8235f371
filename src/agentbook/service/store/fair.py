"""Slots shared fairly between holders that ask for many and those that ask for few."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class FairQueue:
    """A number of slots, given in turn to those who wait.

    A holder that waits for a hundred slots delays the others no more than one that
    waits for a single slot: each gets its next slot after all the others have got
    theirs.

    Parameters
    ----------
    slots
        How many there are.
    each
        How many of them one holder may have at a time.
    """

    def __init__(self, slots: int, each: int) -> None:
        self._free = slots
        self._each = each
        self._shares: dict[Hashable, int] = {}  # for holders that may have fewer than `each`
        self._held: Counter[Hashable] = Counter()
        self._queues: dict[Hashable, deque[asyncio.Future[None]]] = {}  # next in turn first

    @property
    def waiting(self) -> int:
        """How many wait for a slot."""
        return sum(map(len, self._queues.values()))

    @asynccontextmanager
    async def slot(self, holder: Hashable, share: int | None = None) -> AsyncIterator[None]:
        """Wait for a slot and hold it; `share` is how many this holder may have."""
        if share is not None:
            self._shares[holder] = share
        if holder not in self._queues and self._has_slot(holder):
            self._occupy(holder)
        else:
            await self._wait(holder)
        try:
            yield
        finally:
            self._release(holder)

    async def _wait(self, holder: Hashable) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(holder, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                queue = self._queues[holder]
                queue.remove(turn)
                if not queue:
                    del self._queues[holder]
                    self._forget_share(holder)
                self._give_free_slots()  # others of this holder may have queued behind it alone
            else:  # the slot was given at the same moment
                self._release(holder)
            raise

    def _has_slot(self, holder: Hashable) -> bool:
        return self._free > 0 and self._held[holder] < self._shares.get(holder, self._each)

    def _occupy(self, holder: Hashable) -> None:
        self._free -= 1
        self._held[holder] += 1

    def _release(self, holder: Hashable) -> None:
        self._free += 1
        self._held[holder] -= 1
        if not self._held[holder]:
            del self._held[holder]
        self._forget_share(holder)
        self._give_free_slots()

    def _forget_share(self, holder: Hashable) -> None:
        if holder not in self._held and holder not in self._queues:
            self._shares.pop(holder, None)

    def _give_free_slots(self) -> None:
        for holder in list(self._queues):
            if not self._free:
                break
            if self._has_slot(holder):
                self._give(holder)

    def _give(self, holder: Hashable) -> None:
        queue = self._queues.pop(holder)
        turn = next((turn for turn in queue if not turn.done()), None)
        if turn is not None:
            queue.remove(turn)
            self._occupy(holder)
            turn.set_result(None)
        if queue:  # after all the others
            self._queues[holder] = queue
