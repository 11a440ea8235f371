"""What the processes of one platform tell each other, and who does what.

A store on SQLite has one process, whose `Cluster` has nobody to talk to. If several
processes share a PostgreSQL database, each has a `postgres.PostgresCluster`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from .. import errors, ids
from ..store import Published

TakeOver = Callable[[Collection[str]], Awaitable[None]]  # the turns of processes that are not among these


class Cluster:
    """The cluster of a process that is alone on its store.

    Parameters
    ----------
    deliver
        Hands events that were just committed to this process's listeners.

    Attributes
    ----------
    process_id : str
        Identifies this run of this process.
    """

    def __init__(self, deliver: Callable[[list[Published]], None]) -> None:
        self.process_id = ids.new_id()
        self.deliver = deliver

    def offer_turns(self) -> None:
        """Have other processes look for turns that nobody owns."""

    def require_others(self) -> None:
        """Raise the 503 if no other process can run what this one accepts."""
        raise errors.unavailable("The service is about to stop.")

    async def start(self, take_over: TakeOver) -> None:
        """Begin to work with the others, and take over the turns of the dead."""
        await take_over([])

    async def aclose(self) -> None:
        """Give up what this process holds."""
