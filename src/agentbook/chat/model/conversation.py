"""A conversation with an agent: one session, its turns and its state, without widgets.

Everything here runs on the toolkit's own thread and loop (`agentbook.events.loop`), so
the state needs no locks. A caller on another thread submits a coroutine; listeners are
called on that thread.

The platform has no cancel. `stop` only ends the waiting: the agent may still finish,
and its reply is recorded when it arrives.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..._text import safe_repr
from ...api.calls import ref
from ...events.turns import Event, Turn, opens_turn
from ...live.listeners import Listeners
from ...lookup import name_of
from ..delegation import attribute_of, method_of
from .exchange import Exchange
from .exchange_log import ExchangeLog
from .messenger import Messenger
from .participants import Participants, name_agent
from .session_feed import SessionFeed
from .session_list import SessionList
from .subscription import Follow
from .ticker import Ticker
from .transcript import Transcript
from .user_errors import UserError
from .welcome import Welcome

if TYPE_CHECKING:
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
    clock : callable
        The time in seconds, monotonic.
    agent_version : str or Record, optional
        The agent's version for a new session. It may be a draft if the platform offers
        that. Default: the newest committed one.

    Attributes
    ----------
    own_agent_name : str
        The name of `agent`.
    recording : Transcript or None
        The session that the conversation replays. Exports contain all of it at once.

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
    >>> conversation.who(session.id)  # our own session, with our agent
    ('', '')
    >>> len(conversation.kept)  # nothing was asked here in the second
    1
    >>> conversation.forget(session)
    >>> loop.run(conversation.aclose())
    >>> conversation.state
    'closed'
    >>> past = Conversation(client, session=session)  # exports read what they need
    >>> past.to_pandas()["role"].to_list()[:2]
    ['user', 'agent']
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
    ) -> None:
        asynchronous = client.asynchronous() if client is not None else None
        self.own_agent_name = name_of(agent)
        self.recording: Transcript | None = None
        self._sessions = SessionList(asynchronous, self)
        self._listeners = Listeners[Exchange | None]()
        self._clock = clock
        self._ticker = Ticker(lambda: bool(self.pending), lambda: self._listeners.notify(None))
        self._messenger = Messenger(
            asynchronous, workspace, agent, follow, self._on_event, self._notify, self._name_agent, clock
        )
        self._messenger.agent_version = agent_version
        self._feed = self._messenger.feed
        self._feed.select(ref(session) if session is not None else None)

    workspace = attribute_of("_messenger", "workspace", "Where a new session is started; can be set.")
    agent = attribute_of("_messenger", "agent", "The agent of a new session; can be set.")

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
        return self._messenger.can_start

    @property
    def recorded(self) -> bool:
        """Whether the conversation replays a recording."""
        return self.recording is not None

    @property
    def read_only(self) -> bool:
        """Whether nothing can be sent: a recording, or a session of another key.

        Where the platform does not say who started a session, this is known only after
        a message was refused.
        """
        outbox = self._messenger.outbox
        refused = outbox is not None and outbox.read_only
        return self.recorded or refused or not self._feed.log.may_write

    @property
    def agent_name(self) -> str:
        """The name of the session's agent; before there is a session, of `agent`."""
        return self._agent_name_of(self._feed.log)

    @agent_name.setter
    def agent_name(self, name: str) -> None:
        if self._feed.log.session_id:
            self._feed.log.agent_name = name
        else:
            self.own_agent_name = name

    def _agent_name_of(self, log: ExchangeLog) -> str:
        return log.agent_name if log.session_id else self.own_agent_name

    def who(self, session_id: str) -> tuple[str, str]:
        """Who takes part in one of `sessions`, where that is not as one would expect.

        Parameters
        ----------
        session_id : str

        Returns
        -------
        tuple of str
            The name of its agent, if it is not `agent`, and of who started it, if that
            was not the reader; each empty otherwise.

        Notes
        -----
        Raises nothing. Who started a session is known once the platform's record of it
        has been read. Specification: "Resources and their fields", Session.
        """
        log = self._feed.logs.get(session_id)
        if log is None or log.started_here:
            return "", ""
        own = self.participants.known_agent(self.agent)
        own = own if name_of(own) else {**own, "name": self.own_agent_name}
        agent = log.facts.agent if name_of(log.facts.agent) else {"name": log.agent_name}
        return name_agent(agent, own), self.participants.name_initiator(log.initiator)

    @property
    def participants(self) -> Participants:
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
    def now(self) -> float:
        """The time by the conversation's clock, for `Exchange.waited_s` and such."""
        return self._clock()

    @property
    def welcome(self) -> Welcome | None:
        """What an empty panel offers, once `read_welcome` has read it."""
        return None if self.session_id else self._messenger.welcome

    @property
    def start_errors(self) -> list[UserError]:
        """Why no session can start, as far as `read_welcome` can tell."""
        return [] if self.exchanges or self.session_id else self._messenger.start_errors

    @property
    def connection(self) -> str:
        """``none``, ``connecting``, ``live``, ``polling`` or ``reconnecting``."""
        return self._feed.subscription.connection

    @property
    def error(self) -> UserError | None:
        """Why the session cannot be followed at the moment."""
        return self._feed.subscription.error

    @property
    def notice(self) -> UserError | None:
        """The error to show next to the turns: `error`, unless one of them shows it."""
        error = self.error
        is_shown = error is not None and any(
            exchange.status == "failed" and exchange.error == error for exchange in reversed(self.exchanges)
        )
        return None if is_shown else error

    @property
    def incomplete(self) -> str:
        """Why turns of the session may be missing; empty once all have been read."""
        return "" if self.recorded else self._feed.log.unread or ""

    @property
    def state(self) -> str:
        """``idle``, ``connecting``, ``streaming``, ``failed`` or ``closed``."""
        outbox = self._messenger.outbox
        if self._messenger.closed:
            return "closed"
        if (outbox is not None and outbox.starting) or self.connection in ("connecting", "reconnecting"):
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
            ``agentbook.chat`` logs them with their traceback.

        Returns
        -------
        callable
            Unsubscribes the listener. Calling it again does nothing.
        """
        return self._listeners.add(listener)

    find_sessions = method_of("_sessions", SessionList.find_sessions)
    read_welcome = method_of("_messenger", Messenger.read_welcome)

    # Messages

    start = method_of("_messenger", Messenger.start)
    new_session = method_of("_messenger", Messenger.new_session)
    attach = method_of("_messenger", Messenger.attach)
    send = method_of("_messenger", Messenger.send)
    submit = method_of("_messenger", Messenger.submit)
    retry = method_of("_messenger", Messenger.retry)
    stop = method_of("_messenger", Messenger.stop)
    withdraw = method_of("_messenger", Messenger.withdraw)
    resume = method_of("_messenger", Messenger.resume)
    aclose = method_of("_messenger", Messenger.aclose)

    def _name_agent(self, name: str) -> str:
        self.own_agent_name = name or self.own_agent_name
        return self.own_agent_name

    feed = method_of("_feed", SessionFeed.feed)
    rewind = method_of("_feed", SessionFeed.rewind)

    def _on_event(self, event: Event, exchange: Exchange) -> None:
        author = event.get("author")
        if not self.agent_name and isinstance(author, Mapping) and not opens_turn(event):
            self.agent_name = str(author.get("name") or "")
            if self._feed.log.started_here:
                self._name_agent(self.agent_name)
        self._notify(exchange)

    def _notify(self, exchange: Exchange | None) -> None:
        if exchange is not None and exchange.pending:
            self._ticker.start()
        self._listeners.notify(exchange)

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
        if not (self.recorded or (self._messenger.closed and not self.incomplete)):
            self._feed.load(timeout_s)

    @property
    def kept(self) -> list[Transcript]:
        """The sessions that a saved notebook keeps, the current one last.

        Those are the sessions in which something was asked here, and those that were
        opened with ``keep=True``, without those that were forgotten.
        """
        current = self._feed.log
        if self.recording is not None:
            return [] if current.keep is False else [self.recording]
        logs = [*(log for log in self._feed.logs.values() if log is not current), current]
        return [
            Transcript(list(log.exchanges), log.session_id or None, self._agent_name_of(log), log.unread or "")
            for log in logs
            if log.kept
        ]

    def forget(self, session: Any) -> None:
        """Leave a session out of `kept`.

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
        return self.recording or Transcript(self.exchanges, self.session_id, self.agent_name, self.incomplete)

    to_pandas = method_of("_complete_transcript", Transcript.to_pandas)
    to_json = method_of("_complete_transcript", Transcript.to_json)
    to_markdown = method_of("_complete_transcript", Transcript.to_markdown)
    to_html = method_of("_complete_transcript", Transcript.to_html)
    to_notebook = method_of("_complete_transcript", Transcript.to_notebook)
    export = method_of("_complete_transcript", Transcript.export)

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
        return cls.from_transcript(Transcript.from_json(source))

    @classmethod
    def from_transcript(cls, transcript: Transcript) -> Self:
        """As `from_json`, from a `Transcript`, whose exchanges are shared."""
        conversation = cls(None, session=transcript.session_id)
        conversation.agent_name = transcript.agent_name
        conversation._feed.log.restore(transcript.exchanges)
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
