"""A conversation with an agent: one session, its turns and its state. No widgets: panels, comparisons and tests draw on it.

Everything here runs on the toolkit's own thread and loop (`agentbook.events.loop`), so there are no locks around the state:
a caller elsewhere submits a coroutine, a listener is called on that thread. The order of things is what keeps it complete:

* a new session is posted, then followed from its beginning;
* a session that exists is read to its last event and followed from there, before a message is posted to it.

The platform has no cancel: `stop` means that nobody here waits any more. The agent may still finish, and its reply is taken in
when it comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from ...api.calls import ref
from ...api.errors import NotFound, OutcomeUnknown
from ...events.turns import Event, Turn, opens_turn
from ..text import sendable
from .exchange import Exchange
from .lookup import find_agent
from .standing import Standing
from .subscription import Follow as Follow
from .user_errors import UserError, explain

if TYPE_CHECKING:
    from ...client import AsyncClient, Client

READ_ONLY = (
    "This session was not started with this key, so it can be read here but not continued. Start a new one to write."
)


class Conversation(Standing):
    """One session with an agent, kept up to date event by event.

    Parameters
    ----------
    client : Client or AsyncClient or None
        None for a conversation that is only fed (`feed`), such as a recorded one.
    workspace : str or Record, optional
        Where a new session is started.
    agent : str or Record, optional
        With whom; its id or name.
    session : str or Record, optional
        A session that exists, to be continued or read.
    follow : callable, optional
        Gives a session's events as they happen; `agentbook.events.reader.subscribe` unless told otherwise.

    Attributes
    ----------
    session_id : str or None
    agent_name : str
    read_only : bool
        True once the platform refused a message because this key did not start the session.
    recorded : bool
        Whether it is a recording that is played again.

    Notes
    -----
    To make one raises nothing: what is missing is said when a message is to be sent.
    Specification: "Events"; "Authentication", rule 9.

    Examples
    --------
    >>> conversation = Conversation(None, session="0199a0b2-0000-7000-8000-000000000000")
    >>> conversation.feed({"id": "0199a0b2-0000-7000-8000-000000000001", "type": "message", "content": {"text": "2+2?"},
    ...                    "author": {"type": "api_key"}})
    >>> conversation.feed({"id": "0199a0b2-0000-7000-8000-000000000002", "type": "runtime_done", "content": {"text": "4"}})
    >>> conversation.turns
    [Turn(answered: '2+2?' -> '4')]

    On a platform, awaited on the loop's thread: ``exchange = await conversation.start("2+2?")`` begins a session,
    ``await conversation.send("3+3?")`` goes on with it, ``await conversation.attach()`` reads one that is there,
    ``conversation.listen(draw)`` tells of each change, ``conversation.stop()`` ends the waiting, and
    ``await conversation.retry(exchange)`` tries again what failed; ``conversation.submit("4+4?")`` sends at once.
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
        super().__init__(client, workspace=workspace, agent=agent, session=session, follow=follow)
        self._one_post = asyncio.Lock()

    # Asking

    async def start(self, prompt: str) -> Exchange:
        """Begin a new session with `prompt`, whatever came before; returns when the platform has taken it or refused it.

        Parameters
        ----------
        prompt : str
            The first message.

        Raises
        ------
        TypeError, ValueError
            As `submit`. What the platform refuses is not raised: it is the exchange's trouble.

        Returns
        -------
        Exchange
            Await ``asyncio.wrap_future(exchange.finished)`` for the turn.
        """
        self._allow(prompt)
        await self._leave(None)
        return await self.send(prompt)

    async def renew(self) -> None:
        """Leave the session, so that the next message starts a new one. What was said stays in `sessions`.

        Raises
        ------
        ValueError
            If it is not known where, or with whom, a new session would be started.
        """
        if not self.can_start:
            raise ValueError("A new session needs a workspace and an agent: give both when the panel is made.")
        await self._leave(None)

    async def _leave(self, session_id: str | None) -> None:
        self.stop()
        await self._unfollow()
        self._open(session_id)
        self._changed()

    async def attach(self, session: Any = None) -> None:
        """Read the session's events, then follow it live.

        Errors are not raised, but kept in `trouble`; `resume` tries again.

        Parameters
        ----------
        session : str or Record, optional
            None for the session it was made with.
        """
        if session is not None and ref(session) != self.session_id:
            await self._leave(ref(session))
        with contextlib.suppress(Exception):  # kept as state
            await self._catch_up()

    async def send(self, text: str) -> Exchange:
        """Send a message, beginning the session if there is none; returns when the platform has taken or refused it.

        Parameters
        ----------
        text : str
            The message.

        Raises
        ------
        TypeError, ValueError
            As `submit`. What the platform refuses is not raised: it is the exchange's trouble.
        """
        exchange = self.submit(text)
        if exchange.posting is not None:
            await asyncio.wait([exchange.posting])
        return exchange

    def submit(self, text: str) -> Exchange:
        """Send a message and return at once; call it on the loop's thread.

        Parameters
        ----------
        text : str
            The message.

        Raises
        ------
        TypeError
            If the message is no text.
        ValueError
            If there is nothing in the message, it is no valid Unicode, the conversation is closed or a recording, or it has no
            session and cannot start one.
        """
        self._allow(text)
        if self.session_id is None and (self.workspace is None or self.agent is None):
            raise ValueError("There is no session yet, and workspace= and agent= are needed to start one.")
        turn = Turn(self.session_id or "", prompt=text, asked_at=datetime.now(UTC))
        exchange = Exchange(turn, ours=True, bound=False, phase="sending", sent=time.monotonic())
        self.exchanges.append(exchange)
        exchange.posting = asyncio.get_running_loop().create_task(self._post(exchange))
        self._changed(exchange)
        return exchange

    def _allow(self, text: str) -> None:
        """Refuse what can never be sent, before anything is changed."""
        if not sendable(text).strip():
            raise ValueError("The message is empty: write something to send.")
        if self._client is None or self._closed or self.recorded:
            raise ValueError("This conversation is closed or a recording: nothing can be sent to it.")

    async def _post(self, exchange: Exchange) -> None:
        try:
            async with self._one_post:
                exchange.sent = time.monotonic()
                if self.session_id is None:
                    await self._begin(exchange)
                else:
                    await self._follow_up(exchange, self.session_id)
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
            self._changed(exchange)

    async def _begin(self, exchange: Exchange) -> None:
        assert self._client is not None
        self._starting = True
        self._changed()
        agent_id, name = await find_agent(self._client, self.agent)
        self.agent_name = name or self.agent_name
        exchange.posted = True
        session = await self._client.sessions.start(self.workspace, agent_id=agent_id, prompt=exchange.prompt)
        self.session_id = self._ledger.session_id = ref(session)
        self._ledgers[self.session_id] = self._ledger
        exchange.turn.session_id = self.session_id
        # From the beginning, because the agent was already at work when the socket opens.
        self._following.start(self.session_id, None)

    async def _follow_up(self, exchange: Exchange, session_id: str) -> None:
        assert self._client is not None
        # The session is read to its end and followed first: a reply cannot come between, and an old message with the same
        # words cannot be taken for this one.
        await self._catch_up()
        exchange.posted = True
        try:
            reply = await self._client.sessions.send(session_id, exchange.prompt)
        except NotFound:
            self.read_only = True
            raise
        self._ledger.claim(exchange, reply)

    def _refuse(self, exchange: Exchange, error: Exception) -> None:
        trouble = explain(error)
        if self.read_only and isinstance(error, NotFound):
            trouble = UserError(READ_ONLY, trouble.request_id)
        exchange.posted = exchange.posted and isinstance(error, OutcomeUnknown)
        exchange.fail("refused", trouble, error)

    async def retry(self, exchange: Exchange) -> Exchange:
        """Try a failed exchange again, safely: what the platform has already taken is waited for, not sent twice.

        A turn that the platform failed is asked again as a new message, as the API has no other way.

        Parameters
        ----------
        exchange : Exchange
            One of `exchanges`.

        Raises
        ------
        ValueError
            As `submit`.
        """
        if exchange.bound and exchange.turn.status == "open":
            exchange.wait_again()
            self._changed(exchange)
            await self.resume()
            return exchange
        if not exchange.bound:
            # It may have arrived without our hearing of it: read the session before sending it once more.
            if self.session_id is not None:
                await self.attach()
                if exchange.bound:
                    return await self.retry(exchange) if exchange.turn.status == "open" else exchange
            self.exchanges.remove(exchange)
        self._changed()
        return await self.send(exchange.prompt)

    def stop(self, exchange: Exchange | None = None) -> None:
        """Stop waiting: for one exchange, or for all. The agent may still finish; a late reply is taken in when it comes.

        Parameters
        ----------
        exchange : Exchange, optional
            One of `exchanges`; None for all. One that has ended already raises nothing.
        """
        for each in [exchange] if exchange is not None else self.pending:
            each.stop()
            self._changed(each)

    async def resume(self) -> None:
        """Wait again for what was stopped or lost, and follow the session again if it is not followed."""
        for exchange in self.exchanges:
            if exchange.bound and exchange.turn.status == "open" and exchange.phase in ("stopped", "lost"):
                exchange.wait_again()
                self._changed(exchange)
        if self.session_id is not None:
            await self.attach()

    async def aclose(self) -> None:
        """End it here: nothing is followed or waited for any more. The session itself goes on."""
        self.stop()
        self._closed = True
        await self._unfollow()
        self._changed()

    # Following

    async def _catch_up(self) -> None:
        """Follow the session if it is not followed, and wait until it is read to its end and the socket is open."""
        if self._client is not None and self.session_id is not None:
            await self._following.catch_up(self.session_id, lambda: self._ledger.last_id)

    def _lost(self, error: Exception) -> None:
        trouble = explain(error)
        for exchange in self.pending:
            if exchange.phase == "waiting":
                exchange.fail("lost", trouble, error)
                self._changed(exchange)
        self._changed()

    async def _unfollow(self) -> None:
        posting = [exchange.posting for exchange in self.exchanges if exchange.posting is not None]
        for task in posting:
            task.cancel()
        await self._following.end()
        if posting:
            await asyncio.wait(posting)

    def feed(self, event: Event) -> None:
        """Take in one event of the session; a persisted one counts once, however often it comes.

        Parameters
        ----------
        event : mapping
            As the stream gives it. An event of an unknown kind raises nothing: it is kept, and shown as it is.
        """
        exchange = self._ledger.feed(event, time.monotonic())
        if exchange is None:
            return
        self._learn_name(event)
        self._changed(exchange)

    def _learn_name(self, event: Event) -> None:
        author = event.get("author")
        if not self.agent_name and isinstance(author, Mapping) and not opens_turn(event):
            self.agent_name = str(author.get("name") or "")

    @classmethod
    def _restored(cls, exchanges: Sequence[Exchange], session_id: str | None, agent_name: str) -> Self:
        conversation = cls(None, session=session_id)
        conversation.agent_name = agent_name
        conversation._ledger.restore(exchanges)
        return conversation

    def __repr__(self) -> str:
        return f"Conversation({self.agent_name or 'no agent'!r}, {len(self.exchanges)} turns, {self.state})"
