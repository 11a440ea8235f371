"""Follows one session's events from the last known one.

`agentbook.events.reader` reconnects by itself. A subscription ends only if the platform
refuses it or is out of reach for minutes. The reason is then stored in
`Subscription.error`, and the next `catch_up` subscribes again. Use it only on the
toolkit's loop.
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
OPERATION = "sessions.stream"


class Subscription:
    """The event stream of a conversation's session.

    Parameters
    ----------
    client : AsyncClient or None
    on_event : callable
        Receives each event.
    on_change : callable
        Called when the state of the connection changes.
    on_error : callable
        Receives the exception that ended the subscription.
    follow : callable, optional
        As for `Conversation`.

    Attributes
    ----------
    available : bool
        Whether there is a source of events at all.
    connection : str
        ``"none"``, ``"connecting"``, ``"live"``, ``"polling"`` (without drafts) or
        ``"reconnecting"``.
    error : UserError or None
        Why the session cannot be followed at the moment.
    """

    def __init__(
        self,
        client: Any,
        on_event: Callable[[Event], None],
        on_change: Callable[[], None],
        on_error: Callable[[Exception], None],
        follow: Follow | None = None,
    ) -> None:
        self.available = client is not None or follow is not None
        self.connection = "none"
        self.error: UserError | None = None
        self._client = client
        self._on_event, self._on_change, self._on_error = on_event, on_change, on_error
        self._follow = follow or reader.subscribe
        self._ends_with_client = follow is None and client is not None  # a recording has no client to close
        self._caught_up = False
        self._state_known = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()

    @property
    def active(self) -> bool:
        """Whether a session is followed, or the connection to it is being made."""
        return self._task is not None and not self._task.done()

    @property
    def up_to_date(self) -> bool:
        """Whether the session was read to its end, and what follows arrives."""
        return self.connection in ("live", "polling")

    @property
    def runs_here(self) -> bool:
        """Whether it runs on this thread, which must not block to wait for it."""
        try:
            return self._loop is asyncio.get_running_loop()
        except RuntimeError:
            return False

    def start(self, session_id: str, last_id: str | None) -> None:
        """Follow a session from after an event; None for its beginning."""
        self.error, self._caught_up, self.connection = None, False, "connecting"
        self._state_known.clear()
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(session_id, last_id or reader.BEGINNING))
        # Retrieved, so that asyncio does not log an error that is already stored in
        # `error`.
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        self._on_change()

    async def catch_up(self, session_id: str, last_id: Callable[[], str | None], *, restart: bool = True) -> None:
        """Follow the session if needed; wait until its end is read and the socket open.

        Without `restart`, a subscription that has ended is not started again.

        Raises
        ------
        ApiError, StreamClosed
            The error that ended the subscription.
        ConnectionFailed
            If there is no connection yet; the subscription keeps trying.
        """
        async with self._lock:
            if self._task is None or (restart and self._task.done()):
                self.start(session_id, last_id())
            task, first_state = self._task, asyncio.ensure_future(self._state_known.wait())
            assert task is not None
            try:
                await asyncio.wait({task, first_state}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                first_state.cancel()
            if task.done():
                error = task.exception() if not task.cancelled() else None
                raise error or StreamClosed("The conversation was closed.", operation=OPERATION)
            if not self._caught_up:
                raise ConnectionFailed(
                    f"{OPERATION} {session_id}: not connected yet; still trying.", operation=OPERATION
                )

    async def end(self) -> None:
        """Stop following; returns when the socket is closed."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def clear_error(self) -> None:
        """Forget why the last subscription ended, before another session is opened."""
        self.error = None

    async def _run(self, session_id: str, from_id: str) -> None:
        stream = self._follow(self._client, session_id, from_id=from_id, on_state=self._set_connection)
        end = (
            reader.until_closed(self._client, OPERATION, session_id)
            if self._ends_with_client
            else contextlib.nullcontext()
        )
        try:
            async with end, contextlib.aclosing(stream) as events:
                async for event in events:
                    self._on_event(event)
            raise StreamClosed(f"The event stream of session {session_id} ended.", operation=OPERATION)
        except Exception as error:
            self.error = explain(error)
            self._on_error(error)
            raise
        finally:
            self.connection = "none"

    def _set_connection(self, state: str) -> None:
        self.connection = state
        self._caught_up = self._caught_up or self.up_to_date
        self._state_known.set()
        self._on_change()
