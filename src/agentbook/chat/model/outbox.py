"""Post the messages of a conversation, one at a time.

The order of steps keeps a conversation complete:

* a new session is posted, then followed from its beginning;
* an existing session is read to its last event and followed from there, before a
  message is posted to it.

Use it only on the toolkit's loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ...api.calls import ref
from ...api.errors import NotFound, OutcomeUnknown
from ...events.turns import Turn
from .exchange import Exchange
from .lookup import get_agent, name_of
from .session_feed import SessionFeed
from .user_errors import UserError, explain

if TYPE_CHECKING:
    from ...client import AsyncClient

READ_ONLY = (
    "This session was started with another key, so it can be read here but not continued. Start a new session to write."
)


class Outbox:
    """Posts messages to the current session of a feed, or starts it with the first.

    Parameters
    ----------
    client : AsyncClient
    feed : SessionFeed
    on_change : callable
        Receives the exchange that changed, or None.
    on_agent : callable
        Receives the name of the agent of a new session, once it is known.

    Attributes
    ----------
    starting : bool
        Whether a session is being started.
    read_only : bool
        Whether the platform refused a message, because another key started the session.
    closed : bool
    """

    def __init__(
        self,
        client: AsyncClient,
        feed: SessionFeed,
        on_change: Callable[[Exchange | None], None],
        on_agent: Callable[[str], None],
    ) -> None:
        self.starting = self.read_only = self.closed = False
        self._client, self._feed = client, feed
        self._on_change, self._on_agent = on_change, on_agent
        self._lock = asyncio.Lock()

    def submit(self, text: str, workspace: Any, agent: Any) -> Exchange:
        """Add an exchange to the session and start to post it."""
        turn = Turn(self._feed.session_id or "", prompt=text, asked_at=datetime.now(UTC))
        exchange = Exchange(turn, ours=True, bound=False, phase="sending", sent_at=time.monotonic())
        self._feed.log.exchanges.append(exchange)
        exchange.posting = asyncio.get_running_loop().create_task(self._post(exchange, workspace, agent))
        self._on_change(exchange)
        return exchange

    async def _post(self, exchange: Exchange, workspace: Any, agent: Any) -> None:
        try:
            async with self._lock:
                exchange.sent_at = time.monotonic()
                if self._feed.session_id is None:
                    await self._post_first(exchange, workspace, agent)
                else:
                    await self._post_next(exchange, self._feed.session_id)
        except asyncio.CancelledError:
            if not self.closed and exchange.phase != "stopped":
                raise
        except Exception as error:
            self._refuse(exchange, error)
        else:
            if exchange.phase == "sending":
                exchange.phase = "waiting"
        finally:
            exchange.posting = None
            self.starting = False
            self._on_change(exchange)

    async def _post_first(self, exchange: Exchange, workspace: Any, agent: Any) -> None:
        self.starting = True
        self._on_change(None)
        record = await get_agent(self._client, agent)
        self._on_agent(name_of(record))
        exchange.posted = True
        session = await self._client.sessions.start(workspace, agent_id=ref(record), prompt=exchange.prompt)
        exchange.turn.session_id = ref(session)
        self._feed.begin(ref(session))

    async def _post_next(self, exchange: Exchange, session_id: str) -> None:
        # Read the session to its end and follow it first. No reply can be missed then,
        # and no older message with the same text can be mistaken for this one.
        await self._feed.catch_up()
        exchange.posted = True
        try:
            reply = await self._client.sessions.send(session_id, exchange.prompt)
        except NotFound:
            self.read_only = True
            raise
        self._feed.log.claim(exchange, reply)

    def _refuse(self, exchange: Exchange, cause: Exception) -> None:
        error = explain(cause)
        if self.read_only and isinstance(cause, NotFound):
            error = UserError(READ_ONLY, error.request_id)
        exchange.posted = exchange.posted and isinstance(cause, OutcomeUnknown)
        exchange.fail("refused", error, cause)

    async def cancel(self) -> None:
        """Stop posting; returns when no message is on its way."""
        tasks = [exchange.posting for exchange in self._feed.log.exchanges if exchange.posting is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
