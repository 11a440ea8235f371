"""Following one session's events: from the last one known, for as long as the platform can be reached.

`agentbook.events.reader` reconnects by itself; what ends a subscription is a refusal, or a platform out of reach for minutes.
Then the reason is kept as `Subscription.trouble`, and following begins again when it is asked for.
Used on the toolkit's loop alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any

from ...api.errors import ConnectionFailed, StreamClosed
from ...events import reader
from ...events.turns import Event
from .user_errors import UserError, explain

Follow = Callable[..., AsyncGenerator[Event]]


class Subscription:
    """The subscription of a conversation, begun, lost, begun again and ended.

    Attributes
    ----------
    connection : str
        ``"none"``, ``"connecting"``, ``"live"`` or ``"reconnecting"``.
    trouble : UserError or None
        Why the session cannot be followed just now.
    """

    def __init__(
        self,
        client: Any,
        feed: Callable[[Event], None],
        changed: Callable[[], None],
        lost: Callable[[Exception], None],
        subscribe: Follow,
    ) -> None:
        self.connection = "none"
        self.trouble: UserError | None = None
        self._client = client
        self._feed, self._changed, self._lost = feed, changed, lost
        self._subscribe = subscribe
        self._read = False
        self._heard = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()

    def start(self, session_id: str, last_id: str | None) -> None:
        """Follow a session from after an event; None for its beginning."""
        self.trouble, self._read, self.connection = None, False, "connecting"
        self._heard.clear()
        self._task = asyncio.get_running_loop().create_task(self._follow(session_id, last_id or reader.BEGINNING))
        self._changed()

    async def catch_up(self, session_id: str, last_id: Callable[[], str | None]) -> None:
        """Follow the session if it is not followed, and wait until it is read to its end and the socket is open.

        Raises
        ------
        ApiError, StreamClosed
            What ended the subscription.
        ConnectionFailed
            If it is still being tried.
        """
        async with self._one_at_a_time:
            if self._task is None or self._task.done():
                self.start(session_id, last_id())
            task, first_word = self._task, asyncio.ensure_future(self._heard.wait())
            assert task is not None
            try:
                await asyncio.wait({task, first_word}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                first_word.cancel()
            if task.done():
                error = task.exception() if not task.cancelled() else None
                raise error or StreamClosed("The conversation was closed.", operation="sessions.stream")
            if not self._read:
                raise ConnectionFailed(
                    f"sessions.stream {session_id}: no connection yet; it is being tried again.",
                    operation="sessions.stream",
                )

    async def end(self) -> None:
        """Follow no more; returns when the socket is closed."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _follow(self, session_id: str, from_id: str) -> None:
        subscription = self._subscribe(self._client, session_id, from_id=from_id, on_state=self._connection_is)
        try:
            async with contextlib.aclosing(subscription) as events:
                async for event in events:
                    self._feed(event)
            raise StreamClosed(f"The event stream of session {session_id} ended.", operation="sessions.stream")
        except Exception as error:
            self.trouble = explain(error)
            self._lost(error)
            raise
        finally:
            self.connection = "none"

    def _connection_is(self, state: str) -> None:
        self.connection = state
        self._read = self._read or state == "live"
        self._heard.set()
        self._changed()
