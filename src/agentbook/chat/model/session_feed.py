"""The sessions of a conversation: their exchanges, and what fills them.

The events of the current session come from a live subscription. A session that nothing
follows is read page by page, for example for an export. Each knows why it may lack
events. Use it only on the toolkit's loop.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...api.errors import DeadlineExceeded
from ...events import loop
from ...events.turns import Event
from .exchange import Exchange
from .exchange_log import ExchangeLog
from .subscription import Follow, Subscription
from .user_errors import explain

if TYPE_CHECKING:
    from ...client import AsyncClient

UNREAD = "The session has not been read yet."


class SessionFeed:
    """The exchanges of the current session and of earlier ones.

    Parameters
    ----------
    client : AsyncClient or None
    on_event : callable
        Receives each event with the exchange it changed.
    on_change, on_error, follow
        As for `Subscription`.

    Attributes
    ----------
    log : ExchangeLog
        The log of the current session.
    logs : dict of str to ExchangeLog
        The logs by session id, oldest first.
    subscription : Subscription
    """

    def __init__(
        self,
        client: AsyncClient | None,
        on_event: Callable[[Event, Exchange], None],
        on_change: Callable[[], None],
        on_error: Callable[[Exception], None],
        follow: Follow | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._clock = client, clock
        self._on_event, self._on_change, self._on_error = on_event, on_change, on_error
        self._lists_events = client is not None and follow is None
        auth = getattr(client, "auth", None)
        self._polls = auth is not None and auth.socket_authorization() is None
        self.subscription = Subscription(client, self.feed, self._on_connection, self._on_failure, follow)
        self.logs: dict[str, ExchangeLog] = {}
        self.log = ExchangeLog(None)

    @property
    def session_id(self) -> str | None:
        """The current session; None until there is one."""
        return self.log.session_id or None

    def select(self, session_id: str | None) -> None:
        """Make another session the current one; None for one that is yet to start."""
        self.log.note_gap()
        self.log = self.logs.get(session_id or "") or ExchangeLog(session_id)
        if session_id is not None and session_id not in self.logs:
            self.logs[session_id] = self.log
            self.log.unread = UNREAD if self.subscription.available else None

    def begin(self, session_id: str) -> None:
        """Follow a session that was just started, from its beginning.

        The agent is already at work when the socket opens.
        """
        self.log.session_id = session_id
        self.logs[session_id] = self.log
        self.subscription.start(session_id, None)

    def rewind(self) -> None:
        """Forget the session's events so far, to feed it from another position.

        Notes
        -----
        For recordings. Raises nothing.
        """
        for exchange in self.log.pending:
            exchange.stop()
        self.log = self.logs[self.log.session_id] = ExchangeLog(self.log.session_id)
        self._on_change()

    def feed(self, event: Event) -> None:
        """Add one event of the session; a persisted event counts once.

        Parameters
        ----------
        event : mapping
            As the stream delivers it, persisted event or draft. An event of an unknown
            type is kept and shown as it is.

        Notes
        -----
        Raises nothing for an event that lacks fields. Specification: "Events", rules 2
        to 5.
        """
        live = self.subscription.connection == "live" and not self._polls
        exchange = self.log.feed(event, self._clock(), live=live)
        if exchange is not None:
            self._on_event(event, exchange)

    async def catch_up(self, *, restart: bool = True) -> None:
        """Read the session to its end and follow it; does nothing without a source.

        Without `restart`, a subscription that has ended is not started again.

        Raises
        ------
        ApiError, StreamClosed, ConnectionFailed
            As `Subscription.catch_up`.
        """
        log = self.log
        if not self.subscription.available or not log.session_id:
            return
        try:
            await self.subscription.catch_up(log.session_id, lambda: log.resume_id, restart=restart)
        except Exception as error:
            log.unread = explain(error).text
            raise

    @property
    def can_read(self) -> bool:
        """Whether `read` may find more: not without a source, or if one is live."""
        subscription = self.subscription
        return bool(self.log.session_id) and subscription.available and not subscription.up_to_date

    def load(self, timeout_s: float) -> None:
        """As `read`, from another thread.

        On the loop that follows the session nothing is read, because the loop must not
        wait for itself.
        """
        if loop.on_loop_thread() or self.subscription.runs_here or not self.can_read:
            return
        try:
            loop.run(self.read(), timeout_s, operation="conversation.load")
        except DeadlineExceeded:
            self.log.unread = f"Reading the session took longer than {timeout_s:g} s."
        except RuntimeError as error:  # Python is shutting down
            self.log.unread = str(error)

    async def read(self) -> None:
        """Read the missing part of the session, without starting to follow it.

        Raises nothing: why something is missing is stored in the log's ``unread``.
        """
        log = self.log
        try:
            if self.subscription.active:
                with contextlib.suppress(*[Exception] if self._lists_events else []):
                    await self.catch_up(restart=False)
            if self._lists_events and self.can_read:
                await self._read_list(log)
        except Exception as error:
            log.unread = explain(error).text

    async def _read_list(self, log: ExchangeLog) -> None:
        assert self._client is not None
        async for event in self._client.sessions.events(log.session_id, from_id=log.resume_id):
            if log is not self.log:  # another session was chosen meanwhile
                return
            self.feed(event)
        log.unread = None

    def _on_connection(self) -> None:
        if self.subscription.up_to_date:
            self.log.unread = None
        elif self.subscription.connection == "reconnecting":
            self.log.note_gap()
        self._on_change()

    def _on_failure(self, error: Exception) -> None:
        # Stored before anyone is told: an export may read `unread` at any moment.
        if self.log.unread is not None:
            self.log.unread = explain(error).text
        self._on_error(error)
