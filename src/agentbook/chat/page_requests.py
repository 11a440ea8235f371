"""Requests from a panel's page: sessions to choose from, an export, a test input."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Any

from ..events import loop
from .collecting import TestSet, collect
from .html.sanitize import visible
from .model.conversation import Conversation
from .model.exchange import Exchange
from .model.user_errors import explain

MAX_NAME = 40
log = logging.getLogger("agentbook.chat")
Answer = Callable[[dict[str, Any]], None]


class PageRequests:
    """Answers a page in worker threads, since each answer takes a while.

    The methods may be called on any thread; they call `answer` on the toolkit's thread.

    Parameters
    ----------
    conversation : Conversation
    test_set : TestSet, optional
        Where turns are added.
    """

    def __init__(self, conversation: Conversation, test_set: TestSet | None = None) -> None:
        self._conversation, self._test_set = conversation, test_set

    def find(self, search: str, answer: Answer) -> None:
        """The sessions that match, latest first."""
        self._work(lambda: {"entries": self._entries(search)}, answer)

    def _entries(self, search: str) -> list[list[Any]]:
        return [
            [entry.session_id, visible(entry.title), entry.time, entry.is_current, entry.who]
            for entry in self._conversation.find_sessions(search)
        ]

    def export(self, suffix: str, answer: Answer) -> None:
        """The conversation as a file that the page saves."""
        self._work(lambda: self._file(suffix), answer)

    def _file(self, suffix: str) -> dict[str, Any]:
        if suffix not in _TYPES:
            raise ValueError(f"The conversation is not exported as {suffix!r}: choose one of {', '.join(_TYPES)}.")
        self._conversation.load()
        transcript = self._conversation.as_transcript()
        name = file_name(transcript.agent_name, transcript.exchanges)
        return {"name": f"{name}{suffix}", "type": _TYPES[suffix], "text": transcript.to_text(suffix)}

    def collect(self, exchange: Exchange, confirm: bool, answer: Answer) -> None:
        """Add a turn to the test set, or show what would be added."""
        test_set, turn = self._test_set, exchange.turn
        if test_set is None:
            return
        record = {
            "prompt": turn.prompt,
            "session_id": turn.session_id,
            "message_id": turn.message_id,
            "asked_at": turn.asked_at,
            "agent": self._conversation.agent_name,
        }
        self._work(lambda: {"collected": collect(test_set, record, confirm=confirm)}, answer)

    def _work(self, work: Callable[[], dict[str, Any]], answer: Answer) -> None:
        loop.submit(_answer(work, answer))


async def _answer(work: Callable[[], dict[str, Any]], answer: Answer) -> None:
    try:
        reply = await asyncio.to_thread(work)
    except Exception as error:  # whatever it is: without an answer, the page would wait forever
        log.debug("A page's request failed.", exc_info=True)
        reply = {"error": visible(explain(error).text)}
    answer(reply)


def file_name(agent_name: str, exchanges: Any) -> str:
    """The name of an exported conversation: the agent's name and the day it began.

    Examples
    --------
    >>> file_name("Data desk (EU)/..", [])
    'data-desk-eu'
    >>> file_name("", [])
    'conversation'
    """
    words = re.findall(r"\w+", agent_name.lower())
    times = (exchange.turn.asked_at for exchange in exchanges)
    day = next((f"{time:%Y-%m-%d}" for time in times if time is not None), "")
    return "-".join(filter(None, ["-".join(words)[:MAX_NAME].strip("-") or "conversation", day]))


_TYPES = {
    ".md": "text/markdown",
    ".html": "text/html",
    ".json": "application/json",
    ".ipynb": "application/x-ipynb+json",
}
