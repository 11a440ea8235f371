"""The sessions of a conversation: their exchanges, and what fills them.

The events of the current session come from a live subscription. A session that nothing
follows is read page by page, for example for an export. Each knows why it may lack
events. Use it only on the toolkit's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...api.calls import ref
from ...api.errors import ConnectionFailed, DeadlineExceeded, RateLimited, ServerError
from ...events import loop
from ...events.turns import Event
from ...lookup import name_of
from .exchange import Exchange
from .exchange_log import ExchangeLog
from .participants import Participants, SessionFacts
from .subscription import Follow, Subscription
from .user_errors import explain

if TYPE_CHECKING:
    from ...client import AsyncClient

UNREAD = "The session has not been read yet."
NAMES_TIMEOUT_S = 10.0  # a session is shown without names rather than later
logger = logging.getLogger("agentbook.chat")


class SessionFeed:
    """The exchanges of the current session and of earlier ones.

    Parameters
    ----------
    client : AsyncClient or None
    on_event : callable
        Receives each event with the exchange it changed.
    on_change : callable
        Receives the exchange that changed other than by an event, or None.
    on_error, follow
        As for `Subscription`.

    Attributes
    ----------
    log : ExchangeLog
        The log of the current session.
    logs : dict of str to ExchangeLog
        The logs by session id, oldest first.
    participants : Participants
        Who the reader is, and the names of agents.
    subscription : Subscription
    """

    def __init__(
        self,
        client: AsyncClient | None,
        on_event: Callable[[Event, Exchange], None],
        on_change: Callable[[Exchange | None], None],
        on_error: Callable[[Exception], None],
        follow: Follow | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._clock = client, clock
        self._on_event, self._on_change, self._on_error = on_event, on_change, on_error
        self._lists_events = client is not None and follow is None
        self._identifying: asyncio.Task[None] | None = None
        self.participants = Participants(client)
        self.subscription = Subscription(client, self.feed, self._on_connection, self._on_failure, follow)
        self.logs: dict[str, ExchangeLog] = {}
        self.log = ExchangeLog(None, self.participants)

    @property
    def session_id(self) -> str | None:
        """The current session; None until there is one."""
        return self.log.session_id or None

    def select(self, session_id: str | None) -> None:
        """Make another session the current one; None for one that is yet to start."""
        self.log.note_gap()
        self.log = self.logs.get(session_id or "") or ExchangeLog(session_id, self.participants)
        if session_id is not None and session_id not in self.logs:
            self.logs[session_id] = self.log
            self.log.unread = UNREAD if self.subscription.available else None

    def begin(self, session: Mapping[str, Any], agent_name: str) -> None:
        """Follow a session that was just started, from its beginning.

        The agent is already at work when the socket opens.
        """
        log, session_id = self.log, ref(session)
        log.session_id, log.agent_name = session_id, agent_name
        log.facts = SessionFacts(initiator={"id": session.get("initiator_id")})
        self.learn_reader(session.get("initiator_id"))
        log.started_here = True
        self.logs[session_id] = log
        self.subscription.start(session_id, None)

    def rewind(self) -> None:
        """Forget the session's events so far, to feed it from another position.

        Notes
        -----
        For recordings. Raises nothing.
        """
        for exchange in self.log.pending:
            exchange.stop()
        before, self.log = self.log, ExchangeLog(self.log.session_id, self.participants)
        self.log.agent_name, self.log.keep = before.agent_name, before.keep
        self.logs[self.log.session_id] = self.log
        self._on_change(None)

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
        live = self.subscription.connection == "live"  # what is polled is seen late
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
        self._identify()
        try:
            await self.subscription.catch_up(log.session_id, lambda: log.resume_id, restart=restart)
            await self._identified()
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
        if loop.on_loop_thread() or self.subscription.runs_here:
            return
        if not (self.can_read or self._can_identify):
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
            self._identify()
            if self.subscription.active:
                with contextlib.suppress(*[Exception] if self._lists_events else []):
                    await self.catch_up(restart=False)
            if self._lists_events and self.can_read:
                await self._read_list(log)
            await self._identified()
        except Exception as error:
            log.unread = explain(error).text

    async def _read_list(self, log: ExchangeLog) -> None:
        assert self._client is not None
        async for event in self._client.sessions.events(log.session_id, from_id=log.resume_id):
            if log is not self.log:  # another session was chosen meanwhile
                return
            self.feed(event)
        log.unread = None

    # Who takes part

    def learn_reader(self, own_id: Any) -> None:
        """Note an id of the reader, as the platform's reply to a message has it."""
        if self.participants.learn(own_id):
            self._find_own()

    def _find_own(self) -> None:
        for log in self.logs.values():
            for exchange in log.identify():
                self._on_change(exchange)

    def _identify(self) -> None:
        """Begin to read who takes part in the session, unless that is known."""
        begun = self._identifying is not None and not self._identifying.done()
        if self._client is not None and self._can_identify and not begun:
            self._identifying = asyncio.create_task(self._read_participants(self._client, self.log))

    @property
    def _can_identify(self) -> bool:
        log = self.log
        return self._client is not None and bool(log.session_id) and not (log.started_here or log.is_identified)

    async def _identified(self) -> None:
        if self._identifying is not None:
            await asyncio.wait([self._identifying], timeout=NAMES_TIMEOUT_S)

    async def _read_participants(self, client: AsyncClient, log: ExchangeLog) -> None:
        async def read_facts() -> None:
            session = await client.sessions.get(log.session_id)
            await asyncio.wait([reader])
            log.facts = await self.participants.facts_of(session)
            log.agent_name = name_of(log.facts.agent) or log.agent_name

        reader = asyncio.ensure_future(self.participants.read_reader())
        errors = await asyncio.gather(reader, read_facts(), return_exceptions=True)
        for error in filter(None, errors):  # the session can be read without
            logger.debug("Who takes part in session %s is not known: %s", log.session_id, error)
        log.is_identified = not any(isinstance(error, _PASSING) for error in errors)
        self._find_own()
        self._on_change(None)

    async def end(self) -> None:
        """Stop following; returns when the socket is closed."""
        if self._identifying is not None:
            self._identifying.cancel()
            self._identifying = None
        await self.subscription.end()

    def _on_connection(self) -> None:
        if self.subscription.up_to_date:
            self.log.unread = None
            self._identify()
        elif self.subscription.connection == "reconnecting":
            self.log.note_gap()
        self._on_change(None)

    def _on_failure(self, error: Exception) -> None:
        # Stored before anyone is told: an export may read `unread` at any moment.
        if self.log.unread is not None:
            self.log.unread = explain(error).text
        self._on_error(error)


_PASSING = (ConnectionFailed, DeadlineExceeded, RateLimited, ServerError)
