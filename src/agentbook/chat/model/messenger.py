"""Sends messages in the current session, and waits for their replies.

The platform has no cancel. `Messenger.stop` only ends the waiting: the agent may still
finish, and its reply is recorded when it arrives. Use it only on the toolkit's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..._text import check_text
from ...api.calls import ref
from ...events.turns import Event
from .exchange import Exchange
from .outbox import Outbox
from .session_feed import SessionFeed
from .start_check import check_workspace, distinct, read_agent
from .subscription import Follow
from .user_errors import UserError, explain
from .welcome import Welcome, welcome_of

if TYPE_CHECKING:
    from ...client import AsyncClient


class Messenger:
    """The actions of a conversation: start and continue sessions, wait, retry, stop.

    Parameters
    ----------
    client : AsyncClient or None
    workspace, agent, follow
        As for `Conversation`.
    on_event : callable
        Receives each event with the exchange it changed.
    on_change : callable
        Receives the exchange that changed, or None if something else did.
    on_agent : callable
        As for `Outbox`.
    clock : callable
        The time in seconds, monotonic.

    Attributes
    ----------
    agent_version : str or Record or None
        The version that a new session runs on; None for the agent's newest.
    feed : SessionFeed
        The sessions and their exchanges.
    outbox : Outbox or None
        None without a client.
    closed : bool
    welcome : Welcome or None
        What an empty panel offers, once `read_welcome` has read it.
    start_errors : list of UserError
        Why a new session cannot start, as far as `read_welcome` can tell.
    """

    def __init__(
        self,
        client: AsyncClient | None,
        workspace: Any,
        agent: Any,
        follow: Follow | None,
        on_event: Callable[[Event, Exchange], None],
        on_change: Callable[[Exchange | None], None],
        on_agent: Callable[[str], str],
        clock: Callable[[], float],
    ) -> None:
        self.client, self.workspace, self.agent = client, workspace, agent
        self.agent_version: Any = None
        self.closed = False
        self.welcome: Welcome | None = None
        self.start_errors: list[UserError] = []
        self._on_event, self._on_change, self._clock = on_event, on_change, clock
        self.feed = SessionFeed(client, self._receive, self._notify, self._lose_connection, follow, clock)
        self.outbox = Outbox(client, self.feed, on_change, on_agent, clock) if client is not None else None

    @property
    def can_start(self) -> bool:
        """Whether a new session can be started: needs client, workspace, agent."""
        return self.outbox is not None and self.workspace is not None and self.agent is not None and not self.closed

    def _notify(self, exchange: Exchange | None = None) -> None:
        self._note_progress()
        self._on_change(exchange)

    def _receive(self, event: Event, exchange: Exchange) -> None:
        if exchange.turn.status != "open":
            self._note_progress()
        self._on_event(event, exchange)

    def _note_progress(self) -> None:
        if self.outbox is not None:
            self.outbox.note_progress()

    async def read_welcome(self) -> None:
        """Read the agent's introduction, to show it before the first message.

        Notes
        -----
        Raises nothing. Without a client or an agent, or if the agent cannot be read,
        `welcome` stays None. If no session can start, such as with an archived agent,
        `start_errors` says why; the next call reads again.
        """
        if self.client is None or self.agent is None or (self.welcome is not None and not self.start_errors):
            return
        (record, agent_error), workspace_error = await asyncio.gather(
            read_agent(self.client, self.agent), check_workspace(self.client, self.workspace)
        )
        self.welcome = welcome_of(record) if record is not None else None
        self.start_errors = distinct([agent_error, workspace_error])
        self._notify()

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
        if not self.can_start:
            raise ValueError("A new session needs workspace= and agent=: pass both when you create the panel.")
        await self._switch(None)

    async def _switch(self, session_id: str | None) -> None:
        self.stop()
        await self._end_subscription()
        self.feed.subscription.clear_error()
        self.feed.select(session_id)
        if self.outbox is not None:
            self.outbox.read_only = False
        self._notify()

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
        if session is not None and ref(session) != self.feed.session_id:
            await self._switch(ref(session))
        self.feed.log.keep = True if keep else self.feed.log.keep
        with contextlib.suppress(Exception):  # stored by the subscription
            await self.feed.catch_up()

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
        if self.feed.session_id is None and (self.workspace is None or self.agent is None):
            raise ValueError("There is no session yet: workspace= and agent= are needed to start one.")
        assert self.outbox is not None
        version: dict[str, Any] = {} if self.agent_version is None else {"agent_version_id": ref(self.agent_version)}
        return self.outbox.submit(text, self.workspace, self.agent, **version)

    def _check(self, text: str) -> None:
        """Reject texts that can never be sent, before anything changes."""
        if not check_text(text).strip():
            raise ValueError("The message is empty: write something to send.")
        if self.outbox is None or self.closed:
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
            exchange.wait_again(self._clock())
            self._notify(exchange)
            await self.resume()
            return exchange
        if not exchange.bound:
            # It may have arrived unnoticed: read the session before sending it again.
            if self.feed.session_id is not None:
                await self.attach()
                if exchange.bound:
                    return await self.retry(exchange) if exchange.turn.status == "open" else exchange
            self.feed.log.exchanges.remove(exchange)
        self._notify()
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
        for each in [exchange] if exchange is not None else self.feed.log.pending:
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
        return self.outbox is not None and self.outbox.withdraw(exchange)

    async def resume(self) -> None:
        """Wait again for stopped and lost replies; reconnect if needed."""
        for exchange in self.feed.log.exchanges:
            if exchange.bound and exchange.turn.status == "open" and exchange.phase in ("stopped", "lost"):
                exchange.wait_again(self._clock())
                self._notify(exchange)
        if self.feed.session_id is not None:
            await self.attach()

    async def aclose(self) -> None:
        """Stop following and waiting. The session itself continues on the platform."""
        self.stop()
        self.closed = True
        if self.outbox is not None:
            self.outbox.closed = True
        await self._end_subscription()
        self._notify()

    def _lose_connection(self, cause: Exception) -> None:
        error = explain(cause)
        for exchange in self.feed.log.pending:
            if exchange.phase == "waiting":
                exchange.fail("lost", error, cause)
                self._notify(exchange)
        self._notify()

    async def _end_subscription(self) -> None:
        if self.outbox is not None:
            await self.outbox.cancel()
        await self.feed.end()
