"""A conversation with an agent: one session, its turns and its state, without widgets.

Everything here runs on the toolkit's own thread and loop (`agentbook.events.loop`), so
the state needs no locks. A caller on another thread submits a coroutine; listeners are
called on that thread. The order of steps keeps a conversation complete:

* a new session is posted, then followed from its beginning;
* an existing session is read to its last event and followed from there, before a
  message is posted to it.

The platform has no cancel. `stop` only ends the waiting: the agent may still finish,
and its reply is recorded when it arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ...api.calls import ref
from ...api.errors import NotFound, OutcomeUnknown
from ...events.turns import Event, Turn, opens_turn
from ..text import check_text
from .exchange import Exchange
from .exchange_log import ExchangeLog
from .lookup import get_agent, name_of
from .subscription import Follow, Subscription
from .transcript import Transcript
from .user_errors import UserError, explain

if TYPE_CHECKING:
    import pandas as pd

    from ...client import AsyncClient, Client

Listener = Callable[[Exchange | None], None]

READ_ONLY = (
    "This session was started with another key, so it can be read here but not continued. Start a new session to write."
)


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
    session_id : str or None
    agent_name : str
    read_only : bool
        True once the platform refused a message because another key started the
        session.
    recorded : bool
        Whether the conversation replays a recording.

    Raises
    ------
    TypeError
        If `session` is neither an id nor a record that has one.

    Notes
    -----
    Missing arguments are reported when a message is sent.
    Specification: "Events"; "Authentication", rule 9.

    Examples
    --------
    >>> conversation = Conversation(None)
    >>> question = {"id": "0199a0b2-0000-7000-8000-000000000001", "type": "message",
    ...             "content": {"text": "2+2?"}, "author": {"type": "api_key"}}
    >>> reply = {"id": "0199a0b2-0000-7000-8000-000000000002",
    ...          "type": "runtime_done", "content": {"text": "4"}}
    >>> conversation.feed(question)
    >>> conversation.feed(reply)
    >>> conversation.turns
    [Turn(answered: '2+2?' -> '4')]

    With a platform, on the toolkit's loop:

    >>> from agentbook.events import loop
    >>> conversation = Conversation(
    ...     client, workspace="acme~playground", agent="acme~guide")
    >>> exchange = loop.run(conversation.start("What is a turn?"))
    >>> exchange.finished.result(60).status
    'answered'
    >>> loop.run(conversation.aclose())
    >>> conversation.state
    'closed'
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
        self._client = client.asynchronous() if client is not None else None
        self.workspace = workspace
        self.agent = agent
        self.agent_name = name_of(agent)
        self.recorded = False
        self._listeners: list[Listener] = []
        self._starting = False
        self._closed = False
        self._posting = asyncio.Lock()
        self._subscription = Subscription(self._client, self.feed, self._notify, self._lose_connection, follow)
        self._logs: dict[str, ExchangeLog] = {}
        self._select(ref(session) if session is not None else None)

    def _select(self, session_id: str | None) -> None:
        self.session_id: str | None = session_id
        self.read_only = False
        self._log = self._logs.get(session_id or "") or ExchangeLog(session_id)
        if session_id is not None:
            self._logs[session_id] = self._log

    # State

    @property
    def exchanges(self) -> list[Exchange]:
        """The questions and replies of the session, in order."""
        return self._log.exchanges

    @property
    def sessions(self) -> dict[str, list[Exchange]]:
        """The sessions of this conversation, oldest first: id to exchanges."""
        return {session_id: log.exchanges for session_id, log in self._logs.items()}

    @property
    def can_start(self) -> bool:
        """Whether a new session can be started: needs client, workspace, agent."""
        return self._client is not None and self.workspace is not None and self.agent is not None and not self._closed

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
        return self._subscription.connection

    @property
    def error(self) -> UserError | None:
        """Why the session cannot be followed at the moment."""
        return self._subscription.error

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
        the change and draw later.

        Parameters
        ----------
        listener : callable
            Takes the exchange that changed, or None if something else did, such as the
            connection. It must not raise: an exception ends the live connection, or
            reaches the caller of the method that made the change.

        Returns
        -------
        callable
            Unsubscribes the listener. Calling it again does nothing.

        Notes
        -----
        Raises nothing.

        Examples
        --------
        >>> conversation = Conversation(None)
        >>> statuses = []
        >>> end = conversation.listen(lambda exchange: statuses.append(exchange.status))
        >>> conversation.feed({"id": "0199a0b2-0000-7000-8000-000000000001",
        ...                    "type": "message", "content": {"text": "2+2?"},
        ...                    "author": {"type": "api_key"}})
        >>> conversation.feed({"id": "0199a0b2-0000-7000-8000-000000000002",
        ...                    "type": "runtime_done", "content": {"text": "4"}})
        >>> statuses
        ['waiting', 'answered']
        >>> end()
        """
        self._listeners.append(listener)

        def end() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return end

    def _notify(self, exchange: Exchange | None = None) -> None:
        for listener in tuple(self._listeners):
            listener(exchange)

    # Sending

    async def start(self, prompt: str) -> Exchange:
        """Start a new session with `prompt`, whatever came before.

        Parameters
        ----------
        prompt : str
            The first message.

        Returns
        -------
        Exchange
            Once the platform has accepted or refused the message. A refusal is not
            raised but stored in the exchange's ``error``. Await
            ``asyncio.wrap_future(exchange.finished)`` for the turn.

        Raises
        ------
        TypeError, ValueError
            As in `submit`.

        Examples
        --------
        >>> from agentbook.events import loop
        >>> conversation = Conversation(
        ...     client, workspace="acme~playground", agent="acme~guide")
        >>> first = loop.run(conversation.start("What is a turn?"))
        >>> second = loop.run(conversation.start("And an event?"))
        >>> len(conversation.sessions)
        2
        >>> second.finished.result(60).status
        'answered'
        >>> loop.run(conversation.aclose())
        """
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
        self._subscription.clear_error()
        self._select(session_id)
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

        Examples
        --------
        >>> from agentbook.events import loop
        >>> conversation = Conversation(client)
        >>> loop.run(conversation.attach(session))
        >>> conversation.turns[0].prompt
        'What is a turn?'
        >>> conversation.connection
        'live'
        >>> loop.run(conversation.aclose())
        """
        if session is not None and ref(session) != self.session_id:
            await self._switch(ref(session))
        with contextlib.suppress(Exception):  # stored by the subscription
            await self._catch_up()

    async def send(self, text: str) -> Exchange:
        """Send a message; starts the session if there is none.

        Parameters
        ----------
        text : str
            The message.

        Returns
        -------
        Exchange
            Once the platform has accepted or refused the message. A refusal is not
            raised but stored in the exchange's ``error``. Await
            ``asyncio.wrap_future(exchange.finished)`` for the turn.

        Raises
        ------
        TypeError, ValueError
            As in `submit`.

        Examples
        --------
        >>> from agentbook.events import loop
        >>> conversation = Conversation(
        ...     client, workspace="acme~playground", agent="acme~guide")
        >>> first = loop.run(conversation.send("What is a turn?"))
        >>> second = loop.run(conversation.send("And an event?"))
        >>> second.finished.result(60).status
        'answered'
        >>> len(conversation.turns), len(conversation.sessions)
        (2, 1)
        >>> loop.run(conversation.aclose())
        """
        exchange = self.submit(text)
        if exchange.posting is not None:
            await asyncio.wait([exchange.posting])
        return exchange

    def submit(self, text: str) -> Exchange:
        """Send a message and return at once; call it on the loop's thread.

        Starts the session if there is none.

        Parameters
        ----------
        text : str
            The message.

        Returns
        -------
        Exchange
            The last of `exchanges`, before the platform has the message. If the
            platform refuses it, the reason is stored in the exchange's ``error``.

        Raises
        ------
        TypeError
            If the message is not a string.
        ValueError
            If the message is empty or not valid Unicode, if the conversation is closed
            or a recording, or if it has no session and cannot start one.
        RuntimeError
            If called on a thread without a running event loop.

        Examples
        --------
        >>> from agentbook.events import loop
        >>> conversation = Conversation(
        ...     client, workspace="acme~playground", agent="acme~guide")
        >>> async def ask():
        ...     exchange = conversation.submit("What is a turn?")
        ...     before = exchange.status
        ...     turn = await asyncio.wrap_future(exchange.finished)
        ...     return before, turn.status
        >>> loop.run(ask(), 60)
        ('sending', 'answered')
        >>> loop.run(conversation.aclose())
        """
        self._check_sendable(text)
        if self.session_id is None and (self.workspace is None or self.agent is None):
            raise ValueError("There is no session yet: workspace= and agent= are needed to start one.")
        turn = Turn(self.session_id or "", prompt=text, asked_at=datetime.now(UTC))
        exchange = Exchange(turn, ours=True, bound=False, phase="sending", sent_at=time.monotonic())
        self.exchanges.append(exchange)
        exchange.posting = asyncio.get_running_loop().create_task(self._post(exchange))
        self._notify(exchange)
        return exchange

    def _check_sendable(self, text: str) -> None:
        """Reject what can never be sent, before anything changes."""
        if not check_text(text).strip():
            raise ValueError("The message is empty: write something to send.")
        if self._client is None or self._closed or self.recorded:
            raise ValueError("This conversation is closed or a recording: nothing can be sent to it.")

    async def _post(self, exchange: Exchange) -> None:
        try:
            async with self._posting:
                exchange.sent_at = time.monotonic()
                if self.session_id is None:
                    await self._post_first(exchange)
                else:
                    await self._post_next(exchange, self.session_id)
        except asyncio.CancelledError:
            if not self._closed and exchange.phase != "stopped":
                raise
        except Exception as error:
            self._refuse(exchange, error)
        else:
            if exchange.phase == "sending":
                exchange.phase = "waiting"
        finally:
            exchange.posting = None
            self._starting = False
            self._notify(exchange)

    async def _post_first(self, exchange: Exchange) -> None:
        assert self._client is not None
        self._starting = True
        self._notify()
        agent = await get_agent(self._client, self.agent)
        self.agent_name = name_of(agent) or self.agent_name
        exchange.posted = True
        session = await self._client.sessions.start(self.workspace, agent_id=ref(agent), prompt=exchange.prompt)
        self.session_id = self._log.session_id = ref(session)
        self._logs[self.session_id] = self._log
        exchange.turn.session_id = self.session_id
        # From the beginning: the agent is already at work when the socket opens.
        self._subscription.start(self.session_id, None)

    async def _post_next(self, exchange: Exchange, session_id: str) -> None:
        assert self._client is not None
        # Read the session to its end and follow it first. No reply can be missed then,
        # and no older message with the same text can be mistaken for this one.
        await self._catch_up()
        exchange.posted = True
        try:
            reply = await self._client.sessions.send(session_id, exchange.prompt)
        except NotFound:
            self.read_only = True
            raise
        self._log.claim(exchange, reply)

    def _refuse(self, exchange: Exchange, cause: Exception) -> None:
        error = explain(cause)
        if self.read_only and isinstance(cause, NotFound):
            error = UserError(READ_ONLY, error.request_id)
        exchange.posted = exchange.posted and isinstance(cause, OutcomeUnknown)
        exchange.fail("refused", error, cause)

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
            As in `submit`.

        Examples
        --------
        >>> from agentbook.events import loop
        >>> conversation = Conversation(
        ...     client, workspace="acme~playground", agent="acme~nobody")
        >>> exchange = loop.run(conversation.send("What is a turn?"))
        >>> exchange.status
        'failed'
        >>> conversation.agent = "acme~guide"
        >>> exchange = loop.run(conversation.retry(exchange))
        >>> exchange.finished.result(60).status
        'answered'
        >>> loop.run(conversation.aclose())
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

        Examples
        --------
        >>> conversation = Conversation(None)
        >>> conversation.feed({"id": "0199a0b2-0000-7000-8000-000000000001",
        ...                    "type": "message", "content": {"text": "2+2?"},
        ...                    "author": {"type": "api_key"}})
        >>> conversation.stop(conversation.exchanges[0])
        >>> conversation.exchanges[0].status
        'stopped'
        >>> conversation.feed({"id": "0199a0b2-0000-7000-8000-000000000002",
        ...                    "type": "runtime_done", "content": {"text": "4"}})
        >>> conversation.exchanges[0].status
        'answered'
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
        await self._end_subscription()
        self._notify()

    async def _catch_up(self) -> None:
        if self._subscription.available and self.session_id is not None:
            await self._subscription.catch_up(self.session_id, lambda: self._log.last_id)

    def _lose_connection(self, cause: Exception) -> None:
        error = explain(cause)
        for exchange in self.pending:
            if exchange.phase == "waiting":
                exchange.fail("lost", error, cause)
                self._notify(exchange)
        self._notify()

    async def _end_subscription(self) -> None:
        posting = [exchange.posting for exchange in self.exchanges if exchange.posting is not None]
        for task in posting:
            task.cancel()
        await self._subscription.end()
        if posting:
            await asyncio.wait(posting)

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

        Examples
        --------
        >>> conversation = Conversation(None)
        >>> question = {"id": "0199a0b2-0000-7000-8000-000000000001", "type": "message",
        ...             "content": {"text": "2+2?"}, "author": {"type": "api_key"}}
        >>> conversation.feed(question)
        >>> conversation.feed(question)
        >>> len(conversation.exchanges)
        1
        """
        exchange = self._log.feed(event, time.monotonic())
        if exchange is None:
            return
        author = event.get("author")
        if not self.agent_name and isinstance(author, Mapping) and not opens_turn(event):
            self.agent_name = str(author.get("name") or "")
        self._notify(exchange)

    # The conversation as data

    @property
    def transcript(self) -> Transcript:
        """The current session's exchanges as data."""
        return Transcript(self.exchanges, self.session_id, self.agent_name)

    def to_pandas(self) -> pd.DataFrame:
        """The current session's exchanges as a DataFrame.

        Returns
        -------
        DataFrame
            One row for each question and one for its outcome, in order. Empty frames
            have the same dtypes.

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

        Examples
        --------
        >>> conversation = Conversation(None)
        >>> conversation.feed({"id": "0199a0b2-0000-7000-8000-000000000001",
        ...                    "type": "message", "content": {"text": "2+2?"},
        ...                    "author": {"type": "api_key"}})
        >>> conversation.feed({"id": "0199a0b2-0000-7000-8000-000000000002",
        ...                    "type": "runtime_done", "content": {"text": "4"}})
        >>> conversation.to_pandas()[["role", "text", "status"]]
            role  text    status
        0   user  2+2?  answered
        1  agent     4  answered
        """
        return self.transcript.to_pandas()

    def to_json(self) -> str:
        """The conversation as JSON, with its persisted events.

        `from_json` reads it back to an equal conversation.
        """
        return self.transcript.to_json()

    def to_markdown(self) -> str:
        """The transcript as Markdown: speakers as headings, messages as quotations.

        Notebooks and many viewers obey the HTML they find in Markdown, so none is left
        in it: tags are escaped, pictures become links, and a message that would still
        run or fetch something becomes a code block.
        """
        return self.transcript.to_markdown()

    def to_html(self) -> str:
        """The transcript as a standalone page.

        It is sanitized, has no scripts, and fetches nothing.
        """
        return self.transcript.to_html()

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
        >>> conversation.feed({"id": "0199a0b2-0000-7000-8000-000000000001",
        ...                    "type": "message", "content": {"text": "2+2?"},
        ...                    "author": {"type": "api_key"}})
        >>> copy = Conversation.from_transcript(conversation.transcript)
        >>> copy == conversation
        True
        """
        conversation = cls(None, session=transcript.session_id)
        conversation.agent_name = transcript.agent_name
        conversation._log.restore(transcript.exchanges)
        return conversation

    def __eq__(self, other: object) -> bool:
        return self.transcript == other.transcript if isinstance(other, Conversation) else NotImplemented

    # Two conversations may be equal now and not later, which no hash can follow.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Conversation({self.agent_name or 'no agent'!r}, {len(self.exchanges)} turns, {self.state})"
