"""A conversation with an agent: one session, its turns and its state, without widgets.

Everything here runs on the toolkit's own thread and loop (`agentbook.events.loop`), so
the state needs no locks. A caller on another thread submits a coroutine; listeners are
called on that thread.

The order of steps keeps a conversation complete: a new session is posted, then followed
from its beginning; an existing one is read to its last event and followed from there,
before a message is posted to it.

The platform has no cancel. `stop` only ends the waiting: the agent may still finish,
and its reply is recorded when it arrives. The platform answers the next message only
afterwards, so that one is held here until the turn ends, but at most for a minute: a
posted message cannot be withdrawn.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..._text import check_text, safe_repr
from ...api.calls import ref
from ...api.errors import NotFound, OutcomeUnknown
from ...client import get_agent, name_of
from ...events import loop
from ...events.turns import Event, Turn, opens_turn
from ...frames.analysis.prices import cost_of, price_table
from ...live.listeners import Listeners
from .exchange import Exchange
from .exchange_log import ExchangeLog
from .feed import Follow, SessionFeed
from .participants import Participants, name_agent
from .session_list import (
    MAX_RESULTS,
    Opening,
    SessionEntry,
    find_sessions,
    last_session,
    name_session,
    remember,
    remembered,
    session_names,
)
from .start import Welcome, check_workspace, distinct, read_agent, welcome_of
from .ticker import Ticker
from .transcript import Transcript
from .user_errors import UserError, explain

if TYPE_CHECKING:
    import pandas as pd

    from ...client import AsyncClient, Client
    from ...frames.store.store import Store

Listener = Callable[[Exchange | None], None]

READ_TIMEOUT_S = 60.0
FIND_TIMEOUT_S = 15.0
HOLD_S = 60.0
READ_ONLY = (
    "This session was started with another credential, so it can be read here but not continued. "
    "Start a new session to write."
)
NEEDS_WHERE = "A new session needs workspace= and agent=: pass both when you create the panel."


class Conversation:
    """One session with an agent, updated event by event.

    Parameters
    ----------
    client : Client or AsyncClient or None
        None for a conversation that is only fed (`feed`), such as a recorded one.
    workspace : str or Record, optional
        Where a new session is started.
    agent : str or Record, optional
        The agent of a new session: id or name.
    session : str or Record, optional
        An existing session to continue or read.
    follow : callable, optional
        A function that yields a session's events as they happen. Defaults to
        `agentbook.events.reader.subscribe`.
    clock : callable
        The time in seconds, monotonic.
    agent_version : str or Record, optional
        The agent's version for a new session. It may be a draft if the platform offers
        that. Default: the newest committed one.
    prices : dict, DataFrame or path, optional
        As for `agentbook.with_cost`: turns then have a cost. Default: the file that
        ``AGENTBOOK_PRICES`` names.

    Attributes
    ----------
    workspace, agent : str or Record
        Where a new session is started, and with which agent; can be set.

    Raises
    ------
    TypeError
        If `session` is neither an id nor a record that has one.

    Notes
    -----
    Missing arguments are reported when a message is sent. A message that the platform
    refuses raises nothing: the reason is in the ``error`` of its exchange. To wait for
    the turn, await ``asyncio.wrap_future(exchange.finished)``.
    Specification: "Events"; "Authentication", rule 9.

    Examples
    --------
    >>> conversation = Conversation(None)
    >>> question = {"id": "0199a0b2-0000-7000-8000-000000000001", "type": "message",
    ...             "content": {"text": "2+2?"}, "author": {"type": "api_key"}}
    >>> reply = {"id": "0199a0b2-0000-7000-8000-000000000002",
    ...          "type": "runtime_done", "content": {"text": "4"}}
    >>> statuses = []
    >>> end = conversation.listen(lambda exchange: statuses.append(exchange.status))
    >>> conversation.feed(question)
    >>> conversation.stop(conversation.exchanges[0])
    >>> conversation.feed(reply)
    >>> end()
    >>> conversation.turns, statuses
    ([Turn(answered: '2+2?' -> '4')], ['waiting', 'stopped', 'answered'])
    >>> print(conversation.to_markdown())
    # Conversation with an agent
    ...

    With a platform, on the toolkit's loop:

    >>> from agentbook.events import loop
    >>> conversation = Conversation(
    ...     client, workspace="acme~playground", agent="acme~nobody")
    >>> exchange = loop.run(conversation.start("What is a turn?"))
    >>> conversation.agent = "acme~guide"
    >>> exchange = loop.run(conversation.retry(exchange))
    >>> second = loop.run(conversation.send("And an event?"))
    >>> second.finished.result(60).status, conversation.withdraw(second)
    ('answered', False)
    >>> loop.run(conversation.attach(session))
    >>> conversation.connection, len(conversation.sessions)
    ('live', 2)
    >>> conversation.forget(session)
    >>> loop.run(conversation.aclose())
    >>> conversation.state
    'closed'
    >>> past = Conversation(client, session=session)  # exports read what they need
    >>> past.to_pandas()["role"].to_list()[:2]
    ['user', 'agent']
    >>> import tempfile
    >>> past.export(Path(tempfile.mkdtemp()) / "talk.html").suffix
    '.html'
    >>> past.load(60)
    >>> past.as_transcript().incomplete
    ''
    >>> [entry.session_id for entry in past.find_sessions()] == [session.id]
    True
    """

    def __init__(
        self,
        client: Client | AsyncClient | None,
        *,
        workspace: Any = None,
        agent: Any = None,
        session: Any = None,
        follow: Follow | None = None,
        clock: Callable[[], float] = time.monotonic,
        agent_version: Any = None,
        prices: Any = None,
    ) -> None:
        self._client = client.asynchronous() if client is not None else None
        self.workspace, self.agent, self._agent_version = workspace, agent, agent_version
        self._options: dict[str, Any] = {"follow": follow, "clock": clock, "prices": prices}
        self._own_agent_name = name_of(agent)
        self._recording: Transcript | None = None  # what it replays; exports contain all of it at once
        self._store: Store | None = None  # whose sessions are searched, too
        self._place: str | None = None  # where it asks, by which its last session is found again
        self._names: Mapping[str, str] = {}  # of sessions on this computer, read with each list of them
        self._closed, self._prices, self._pid = False, price_table(prices), os.getpid()
        self._welcome: Welcome | None = None
        self._start_problems: list[UserError] = []
        self._openings: dict[str, Opening] = {}
        self._listeners = Listeners[Exchange | None]()
        self._clock = clock
        self._ticker = Ticker(lambda: bool(self.pending), lambda: self._listeners.notify(None))
        self._feed = SessionFeed(self._client, self._on_event, self._notify, self._lose_connection, follow, clock)
        self._starting = self._refused = False  # whether a session is being started; whether a message was refused
        self._posting = asyncio.Lock()
        self._progress = asyncio.Event()
        self._feed.select(ref(session) if session is not None else None)

    # State

    @property
    def session_id(self) -> str | None:
        """The session's id; None until there is one."""
        return self._feed.session_id

    @property
    def exchanges(self) -> list[Exchange]:
        """The questions and replies of the session, in order."""
        return self._feed.log.exchanges

    @property
    def sessions(self) -> dict[str, list[Exchange]]:
        """The sessions of this conversation, oldest first: id to exchanges."""
        return {session_id: log.exchanges for session_id, log in self._feed.logs.items()}

    @property
    def _can_start(self) -> bool:
        """Whether a new session can be started: needs client, workspace, agent."""
        has_where = self.workspace is not None and self.agent is not None
        return self._client is not None and has_where and not self._closed

    @property
    def _recorded(self) -> bool:
        """Whether the conversation replays a recording."""
        return self._recording is not None

    @property
    def read_only(self) -> bool:
        """Whether nothing can be sent: a recording, or a session of another key.

        Where the platform does not say who started a session, this is known only after
        a message was refused.
        """
        return self._recorded or self._refused or not self._feed.log.may_write

    @property
    def agent_name(self) -> str:
        """The name of the session's agent; before there is a session, of `agent`."""
        return self._agent_name_of(self._feed.log)

    @agent_name.setter
    def agent_name(self, name: str) -> None:
        if self._feed.log.session_id:
            self._feed.log.agent_name = name
        else:
            self._own_agent_name = name

    def _agent_name_of(self, log: ExchangeLog) -> str:
        return log.agent_name if log.session_id else self._own_agent_name

    @property
    def version_number(self) -> str:
        """The agent's version when the session began: its number, or ``draft``.

        Empty where the platform does not say it. If no version was chosen for the
        session, later turns may run on a newer one.
        """
        return self._recording.version_number if self._recording else self._feed.log.facts.version_number

    def _who(self, session_id: str) -> tuple[str, str]:
        """Who takes part in one of `sessions`, where that is not as one would expect.

        The name of its agent, if it is not `agent`, and of who started it, if that was
        not the reader and its record has been read; each empty otherwise.
        """
        log = self._feed.logs.get(session_id)
        if log is None or log.started_here:
            return "", ""
        own = self._participants.known_agent(self.agent)
        own = own if name_of(own) else {**own, "name": self._own_agent_name}
        agent = log.facts.agent if name_of(log.facts.agent) else {"name": log.agent_name}
        return name_agent(agent, own), self._participants.name_initiator(log.initiator)

    @property
    def _participants(self) -> Participants:
        """Who the reader is, and the names of agents."""
        return self._feed.participants

    @property
    def turns(self) -> list[Turn]:
        """The turns, in order."""
        return [exchange.turn for exchange in self.exchanges]

    @property
    def pending(self) -> list[Exchange]:
        """The exchanges that wait for a reply."""
        return self._feed.log.pending

    @property
    def _now(self) -> float:
        """The time by the conversation's clock, for `Exchange.waited_s` and such."""
        return self._clock()

    @property
    def _greeting(self) -> Welcome | None:
        """What an empty panel offers, once `_read_welcome` has read it."""
        return None if self.session_id else self._welcome

    @property
    def _start_errors(self) -> list[UserError]:
        """Why no session can start, as far as `_read_welcome` can tell."""
        return [] if self.exchanges or self.session_id else self._start_problems

    @property
    def connection(self) -> str:
        """``none``, ``connecting``, ``live``, ``polling`` or ``reconnecting``."""
        return self._feed.connection

    @property
    def error(self) -> UserError | None:
        """Why the session cannot be followed at the moment."""
        return self._feed.error

    @property
    def _notice(self) -> UserError | None:
        """The error to show next to the turns: `error`, unless one of them shows it."""
        error = self.error
        is_shown = error is not None and any(
            exchange.status == "failed" and exchange.error == error for exchange in reversed(self.exchanges)
        )
        return None if is_shown else error

    @property
    def incomplete(self) -> str:
        """Why turns of the session may be missing; empty once all have been read."""
        return "" if self._recorded else self._feed.log.unread or ""

    @property
    def state(self) -> str:
        """``idle``, ``connecting``, ``streaming``, ``failed`` or ``closed``."""
        if self._closed:
            return "closed"
        if self._starting or self.connection in ("connecting", "reconnecting"):
            return "connecting"
        if self.error is not None:
            return "failed"
        return "streaming" if self.pending else "idle"

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` on the loop's thread after each change.

        Changes may come hundreds of times a second: a listener that draws should note
        the change and draw later. While a reply is pending, there is one each second,
        because the status says how long the wait has been.

        Parameters
        ----------
        listener : callable
            Takes the exchange that changed, or None if something else did, such as the
            connection. Errors that it raises are not raised here: the logger
            ``agentbook`` logs them with their traceback.

        Returns
        -------
        callable
            Unsubscribes the listener. Calling it again does nothing.
        """
        return self._listeners.add(listener)

    def find_sessions(self, search: str = "", *, limit: int = MAX_RESULTS, others: bool = True) -> list[SessionEntry]:
        """The sessions that can be opened, that with the latest message first.

        Parameters
        ----------
        search : str
            Only sessions with all these words. In sessions that this panel has not
            shown and a store does not have, only the names or the first message is
            searched, and who takes part.
        limit : int
            Maximum number of sessions that this panel has not shown, of the reader's
            and of those that others started. They come from the platform's list of the
            workspace's sessions, if it offers one, without those in which runs of labs
            on this computer asked. Of a comparison made here, one session is listed.
        others : bool
            Whether sessions that others started are among them.

        Returns
        -------
        list of SessionEntry
            Each has the first words, the name that `rename` gave it, the times when it
            began and of its last message, and the names of its agent and of who started
            it, where these are not the panel's agent and the reader; and up to five of
            the turns that have the words, with the text around them.
            ``panel.open_session(entry.session_id)`` opens one.

        Raises
        ------
        ImportError
            If there is a store, and DuckDB, which searches it, is not installed.
        StoreError
            If the store cannot be read; the message names the file.

        Notes
        -----
        Sessions that the platform does not list, or that cannot be read, are left out.
        The specification shows no such list ("Endpoints", gaps in this part).
        """
        finding = find_sessions(self, self._client, self._openings, search, limit, self._store, others=others)
        return loop.run(finding, FIND_TIMEOUT_S, operation="panel.find_sessions")

    async def _read_welcome(self) -> None:
        """Read the agent's introduction, to show it before the first message.

        If no session can start, such as with an archived agent, `_start_errors` says
        why, and the next call reads again.
        """
        if self._client is None or self.agent is None or (self._welcome is not None and not self._start_problems):
            return
        (record, agent_error), workspace_error = await asyncio.gather(
            read_agent(self._client, self.agent), check_workspace(self._client, self.workspace)
        )
        self._welcome = welcome_of(record) if record is not None else None
        self._start_problems = distinct([agent_error, workspace_error])
        self._notify(None)
        if self._welcome is not None and not self._start_problems:
            noted = await asyncio.to_thread(remembered, self._place) if self._place else None
            last = await last_session(self, self._client, self._openings, noted)
            self._welcome = replace(self._welcome, last=last)
            self._notify(None)

    # Messages

    async def start(self, prompt: str) -> Exchange:
        """As `send`, in a new session, whatever came before."""
        self._check(prompt)
        await self._switch(None)
        return await self.send(prompt)

    async def new_session(self) -> None:
        """Leave the session, so that the next message starts a new one.

        The exchanges so far remain in `sessions`.

        Raises
        ------
        ValueError
            If there is no workspace or agent to start a new session with.
        """
        if not self._can_start:
            raise ValueError(NEEDS_WHERE)
        await self._switch(None)

    def _branch(self) -> Conversation:
        """A conversation with the session's agent that has no session yet.

        Its sessions are among `sessions` of both. Raises as `new_session`.
        """
        if not self._can_start:
            raise ValueError(NEEDS_WHERE)
        log, agent = self._feed.log, self.agent
        if not log.started_here:
            agent = log.facts.agent.get("id") or log.agent_name or agent
        version = self._agent_version if agent is self.agent else None
        made = Conversation(self._client, workspace=self.workspace, agent=agent, agent_version=version, **self._options)
        made._feed.logs = self._feed.logs
        return made

    async def _switch(self, session_id: str | None) -> None:
        self.stop()
        await self._end_feed()
        self._feed.error = None
        self._feed.select(session_id)
        self._refused = False
        self._notify(None)

    async def attach(self, session: Any = None, *, keep: bool = False) -> None:
        """Read the session's events, then follow it live.

        Returns once the events so far have been read, or reading them has failed.
        Without a session or a client, nothing is read.

        Parameters
        ----------
        session : str or Record, optional
            The session to read; None for the current session.
        keep : bool
            Whether a saved notebook keeps the session, even if nothing is asked in it.

        Raises
        ------
        TypeError
            If `session` is neither an id nor a record that has one.

        Notes
        -----
        Errors of the platform and of the connection are not raised but stored in
        `error`; `resume` tries again.
        """
        if session is not None and ref(session) != self.session_id:
            await self._switch(ref(session))
        self._feed.log.keep = True if keep else self._feed.log.keep
        with contextlib.suppress(Exception):  # stored by the feed
            await self._feed.catch_up()
        self._names = await asyncio.to_thread(session_names)
        self._notify(None)

    async def send(self, text: str) -> Exchange:
        """Send a message; starts the session if there is none.

        Parameters
        ----------
        text : str
            The message.

        Returns
        -------
        Exchange
            The last of `exchanges`, once the platform has accepted or refused the
            message.

        Raises
        ------
        TypeError
            If the message is not a string.
        ValueError
            If the message is empty or not valid Unicode, if the conversation is closed
            or a recording, or if it has no session and cannot start one.
        """
        exchange = self.submit(text)
        if exchange.posting is not None:
            await asyncio.wait([exchange.posting])
        return exchange

    def submit(self, text: str) -> Exchange:
        """As `send`, but returns before the platform has the message.

        Call it on the loop's thread: without a running event loop it raises
        ``RuntimeError``.
        """
        self._check(text)
        if self.session_id is None and (self.workspace is None or self.agent is None):
            raise ValueError("There is no session yet: workspace= and agent= are needed to start one.")
        turn = Turn(self.session_id or "", prompt=text, asked_at=datetime.now(UTC))
        exchange = Exchange(turn, ours=True, confirmed=False, phase="sending", sent_at=self._now)
        exchange.previous = self._feed.log.stopped
        self.exchanges.append(exchange)
        exchange.posting = asyncio.get_running_loop().create_task(self._post(exchange))
        self._notify(exchange)
        return exchange

    async def _post(self, exchange: Exchange) -> None:
        try:
            async with self._posting:
                await self._hold(exchange)
                exchange.last_sign_at = self._now
                if self.session_id is None:
                    await self._start_session(exchange)
                else:
                    await self._continue_session(exchange, self.session_id)
        except asyncio.CancelledError:
            if not self._closed and exchange.phase != "stopped":
                raise
        except Exception as cause:
            error = explain(cause)
            if self._refused and isinstance(cause, NotFound):
                error = UserError(READ_ONLY, error.request_id)
            exchange.posted = exchange.posted and isinstance(cause, OutcomeUnknown)
            exchange.fail("refused", error, cause)
        else:
            if exchange.phase == "sending":
                exchange.phase = "waiting"
            if self._place and self.session_id:
                await asyncio.to_thread(remember, self._place, self.session_id)
        finally:
            exchange.posting = None
            self._starting = False
            self._notify(exchange)

    async def _hold(self, exchange: Exchange) -> None:
        """Wait until the previous turn ends, but not forever: its run may have died."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HOLD_S):
                while exchange.held and self._feed.active:
                    self._progress.clear()
                    await self._progress.wait()

    async def _start_session(self, exchange: Exchange) -> None:
        """Post the first message, then follow the session from its beginning."""
        assert self._client is not None
        self._starting = True
        self._notify(None)
        record = await get_agent(self._client, self.agent)
        self._own_agent_name = name_of(record) or self._own_agent_name
        exchange.posted = True
        version: dict[str, Any] = {} if self._agent_version is None else {"agent_version_id": ref(self._agent_version)}
        session = await self._client.sessions.start(
            self.workspace, agent_id=ref(record), prompt=exchange.prompt, **version
        )
        exchange.turn.session_id = ref(session)
        self._feed.begin(session, self._own_agent_name)

    async def _continue_session(self, exchange: Exchange, session_id: str) -> None:
        # Read the session to its end and follow it first. Then no reply can be missed,
        # and no older message with the same text can be mistaken for this one.
        assert self._client is not None
        await self._feed.catch_up()
        exchange.posted = True
        try:
            reply = await self._client.sessions.send(session_id, exchange.prompt)
        except NotFound:
            self._refused = True
            raise
        author = reply.get("author")
        self._feed.learn_reader(author.get("id") if isinstance(author, Mapping) else None)
        self._feed.log.claim(exchange, reply)

    def _check(self, text: str) -> None:
        """Reject texts that can never be sent, before anything changes."""
        if not check_text(text).strip():
            raise ValueError("The message is empty: write something to send.")
        if self._client is None or self._closed:
            raise ValueError("This conversation is closed or a recording: nothing can be sent to it.")
        if self._pid != os.getpid():  # nobody listens in a forked child
            raise RuntimeError("This panel belongs to the process that this one was forked from: make a new one here.")

    async def retry(self, exchange: Exchange) -> Exchange:
        """Try a failed exchange again, without sending a message twice.

        If the platform already has the message, wait for its reply. A turn that the
        platform failed is asked again as a new message: the API offers nothing else.

        Parameters
        ----------
        exchange : Exchange
            One of `exchanges`.

        Returns
        -------
        Exchange
            The same exchange if the platform has the message, else that of the new
            message, accepted or refused as in `send`.

        Raises
        ------
        TypeError, ValueError
            As in `send`.
        """
        if exchange.awaits_reply:
            exchange.wait_again(self._clock())
            self._notify(exchange)
            await self.resume()
            return exchange
        if not exchange.confirmed:
            # It may have arrived unnoticed: read the session before sending it again.
            if self.session_id is not None:
                await self.attach()
                if exchange.confirmed:
                    return await self.retry(exchange) if exchange.turn.status == "open" else exchange
            self.exchanges.remove(exchange)
        self._notify(None)
        return await self.send(exchange.prompt)

    # Waiting

    def stop(self, exchange: Exchange | None = None) -> None:
        """Stop waiting. The agent may still finish; a late reply is still recorded.

        Parameters
        ----------
        exchange : Exchange, optional
            One of `exchanges`, even one that has ended; None for all pending ones.

        Notes
        -----
        Raises nothing. `resume` waits again.
        """
        for each in [exchange] if exchange is not None else self.pending:
            each.stop()
            self._notify(each)

    def withdraw(self, exchange: Exchange) -> bool:
        """Take back a message that waits for the previous turn to end.

        Parameters
        ----------
        exchange : Exchange
            One of `exchanges`. It is removed from them if it has not been sent.

        Returns
        -------
        bool
            False if it is already on its way: the platform cannot take anything back.

        Notes
        -----
        Raises nothing.
        """
        if not exchange.held or exchange not in self.exchanges:
            return False
        exchange.stop()
        self.exchanges.remove(exchange)
        self._notify(None)
        return True

    async def resume(self) -> None:
        """Wait again for stopped and lost replies; reconnect if needed."""
        for exchange in self.exchanges:
            if exchange.awaits_reply and exchange.phase in ("stopped", "lost"):
                exchange.wait_again(self._clock())
                self._notify(exchange)
        if self.session_id is not None:
            await self.attach()

    async def _disconnect(self) -> None:
        """Close the connection if nothing is awaited.

        What happens in the session meanwhile is read by `attach`, by the next message
        and by exports.
        """
        if self._feed.active and not self.pending and not self._recorded:
            self._feed.log.note_gap()
            await self._end_feed()
            self._notify(None)

    async def aclose(self) -> None:
        """Stop following and waiting. The session itself continues on the platform."""
        self.stop()
        self._closed = True
        await self._end_feed()
        self._notify(None)

    async def _end_feed(self) -> None:
        posting = [exchange.posting for exchange in self.exchanges if exchange.posting is not None]
        for task in posting:
            task.cancel()
        if posting:
            await asyncio.wait(posting)
        await self._feed.end()

    # Events

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
        self._feed.feed(event)

    def _rewind(self) -> None:
        """Forget a recording's events so far, to feed it from another position."""
        self._feed.rewind()

    def _on_event(self, event: Event, exchange: Exchange) -> None:
        author = event.get("author")
        if not self.agent_name and isinstance(author, Mapping) and not opens_turn(event):
            self.agent_name = str(author.get("name") or "")
            if self._feed.log.started_here:
                self._own_agent_name = self.agent_name or self._own_agent_name
        if self._prices is not None:
            exchange.cost = cost_of(exchange.usage, self._prices)
        self._notify(exchange)

    def _notify(self, exchange: Exchange | None) -> None:
        self._progress.set()  # a held message looks again whether it has to wait
        if exchange is not None and exchange.pending:
            self._ticker.start()
        self._listeners.notify(exchange)

    def _lose_connection(self, cause: Exception) -> None:
        error = explain(cause)
        for exchange in self.pending:
            if exchange.phase == "waiting":
                exchange.fail("lost", error, cause)
                self._notify(exchange)
        self._notify(None)

    # The conversation as data

    def load(self, timeout_s: float = READ_TIMEOUT_S) -> None:
        """Read the missing part of the session; exports do this themselves.

        Parameters
        ----------
        timeout_s : float
            Seconds to wait.

        Notes
        -----
        Raises nothing: if something could not be read, `incomplete` says why, and the
        events that arrived stay. On the event loop that follows the session, it reads
        nothing, because the loop cannot wait for itself: await `attach` there.
        """
        if not (self._recorded or (self._closed and not self.incomplete)):
            self._feed.load(timeout_s)

    @property
    def _kept(self) -> list[Transcript]:
        """The sessions that a saved notebook keeps, the current one last.

        Those are the sessions in which something was asked here, and those that were
        opened with ``keep=True``, without those that were forgotten.
        """
        current = self._feed.log
        if self._recording is not None:
            return [] if current.keep is False else [self._recording]
        logs = [*(log for log in list(self._feed.logs.values()) if log is not current), current]
        return [self._transcript_of(log, log.unread or "") for log in logs if log.kept]

    def forget(self, session: Any) -> None:
        """Leave a session out of what a saved notebook keeps.

        Parameters
        ----------
        session : str or Record
            One of `sessions`. To keep it again, `attach` it with ``keep=True``.

        Raises
        ------
        ValueError
            If it is not one of `sessions`.
        """
        log = self._feed.logs.get(ref(session))
        if log is None:
            shown = ", ".join(self.sessions) or "none"
            raise ValueError(f"Session {ref(session)!r} was not shown here, so it is not saved. Shown so far: {shown}.")
        log.keep = False
        self._notify(None)

    async def rename(self, session: Any, name: str) -> None:
        """As `ChatPanel.rename`, awaited: ``await conversation.rename(id, "Turns")``.

        The name is kept on this computer, for the lists of sessions; an empty one takes
        it back.
        """
        self._names = await asyncio.to_thread(name_session, ref(session), check_text(name, "The name"))
        self._notify(None)

    @property
    def transcript(self) -> Transcript:
        """The current session as data; reads the missing part of it first."""
        return self._complete_transcript

    @property
    def _complete_transcript(self) -> Transcript:
        self.load()
        if self.incomplete:
            warnings.warn(f"This transcript may lack turns of the session. {self.incomplete}", stacklevel=3)
        return self.as_transcript()

    def as_transcript(self) -> Transcript:
        """The current session as data, as far as it has been read.

        Returns
        -------
        Transcript
            Its ``incomplete`` says why turns may be missing.

        Notes
        -----
        Raises nothing and reads nothing; `transcript` first reads what is missing.
        """
        return self._recording or self._transcript_of(self._feed.log, self.incomplete)

    def _transcript_of(self, log: ExchangeLog, incomplete: str) -> Transcript:
        facts = log.facts
        return Transcript(
            list(log.exchanges),
            log.session_id or None,
            self._agent_name_of(log),
            incomplete,
            facts.version_id,
            facts.version_number,
        )

    def to_pandas(self) -> pd.DataFrame:
        """The current session's exchanges as a DataFrame.

        Returns
        -------
        DataFrame
            One row for each question and one for its outcome, in order. Empty frames
            have the same dtypes. If the session could not be read to its end, there is
            a warning, and ``frame.attrs["incomplete"]`` says why.

            =====================  ===================  ====  ==========================
            column                 dtype                unit  meaning
            =====================  ===================  ====  ==========================
            role                   category                   ``user`` or ``agent``
            author                 str                        who wrote it: ``You``, or
                                                              the name of another
                                                              person, a key or the
                                                              agent
            text                   str                        what was written; of a
                                                              failed reply, its draft
            event_id               str                        persisted event; missing
                                                              until there is one
            session_id             str
            asked_at               datetime64[us, UTC]        time of the question, on
                                                              both rows
            time_to_first_event_s  float64              s     from sending to the first
                                                              event of the agent; agent
                                                              rows
            time_to_reply_s        float64              s     from sending to the reply;
                                                              agent rows
            subtasks               Int64                      finished subtasks and tool
                                                              runs; agent rows
            status                 category                   sending, waiting,
                                                              streaming, stopped,
                                                              answered or failed
            reason                 str                        why the turn failed; agent
                                                              rows
            request_id             str                        the refused request
            finish_reason          str                        why the model stopped
                                                              writing, such as
                                                              ``length``; missing where
                                                              the platform does not say
            model                  str                        of the reply; missing, as
                                                              all that follows, where
                                                              the platform does not say
            input_tokens           Int64
            output_tokens          Int64
            tokens                 Int64                      of both
            cached_tokens          Int64                      of the input, from a cache
            cache_write_tokens     Int64                      and written to one
            reported_cost          float64                    what the platform says
            cost                   float64                    in the currency of the
                                                              prices
            agent_version          str                        id of the agent's version
                                                              when the session began;
                                                              agent rows
            =====================  ===================  ====  ==========================

        Notes
        -----
        Times to the first event are known for questions asked here while the panel
        listened. Otherwise the time to the reply is the difference of the two events'
        ``created_at``, as in `agentbook.turns`.
        Specification: "Events", rules 3 to 5.
        """
        return self._complete_transcript.to_pandas()

    def to_json(self) -> str:
        """The conversation as JSON, with its persisted events.

        `from_json` reads it back to an equal conversation.
        """
        return self._complete_transcript.to_json()

    def to_markdown(self) -> str:
        """The transcript as Markdown: speakers as headings, messages as quotations.

        Notebooks and many viewers render HTML in Markdown, so no HTML is left in it:
        tags are escaped, pictures become links, and a message that would still run or
        fetch something becomes a code block.
        """
        return self._complete_transcript.to_markdown()

    def to_html(self) -> str:
        """The transcript as a standalone page.

        It is sanitized, has no scripts, and fetches nothing.
        """
        return self._complete_transcript.to_html()

    def to_notebook(self) -> str:
        """The transcript as a Jupyter notebook, one Markdown cell for each message.

        The cells contain what `to_markdown` writes. The agent's code stays text, so no
        cell can run it.
        """
        return self._complete_transcript.to_notebook()

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write the conversation to a file; the suffix selects the format.

        Parameters
        ----------
        path : str or path
            The file. It is written as a whole or not at all, and replaced if it exists.

            ========== ======================================================
            suffix     content
            ========== ======================================================
            ``.md``    Markdown: `to_markdown`
            ``.html``  one page without scripts: `to_html`
            ``.json``  with all events, to be read again: `to_json`
            ``.ipynb`` a notebook, one cell for each message: `to_notebook`
            ========== ======================================================

        Returns
        -------
        Path
            The path of the file.

        Raises
        ------
        OSError
            If the file cannot be written.
        ValueError
            If the suffix is none of these.
        """
        return self._complete_transcript.export(path)

    @classmethod
    def from_json(cls, source: str | Path) -> Self:
        """The conversation that `to_json` wrote, to read and analyse, not to continue.

        Parameters
        ----------
        source : str or Path
            The JSON itself, or the name of a file that holds it.

        Raises
        ------
        ValueError
            If it is not a transcript; the message names the file.
        OSError

        Examples
        --------
        >>> Conversation.from_json(Conversation(None).to_json())
        Conversation('no agent', 0 turns, idle)
        """
        return cls._from_transcript(Transcript.from_json(source))

    @classmethod
    def _from_transcript(cls, transcript: Transcript) -> Self:
        """As `from_json`, from a `Transcript`, whose exchanges are shared."""
        conversation = cls(None, session=transcript.session_id)
        conversation.agent_name = transcript.agent_name
        log = conversation._feed.log
        log.facts = replace(log.facts, version_id=transcript.agent_version, version_number=transcript.version_number)
        log.restore(transcript.exchanges)
        conversation._feed.log.unread = transcript.incomplete or None
        return conversation

    def __eq__(self, other: object) -> bool:
        return self.as_transcript() == other.as_transcript() if isinstance(other, Conversation) else NotImplemented

    # Two conversations may be equal now but not later, so there can be no hash.
    __hash__ = None  # type: ignore[assignment]

    @safe_repr
    def __repr__(self) -> str:
        turns = f"{len(self.exchanges)} turns{' so far' if self.incomplete else ''}"
        return f"Conversation({self.agent_name or 'no agent'!r}, {turns}, {self.state})"
