"""A turn that is asked again in a new session, after the turns before it."""

from __future__ import annotations

import asyncio
import contextlib

from ..._text import title
from .conversation import Conversation
from .exchange import Exchange
from .session_list import note_repeat


class Alternative:
    """A second reply to a question: the platform cannot copy a session.

    Parameters
    ----------
    conversation : Conversation
        The one of the turn. The new session is one of its `sessions`.
    exchange : Exchange
        The turn, one of its `exchanges`.

    Attributes
    ----------
    conversation : Conversation
        The one of the new session.
    prompts : list of str
        What is sent, one after another: the questions that were answered before the
        turn, and its own.
    exchange : Exchange or None
        The turn of the prompt that was sent last.
    answered : int
        How many of the prompts have been answered.
    running : bool
        Whether it sends or waits.

    Raises
    ------
    ValueError
        If the turn has no question or no reply, if no session can be started, or if
        turns before it could not be read.
    """

    def __init__(self, conversation: Conversation, exchange: Exchange) -> None:
        exchanges = conversation.exchanges
        if exchange not in exchanges or exchange.status != "answered" or not exchange.prompt:
            raise ValueError("Only an answered question of the session that is shown can be asked again.")
        if conversation.incomplete:
            raise ValueError(
                f"This question cannot be asked again: turns before it could not be read. {conversation.incomplete}"
            )
        before = exchanges[: exchanges.index(exchange)]
        self.conversation, self._original = conversation._branch(), conversation.session_id or ""
        self.prompts = [each.prompt for each in before if each.status == "answered" and each.prompt]
        self.prompts.append(exchange.prompt)
        self.exchange: Exchange | None = None
        self.answered, self.running = 0, False

    @property
    def number(self) -> int:
        """Which of the prompts was sent last, from 1."""
        return self.answered + (self.exchange is not None and self.answered < len(self.prompts))

    @property
    def progress(self) -> str:
        """Which question is sent again, in words; empty for the turn's own."""
        total, question = len(self.prompts), title(self.prompts[max(self.number, 1) - 1])
        return f"Question {self.number} of {total}, sent again: {question}" if self.number < total else ""

    async def run(self) -> None:
        """Send what has not been answered, until a turn fails or is stopped.

        Called again, it continues there. Raises nothing: `exchange` says why it ended.
        """
        if self.running or self.answered == len(self.prompts):
            return
        conversation, self.running = self.conversation, True
        try:
            if self.exchange is not None and self.exchange.status != "answered":
                self.exchange = await conversation.retry(self.exchange)
            while self.exchange is None or await _is_answered(self.exchange):
                self.answered += self.exchange is not None
                if self.answered == len(self.prompts):
                    break
                self.exchange = conversation.submit(self.prompts[self.answered])
        finally:
            self.running = False
            if conversation.session_id:
                await asyncio.to_thread(note_repeat, conversation.session_id, self._original)
            if not (self.number == len(self.prompts) and self.exchange and self.exchange.awaits_reply):
                await conversation._disconnect()


async def _is_answered(exchange: Exchange) -> bool:
    with contextlib.suppress(Exception):  # the exchange has the reason
        await asyncio.shield(asyncio.wrap_future(exchange.finished))
    return exchange.status == "answered"
