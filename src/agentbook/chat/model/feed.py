"""The sessions of a conversation: their exchanges, and what fills them.

The events of the current session come from `agentbook.events.reader`, which reconnects
by itself. It ends only if the platform refuses it or is out of reach for minutes: the
reason is then in `SessionFeed.error`, and the next `catch_up` subscribes again. A
session that nothing follows is read page by page, for example for an export. Each knows
why it may lack events. Use it only on the toolkit's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...api.calls import ref
from ...api.errors import ConnectionFailed, DeadlineExceeded, RateLimited, ServerError, StreamClosed
from ...client import name_of
from ...events import loop, reader
from ...events.turns import Event
from .exchange import Exchange
from .exchange_log import ExchangeLog
from .participants import Participants, SessionFacts
from .user_errors import UserError, explain

if TYPE_CHECKING:
    from ...client import AsyncClient

Follow = Callable[..., AsyncGenerator[Event]]
OPERATION = "sessions.stream"
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
    on_error : callable
        Receives the exception that ended the subscription.
    follow, clock
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
    log : ExchangeLog
        The log of the current session.
    logs : dict of str to ExchangeLog
        The logs by session id, oldest first.
    participants : Participants
        Who the reader is, and the names of agents.
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
        self.available = client is not None or follow is not None
        self.connection = "none"
        self.error: UserError | None = None
        self._follow: Follow = follow or reader.subscribe
        self._ends_with_client = follow is None  # a recording has no client to close
        self._caught_up = False
        self._state_known = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()
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
            self.log.unread = UNREAD if self.available else None

    def begin(self, session: Mapping[str, Any], agent_name: str) -> None:
        """Follow a session that was just started, from its beginning.

        The agent is already at work when the socket opens.
        """
        log, session_id = self.log, ref(session)
        log.session_id, log.agent_name = session_id, agent_name
        version_id = str(session.get("agent_version_id") or "")
        log.facts = SessionFacts(initiator={"id": session.get("initiator_id")}, version_id=version_id)
        if version_id:
            self._identifying = asyncio.create_task(self._read_version(log, session.get("agent_id")))
        self.learn_reader(session.get("initiator_id"))
        log.started_here = True
        self.logs[session_id] = log
        self._subscribe(log)

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
        live = self.connection == "live"  # what is polled is seen late
        exchange = self.log.feed(event, self._clock(), live=live)
        if exchange is not None:
            self._on_event(event, exchange)

    async def catch_up(self, *, restart: bool = True) -> None:
        """Read the session to its end and follow it; does nothing without a source.

        Without `restart`, a subscription that has ended is not started again.

        Raises
        ------
        ApiError, StreamClosed
            The error that ended the subscription.
        ConnectionFailed
            If there is no connection yet; the subscription keeps trying.
        """
        log = self.log
        if not self.available or not log.session_id:
            return
        self._identify()
        try:
            async with self._lock:
                await self._connect(log, restart=restart)
            await self._identified()
        except Exception as error:
            log.unread = explain(error).text
            raise

    async def _connect(self, log: ExchangeLog, *, restart: bool) -> None:
        if self._task is None or (restart and self._task.done()):
            self._subscribe(log)
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
                f"{OPERATION} {log.session_id}: not connected yet; still trying.", operation=OPERATION
            )

    def _subscribe(self, log: ExchangeLog) -> None:
        """Follow a session from after the last event that is known."""
        self.error, self._caught_up, self.connection = None, False, "connecting"
        self._state_known.clear()
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(log.session_id, log.resume_id or reader.BEGINNING))
        # Retrieved, so that asyncio does not log an error that is already in `error`.
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        self._on_change(None)

    async def _run(self, session_id: str, from_id: str) -> None:
        stream = self._follow(self._client, session_id, from_id=from_id, on_state=self._set_connection)
        end: contextlib.AbstractAsyncContextManager[Any] = contextlib.nullcontext()
        if self._client is not None and self._ends_with_client:
            end = reader.until_closed(self._client, OPERATION, session_id)
        try:
            async with end, contextlib.aclosing(stream) as events:
                async for event in events:
                    self.feed(event)
            raise StreamClosed(f"The event stream of session {session_id} ended.", operation=OPERATION)
        except Exception as error:
            self.error = explain(error)
            # Stored before anyone is told: an export may read `unread` at any moment.
            if self.log.unread is not None:
                self.log.unread = self.error.text
            self._on_error(error)
            raise
        finally:
            self.connection = "none"

    def _set_connection(self, state: str) -> None:
        self.connection = state
        self._caught_up = self._caught_up or self.up_to_date
        self._state_known.set()
        if self.up_to_date:
            self.log.unread = None
            self._identify()
        elif state == "reconnecting":
            self.log.note_gap()
        self._on_change(None)

    @property
    def active(self) -> bool:
        """Whether a session is followed, or the connection to it is being made."""
        return self._task is not None and not self._task.done()

    @property
    def up_to_date(self) -> bool:
        """Whether the session was read to its end, and what follows arrives."""
        return self.connection in ("live", "polling")

    @property
    def _runs_here(self) -> bool:
        """Whether it runs on this thread, which must not block to wait for it."""
        try:
            return self._loop is asyncio.get_running_loop()
        except RuntimeError:
            return False

    @property
    def can_read(self) -> bool:
        """Whether `read` may find more: not without a source, or if one is live."""
        return bool(self.log.session_id) and self.available and not self.up_to_date

    def load(self, timeout_s: float) -> None:
        """As `read`, from another thread.

        On the loop that follows the session nothing is read, because the loop must not
        wait for itself.
        """
        if loop.on_loop_thread() or self._runs_here:
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
            if self.active:
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
            await asyncio.wait([reading])
            log.facts = await self.participants.facts_of(session)
            log.agent_name = name_of(log.facts.agent) or log.agent_name
            await self._read_version(log, log.facts.agent.get("id"))

        reading = asyncio.ensure_future(self.participants.read_reader())
        errors = await asyncio.gather(reading, read_facts(), return_exceptions=True)
        for error in filter(None, errors):  # the session can be read without
            logger.debug("Who takes part in session %s is not known: %s", log.session_id, error)
        log.is_identified = not any(isinstance(error, _PASSING) for error in errors)
        self._find_own()
        self._on_change(None)

    async def _read_version(self, log: ExchangeLog, agent_id: Any) -> None:
        log.facts = await self.participants.read_version(log.facts, agent_id)
        self._on_change(None)

    async def end(self) -> None:
        """Stop following; returns when the socket is closed."""
        if self._identifying is not None:
            self._identifying.cancel()
            self._identifying = None
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])


_PASSING = (ConnectionFailed, DeadlineExceeded, RateLimited, ServerError)
