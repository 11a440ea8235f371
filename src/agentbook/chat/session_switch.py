"""Switches from one session to another, when a person chooses one in a panel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from .model.conversation import Conversation


class SessionSwitch:
    """Switches a conversation between sessions; used on the toolkit's loop.

    Parameters
    ----------
    conversation : Conversation
    """

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Leave the session; the next message starts another."""
        if self._conversation.can_start:
            self._start(self._conversation.new_session())

    def open(self, session_id: str) -> None:
        """Continue another session; one without an id is new."""
        if not session_id:
            self.begin()
        elif self._conversation.state != "closed":
            self._start(self._conversation.attach(session_id))

    def waits(self, work: Callable[[], None]) -> bool:
        """Whether a session is being left; if so, `work` is called afterwards.

        Leaving takes until the session's socket is closed, and a message sent meanwhile
        belongs to the next session.
        """
        if self._task is None or self._task.done():
            return False
        self._task.add_done_callback(lambda _: work())
        return True

    def _start(self, switch: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.get_running_loop().create_task(switch)
