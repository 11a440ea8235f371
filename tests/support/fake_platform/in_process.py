"""The fake platform in process: it replaces `AsyncClient` and the event stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Self

from agentbook.api.record import Record
from agentbook.events import reader

from .core import FakePlatform


class InProcessPlatform(FakePlatform):
    """Sessions that stream to each reader's event loop.

    Attributes
    ----------
    queues : dict of str to list of Queue
        The items that each reader of a session has not read yet.
    hold : Event, optional
        While it exists and is not set, turns do not run.
    """

    def __init__(self) -> None:
        super().__init__()
        self.queues: dict[str, list[asyncio.Queue[Any]]] = {}
        self.hold: asyncio.Event | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        self._count = 0

    def asynchronous(self) -> Self:
        return self

    def next_id(self) -> str:
        self._count += 1
        return f"01900000-0000-7000-8000-{self._count:012x}"

    def now(self) -> str:
        return datetime.now(UTC).isoformat()

    def append(self, session_id: str, type: str, content: Any, author: Any, task_id: str = "t0") -> Record:
        """Persist an event of the session, and send it to its readers."""
        at = self.now()
        event = Record(
            id=self.next_id(),
            type=type,
            content=content,
            task_id=task_id,
            author=author,
            created_at=at,
            updated_at=at,
        )
        self.insert(session_id, event)
        self.send(session_id, event)
        return event

    def send(self, session_id: str, item: Any) -> None:
        """Send to the session's readers: an event, the state of the stream, or an
        error.
        """
        for queue in self.queues.get(session_id, []):
            queue.put_nowait(item)

    def start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def follow(
        self, client: Any, session_id: str, *, from_id: str, on_state: Callable[[str], None]
    ) -> AsyncGenerator[Record]:
        """As `agentbook.events.reader.subscribe`."""
        queue: asyncio.Queue[Any] = asyncio.Queue()
        queues = self.queues.setdefault(session_id, [])
        queues.append(queue)
        try:
            for event in list(self.histories.get(session_id, [])):
                if from_id == reader.BEGINNING or event["id"] > from_id:
                    yield Record(event)
            on_state("live")
            while True:
                item = await queue.get()
                if isinstance(item, BaseException):
                    raise item
                if isinstance(item, str):
                    on_state(item)
                else:
                    yield item
        finally:
            queues.remove(queue)
