"""A conversation with an agent: one session, its turns and its state, without widgets.

Everything here runs on the toolkit's own thread and loop (`agentbook.events.loop`), so
the state needs no locks. A caller on another thread submits a coroutine; listeners are
called on that thread.

The platform has no cancel. `stop` only ends the waiting: the agent may still finish,
and its reply is recorded when it arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ...api.calls import ref
from ...api.errors import DeadlineExceeded
from ...events import loop
from ...events.turns import Event, Turn, opens_turn
from ..text import check_text
from .exchange import Exchange
from .listeners import Listeners
from .lookup import name_of
from .outbox import Outbox
from .session_feed import SessionFeed
from .subscription import Follow
from .transcript import Transcript
from .user_errors import UserError, explain

if TYPE_CHECKING:
    import pandas as pd

    from ...client import AsyncClient, Client

Listener = Callable[[Exchange | None], None]

READ_TIMEOUT_S = 60.0


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

    Attributes
    ----------
    agent_name : str
    recording : Transcript or None
        The whole session that the conversation replays. Exports hold it from the start.

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
    >>> exchange.status
    'failed'
    >>> conversation.agent = "acme~guide"
    >>> exchange = loop.run(conversation.retry(exchange))
    >>> exchange.finished.result(60).status
    'answered'
    >>> second = loop.run(conversation.send("And an event?"))
    >>> second.finished.result(60).status, len(conversation.turns)
    ('answered', 2)
    >>> loop.run(conversation.attach(session))
    >>> conversation.connection, len(conversation.sessions)
    ('live', 2)
    >>> loop.run(conversation.aclose())
    >>> conversation.state
    'closed'
    >>> past = Conversation(client, session=session)  # exports read what they need
    >>> past.to_pandas()["role"].to_list()[:2]
    ['user', 'agent']
    >>> past.load(60)
    >>> past.connection, past.incomplete
    ('none', '')
    """

    def __init__(
        self,
        client: Client | AsyncClient | None,
        *,
        workspace: Any = None,
        agent: Any = None,
        session: Any = None,
        follow: Follow | None = None,
    ) -> None:
        asynchronous = client.asynchronous() if client is not None else None
        self.workspace = workspace
        self.agent = agent
        self.agent_name = name_of(agent)
        self.recording: Transcript | None = None
        self._listeners = Listeners[Exchange | None]()
        self._closed = False
        self._feed = SessionFeed(asynchronous, self._on_event, self._notify, self._lose_connection, follow)
        self._feed.select(ref(session) if session is not None else None)
        self._outbox = Outbox(asynchronous, self._feed, self._notify, self._name_agent) if asynchronous else None

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
    def can_start(self) -> bool:
        """Whether a new session can be started: needs client, workspace, agent."""
        return self._outbox is not None and self.workspace is not None and self.agent is not None and not self._closed

    @property
    def recorded(self) -> bool:
        """Whether the conversation replays a recording."""
        return self.recording is not None

    @property
    def read_only(self) -> bool:
        """Whether nothing can be sent: a recording, or a session of another key.

        That another key started a session is known once it refused a message.
        """
        return self.recorded or (self._outbox is not None and self._outbox.read_only)

    @property
    def turns(self) -> list[Turn]:
        """The turns, in order."""
        return [exchange.turn for exchange in self.exchanges]

    @property
    def pending(self) -> list[Exchange]:
        """The exchanges that wait for a reply."""
        return [exchange for exchange in self.exchanges if exchange.pending]

    @property
    def connection(self) -> str:
        """``"none"``, ``"connecting"``, ``"live"`` or ``"reconnecting"``."""
        return self._feed.subscription.connection

    @property
    def error(self) -> UserError | None:
        """Why the session cannot be followed at the moment."""
        return self._feed.subscription.error

    @property
    def incomplete(self) -> str:
        """Why turns of the session may be missing; empty once all have been read."""
        return "" if self.recorded else self._feed.log.unread or ""

    @property
    def state(self) -> str:
        """``idle``, ``connecting``, ``streaming``, ``failed`` or ``closed``."""
        if self._closed:
            return "closed"
        if (self._outbox is not None and self._outbox.starting) or self.connection in ("connecting", "reconnecting"):
            return "connecting"
        if self.error is not None:
            return "failed"
        return "streaming" if self.pending else "idle"

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` on the loop's thread after each change.

        Changes may come hundreds of times a second: a listener that draws should note
        the change and draw later.

        Parameters
        ----------
        listener : callable
            Takes the exchange that changed, or None if something else did, such as the
            connection. What it raises is logged, with the traceback, by the logger
            ``agentbook.chat``, and not raised here.

        Returns
        -------
        callable
            Unsubscribes the listener. Calling it again does nothing.
        """
        return self._listeners.add(listener)

    def _notify(self, exchange: Exchange | None = None) -> None:
        self._listeners.notify(exchange)

    # Sending

    async def start(self, prompt: str) -> Exchange:
        """As `send`, in a new session, whatever came before."""
        self._check_sendable(prompt)
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
        if not self.can_start:
            raise ValueError("A new session needs workspace= and agent=: pass both when you create the panel.")
        await self._switch(None)

    async def _switch(self, session_id: str | None) -> None:
        self.stop()
        await self._end_subscription()
        self._feed.subscription.clear_error()
        self._feed.select(session_id)
        if self._outbox is not None:
            self._outbox.read_only = False
        self._notify()

    async def attach(self, session: Any = None) -> None:
        """Read the session's events, then follow it live.

        Returns once the events so far have been read, or reading them has failed.
        Without a session or a client, nothing is read.

        Parameters
        ----------
        session : str or Record, optional
            The session to read; None for the current session.

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
        with contextlib.suppress(Exception):  # stored by the subscription
            await self._feed.catch_up()

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
        self._check_sendable(text)
        if self.session_id is None and (self.workspace is None or self.agent is None):
            raise ValueError("There is no session yet: workspace= and agent= are needed to start one.")
        assert self._outbox is not None
        return self._outbox.submit(text, self.workspace, self.agent)

    def _check_sendable(self, text: str) -> None:
        """Reject what can never be sent, before anything changes."""
        if not check_text(text).strip():
            raise ValueError("The message is empty: write something to send.")
        if self._outbox is None or self._closed or self.recorded:
            raise ValueError("This conversation is closed or a recording: nothing can be sent to it.")

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
        if exchange.bound and exchange.turn.status == "open":
            exchange.wait_again()
            self._notify(exchange)
            await self.resume()
            return exchange
        if not exchange.bound:
            # It may have arrived unnoticed: read the session before sending it again.
            if self.session_id is not None:
                await self.attach()
                if exchange.bound:
                    return await self.retry(exchange) if exchange.turn.status == "open" else exchange
            self.exchanges.remove(exchange)
        self._notify()
        return await self.send(exchange.prompt)

    # Waiting

    def stop(self, exchange: Exchange | None = None) -> None:
        """Stop waiting. The agent may still finish; a late reply is still recorded.

        Parameters
        ----------
        exchange : Exchange, optional
            One of `exchanges`, also one that has ended; None for all pending ones.

        Notes
        -----
        Raises nothing. `resume` waits again.
        """
        for each in [exchange] if exchange is not None else self.pending:
            each.stop()
            self._notify(each)

    async def resume(self) -> None:
        """Wait again for stopped and lost replies; reconnect if needed."""
        for exchange in self.exchanges:
            if exchange.bound and exchange.turn.status == "open" and exchange.phase in ("stopped", "lost"):
                exchange.wait_again()
                self._notify(exchange)
        if self.session_id is not None:
            await self.attach()

    async def aclose(self) -> None:
        """Stop following and waiting. The session itself continues on the platform."""
        self.stop()
        self._closed = True
        if self._outbox is not None:
            self._outbox.closed = True
        await self._end_subscription()
        self._notify()

    def _lose_connection(self, cause: Exception) -> None:
        error = explain(cause)
        for exchange in self.pending:
            if exchange.phase == "waiting":
                exchange.fail("lost", error, cause)
                self._notify(exchange)
        self._notify()

    async def _end_subscription(self) -> None:
        if self._outbox is not None:
            await self._outbox.cancel()
        await self._feed.subscription.end()

    def _name_agent(self, name: str) -> None:
        self.agent_name = name or self.agent_name

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

    def _on_event(self, event: Event, exchange: Exchange) -> None:
        author = event.get("author")
        if not self.agent_name and isinstance(author, Mapping) and not opens_turn(event):
            self.agent_name = str(author.get("name") or "")
        self._notify(exchange)

    # The conversation as data

    def load(self, timeout_s: float = READ_TIMEOUT_S) -> None:
        """Read what is missing of the session; exports do this themselves.

        Parameters
        ----------
        timeout_s : float
            Seconds to wait.

        Notes
        -----
        Raises nothing: if something could not be read, `incomplete` says why, and what
        arrived is kept. On the loop that follows the session nothing is read, because
        it must not wait for itself: await `attach` there.
        """
        ended = self.recorded or (self._closed and not self.incomplete)
        must_not_wait = loop.on_loop_thread() or self._feed.subscription.runs_here
        if ended or must_not_wait or not self._feed.can_read:
            return
        try:
            loop.run(self._feed.read(), timeout_s, operation="conversation.load")
        except DeadlineExceeded:
            self._feed.log.unread = f"Reading the session took longer than {timeout_s:g} s."
        except RuntimeError as error:  # Python is ending
            self._feed.log.unread = str(error)

    @property
    def transcript(self) -> Transcript:
        """The current session as data; reads what is missing of it first."""
        return self._export()

    def _export(self) -> Transcript:
        self.load()
        if self.incomplete:
            warnings.warn(f"This transcript may lack turns of the session. {self.incomplete}", stacklevel=3)
        return self._as_transcript()

    def _as_transcript(self) -> Transcript:
        return self.recording or Transcript(self.exchanges, self.session_id, self.agent_name, self.incomplete)

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
            text                   str                        message; reason of a
                                                              failed turn
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
            request_id             str                        the refused request
            =====================  ===================  ====  ==========================

        Notes
        -----
        Times to the first event are known for questions asked here. For others, the
        time to the reply is the difference of the two events' ``created_at``.
        Specification: "Events", rules 3 to 5.
        """
        return self._export().to_pandas()

    def to_json(self) -> str:
        """The conversation as JSON, with its persisted events.

        `from_json` reads it back to an equal conversation.
        """
        return self._export().to_json()

    def to_markdown(self) -> str:
        """The transcript as Markdown: speakers as headings, messages as quotations.

        Notebooks and many viewers obey the HTML they find in Markdown, so none is left
        in it: tags are escaped, pictures become links, and a message that would still
        run or fetch something becomes a code block.
        """
        return self._export().to_markdown()

    def to_html(self) -> str:
        """The transcript as a standalone page.

        It is sanitized, has no scripts, and fetches nothing.
        """
        return self._export().to_html()

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
            If the file cannot be read.

        Examples
        --------
        >>> from agentbook import Conversation
        >>> Conversation.from_json(Conversation(None).to_json())
        Conversation('no agent', 0 turns, idle)
        """
        return cls.from_transcript(Transcript.from_json(source))

    @classmethod
    def from_transcript(cls, transcript: Transcript) -> Self:
        """A conversation without a client that holds a transcript's exchanges.

        Parameters
        ----------
        transcript : Transcript
            Such as `Conversation.transcript`. The exchanges are shared, not copied.

        Returns
        -------
        Conversation
            To read and analyse; nothing can be sent to it.

        Notes
        -----
        Raises nothing.

        Examples
        --------
        >>> conversation = Conversation(None)
        >>> Conversation.from_transcript(conversation.transcript) == conversation
        True
        """
        conversation = cls(None, session=transcript.session_id)
        conversation.agent_name = transcript.agent_name
        conversation._feed.log.restore(transcript.exchanges)
        conversation._feed.log.unread = transcript.incomplete or None
        return conversation

    def __eq__(self, other: object) -> bool:
        return self._as_transcript() == other._as_transcript() if isinstance(other, Conversation) else NotImplemented

    # Two conversations may be equal now and not later, which no hash can follow.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        turns = f"{len(self.exchanges)} turns{' so far' if self.incomplete else ''}"
        return f"Conversation({self.agent_name or 'no agent'!r}, {turns}, {self.state})"
