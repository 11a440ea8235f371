"""Posts the messages of a conversation, one at a time.

The order of steps keeps a conversation complete:

* a new session is posted, then followed from its beginning;
* an existing session is read to its last event and followed from there, before a
  message is posted to it.

The platform has no cancel. After Stop it may still be working on the turn, and it
answers the next message only afterwards. That message is held here until the turn ends,
but at most for a minute, because a posted message cannot be withdrawn.

Use it only on the toolkit's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ...api.errors import NotFound, OutcomeUnknown
from ...events.turns import Turn
from .exchange import Exchange
from .feed import SessionFeed
from .user_errors import UserError, explain

if TYPE_CHECKING:
    from ...client import AsyncClient

HOLD_S = 60.0
READ_ONLY = (
    "This session was started with another credential, so it can be read here but not continued. "
    "Start a new session to write."
)


class Outbox:
    """Posts messages to the current session of a feed; the first one may start it.

    Parameters
    ----------
    client : AsyncClient
    feed : SessionFeed
    on_change : callable
        Receives the exchange that changed, or None.
    clock : callable
        The time in seconds, monotonic.

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
        clock: Callable[[], float],
    ) -> None:
        self.starting = self.read_only = self.closed = False
        self._client, self._feed, self._on_change, self._clock = client, feed, on_change, clock
        self._lock = asyncio.Lock()
        self._progress = asyncio.Event()

    def submit(self, text: str, start: Callable[[Exchange], Awaitable[None]]) -> Exchange:
        """Add an exchange to the session and begin to post it.

        `start` starts the session with the exchange, if there is none.
        """
        turn = Turn(self._feed.session_id or "", prompt=text, asked_at=datetime.now(UTC))
        exchange = Exchange(turn, ours=True, bound=False, phase="sending", sent_at=self._clock())
        exchange.previous = self._feed.log.stopped
        self._feed.log.exchanges.append(exchange)
        exchange.posting = asyncio.get_running_loop().create_task(self._post(exchange, start))
        self._on_change(exchange)
        return exchange

    async def _post(self, exchange: Exchange, start: Callable[[Exchange], Awaitable[None]]) -> None:
        try:
            async with self._lock:
                await self._hold(exchange)
                exchange.sent_at = self._clock()
                if self._feed.session_id is None:
                    self.starting = True
                    self._on_change(None)
                    await start(exchange)
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

    def note_progress(self) -> None:
        """Check again whether a message still has to be held."""
        self._progress.set()

    async def _hold(self, exchange: Exchange) -> None:
        """Wait until the previous turn ends, but not forever: its run may have died."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HOLD_S):
                while exchange.held and self._feed.active:
                    self._progress.clear()
                    await self._progress.wait()

    def withdraw(self, exchange: Exchange) -> bool:
        """Remove a held message; False if it is on its way to the platform."""
        if not exchange.held or exchange not in self._feed.log.exchanges:
            return False
        exchange.stop()
        self._feed.log.exchanges.remove(exchange)
        self._on_change(None)
        return True

    async def _post_next(self, exchange: Exchange, session_id: str) -> None:
        # Read the session to its end and follow it first. Then no reply can be missed,
        # and no older message with the same text can be mistaken for this one.
        await self._feed.catch_up()
        exchange.posted = True
        try:
            reply = await self._client.sessions.send(session_id, exchange.prompt)
        except NotFound:
            self.read_only = True
            raise
        author = reply.get("author")
        self._feed.learn_reader(author.get("id") if isinstance(author, Mapping) else None)
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
