"""Drafts of turns that run in a different process from their listeners.

The process that runs a turn sends its drafts to all, in small batches. A socket that
opens during a turn makes its process ask for what has been drafted so far. Offsets and
numbers handle messages that arrive twice or out of order; after a loss, the process
asks again. Nobody waits for drafts: under load the batches arrive later and hold more,
up to a limit. Events do not depend on them.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from ..ids import Clock
from ..store import Published
from ..turns.live import Channel, Hub, LiveTurn, Progress
from .bus import Bus

FLUSH_S = 0.02
_DRAFT, _REPEAT = "draft", "repeat"  # topics of the bus
_PIECE_BYTES = 5000  # of a message, as JSON
_MAX_PIECES = 8  # of all turns in one batch; the rest waits for the next
_MAX_NAME = 100  # characters of a tool's name
_MAX_TOOLS = 3  # changes of tools in one message


@dataclass(slots=True, eq=False)
class _Sent:
    """A turn of this process, and how much of it was sent to the others."""

    live: LiveTurn
    characters: int = 0
    tools: int = 0
    # Sent with the next piece: the progress when the turn began, or a socket asked.
    opened: Progress | None = None

    @property
    def is_complete(self) -> bool:
        return (self.characters, self.tools) == self.live.progress and self.opened is None


class DraftRelay:
    """Sends the drafts of this process's turns, and shows those of others.

    Parameters
    ----------
    bus, hub, clock
        Those of this process.
    """

    def __init__(self, bus: Bus, hub: Hub, clock: Clock) -> None:
        self._bus = bus
        self._hub = hub
        self._clock = clock
        self._own: dict[str, _Sent] = {}  # by session
        self._behind: dict[str, None] = {}  # sessions, in the order in which they are sent
        self._flush: asyncio.TimerHandle | None = None
        # The task of the last turn of another process that has ended.
        self._ended: WeakKeyDictionary[Channel, str] = WeakKeyDictionary()
        bus.subscribe(_DRAFT, self._receive)
        bus.subscribe(_REPEAT, self._repeat)

    def change(self, session_id: str, live: LiveTurn) -> None:
        """Send what a turn of this process has drafted soon."""
        sent = self._own.get(session_id)
        if live.has_ended:
            if sent is not None and sent.live is live:
                del self._own[session_id]
                self._behind.pop(session_id, None)
            return
        if sent is None or sent.live is not live:
            self._own[session_id] = sent = _Sent(live, opened=live.progress)
            self._bus.notify(_DRAFT, _next_piece(session_id, sent))
        else:
            self._send_soon(session_id)

    def ask(self, session_id: str) -> None:
        """Ask for all that the turn of a session has drafted so far."""
        if session_id not in self._own:
            self._bus.notify(_REPEAT, session_id)

    def end(self, channel: Channel, event: Published) -> None:
        """Stop showing the drafts of another process's turn, if this event ends it."""
        live = channel.live
        if live is not None and event.type != "message" and f'"task_id":"{live.task_id}"' in event.json_text:
            channel.live, self._ended[channel] = None, live.task_id

    def _send_soon(self, session_id: str) -> None:
        self._behind[session_id] = None
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(FLUSH_S, self._send)

    def _send(self) -> None:
        self._flush = None
        for session_id in list(self._behind)[:_MAX_PIECES]:
            del self._behind[session_id]
            sent = self._own[session_id]
            self._bus.notify(_DRAFT, _next_piece(session_id, sent))
            if not sent.is_complete:
                self._behind[session_id] = None
        if self._behind:
            self._flush = asyncio.get_running_loop().call_later(FLUSH_S, self._send)

    def _repeat(self, session_id: str) -> None:
        sent = self._own.get(session_id)
        if sent is not None:
            sent.characters = sent.tools = 0
            sent.opened = sent.live.progress
            self._send_soon(session_id)

    def _receive(self, value: dict[str, Any]) -> None:
        """Show what another process has drafted to the listeners of this one."""
        session_id, task_id = value["session"], value["task"]
        channel = self._hub.channel(session_id)
        if channel is None or session_id in self._own or self._ended.get(channel) == task_id:
            return
        live = channel.live
        if (live is None or live.task_id != task_id) and "opened" in value:
            live = LiveTurn(task_id, self._clock)
            live.before = Progress(*value["opened"])
        characters, tools = value["from"]
        if live is None or live.task_id != task_id or characters > len(live.text) or tools > len(live.tools):
            self.ask(session_id)
            return
        channel.live = live
        live.text += value["text"][len(live.text) - characters :]
        live.tools += [(task, name, state) for task, name, state in value["tools"][len(live.tools) - tools :]]
        channel.wake()


def _next_piece(session_id: str, sent: _Sent) -> dict[str, Any]:
    """The next message about a turn; counts it as sent."""
    live = sent.live
    size = _PIECE_BYTES
    while len(json.dumps(text := live.text[sent.characters : sent.characters + size])) > _PIECE_BYTES:
        size //= 2
    tools = [(task, name[:_MAX_NAME], state) for task, name, state in live.tools[sent.tools : sent.tools + _MAX_TOOLS]]
    piece = {"session": session_id, "task": live.task_id, "from": (sent.characters, sent.tools)}
    if sent.opened is not None:
        piece["opened"], sent.opened = sent.opened, None
    sent.characters += len(text)
    sent.tools += len(tools)
    return {**piece, "text": text, "tools": tools}
